/* What a problem may not be: each public call that takes one refuses it with the same status and a message
 * that names field, value and rule. */
#include <math.h>
#include <string.h>

#include "api.h"

static clattn_problem good_problem(void)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.batch = 2;
    p.query_heads = 4;
    p.kv_heads = 2;
    p.query_len = 3;
    p.key_len = 5;
    p.head_dim = 8;
    return p;
}

static void expect_refused(const clattn_problem *problem, clattn_status expected, const char *text)
{
    const clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_plan *plan = (clattn_plan *)&tensors;
    expect_error(clattn_plan_create(context, problem, &plan), expected, text, "clattn_plan_create");
    ck_assert_ptr_null(plan);
    expect_error(clattn_forward_host(context, problem, NULL, &tensors), expected, text, "clattn_forward_host");
    expect_error(clattn_reference_forward(problem, NULL, &tensors), expected, text, "clattn_reference_forward");
}

#define REFUSED(status, text, ...)                                                                                     \
    do {                                                                                                               \
        clattn_problem p = good_problem();                                                                             \
        __VA_ARGS__;                                                                                                   \
        expect_refused(&p, status, text);                                                                              \
    } while (0)

#define SHAPE CLATTN_INVALID_SHAPE
#define ARGUMENT CLATTN_INVALID_ARGUMENT

START_TEST(test_shapes)
{
    REFUSED(SHAPE, "batch -1: must be >= 0", p.batch = -1);
    REFUSED(SHAPE, "batch 2147483648: must be >= 0 and at most 2147483647", p.batch = 2147483648);
    REFUSED(SHAPE, "batch * query_heads 2147483648: must be >= 0 and at most 2147483647", p.batch = 1 << 30;
            p.query_heads = 2);
    REFUSED(SHAPE, "batch * query_heads 4611686014132420609", p.batch = p.query_heads = p.kv_heads = INT32_MAX);
    REFUSED(SHAPE, "query_heads -4", p.query_heads = -4);
    REFUSED(SHAPE, "query_heads 3: must be a multiple of kv_heads 2", p.query_heads = 3);
    REFUSED(SHAPE, "query_heads 4: must be a multiple of kv_heads 0", p.kv_heads = 0);
    REFUSED(SHAPE, "query_heads 2: must be a multiple of kv_heads 4", p.query_heads = 2; p.kv_heads = 4);
    REFUSED(SHAPE, "kv_heads -2", p.kv_heads = -2);
    REFUSED(SHAPE, "query_len -1", p.query_len = -1);
    REFUSED(SHAPE, "query_len 2147479552: must be >= 0 and at most 2147479551", p.query_len = INT32_MAX - 4095);
    REFUSED(SHAPE, "key_len 2147483647: must be >= 0 and at most 2147479551", p.key_len = INT32_MAX);
    REFUSED(SHAPE, "key_len -9223372036854775808", p.key_len = INT64_MIN);
    REFUSED(SHAPE, "head_dim 0: must be > 0", p.head_dim = 0);
    REFUSED(SHAPE, "head_dim_v -1: must be > 0", p.head_dim_v = -1);
    REFUSED(SHAPE, "head_dim 9223372036854775807", p.head_dim = INT64_MAX);
}
END_TEST

START_TEST(test_kinds)
{
    REFUSED(ARGUMENT, "type 0: must be CLATTN_FLOAT32", p.type = CLATTN_TYPE_NONE);
    REFUSED(ARGUMENT, "type 77", p.type = (clattn_type)77);
    REFUSED(ARGUMENT, "type -1", p.type = (clattn_type)-1);
    REFUSED(ARGUMENT, "bias_type 9", p.bias_type = (clattn_type)9);
    REFUSED(ARGUMENT, "bias_type float64: needs type float64, which is float32", p.bias_type = CLATTN_FLOAT64);
    REFUSED(ARGUMENT, "features 0x80000001: bits 0x80000000", p.features = 0x80000001u);
    REFUSED(ARGUMENT, "weights 5", p.weights = (clattn_weights)5);
    REFUSED(ARGUMENT, "weights -1", p.weights = (clattn_weights)-1);
    REFUSED(ARGUMENT, "matmul 3", p.matmul = (clattn_matmul)3);
    REFUSED(ARGUMENT, "alignment 4", p.alignment = (clattn_alignment)4);
}
END_TEST

START_TEST(test_positions)
{
    REFUSED(ARGUMENT, "alignment: must be set for causal", p.causal = 1);
    REFUSED(ARGUMENT, "alignment: must be set for window", p.window_left = 0);
    REFUSED(ARGUMENT, "alignment: must be set for slopes", p.features = CLATTN_WITH_SLOPES);
    REFUSED(ARGUMENT, "window_left -2: must be -1", p.window_left = -2; p.alignment = CLATTN_ALIGN_TOP_LEFT);
    REFUSED(ARGUMENT, "window_right 2147483648", p.window_right = 2147483648; p.alignment = CLATTN_ALIGN_TOP_LEFT);
    REFUSED(ARGUMENT, "always_visible_keys -1", p.always_visible_keys = -1);
    REFUSED(ARGUMENT, "always_visible_keys 2: needs window_left", p.always_visible_keys = 2);
}
END_TEST

START_TEST(test_numbers)
{
    REFUSED(ARGUMENT, "softcap -1", p.softcap = -1);
    REFUSED(ARGUMENT, "softcap nan", p.softcap = (double)NAN);
    REFUSED(ARGUMENT, "softcap inf", p.softcap = (double)INFINITY);
    REFUSED(ARGUMENT, "softcap 1e-60", p.softcap = 1e-60);
    REFUSED(ARGUMENT, "dropout 1: must be >= 0 and < 1", p.dropout = 1);
    REFUSED(ARGUMENT, "dropout -0.5", p.dropout = -0.5);
    REFUSED(ARGUMENT, "dropout nan", p.dropout = (double)NAN);
}
END_TEST

START_TEST(test_struct_size)
{
    REFUSED(ARGUMENT, "problem.struct_size 0", p.struct_size = 0);
    REFUSED(ARGUMENT, "problem.struct_size", p.struct_size = offsetof(clattn_problem, strategy) + 4); /* cut */
    REFUSED(ARGUMENT, "problem.struct_size", p.struct_size = SIZE_MAX);
    expect_refused(NULL, ARGUMENT, "problem: must not be NULL");
}
END_TEST

/* A caller of a later version: what it sets and we do not know is refused, what it leaves 0 is fine. */
START_TEST(test_longer_struct)
{
    struct {
        clattn_problem p;
        int64_t field_of_the_future;
    } later = { good_problem(), 0 };
    clattn_plan *plan;
    later.p.struct_size = sizeof(later);
    ck_assert_int_eq(clattn_plan_create(context, &later.p, &plan), CLATTN_OK);
    clattn_plan_destroy(plan);
    later.field_of_the_future = 1;
    expect_refused(&later.p, CLATTN_UNSUPPORTED, "sets a field that this library");
}
END_TEST

START_TEST(test_strategy)
{
    clattn_problem named = good_problem();
    clattn_plan *plan;
    named.strategy = "fastest";
    expect_error(clattn_plan_create(context, &named, &plan), ARGUMENT,
                 "strategy \"fastest\": there is none; there are:", "clattn_plan_create");
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "plain"));
    REFUSED(ARGUMENT, "strategy \"\"", p.strategy = "");
    REFUSED(ARGUMENT, "is not the name of a strategy",
            p.strategy = "a name that is longer than any strategy of any version will ever have");
    named.strategy = "split"; /* has no matrix of weights */
    named.weights = CLATTN_WEIGHTS_SOFTMAX;
    expect_error(clattn_plan_create(context, &named, &plan), CLATTN_UNSUPPORTED,
                 "strategy \"split\" cannot take this problem on device", "clattn_plan_create");
    ck_assert_ptr_null(strchr(clattn_last_error(), '\n'));
    named.weights = CLATTN_WEIGHTS_NONE;
    char name[] = "plain"; /* the caller's memory: must be copied */
    named.strategy = name;
    ck_assert_int_eq(clattn_plan_create(context, &named, &plan), CLATTN_OK);
    memset(name, 'x', sizeof(name) - 1);
    ck_assert_str_eq(clattn_plan_strategy(plan), "plain");
    ck_assert_ptr_nonnull(strstr(clattn_plan_explain(plan), "strategy: plain"));
    clattn_plan_destroy(plan);
}
END_TEST

START_TEST(test_null)
{
    const clattn_problem p = good_problem();
    const clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_plan *plan;
    float x = 0;
    expect_error(clattn_plan_create(NULL, &p, &plan), ARGUMENT, "context: must not be NULL", "plan_create");
    expect_error(clattn_plan_create(context, &p, NULL), ARGUMENT, "plan: must not be NULL", "plan_create");
    expect_error(clattn_forward_host(NULL, &p, NULL, &tensors), ARGUMENT, "context", "forward_host");
    expect_error(clattn_forward_host(context, &p, NULL, NULL), ARGUMENT, "tensors: must not be NULL", "forward_host");
    expect_error(clattn_reference_forward(&p, NULL, NULL), ARGUMENT, "tensors", "reference_forward");
    expect_error(clattn_attention(NULL, CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_UNSET, &x, &x, &x, &x), ARGUMENT,
                 "context", "attention");
    expect_error(clattn_context_open(NULL, NULL, NULL), ARGUMENT, "context: must not be NULL", "open");
    expect_error(clattn_describe_devices(0, NULL), ARGUMENT, "text", "describe_devices");
    expect_error(clattn_alibi_slopes(4, NULL), ARGUMENT, "slopes", "alibi_slopes");
    expect_error(clattn_alibi_slopes(-1, &x), SHAPE, "heads -1", "alibi_slopes");
    ck_assert_int_eq(clattn_alibi_slopes(0, NULL), CLATTN_OK);
    clattn_plan_destroy(NULL);
    clattn_context_destroy(NULL);
    clattn_free(NULL);
    ck_assert_uint_eq(clattn_plan_workspace(NULL), 0);
    ck_assert_str_eq(clattn_plan_strategy(NULL), "");
    ck_assert_str_eq(clattn_plan_explain(NULL), "");
    ck_assert_ptr_null(clattn_context_cl(NULL));
    ck_assert_ptr_null(clattn_context_device(NULL));
    ck_assert_ptr_null(clattn_context_queue(NULL));
}
END_TEST

START_TEST(test_flat_call)
{
    float x[8] = { 0 };
    const clattn_alignment wild = (clattn_alignment)9;
#define FLAT(type, b, hq, hk, lq, lk, d, causal, q, k, v, o)                                                           \
    clattn_attention(context, type, b, hq, hk, lq, lk, d, causal, q, k, v, o)
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_OFFSETS, x, x, x, x), ARGUMENT,
                 "CLATTN_ALIGN_OFFSETS", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, wild, x, x, x, x), ARGUMENT, "alignment 9", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_UNSET, NULL, x, x, x), ARGUMENT,
                 "query: must be given", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_UNSET, x, NULL, x, x), ARGUMENT,
                 "key: must be given", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_UNSET, x, x, NULL, x), ARGUMENT,
                 "value: must be given", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 1, CLATTN_ALIGN_UNSET, x, x, x, NULL), ARGUMENT,
                 "out: must be given", "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 1, 1, 1, 1, 1, 0, CLATTN_ALIGN_UNSET, x, x, x, x), SHAPE, "head_dim 0",
                 "attention");
    expect_error(FLAT(CLATTN_FLOAT32, 2, INT32_MAX, INT32_MAX, INT32_MAX, 1, INT32_MAX, CLATTN_ALIGN_UNSET, x, x, x, x),
                 SHAPE, "batch * query_heads 4294967294: must be", "attention");
    /* Products beyond 64 bits, and sums of bytes beyond the machine. */
    expect_error(FLAT(CLATTN_FLOAT32, 1, INT32_MAX, INT32_MAX, INT32_MAX / 2, 1, INT32_MAX, CLATTN_ALIGN_UNSET, x, x, x,
                      x),
                 SHAPE, "do not fit 64-bit indices", "attention");
    expect_error(FLAT(CLATTN_FLOAT64, 1, INT32_MAX, INT32_MAX, 1, 1, INT32_MAX, CLATTN_ALIGN_UNSET, x, x, x, x),
                 CLATTN_OUT_OF_DEVICE_MEMORY, "this call needs", "attention");
}
END_TEST

START_TEST(test_names)
{
    ck_assert_str_eq(clattn_version(), "0.1.0");
    ck_assert_int_eq(clattn_version_number(), 100);
    ck_assert_int_eq(CLATTN_VERSION_NUMBER, 100);
    ck_assert_str_eq(clattn_status_name(CLATTN_INTERNAL), "CLATTN_INTERNAL");
    ck_assert_str_eq(clattn_status_name((clattn_status)99), "unknown status");
    ck_assert_str_eq(clattn_status_name((clattn_status)-1), "unknown status");
    ck_assert_str_eq(clattn_type_name(CLATTN_BFLOAT16), "bfloat16");
    ck_assert_str_eq(clattn_type_name((clattn_type)99), "unknown type");
    ck_assert_uint_eq(clattn_type_size(CLATTN_FLOAT64), 8);
    ck_assert_uint_eq(clattn_type_size((clattn_type)99), 0);
    int64_t stride[4];
    clattn_strides_bhsd(3, 5, 7, stride);
    ck_assert(stride[0] == 105 && stride[1] == 35 && stride[2] == 7 && stride[3] == 1);
    clattn_strides_bshd(3, 5, 7, stride);
    ck_assert(stride[0] == 105 && stride[1] == 7 && stride[2] == 21 && stride[3] == 1);
}
END_TEST

/* A tensor in one call: its memory, its first element, the strides of its layout. */
START_TEST(test_whole_tensors)
{
    const float data[1] = { 0 };
    const cl_mem buffer = (cl_mem)(uintptr_t)data; /* only kept */
    int64_t bhsd[4], bshd[4];
    clattn_strides_bhsd(3, 5, 7, bhsd);
    clattn_strides_bshd(3, 5, 7, bshd);
    const clattn_tensor device[2] = { clattn_tensor_bhsd(buffer, 3, 5, 7), clattn_tensor_bshd(buffer, 3, 5, 7) };
    const clattn_host_tensor host[2] = { clattn_host_tensor_bhsd(data, 3, 5, 7),
                                         clattn_host_tensor_bshd(data, 3, 5, 7) };
    for (int i = 0; i < 2; ++i) {
        ck_assert(device[i].buffer == buffer && device[i].offset == 0);
        ck_assert(host[i].data == (const void *)data && host[i].offset == 0);
        ck_assert_mem_eq(device[i].stride, i ? bshd : bhsd, sizeof(bhsd));
        ck_assert_mem_eq(host[i].stride, i ? bshd : bhsd, sizeof(bhsd));
    }
}
END_TEST

/* Zero is legal for batch, heads and lengths. */
START_TEST(test_empty_problems)
{
    for (int which = 0; which < 4; ++which) {
        clattn_problem p = good_problem();
        clattn_plan *plan;
        p.batch = which == 0 ? 0 : p.batch;
        p.query_heads = p.kv_heads = which == 1 ? 0 : 2;
        p.query_len = which == 2 ? 0 : p.query_len;
        p.key_len = which == 3 ? 0 : p.key_len;
        ck_assert_msg(clattn_plan_create(context, &p, &plan) == CLATTN_OK, "%s", clattn_last_error());
        ck_assert_str_ne(clattn_plan_explain(plan), "");
        clattn_plan_destroy(plan);
        clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
        float query[2 * 2 * 3 * 8] = { 0 }, out[2 * 2 * 3 * 8];
        for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); ++i) {
            out[i] = 7;
        }
        if (which == 3) { /* the other three need no tensor at all */
            t.query.data = query;
            t.out.data = out;
            clattn_strides_bhsd(2, 3, 8, t.query.stride);
            clattn_strides_bhsd(2, 3, 8, t.out.stride);
        } else {
            t.key.data = t.value.data = query;
            clattn_strides_bhsd(0, 0, 0, t.key.stride);
            t.key.stride[3] = 1;
            memcpy(t.value.stride, t.key.stride, sizeof(t.value.stride));
        }
        ck_assert_msg(clattn_forward_host(context, &p, NULL, &t) == CLATTN_OK, "%s", clattn_last_error());
        for (size_t i = 0; which == 3 && i < sizeof(out) / sizeof(out[0]); ++i) {
            ck_assert(out[i] >= 0 && out[i] <= 0);
        }
    }
    float some[2 * 2 * 3 * 8] = { 0 }, out[1];
    EXPECT_OK(clattn_attention(context, CLATTN_FLOAT32, 2, 2, 2, 0, 3, 8, CLATTN_ALIGN_UNSET, some, some, some, out));
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_shapes);
    tcase_add_test(tests, test_kinds);
    tcase_add_test(tests, test_positions);
    tcase_add_test(tests, test_numbers);
    tcase_add_test(tests, test_struct_size);
    tcase_add_test(tests, test_longer_struct);
    tcase_add_test(tests, test_strategy);
    tcase_add_test(tests, test_null);
    tcase_add_test(tests, test_flat_call);
    tcase_add_test(tests, test_names);
    tcase_add_test(tests, test_whole_tensors);
    tcase_add_test(tests, test_empty_problems);
}

int main(void)
{
    return api_main("problems", add);
}
