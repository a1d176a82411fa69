/* Values that are columns of keys: what a problem and a call may say beside that, and what values then are. */
#include <string.h>

#include "operation/call.h"

#include "suite.h"

START_TEST(test_values_in_keys_that_contradict)
{
    const struct {
        int64_t columns, scale_rows;
        clattn_type type;
        uint32_t features;
        clattn_status status;
        const char *says;
    } refused[] = {
        { 9, 0, CLATTN_TYPE_NONE, 0, CLATTN_INVALID_SHAPE, "head_dim_v 9: must be at most head_dim 8" },
        { 4, 0, CLATTN_FLOAT16, 0, CLATTN_INVALID_ARGUMENT, "value_type float16: must be key_type, int8" },
        { 4, 0, CLATTN_TYPE_NONE, CLATTN_WITH_VALUE_SCALES, CLATTN_INVALID_ARGUMENT, "needs CLATTN_WITH_KEY_SCALES" },
        { 4, 3, CLATTN_TYPE_NONE, CLATTN_WITH_KEY_SCALES, CLATTN_INVALID_ARGUMENT, "value_scale_rows 3" },
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); ++i) {
        clattn_problem p = CLATTN_PROBLEM_INIT;
        struct problem problem;
        p.head_dim = 8;
        p.value_in_key = 1;
        p.key_type = CLATTN_INT8;
        p.head_dim_v = refused[i].columns;
        p.value_type = refused[i].type;
        p.features = refused[i].features;
        p.value_scale_rows = refused[i].scale_rows;
        ck_assert_int_eq(problem_init(&problem, &p), refused[i].status);
        ck_assert_msg(strstr(clattn_last_error(), refused[i].says) != NULL, "%s", clattn_last_error());
    }
}
END_TEST

struct fixture {
    struct problem problem;
    clattn_host_tensors tensors;
    struct call call;
    float memory[64];
};

/* A row and four keys in int8, with a scale for all: head_dim 2, of which values have the first column. */
static void start(struct fixture *f)
{
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    memset(f, 0, sizeof(*f));
    p.query_len = 1;
    p.key_len = 4;
    p.head_dim = 2;
    p.head_dim_v = 1;
    p.value_in_key = 5;
    p.key_type = CLATTN_INT8;
    p.features = CLATTN_WITH_KEY_SCALES;
    ck_assert_int_eq(problem_init(&f->problem, &p), CLATTN_OK);
    f->tensors = none;
    f->tensors.query.data = f->memory;
    f->tensors.key.data = f->memory + 16;
    f->tensors.key_scales.data = f->memory + 32;
    f->tensors.out.data = f->memory + 48;
    clattn_strides_bhsd(1, 1, 2, f->tensors.query.stride);
    clattn_strides_bhsd(1, 4, 2, f->tensors.key.stride);
    clattn_strides_bhsd(1, 1, 1, f->tensors.out.stride);
}

static clattn_status validate(struct fixture *f)
{
    return call_from_host(&f->problem, NULL, &f->tensors, &f->call);
}

START_TEST(test_values_are_where_keys_are)
{
    struct fixture f;
    start(&f);
    ck_assert_int_eq(f.problem.p.value_type, CLATTN_INT8);
    ck_assert(f.problem.flags & CLATTN_FLAG_VALUE_SCALES);
    ck_assert_msg(validate(&f) == CLATTN_OK, "%s", clattn_last_error());
    const struct tensor_place *place = f.call.operands.tensor;
    ck_assert_ptr_eq(place[TENSOR_VALUE].data, f.memory + 16);
    ck_assert_int_eq(place[TENSOR_VALUE].stride[2], 2);
    ck_assert_ptr_eq(place[TENSOR_VALUE_SCALES].data, f.memory + 32);
    f.tensors.value = f.tensors.key; /* as a resolved call has it */
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    const clattn_problem resolved = f.problem.p;
    ck_assert_int_eq(problem_init(&f.problem, &resolved), CLATTN_OK);
}
END_TEST

START_TEST(test_other_values)
{
    struct fixture f;
    start(&f);
    f.tensors.value.data = f.memory + 1;
    ck_assert_int_eq(validate(&f), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "value: must be left out, or be key itself"));
    start(&f);
    f.tensors.value_scales.data = f.memory;
    ck_assert_int_eq(validate(&f), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "value_scales: must be left out, or be key_scales itself"));
}
END_TEST

/* They are told where they have as many columns as keys, too. */
START_TEST(test_values_in_keys_are_told)
{
    for (int64_t columns = 1; columns <= 2; ++columns) {
        struct problem problem;
        char line[256];
        clattn_problem p = CLATTN_PROBLEM_INIT;
        p.head_dim = 2;
        p.head_dim_v = columns;
        p.value_in_key = 1;
        ck_assert_int_eq(problem_init(&problem, &p), CLATTN_OK);
        problem_describe(&problem.any, line, sizeof(line));
        ck_assert_msg(strstr(line, ", values in keys") != NULL, "%s", line);
    }
}
END_TEST

SUITE("value_in_key", test_values_in_keys_that_contradict, test_values_are_where_keys_are, test_other_values,
      test_values_in_keys_are_told)
