/* clattn_merge of many parts, by terms whose rounding errors are no accident: equal ones, signs in turns, a large
 * weight and small ones, a maximum that creeps. What it errs may not grow with the number of parts. And parts in whose
 * place the result is. Parts are few in memory: lse are a buffer's, outs two numbers. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "api.h"

#define UNIT 0x1p-24
#define MANY 65537

/* Part n: its lse, in steps of `rise`, and its out. */
struct terms {
    const char *name;
    float first_lse, lse, rise, even, odd;
};

static const struct terms kinds[] = {
    { "equal", 0.3f, 0.3f, 0, 1.1f, 1.1f },           { "signs in turns", 0, 0, 0, 1.3f, -1.1f },
    { "one large weight", 0, -16.7f, 0, 1.1f, 1.1f }, { "a maximum creeps", 0, 0, 0x1p-12f, 1.1f, 1.1f },
    { "weights fall", 0, 0, -0x1p-10f, 1.1f, 0.7f },
};

static float lses[MANY];
static clattn_partial parts[MANY];

static cl_mem buffer_of(const void *content, size_t bytes)
{
    cl_mem buffer = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                   (void *)content, NULL);
    ck_assert_ptr_nonnull(buffer);
    return buffer;
}

static clattn_merge_problem problem_of(clattn_type type, clattn_type out_type)
{
    clattn_merge_problem problem = CLATTN_MERGE_PROBLEM_INIT;
    problem.type = type;
    problem.out_type = out_type;
    problem.rows = problem.columns = 1;
    return problem;
}

static clattn_partial partial_at(cl_mem out, int64_t out_offset, cl_mem lse, int64_t lse_offset)
{
    clattn_partial partial = { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
    partial.out.buffer = out;
    partial.out.offset = out_offset;
    partial.lse.buffer = lse;
    partial.lse.offset = lse_offset;
    for (int axis = 0; axis < 4; ++axis) {
        partial.out.stride[axis] = partial.lse.stride[axis] = 1;
    }
    return partial;
}

static float read_float(const clattn_tensor *tensor)
{
    float value = NAN;
    ck_assert_int_eq(clEnqueueReadBuffer(clattn_context_queue(context), tensor->buffer, CL_TRUE,
                                         (size_t)tensor->offset * sizeof(value), sizeof(value), &value, 0, NULL, NULL),
                     CL_SUCCESS);
    return value;
}

/* Roundings: of weights and the products with outs, of rescales 6, of sums and the end; lse's own beside them. */
static void expect_terms(const struct terms *t, int count, double got_out, double got_lse)
{
    long double sum = 0, total = 0, magnitudes = 0;
    float top = lses[0];
    for (int n = 0; n < count; ++n) {
        top = lses[n] > top ? lses[n] : top;
    }
    for (int n = 0; n < count; ++n) {
        const long double weight = expl((long double)lses[n] - (long double)top);
        sum += weight;
        total += weight * (long double)(n % 2 ? t->odd : t->even);
        magnitudes += weight * (long double)fabsf(n % 2 ? t->odd : t->even);
    }
    const double lse = (double)((long double)top + logl(sum)), out = (double)(total / sum);
    const double of_out = fabs(got_out - out) / (double)(magnitudes / sum), of_lse = fabs(got_lse - lse);
    ck_assert_msg(of_out <= 16 * UNIT, "%s, %d parts: out is off by %.3g u", t->name, count, of_out / UNIT);
    ck_assert_msg(of_lse <= (16 + 2 * fabs(lse)) * UNIT, "%s, %d parts: lse %g is off by %.3g u", t->name, count, lse,
                  of_lse / UNIT);
}

START_TEST(test_error_is_that_of_few)
{
    static const int counts[] = { 1, 9, 4096, MANY };
    const struct terms *t = &kinds[_i];
    const float outs[3] = { t->even, t->odd, NAN }, none = NAN;
    const clattn_merge_problem problem = problem_of(CLATTN_FLOAT32, CLATTN_TYPE_NONE);
    for (int n = 0; n < MANY; ++n) {
        lses[n] = (n == 0 ? t->first_lse : t->lse) + (float)n * t->rise;
    }
    const cl_mem out = buffer_of(outs, sizeof(outs)), lse = buffer_of(lses, sizeof(lses));
    const cl_mem merged_lse = buffer_of(&none, sizeof(none));
    const clattn_partial merged = partial_at(out, 2, merged_lse, 0);
    for (int n = 0; n < MANY; ++n) {
        parts[n] = partial_at(out, n % 2, lse, n);
    }
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); ++n) {
        EXPECT_OK(
            clattn_merge(context, clattn_context_queue(context), &problem, counts[n], parts, &merged, 0, NULL, NULL));
        expect_terms(t, counts[n], (double)read_float(&merged.out), (double)read_float(&merged.lse));
    }
    clReleaseMemObject(out);
    clReleaseMemObject(lse);
    clReleaseMemObject(merged_lse);
}
END_TEST

/* Part n has out n and the weight 2^n, but for parts that see nothing, whose outs are NaN: whichever part's place the
 * result takes. */
START_TEST(test_in_place_of_each)
{
    enum { PARTS = 2 * CLATTN_MERGE_AT_ONCE + 1, UNSEEN = 4 };
    for (int place = 0; place < PARTS; ++place) {
        float outs[PARTS], lse[PARTS];
        double sum = 0, total = 0;
        for (int n = 0; n < PARTS; ++n) {
            const int is_seen = n % UNSEEN != 1;
            outs[n] = is_seen ? (float)n : NAN;
            lse[n] = is_seen ? (float)(n * log(2)) : -INFINITY;
            sum += is_seen ? ldexp(1, n) : 0;
            total += is_seen ? ldexp(n, n) : 0;
        }
        const cl_mem out = buffer_of(outs, sizeof(outs)), of_lse = buffer_of(lse, sizeof(lse));
        const clattn_merge_problem problem = problem_of(CLATTN_FLOAT32, CLATTN_TYPE_NONE);
        for (int n = 0; n < PARTS; ++n) {
            parts[n] = partial_at(out, n, of_lse, n);
        }
        EXPECT_OK(
            clattn_merge(context, clattn_context_queue(context), &problem, PARTS, parts, &parts[place], 0, NULL, NULL));
        const double got = (double)read_float(&parts[place].out), got_lse = (double)read_float(&parts[place].lse);
        ck_assert_msg(fabs(got - total / sum) < 1e-5, "place %d: %g, not %g", place, got, total / sum);
        ck_assert_msg(fabs(got_lse - log(sum)) < 1e-5, "place %d: lse %g, not %g", place, got_lse, log(sum));
        clReleaseMemObject(out);
        clReleaseMemObject(of_lse);
    }
}
END_TEST

/* Many parts that see nothing are a row that sees nothing; one among them that sees a key is the result, to the bit. */
START_TEST(test_parts_that_see_nothing)
{
    enum { PARTS = 3 * CLATTN_MERGE_AT_ONCE };
    for (int seen = -1; seen < PARTS; seen += 5) {
        float outs[PARTS + 1], lse[PARTS + 1];
        for (int n = 0; n <= PARTS; ++n) {
            outs[n] = n == seen ? 1.1f : NAN;
            lse[n] = n == seen ? -FLT_MAX : -INFINITY;
        }
        const cl_mem out = buffer_of(outs, sizeof(outs)), of_lse = buffer_of(lse, sizeof(lse));
        const clattn_merge_problem problem = problem_of(CLATTN_FLOAT32, CLATTN_TYPE_NONE);
        for (int n = 0; n <= PARTS; ++n) {
            parts[n] = partial_at(out, n, of_lse, n);
        }
        EXPECT_OK(
            clattn_merge(context, clattn_context_queue(context), &problem, PARTS, parts, &parts[PARTS], 0, NULL, NULL));
        ck_assert_float_eq(read_float(&parts[PARTS].out), seen < 0 ? 0 : outs[seen]);
        ck_assert_float_eq(read_float(&parts[PARTS].lse), seen < 0 ? -INFINITY : lse[seen]);
        clReleaseMemObject(out);
        clReleaseMemObject(of_lse);
    }
}
END_TEST

/* 16 bits are rounded once, at the end: 65,537 times 1.1 is bfloat16's 1.1. */
START_TEST(test_sixteen_bits)
{
    const uint16_t outs[2] = { 0x3f8d, 0 }; /* 1.1015625 */
    const float lse[2] = { 0.3f, NAN };
    uint16_t got = 0;
    const cl_mem out = buffer_of(outs, sizeof(outs)), of_lse = buffer_of(lse, sizeof(lse));
    const clattn_merge_problem problem = problem_of(CLATTN_BFLOAT16, CLATTN_BFLOAT16);
    const clattn_partial merged = partial_at(out, 1, of_lse, 1);
    for (int n = 0; n < MANY; ++n) {
        parts[n] = partial_at(out, 0, of_lse, 0);
    }
    EXPECT_OK(clattn_merge(context, clattn_context_queue(context), &problem, MANY, parts, &merged, 0, NULL, NULL));
    ck_assert_int_eq(clEnqueueReadBuffer(clattn_context_queue(context), out, CL_TRUE, sizeof(got), sizeof(got), &got, 0,
                                         NULL, NULL),
                     CL_SUCCESS);
    ck_assert_int_eq(got, outs[0]);
    clReleaseMemObject(out);
    clReleaseMemObject(of_lse);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_loop_test(tests, test_error_is_that_of_few, 0, (int)(sizeof(kinds) / sizeof(kinds[0])));
    tcase_add_test(tests, test_in_place_of_each);
    tcase_add_test(tests, test_parts_that_see_nothing);
    tcase_add_test(tests, test_sixteen_bits);
}

int main(void)
{
    return api_main("many parts", add);
}
