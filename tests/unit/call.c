/* Validation of calls: tensors that are missing or too many, lengths, strides, extents. */
#include <math.h>
#include <string.h>

#include "operation/call.h"

#include "suite.h"

struct fixture {
    struct problem problem;
    clattn_host_tensors tensors;
    clattn_call values;
    struct call call;
    float memory[256];
    int32_t list[8], table[4], starts[2];
};

static void set_place(clattn_host_tensor *tensor, float *memory, int64_t heads, int64_t rows, int64_t columns)
{
    tensor->data = memory;
    clattn_strides_bhsd(heads, rows, columns, tensor->stride);
}

/* Keys of the one sequence in two pages of two, of three that there are. */
static void start_pages(struct fixture *f)
{
    const int32_t table[4] = { 2, 0, 1, -1 }, starts[2] = { 1, 3 };
    set_place(&f->tensors.key, f->memory, 1, 2, 2);
    set_place(&f->tensors.value, f->memory, 1, 2, 2);
    memcpy(f->table, table, sizeof(table));
    memcpy(f->starts, starts, sizeof(starts));
    f->list[0] = 4;
    f->tensors.page_table.data = f->table;
    f->tensors.page_table.stride[0] = 4;
    f->tensors.page_table.stride[3] = 1;
    if (f->problem.p.features & CLATTN_WITH_PAGE_STARTS) {
        f->tensors.page_starts.data = f->starts;
    }
}

/* 1 x 2(1) heads, 3 queries, 4 keys, head_dim 2: a call that is right. */
static void start(struct fixture *f, uint32_t features)
{
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    clattn_problem p = CLATTN_PROBLEM_INIT;
    memset(f, 0, sizeof(*f));
    p.query_heads = 2;
    p.query_len = 3;
    p.key_len = 4;
    p.head_dim = 2;
    p.features = features;
    p.page_size = features & CLATTN_WITH_PAGES ? 2 : 0;
    p.pages = features & CLATTN_WITH_PAGES ? 3 : 0;
    ck_assert_int_eq(problem_init(&f->problem, &p), CLATTN_OK);
    f->tensors = none;
    f->values = (clattn_call)CLATTN_CALL_INIT;
    set_place(&f->tensors.query, f->memory, 2, 3, 2);
    set_place(&f->tensors.key, f->memory, 1, 4, 2);
    set_place(&f->tensors.value, f->memory, 1, 4, 2);
    set_place(&f->tensors.out, f->memory + 64, 2, 3, 2);
    if (features & CLATTN_WITH_MASK) {
        set_place(&f->tensors.mask, f->memory, 2, 3, 4);
    }
    if (features & CLATTN_WITH_KEY_LENGTHS) {
        f->tensors.key_lengths.data = f->list;
    }
    if (features & CLATTN_WITH_PAGES) {
        start_pages(f);
    }
}

static clattn_status validate(struct fixture *f)
{
    clattn_status status = call_from_host(&f->problem, &f->values, &f->tensors, &f->call);
    return status == CLATTN_OK ? any_call_check_values(&f->problem.any, &f->call.operands) : status;
}

static void ck_refused(struct fixture *f, clattn_status expected, const char *says)
{
    clattn_status status = validate(f);
    ck_assert_msg(status == expected, "status %s, message \"%s\"", clattn_status_name(status), clattn_last_error());
    ck_assert_msg(strstr(clattn_last_error(), says) != NULL, "\"%s\" does not say \"%s\"", clattn_last_error(), says);
}

START_TEST(test_a_right_call)
{
    struct fixture f;
    start(&f, 0);
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_int_eq(f.call.query_len, 3);
    ck_assert_int_eq(f.call.key_len, 4);
    ck_assert_int_eq(f.call.mask_key_len, 4);
    ck_assert_double_eq_tol(f.call.scale, 0.70710678118654752, 2e-16);
}
END_TEST

START_TEST(test_lengths)
{
    struct fixture f;
    start(&f, 0);
    f.values.query_len = 4;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "query_len 4: must be -1 or 0 to 3");
    start(&f, 0);
    f.values.key_len = -2;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "key_len -2");
    start(&f, CLATTN_WITH_MASK);
    f.values.mask_key_len = 5;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "mask_key_len 5");
    start(&f, CLATTN_WITH_MASK);
    f.values.key_len = 2;
    f.values.mask_key_len = 2;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    f.values.mask_key_len = 3; /* of the keys of this call */
    ck_refused(&f, CLATTN_INVALID_SHAPE, "mask_key_len 3");
}
END_TEST

START_TEST(test_masks_of_the_last_keys)
{
    struct fixture f;
    start(&f, CLATTN_WITH_MASK);
    f.values.mask_first_key = 3;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_int_eq(f.call.mask_key_len, 1);
    f.values.mask_key_len = 2;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "mask_key_len 2: must be -1 or 0 to 1");
    f.values.mask_first_key = 5;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "mask_first_key 5: must be 0 to key_len 4");
    f.values.mask_first_key = -1;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "mask_first_key -1: must be 0 to key_len 4");
    start(&f, 0);
    f.values.mask_first_key = 1;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "mask_first_key 1: the problem has no mask");
}
END_TEST

START_TEST(test_scale)
{
    const double bad[] = { (double)NAN, (double)INFINITY, 1e300 };
    struct fixture f;
    for (int n = 0; n < 3; ++n) {
        start(&f, 0);
        f.values.has_scale = 1;
        f.values.scale = bad[n];
        ck_refused(&f, CLATTN_INVALID_ARGUMENT, "scale");
    }
    start(&f, 0);
    f.values.has_scale = 1;
    f.values.scale = -0.0;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert(signbit(f.call.scale));
}
END_TEST

START_TEST(test_strides_and_offsets)
{
    struct fixture f;
    start(&f, 0);
    f.tensors.query.stride[3] = 2;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "strided_columns");
    start(&f, 0);
    f.tensors.key.offset = -1;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key.offset -1");
    start(&f, 0);
    f.tensors.key.stride[2] = -2;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "before the buffer's first");
    f.tensors.key.offset = 6; /* row 3 is at 0 */
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    start(&f, 0);
    f.tensors.value.stride[2] = INT64_MAX / 2;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "64-bit");
}
END_TEST

/* Inputs may be one place many times, on every axis. */
START_TEST(test_outputs_have_a_place_an_element)
{
    struct fixture f;
    for (int axis = 1; axis < 4; ++axis) {
        start(&f, 0);
        f.problem.p.strided_columns = 1;
        f.tensors.query.stride[axis] = 0;
        ck_assert_int_eq(validate(&f), CLATTN_OK);
        f.tensors.out.stride[axis] = 0;
        ck_refused(&f, CLATTN_INVALID_ARGUMENT, "would write one place more than once");
    }
}
END_TEST

START_TEST(test_slices)
{
    struct fixture f;
    start(&f, 0);
    f.values.first_head = 1;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "first_head 1: heads 1 to 2 are beyond whole_heads 2");
    f.values.whole_heads = 3;
    f.values.first_batch = 5;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_uint_eq(f.call.first_plane, 5 * 3 + 1);
    ck_assert_uint_eq(f.call.whole_heads, 3);
    f.values.first_row = -1;
    ck_refused(&f, CLATTN_INVALID_SHAPE, "first_row -1");
}
END_TEST

START_TEST(test_key_lengths)
{
    struct fixture f;
    start(&f, CLATTN_WITH_KEY_LENGTHS);
    f.list[0] = 4;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    f.list[0] = 5;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key_lengths[0] 5");
    f.list[0] = -1;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key_lengths[0] -1");
}
END_TEST

START_TEST(test_seams)
{
    struct fixture f;
    const int32_t bad[][2] = { { 1, 3 }, { 0, -1 }, { 0, 4 } };
    for (int n = 0; n < 4; ++n) {
        start(&f, CLATTN_WITH_VARLEN);
        f.tensors.cu_query.data = f.list;
        f.tensors.cu_key.data = f.list + 4;
        f.list[1] = 3;
        f.list[5] = 4;
        if (n < 3) {
            memcpy(f.list, bad[n], sizeof(bad[n]));
            ck_refused(&f, CLATTN_INVALID_ARGUMENT, "cu_query[");
        } else {
            ck_assert_int_eq(validate(&f), CLATTN_OK);
        }
    }
}
END_TEST

START_TEST(test_page_tables)
{
    struct fixture f;
    start(&f, CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS);
    f.table[1] = -1; /* a hole */
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    f.table[1] = -2;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "page_table[0, 1] -2: must be -1, for a hole, or 0 to pages 3 - 1");
    f.table[1] = 3;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "page_table[0, 1] 3");
    f.list[0] = 2; /* keys: the second page is not looked at */
    ck_assert_int_eq(validate(&f), CLATTN_OK);
}
END_TEST

START_TEST(test_page_starts)
{
    struct fixture f;
    const int32_t bad[][2] = { { 1, 2 }, { -1, 2 }, { 3, 1 } };
    for (int n = 0; n < 4; ++n) {
        start(&f, CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_PAGE_STARTS);
        f.table[0] = f.table[3] = 77; /* of no sequence */
        ck_assert_int_eq(validate(&f), CLATTN_OK);
        if (n < 3) {
            memcpy(f.starts, bad[n], sizeof(bad[n]));
            ck_refused(&f, CLATTN_INVALID_ARGUMENT, "sequence 0 needs 2 pages for its 4 keys");
        }
    }
    f.tensors.page_table.stride[3] = 2;
    f.starts[1] = 2;
    f.list[0] = 2;
    f.table[0] = f.table[1] = 77;
    ck_assert_int_eq(validate(&f), CLATTN_OK); /* entry 1 is element 2 */
    f.table[2] = 77;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "page_table[0, 0] 77");
}
END_TEST

START_TEST(test_struct_size)
{
    struct fixture f;
    start(&f, 0);
    f.tensors.struct_size = 8;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "struct_size 8");
    ck_assert_int_eq(call_from_host(&f.problem, NULL, NULL, &f.call), CLATTN_INVALID_ARGUMENT);
}
END_TEST

/* Empty tensors need no memory. */
START_TEST(test_empty_tensors)
{
    struct fixture f;
    start(&f, 0);
    f.values.key_len = 0;
    f.tensors.key.data = f.tensors.value.data = NULL;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    f.values.query_len = 0;
    f.tensors.query.data = f.tensors.out.data = NULL;
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_int_eq(clattn_reference_forward(&f.problem.p, &f.values, &f.tensors), CLATTN_OK);
}
END_TEST

/* Dense strides of a tensor without rows are 0 where there is more than one head: nothing is written there twice. */
START_TEST(test_empty_strides)
{
    struct fixture f;
    start(&f, CLATTN_WITH_LSE);
    f.values.query_len = 0;
    f.tensors.lse.data = f.memory;
    clattn_strides_bhsd(2, 0, 2, f.tensors.query.stride);
    clattn_strides_bhsd(2, 0, 2, f.tensors.out.stride);
    clattn_strides_bhsd(2, 0, 1, f.tensors.lse.stride);
    ck_assert_int_eq(f.tensors.out.stride[1], 0);
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_int_eq(clattn_reference_forward(&f.problem.p, &f.values, &f.tensors), CLATTN_OK);
    start(&f, 0);
    f.problem.p.weights = CLATTN_WEIGHTS_SOFTMAX;
    f.values.key_len = 0;
    f.tensors.weights.data = f.memory;
    clattn_strides_bhsd(2, 3, 0, f.tensors.weights.stride);
    ck_assert_int_eq(validate(&f), CLATTN_OK);
    ck_assert_int_eq(clattn_reference_forward(&f.problem.p, &f.values, &f.tensors), CLATTN_OK);
}
END_TEST

/* Offsets and strides of blocks count columns, by whole blocks; the host's table counts blocks from there on. */
START_TEST(test_blocks)
{
    struct fixture f;
    start(&f, 0);
    clattn_problem p = f.problem.p;
    p.head_dim = p.head_dim_v = 64;
    p.key_type = CLATTN_Q4_0;
    ck_assert_int_eq(problem_init(&f.problem, &p), CLATTN_OK);
    clattn_strides_bhsd(2, 3, 64, f.tensors.query.stride);
    clattn_strides_bhsd(2, 3, 64, f.tensors.out.stride);
    clattn_strides_bhsd(1, 4, 64, f.tensors.key.stride);
    clattn_strides_bhsd(1, 4, 64, f.tensors.value.stride);
    f.tensors.key.offset = 96;
    ck_assert_int_eq(call_from_host(&f.problem, &f.values, &f.tensors, &f.call), CLATTN_OK);
    const struct tensor_place *key = &f.call.operands.tensor[TENSOR_KEY];
    ck_assert(key->offset == 3 && key->stride[2] == 2 && key->low == 3 && key->high == 3 + 4 * 2);
    ck_assert_uint_eq(operand_bytes(&f.call.operands, TENSOR_KEY), 18);
    f.tensors.key.offset = 48;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key.offset 48: must be a multiple of 32");
    f.tensors.key.offset = 0;
    f.tensors.key.stride[2] = 80;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key.stride[2] 80: must be a multiple of 32");
    f.tensors.key.stride[2] = 64;
    f.tensors.key.stride[3] = 2;
    ck_refused(&f, CLATTN_INVALID_ARGUMENT, "key.stride[3] 2: must be 1");
}
END_TEST

SUITE("call", test_blocks, test_a_right_call, test_lengths, test_masks_of_the_last_keys, test_scale,
      test_strides_and_offsets, test_outputs_have_a_place_an_element, test_slices, test_key_lengths, test_seams,
      test_page_tables, test_page_starts, test_struct_size, test_empty_tensors, test_empty_strides)
