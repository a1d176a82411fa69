/* Validation of problems: what is refused, with which status, and that the message names field, value and
 * rule. */
#include "operation/problem.h"

#include <math.h>
#include <string.h>

#include "suite.h"

static clattn_problem valid(void)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.batch = 2;
    p.query_heads = 4;
    p.kv_heads = 2;
    p.query_len = 5;
    p.key_len = 7;
    p.head_dim = 8;
    return p;
}

/* One field of each refused problem differs from a valid one. */
struct refusal {
    size_t field, bytes; /* where in clattn_problem */
    int64_t integer;
    double number; /* used where bytes is 0 */
    clattn_status status;
    const char *says[3];
};

/* clang-format off */
#define INTEGER(name, value, status, ...)                                                              \
    { offsetof(clattn_problem, name), sizeof(((clattn_problem *)0)->name), value, 0, status,           \
      { __VA_ARGS__ } }
#define NUMBER(name, value, status, ...)                                                               \
    { offsetof(clattn_problem, name), 0, 0, value, status, { __VA_ARGS__ } }
/* clang-format on */

static const struct refusal refusals[] = {
    INTEGER(head_dim, 0, CLATTN_INVALID_SHAPE, "head_dim", "0", "> 0"),
    INTEGER(head_dim, -3, CLATTN_INVALID_SHAPE, "head_dim", "-3", "> 0"),
    INTEGER(head_dim_v, -1, CLATTN_INVALID_SHAPE, "head_dim_v", "-1", "> 0"),
    INTEGER(batch, -1, CLATTN_INVALID_SHAPE, "batch", "-1", ">= 0"),
    INTEGER(batch, INT32_MAX, CLATTN_INVALID_SHAPE, "batch * query_heads", "8589934588", "at most"),
    INTEGER(query_len, -1, CLATTN_INVALID_SHAPE, "query_len", "-1", ">= 0"),
    INTEGER(key_len, INT64_MAX, CLATTN_INVALID_SHAPE, "key_len", "9223372036854775807", "at most"),
    INTEGER(query_heads, 3, CLATTN_INVALID_SHAPE, "query_heads 3", "multiple", "kv_heads 2"),
    INTEGER(kv_heads, 3, CLATTN_INVALID_SHAPE, "query_heads 4", "multiple", "kv_heads 3"),
    INTEGER(kv_heads, 0, CLATTN_INVALID_SHAPE, "query_heads 4", "multiple", "kv_heads 0"),
    INTEGER(type, 0, CLATTN_INVALID_ARGUMENT, "type 0", "FLOAT32", "BFLOAT16"),
    INTEGER(type, 77, CLATTN_INVALID_ARGUMENT, "type 77", "FLOAT32", "BFLOAT16"),
    INTEGER(type, CLATTN_Q8_0, CLATTN_INVALID_ARGUMENT, "type 8", "FLOAT32", "BFLOAT16"),
    INTEGER(bias_type, 9, CLATTN_INVALID_ARGUMENT, "bias_type 9", "", ""),
    INTEGER(bias_type, CLATTN_INT8, CLATTN_INVALID_ARGUMENT, "bias_type 5", "", ""),
    INTEGER(bias_type, CLATTN_FLOAT64, CLATTN_INVALID_ARGUMENT, "bias_type float64", "float32", ""),
    INTEGER(key_type, 99, CLATTN_INVALID_ARGUMENT, "key_type 99", "", ""),
    INTEGER(key_type, CLATTN_Q4_0, CLATTN_INVALID_SHAPE, "head_dim 8", "multiple of 32", "key_type q4_0"),
    INTEGER(value_type, CLATTN_Q8_0, CLATTN_INVALID_SHAPE, "head_dim_v 8", "multiple of 32", "value_type q8_0"),
    INTEGER(out_type, CLATTN_E4M3, CLATTN_INVALID_ARGUMENT, "out_type e4m3", "keys and values only", ""),
    INTEGER(features, CLATTN_WITH_KEY_SCALES, CLATTN_INVALID_ARGUMENT, "key scales are for int8", "is float32", ""),
    INTEGER(features, CLATTN_WITH_VALUE_SCALES, CLATTN_INVALID_ARGUMENT, "value scales are for", "value_type is", ""),
    INTEGER(key_scale_rows, 1, CLATTN_INVALID_ARGUMENT, "key_scale_rows 1", "ignored", ""),
    INTEGER(value_scale_columns, 1, CLATTN_INVALID_ARGUMENT, "value_scale_columns 1", "ignored", ""),
    INTEGER(ring, -1, CLATTN_INVALID_ARGUMENT, "ring -1", "0 (none)", ""),
    INTEGER(ring, 5, CLATTN_INVALID_ARGUMENT, "ring 5", "keeps 5 keys", "window_left -1"),
    INTEGER(out_type, CLATTN_FLOAT64, CLATTN_INVALID_ARGUMENT, "out_type float64", "no other type", "type is float32"),
    INTEGER(features, CLATTN_WITH_PAGES, CLATTN_INVALID_ARGUMENT, "CLATTN_WITH_PAGES needs", "KEY_LENGTHS", ""),
    INTEGER(features, CLATTN_WITH_PAGE_STARTS, CLATTN_INVALID_ARGUMENT, "PAGE_STARTS needs CLATTN_WITH_PAGES", "", ""),
    INTEGER(features, CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS, CLATTN_INVALID_SHAPE, "page_size 0", "> 0", ""),
    INTEGER(page_size, 4, CLATTN_INVALID_ARGUMENT, "page_size 4", "pages 0", "ignored"),
    INTEGER(pages, 4, CLATTN_INVALID_ARGUMENT, "page_size 0", "pages 4", "ignored"),
    INTEGER(pool_pages, 4, CLATTN_INVALID_ARGUMENT, "pages 0", "pool_pages 4", "ignored"),
    INTEGER(features, CLATTN_WITH_BLOCK_MASK, CLATTN_INVALID_SHAPE, "block_mask_rows 0", "> 0", ""),
    INTEGER(block_mask_keys, 4, CLATTN_INVALID_ARGUMENT, "block_mask_rows 0", "block_mask_keys 4", "ignored"),
    INTEGER(features, CLATTN_WITH_KEY_LISTS, CLATTN_INVALID_SHAPE, "key_list_rows 0", "> 0", ""),
    INTEGER(key_list_keys, 4, CLATTN_INVALID_ARGUMENT, "key_list_rows 0", "key_list_keys 4", "ignored"),
    INTEGER(mask_bits, 1, CLATTN_INVALID_ARGUMENT, "mask_bits 1", "CLATTN_WITH_MASK", "ignored"),
    INTEGER(features, 1 << 20, CLATTN_INVALID_ARGUMENT, "features", "0x100000", "not known"),
    INTEGER(weights, 5, CLATTN_INVALID_ARGUMENT, "weights 5", "", ""),
    INTEGER(matmul, -1, CLATTN_INVALID_ARGUMENT, "matmul -1", "", ""),
    INTEGER(alignment, 4, CLATTN_INVALID_ARGUMENT, "alignment 4", "", ""),
    INTEGER(window_left, -2, CLATTN_INVALID_ARGUMENT, "window_left -2", "-1", "no bound"),
    INTEGER(window_right, -7, CLATTN_INVALID_ARGUMENT, "window_right -7", "-1", "no bound"),
    INTEGER(always_visible_keys, -1, CLATTN_INVALID_ARGUMENT, "always_visible_keys -1", "", ""),
    INTEGER(always_visible_keys, 3, CLATTN_INVALID_ARGUMENT, "always_visible_keys 3", "window", ""),
    INTEGER(causal, 1, CLATTN_INVALID_ARGUMENT, "alignment", "causal", "never guessed"),
    INTEGER(window_left, 3, CLATTN_INVALID_ARGUMENT, "alignment", "window", "never guessed"),
    INTEGER(features, CLATTN_WITH_SLOPES, CLATTN_INVALID_ARGUMENT, "alignment", "slopes", ""),
    NUMBER(softcap, -1, CLATTN_INVALID_ARGUMENT, "softcap -1", "positive", "finite"),
    NUMBER(softcap, (double)NAN, CLATTN_INVALID_ARGUMENT, "softcap", "nan", "finite"),
    NUMBER(softcap, (double)INFINITY, CLATTN_INVALID_ARGUMENT, "softcap", "inf", "finite"),
    NUMBER(dropout, 1, CLATTN_INVALID_ARGUMENT, "dropout 1", ">= 0", "< 1"),
    NUMBER(dropout, -0.1, CLATTN_INVALID_ARGUMENT, "dropout -0.1", ">= 0", "< 1"),
    NUMBER(dropout, (double)NAN, CLATTN_INVALID_ARGUMENT, "dropout", "nan", "< 1"),
};

static void set(clattn_problem *p, const struct refusal *r)
{
    char *field = (char *)p + r->field;
    if (r->bytes == 8) {
        memcpy(field, &r->integer, 8);
    } else if (r->bytes == 4) {
        int32_t value = (int32_t)r->integer;
        memcpy(field, &value, 4);
    } else {
        memcpy(field, &r->number, 8);
    }
}

START_TEST(test_refusals_name_field_value_and_rule)
{
    for (size_t n = 0; n < sizeof(refusals) / sizeof(refusals[0]); ++n) {
        clattn_problem p = valid();
        struct problem checked;
        set(&p, &refusals[n]);
        clattn_status status = problem_init(&checked, &p);
        ck_assert_msg(status == refusals[n].status, "refusal %zu: status %s, message \"%s\"", n,
                      clattn_status_name(status), clattn_last_error());
        for (int part = 0; part < 3 && refusals[n].says[part]; ++part) {
            ck_assert_msg(strstr(clattn_last_error(), refusals[n].says[part]) != NULL,
                          "refusal %zu: \"%s\" does not say \"%s\"", n, clattn_last_error(), refusals[n].says[part]);
        }
    }
}
END_TEST

START_TEST(test_float64_goes_with_no_other_type)
{
    struct problem checked;
    clattn_problem p = valid();
    p.type = CLATTN_FLOAT64;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    p.value_type = CLATTN_FLOAT16;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "value_type float16: float64 goes with no other type"));
}
END_TEST

START_TEST(test_zero_lengths_are_legal)
{
    const size_t fields[] = { offsetof(clattn_problem, batch), offsetof(clattn_problem, query_len),
                              offsetof(clattn_problem, key_len) };
    for (size_t n = 0; n < 3; ++n) {
        clattn_problem p = valid();
        struct problem checked;
        memset((char *)&p + fields[n], 0, sizeof(int64_t));
        ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    }
    clattn_problem p = valid();
    struct problem checked;
    p.query_heads = p.kv_heads = 0;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
}
END_TEST

START_TEST(test_defaults_are_resolved)
{
    clattn_problem p = valid();
    struct problem checked;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    ck_assert_int_eq(checked.p.head_dim_v, 8);
    ck_assert_int_eq(problem_hides_keys(&checked), 0);
    p.causal = 17;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    ck_assert_int_eq(checked.p.causal, 1);
    ck_assert_int_eq(problem_hides_keys(&checked), 1);
}
END_TEST

START_TEST(test_null_and_struct_size)
{
    struct problem checked;
    clattn_problem p = valid();
    ck_assert_int_eq(problem_init(&checked, NULL), CLATTN_INVALID_ARGUMENT);
    p.struct_size = 0;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "struct_size 0"));
    struct {
        clattn_problem p;
        char after[1 << 17];
    } large;
    memset(&large, 0, sizeof(large));
    large.p = valid();
    large.p.struct_size = 65536;
    ck_assert_int_eq(problem_init(&checked, &large.p), CLATTN_OK);
    large.p.struct_size += 8; /* a size that nobody set */
    ck_assert_int_eq(problem_init(&checked, &large.p), CLATTN_INVALID_ARGUMENT);
}
END_TEST

/* A caller that was compiled with a newer header: its unknown fields may be zero, not more. */
START_TEST(test_a_longer_struct)
{
    struct {
        clattn_problem p;
        int64_t unknown;
    } newer = { valid(), 0 };
    struct problem checked;
    newer.p.struct_size = sizeof(newer);
    ck_assert_int_eq(problem_init(&checked, &newer.p), CLATTN_OK);
    newer.unknown = 1;
    ck_assert_int_eq(problem_init(&checked, &newer.p), CLATTN_UNSUPPORTED);
}
END_TEST

/* A caller that was compiled with an older header: what it does not know has its default, whatever stands behind. */
START_TEST(test_a_shorter_struct)
{
    clattn_problem p = valid();
    struct problem checked;
    p.strategy = "not a part of it";
    p.allow_tf32 = 1;
    p.struct_size = offsetof(clattn_problem, strategy);
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    ck_assert_str_eq(checked.any.strategy_name, "");
    ck_assert_int_eq(checked.p.allow_tf32, 0);
    ck_assert_int_eq(checked.p.out_type, CLATTN_FLOAT32);
    p.struct_size = offsetof(clattn_problem, window_left); /* whose default is not 0 */
    p.window_left = p.window_right = 3;
    ck_assert_int_eq(problem_init(&checked, &p), CLATTN_OK);
    ck_assert_int_eq(checked.p.window_left, -1);
}
END_TEST

/* Sizes that no version has had. */
START_TEST(test_a_cut_struct)
{
    const size_t sizes[] = { 8, offsetof(clattn_problem, head_dim), offsetof(clattn_problem, strategy) + 4, SIZE_MAX };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        clattn_problem p = valid();
        struct problem checked;
        p.struct_size = sizes[i];
        ck_assert_int_eq(problem_init(&checked, &p), CLATTN_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(clattn_last_error(), "CLATTN_PROBLEM_INIT"));
    }
}
END_TEST

/* Functions do what the macros do, within the caller's size. */
START_TEST(test_init_functions)
{
    static const clattn_problem expected = CLATTN_PROBLEM_INIT;
    struct {
        clattn_problem p;
        unsigned char after[8];
    } given;
    memset(&given, 0xaa, sizeof(given));
    clattn_problem_init(&given.p, sizeof(given.p));
    ck_assert_mem_eq(&given.p, &expected, sizeof(expected));
    ck_assert_int_eq(given.after[0], 0xaa);
    clattn_problem_init(&given.p, offsetof(clattn_problem, strategy));
    ck_assert_uint_eq(given.p.struct_size, offsetof(clattn_problem, strategy));
    clattn_problem_init(&given.p, sizeof(given)); /* a newer caller's */
    ck_assert_uint_eq(given.p.struct_size, sizeof(given));
    ck_assert_int_eq(given.after[0], 0);
}
END_TEST

/* Every field of clattn_problem, in its order: nothing but padding lies between two of them. */
/* clang-format off */
#define FIELD(name) { #name, offsetof(clattn_problem, name), sizeof(((clattn_problem *)0)->name) }
static const struct {
    const char *name;
    size_t at, bytes;
} fields[] = {
    FIELD(struct_size), FIELD(type), FIELD(batch), FIELD(query_heads), FIELD(kv_heads), FIELD(query_len),
    FIELD(key_len), FIELD(head_dim), FIELD(head_dim_v), FIELD(features), FIELD(bias_type), FIELD(weights),
    FIELD(causal), FIELD(alignment), FIELD(window_left), FIELD(window_right), FIELD(always_visible_keys),
    FIELD(softcap), FIELD(dropout), FIELD(strided_columns), FIELD(matmul), FIELD(strategy), FIELD(allow_tf32),
    FIELD(key_type), FIELD(value_type), FIELD(out_type), FIELD(page_size), FIELD(pages), FIELD(key_scale_rows),
    FIELD(key_scale_columns), FIELD(value_scale_rows), FIELD(value_scale_columns), FIELD(ring),
    FIELD(allow_rounded_weights), FIELD(pool_pages), FIELD(code), FIELD(block_mask_rows), FIELD(block_mask_keys),
    FIELD(key_list_rows), FIELD(key_list_keys), FIELD(mask_bits), FIELD(value_in_key), FIELD(slopes_type),
    FIELD(sinks_type),
};
/* clang-format on */
_Static_assert(offsetof(clattn_problem, sinks_type) + 4 == sizeof(clattn_problem), "a field has no line above");

START_TEST(test_every_field_is_known)
{
    size_t end = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); ++i) {
        const size_t size = fields[i].bytes, aligned = (end + size - 1) / size * size;
        ck_assert_msg(fields[i].at == aligned, "%s is at byte %zu, behind one that ends at %zu: what is between?",
                      fields[i].name, fields[i].at, end);
        end = fields[i].at + size;
    }
    ck_assert_uint_eq(end, sizeof(clattn_problem));
}
END_TEST

/* One bit of each byte of each field. The strategy is kept by its name, code by itself; sizes are all the same. */
START_TEST(test_equality_sees_every_field)
{
    struct problem one, other;
    clattn_problem p = valid();
    p.strategy = "plain";
    ck_assert_int_eq(problem_init(&one, &p), CLATTN_OK);
    ck_assert_int_eq(problem_init(&other, &p), CLATTN_OK);
    ck_assert_int_ne(problem_equal(&one.any, &other.any), 0);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); ++i) {
        const size_t at = fields[i].at;
        if (at == offsetof(clattn_problem, struct_size) || at == offsetof(clattn_problem, strategy) ||
            at == offsetof(clattn_problem, code)) {
            continue;
        }
        for (size_t byte = 0; byte < fields[i].bytes; ++byte) {
            other = one;
            ((unsigned char *)&other.p)[at + byte] ^= 1;
            ck_assert_msg(!problem_equal(&one.any, &other.any), "byte %zu of %s was not seen", byte, fields[i].name);
        }
    }
    p.strategy = "other";
    ck_assert_int_eq(problem_init(&other, &p), CLATTN_OK);
    ck_assert_int_eq(problem_equal(&one.any, &other.any), 0);
}
END_TEST

/* Scales of codes: how many share one is 0 or more. */
START_TEST(test_scales)
{
    struct problem problem;
    clattn_problem p = valid();
    p.key_type = CLATTN_INT8;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.features = CLATTN_WITH_KEY_SCALES;
    p.key_scale_rows = 32;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.key_scale_columns = -1;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "key_scale_rows 32, key_scale_columns -1: must be 0 (all) to"));
}
END_TEST

/* A ring keeps the window of every row; one that never turns is no ring. */
START_TEST(test_rings)
{
    struct problem problem;
    clattn_problem p = valid();
    p.ring = 6; /* of 7 keys, for 5 queries */
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = 1;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.window_left = 2;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(clattn_last_error(), "ring 6: keeps 6 keys behind the pinned ones, and window_left 2"));
    p.ring = 7;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.ring = 6;
    p.window_left = 1;
    p.always_visible_keys = 1;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    p.always_visible_keys = 6;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "must be more than always_visible_keys 6"));
    p.always_visible_keys = 0;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "top left"));
    p.alignment = CLATTN_ALIGN_OFFSETS;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.features = CLATTN_WITH_VARLEN;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "packed keys have none"));
}
END_TEST

START_TEST(test_tf32_is_for_float32)
{
    struct problem problem;
    clattn_problem p = valid();
    p.allow_tf32 = 1;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    p.type = CLATTN_FLOAT16;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "allow_tf32 1: needs type float32, which is float16"));
}
END_TEST

START_TEST(test_rounded_weights_are_for_16_bits)
{
    struct problem problem;
    clattn_problem p = valid();
    p.allow_rounded_weights = 7;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "allow_rounded_weights 7: needs type float16 or bfloat16, which "
                                                      "is float32; leave it 0"));
    p.type = CLATTN_BFLOAT16;
    ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
    ck_assert_int_eq(problem.p.allow_rounded_weights, 1);
}
END_TEST

SUITE("problem", test_refusals_name_field_value_and_rule, test_float64_goes_with_no_other_type,
      test_zero_lengths_are_legal, test_defaults_are_resolved, test_null_and_struct_size, test_a_longer_struct,
      test_a_shorter_struct, test_a_cut_struct, test_init_functions, test_every_field_is_known,
      test_equality_sees_every_field, test_scales, test_rings, test_tf32_is_for_float32,
      test_rounded_weights_are_for_16_bits)
