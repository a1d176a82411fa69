/* clattn_merge: against the formula in float64, with -inf on either side, strides, 16-bit types, in place;
 * and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/stored_types.h"
#include "support/merge_two.h"
#include "support/random.h"

#define BATCH 2
#define HEADS 3
#define ROWS 5
#define COLUMNS 7
#define ELEMENTS (BATCH * HEADS * ROWS * COLUMNS * 3) /* room for the widest layout */

static const int64_t shape[4] = { BATCH, HEADS, ROWS, COLUMNS };

/* One partial result in host memory and its twin on the device. */
struct side {
    unsigned char out[ELEMENTS * 8];
    float lse[ELEMENTS];
    clattn_partial device;
};

struct layout {
    int64_t out_offset, out_stride[4], lse_offset, lse_stride[4];
};

static const struct layout dense = {
    0, { HEADS * ROWS * COLUMNS, ROWS *COLUMNS, COLUMNS, 1 }, 0, { HEADS * ROWS, ROWS, 1, 0 }
};
/* Rows before heads, every second column, an offset; lse with heads innermost. */
static const struct layout strided = {
    4, { ROWS * HEADS * COLUMNS * 2, COLUMNS * 2, HEADS *COLUMNS * 2, 2 }, 3, { HEADS * ROWS, 1, HEADS, 0 }
};

static int64_t out_at(const struct side *side, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const clattn_tensor *t = &side->device.out;
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + c * t->stride[3];
}

static int64_t lse_at(const struct side *side, int64_t b, int64_t h, int64_t i)
{
    const clattn_tensor *t = &side->device.lse;
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

static cl_mem buffer_of(const void *content, size_t bytes)
{
    cl_mem buffer = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                   (void *)content, NULL);
    ck_assert_ptr_nonnull(buffer);
    return buffer;
}

/* Random outputs; lse of every third row -inf, with NaN as its output: it must not be read. */
static void side_fill(struct side *side, clattn_type type, const struct layout *layout, uint64_t seed)
{
    struct random random = random_start(seed, 0);
    memset(side, 0xff, sizeof(*side));
    side->device.out.offset = layout->out_offset;
    side->device.lse.offset = layout->lse_offset;
    memcpy(side->device.out.stride, layout->out_stride, sizeof(layout->out_stride));
    memcpy(side->device.lse.stride, layout->lse_stride, sizeof(layout->lse_stride));
    for (int64_t n = 0; n < BATCH * HEADS * ROWS; ++n) {
        int64_t b = n / ROWS / HEADS, h = n / ROWS % HEADS, i = n % ROWS;
        int hidden = (n + (int64_t)seed) % 3 == 0;
        side->lse[lse_at(side, b, h, i)] = hidden ? -INFINITY : (float)(200 * random_normal(&random));
        for (int64_t c = 0; c < COLUMNS; ++c) {
            type_store(type, side->out, out_at(side, b, h, i, c), hidden ? (double)NAN : random_normal(&random));
        }
    }
}

static void side_upload(struct side *side)
{
    side->device.out.buffer = buffer_of(side->out, sizeof(side->out));
    side->device.lse.buffer = buffer_of(side->lse, sizeof(side->lse));
}

static void side_release(struct side *side)
{
    clReleaseMemObject(side->device.out.buffer);
    clReleaseMemObject(side->device.lse.buffer);
}

static void side_download(struct side *side)
{
    cl_command_queue queue = clattn_context_queue(context);
    ck_assert_int_eq(clEnqueueReadBuffer(queue, side->device.out.buffer, CL_TRUE, 0, sizeof(side->out), side->out, 0,
                                         NULL, NULL),
                     CL_SUCCESS);
    ck_assert_int_eq(clEnqueueReadBuffer(queue, side->device.lse.buffer, CL_TRUE, 0, sizeof(side->lse), side->lse, 0,
                                         NULL, NULL),
                     CL_SUCCESS);
}

/* merged against the formula on what a and b were. */
static void expect_merged(const struct side *a, const struct side *b_side, const struct side *merged, clattn_type type)
{
    const double unit = type == CLATTN_FLOAT16 ? 0x1p-11 : type == CLATTN_BFLOAT16 ? 0x1p-8 : 0;
    for (int64_t n = 0; n < BATCH * HEADS * ROWS; ++n) {
        int64_t b = n / ROWS / HEADS, h = n / ROWS % HEADS, i = n % ROWS;
        double first = a->lse[lse_at(a, b, h, i)], second = b_side->lse[lse_at(b_side, b, h, i)];
        double top = fmax(first, second);
        double sum = isinf(top) ? 0 : exp(first - top) + exp(second - top);
        double lse = isinf(top) ? -INFINITY : top + log(sum), got = merged->lse[lse_at(merged, b, h, i)];
        ck_assert_msg(isinf(top) ? isinf(got) && got < 0 : fabs(got - lse) <= 0x1p-22 * (fabs(lse) + 1),
                      "lse of row %d: %g, must be %g", (int)n, got, lse);
        for (int64_t c = 0; c < COLUMNS; ++c) {
            double from_a = isinf(first) ? 0 : exp(first - lse) * type_load(type, a->out, out_at(a, b, h, i, c));
            double from_b =
                isinf(second) ? 0 : exp(second - lse) * type_load(type, b_side->out, out_at(b_side, b, h, i, c));
            double right = isinf(top) ? 0 : from_a + from_b;
            double value = type_load(type, merged->out, out_at(merged, b, h, i, c));
            double steps = 8 + (isinf(first) || isinf(second) ? 0 : fabs(first - second)); /* exp's argument */
            double bound = 0x1p-24 * steps * (fabs(from_a) + fabs(from_b)) + unit * fabs(right);
            ck_assert_msg(fabs(value - right) <= bound, "row %d, column %d: %g, must be %g", (int)n, (int)c, value,
                          right);
        }
    }
}

static void check_merge(clattn_type type, const struct layout *layout)
{
    static struct side a, b, merged;
    side_fill(&a, type, &dense, 1);
    side_fill(&b, type, layout, 2);
    side_fill(&merged, type, layout, 3);
    memset(merged.out, 0xff, sizeof(merged.out));
    side_upload(&a);
    side_upload(&b);
    side_upload(&merged);
    cl_event done;
    EXPECT_OK(merge_two(context, clattn_context_queue(context), type, shape, &a.device, &b.device, &merged.device, 0,
                        NULL, &done));
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(done);
    side_download(&merged);
    expect_merged(&a, &b, &merged, type);
    side_release(&a);
    side_release(&b);
    side_release(&merged);
}

START_TEST(test_types_and_strides)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        check_merge(types[i], &dense);
        check_merge(types[i], &strided);
    }
}
END_TEST

/* merged is a, or is b: rows are read before they are written. */
START_TEST(test_in_place)
{
    for (int which = 0; which < 2; ++which) {
        static struct side sides[2], result;
        side_fill(&sides[0], CLATTN_FLOAT32, &dense, 4);
        side_fill(&sides[1], CLATTN_FLOAT32, &strided, 5);
        side_upload(&sides[0]);
        side_upload(&sides[1]);
        EXPECT_OK(merge_two(context, clattn_context_queue(context), CLATTN_FLOAT32, shape, &sides[0].device,
                            &sides[1].device, &sides[which].device, 0, NULL, NULL));
        result = sides[which];
        side_download(&result);
        expect_merged(&sides[0], &sides[1], &result, CLATTN_FLOAT32);
        side_release(&sides[0]);
        side_release(&sides[1]);
    }
}
END_TEST

/* What is not an element of merged stays as it is. */
START_TEST(test_gaps_stay)
{
    static struct side a, b, merged;
    static unsigned char reached[ELEMENTS];
    memset(reached, 0, sizeof(reached));
    side_fill(&a, CLATTN_FLOAT32, &dense, 6);
    side_fill(&b, CLATTN_FLOAT32, &dense, 7);
    side_fill(&merged, CLATTN_FLOAT32, &strided, 8);
    memset(merged.out, 0xff, sizeof(merged.out));
    side_upload(&a);
    side_upload(&b);
    side_upload(&merged);
    EXPECT_OK(merge_two(context, clattn_context_queue(context), CLATTN_FLOAT32, shape, &a.device, &b.device,
                        &merged.device, 0, NULL, NULL));
    side_download(&merged);
    for (int64_t n = 0; n < BATCH * HEADS * ROWS * COLUMNS; ++n) {
        int64_t c = n % COLUMNS, i = n / COLUMNS % ROWS, h = n / COLUMNS / ROWS % HEADS;
        reached[out_at(&merged, n / COLUMNS / ROWS / HEADS, h, i, c)] = 1;
    }
    for (size_t n = 0; n < ELEMENTS; ++n) {
        uint32_t bits;
        memcpy(&bits, merged.out + 4 * n, 4);
        ck_assert_msg(reached[n] || bits == 0xffffffffu, "element %zu was written", n);
    }
    side_release(&a);
    side_release(&b);
    side_release(&merged);
}
END_TEST

START_TEST(test_refused)
{
    static struct side a;
    cl_command_queue queue = clattn_context_queue(context);
    side_fill(&a, CLATTN_FLOAT32, &dense, 9);
    side_upload(&a);
    const clattn_partial good = a.device;
#define MERGE(shape, a, b, merged) merge_two(context, queue, CLATTN_FLOAT32, shape, a, b, merged, 0, NULL, NULL)
    clattn_merge_problem problem = CLATTN_MERGE_PROBLEM_INIT;
    expect_error(merge_two(NULL, queue, CLATTN_FLOAT32, shape, &good, &good, &good, 0, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "context: must not be NULL", "merge");
    expect_error(merge_two(context, NULL, CLATTN_FLOAT32, shape, &good, &good, &good, 0, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "queue: must not be NULL", "merge");
    expect_error(merge_two(context, queue, (clattn_type)9, shape, &good, &good, &good, 0, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "type 9", "merge");
    expect_error(merge_two(context, queue, CLATTN_FLOAT32, shape, &good, &good, &good, 1, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "n_wait 1", "merge");
    expect_error(clattn_merge(context, queue, NULL, 1, &good, &good, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "problem: must not be NULL", "merge");
    expect_error(clattn_merge(context, queue, &problem, 1, NULL, &good, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "partials: must not be NULL", "merge");
    expect_error(clattn_merge(context, queue, &problem, 1, &good, NULL, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "merged: must not be NULL", "merge");
    problem.columns = 1;
    expect_error(clattn_merge(context, queue, &problem, 0, &good, &good, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "count 0: must be at least 1", "merge");
    problem.type = CLATTN_FLOAT16;
    problem.out_type = CLATTN_FLOAT64;
    expect_error(clattn_merge(context, queue, &problem, 1, &good, &good, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "out_type float64: float64 goes with no other type", "merge");
    const int64_t negative[4] = { BATCH, -1, ROWS, COLUMNS }, no_columns[4] = { BATCH, HEADS, ROWS, 0 };
    const int64_t wide[4] = { BATCH, HEADS, ROWS, (int64_t)1 << 31 };
    expect_error(MERGE(negative, &good, &good, &good), CLATTN_INVALID_SHAPE, "heads -1", "merge");
    expect_error(MERGE(no_columns, &good, &good, &good), CLATTN_INVALID_SHAPE, "columns 0", "merge");
    expect_error(MERGE(wide, &good, &good, &good), CLATTN_INVALID_SHAPE, "columns 2147483648", "merge");
    clattn_partial bad = good;
    bad.lse.buffer = NULL;
    expect_error(MERGE(shape, &good, &bad, &good), CLATTN_INVALID_ARGUMENT, "partials[1].lse: must be given", "merge");
    bad = good;
    bad.out.stride[0] = ELEMENTS * 2;
    expect_error(MERGE(shape, &bad, &good, &good), CLATTN_INVALID_SHAPE, "partials[0].out.buffer of", "merge");
    bad.out.stride[0] = INT64_MAX;
    bad.out.offset = 1;
    expect_error(MERGE(shape, &good, &good, &bad), CLATTN_INVALID_SHAPE, "merged.out.stride[0]", "merge");
    bad = good;
    bad.out.offset = -1;
    expect_error(MERGE(shape, &bad, &good, &good), CLATTN_INVALID_ARGUMENT, "partials[0].out.offset -1", "merge");
    bad = good;
    bad.lse.stride[2] = 0;
    expect_error(MERGE(shape, &good, &good, &bad), CLATTN_INVALID_ARGUMENT, "merged.lse.stride[2] 0", "merge");
    bad = good;
    bad.out.stride[2] = 1;
    expect_error(MERGE(shape, &good, &good, &bad), CLATTN_INVALID_ARGUMENT, "merged.out.stride[2] 1", "merge");
    side_release(&a);
}
END_TEST

/* In place is the very place of a partial; no other overlap. */
START_TEST(test_overlaps)
{
    static struct side a, b;
    cl_command_queue queue = clattn_context_queue(context);
    side_fill(&a, CLATTN_FLOAT32, &dense, 9);
    side_fill(&b, CLATTN_FLOAT32, &dense, 10);
    side_upload(&a);
    side_upload(&b);
    clattn_partial moved = a.device;
    moved.out.offset = 1;
    expect_error(MERGE(shape, &a.device, &b.device, &moved), CLATTN_INVALID_ARGUMENT,
                 "merged.out: its memory is also partials[0].out's", "merge");
    for (int axis = 0; axis < 3; ++axis) { /* begins in one place, and goes on in another */
        moved = a.device;
        moved.out.stride[axis] += 2 * COLUMNS;
        moved.out.stride[1] += axis == 2 ? 2 * COLUMNS * ROWS : 0; /* so that its elements are apart */
        moved.out.stride[0] += axis > 0 ? 2 * COLUMNS * ROWS * HEADS : 0;
        expect_error(MERGE(shape, &a.device, &b.device, &moved), CLATTN_INVALID_ARGUMENT,
                     "merged.out: its memory is also partials[0].out's", "merge");
    }
    moved = a.device;
    moved.lse = a.device.out;
    expect_error(MERGE(shape, &a.device, &b.device, &moved), CLATTN_INVALID_ARGUMENT, "its memory is also", "merge");
    side_release(&a);
    side_release(&b);
}
END_TEST

/* No rows: nothing to do, no buffers needed, but the event is there; other axes may be of any length. */
START_TEST(test_empty)
{
    const int64_t no_rows[2][4] = { { BATCH, HEADS, 0, COLUMNS }, { INT32_MAX, INT32_MAX, 0, COLUMNS } };
    const clattn_partial none = { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
    for (int i = 0; i < 2; ++i) {
        cl_event done = NULL;
        EXPECT_OK(merge_two(context, clattn_context_queue(context), CLATTN_FLOAT32, no_rows[i], &none, &none, &none, 0,
                            NULL, &done));
        ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
        clReleaseEvent(done);
    }
}
END_TEST

/* As many partials as one command takes, fewer and more, of 16 bits too: the sum over all of them, in float32. */
static void check_many(int count, clattn_type type)
{
    static struct side sides[20], merged;
    clattn_merge_problem problem = CLATTN_MERGE_PROBLEM_INIT;
    clattn_partial partials[20];
    problem.type = type;
    problem.out_type = CLATTN_FLOAT32;
    problem.batch = BATCH;
    problem.heads = HEADS;
    problem.rows = ROWS;
    problem.columns = COLUMNS;
    for (int n = 0; n < count; ++n) {
        side_fill(&sides[n], type, n % 2 ? &strided : &dense, 20 + (uint64_t)n);
        side_upload(&sides[n]);
        partials[n] = sides[n].device;
    }
    side_fill(&merged, CLATTN_FLOAT32, &strided, 19);
    side_upload(&merged);
    EXPECT_OK(
        clattn_merge(context, clattn_context_queue(context), &problem, count, partials, &merged.device, 0, NULL, NULL));
    side_download(&merged);
    for (int64_t row = 0; row < BATCH * HEADS * ROWS; ++row) {
        const int64_t i = row % ROWS, h = row / ROWS % HEADS, b = row / ROWS / HEADS;
        double out[COLUMNS] = { 0 }, lse = -(double)INFINITY, from[COLUMNS];
        for (int n = 0; n < count; ++n) {
            for (int64_t c = 0; c < COLUMNS; ++c) {
                from[c] = type_load(type, sides[n].out, out_at(&sides[n], b, h, i, c));
            }
            merge_row(COLUMNS, out, lse, from, (double)sides[n].lse[lse_at(&sides[n], b, h, i)], out, &lse);
        }
        const double got_lse = (double)merged.lse[lse_at(&merged, b, h, i)];
        ck_assert_msg(isinf(lse) ? got_lse == lse : fabs(got_lse - lse) < 1e-5, "%d: lse %g, %g", count, got_lse, lse);
        for (int64_t c = 0; c < COLUMNS; ++c) {
            const double got = type_load(CLATTN_FLOAT32, merged.out, out_at(&merged, b, h, i, c));
            ck_assert_msg(fabs(got - out[c]) < 4e-6, "%d partials, row %d: %g, expected %g", count, (int)row, got,
                          out[c]);
        }
    }
    for (int n = 0; n < count; ++n) {
        side_release(&sides[n]);
    }
    side_release(&merged);
}

START_TEST(test_many_partials)
{
    static const int counts[] = { 1, 3, 8, 9, 16, 20 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        check_many(counts[i], CLATTN_FLOAT32);
        check_many(counts[i], CLATTN_BFLOAT16);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_many_partials);
    tcase_add_test(tests, test_types_and_strides);
    tcase_add_test(tests, test_in_place);
    tcase_add_test(tests, test_gaps_stay);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_overlaps);
    tcase_add_test(tests, test_empty);
}

int main(void)
{
    return api_main("merging", add);
}
