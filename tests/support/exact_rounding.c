#include "exact_rounding.h"

int ties_round_to_even(struct exact *e)
{
    const int64_t columns = EXACT_HEAD_DIM_V;
    const double base = e->type == CLATTN_BFLOAT16 ? 128 : e->type == CLATTN_FLOAT16 ? 1024 : 8388608;
    clattn_problem p = exact_problem(e, 1, 1, 1, 5, 2, EXACT_HEAD_DIM, columns);
    struct test_call test;
    exact_build(&test, &p, 0);
    struct random random = random_start(13, 0);
    test_call_fill(&test, TENSOR_QUERY, &random, value_zero, NULL);
    for (int64_t c = 0; c < columns; ++c) {
        test_call_set(&test, TENSOR_VALUE, 0, 0, 0, c, base + (double)c);
        test_call_set(&test, TENSOR_VALUE, 0, 0, 1, c, base + (double)c + 1);
    }
    int status = exact_run(e, &test);
    struct exact_row row = { &test, 0, 0, 0 };
    for (int64_t n = 0; n < 5 * columns && status == 0; ++n) {
        row.i = n / columns;
        double middle = base + (double)(n % columns) + 0.5;
        status = exact_same_value(e, &row, n % columns, exact_rounded(e, middle));
    }
    test_call_free(&test);
    return status;
}

/* Two problems that differ in types alone, on the same values: out of `mixed`, rounded to e->type, is out of `narrow`.
 * By one strategy: the planner may choose another for other types, whose sums have another order. */
static int rounds_to_narrow(struct exact *e, const clattn_problem *narrow_problem, const clattn_problem *mixed_problem)
{
    struct test_call narrow, mixed;
    exact_build(&narrow, narrow_problem, 0);
    exact_build(&mixed, mixed_problem, 0);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        exact_copy_entry(&mixed, 0, &narrow, 0, (enum tensor_id)id);
    }
    int64_t n[4];
    test_call_shape(&narrow, TENSOR_OUT, n);
    int status = exact_run(e, &narrow) || exact_run(e, &mixed) ? -1 : 0;
    struct exact_row row = { &narrow, 0, 0, 0 };
    for (row.h = 0; row.h < n[1]; ++row.h) {
        for (row.i = 0; row.i < n[2]; ++row.i) {
            for (int64_t c = 0; c < n[3] && status == 0; ++c) {
                const double wide = test_call_get(&mixed, TENSOR_OUT, 0, row.h, row.i, c);
                status = exact_same_value(e, &row, c, exact_rounded(e, wide));
            }
        }
    }
    test_call_free(&narrow);
    test_call_free(&mixed);
    return status;
}

static int wide_out_rounds(struct exact *e, int64_t rows, int64_t keys)
{
    if (!e->strategy) {
        e->declined = 1;
        return -1;
    }
    clattn_problem narrow = exact_problem(e, 1, 4, 4, rows, keys, EXACT_HEAD_DIM, EXACT_HEAD_DIM_V), mixed = narrow;
    mixed.out_type = e->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    return rounds_to_narrow(e, &narrow, &mixed);
}

int wide_out_of_many_rows_rounds(struct exact *e)
{
    return wide_out_rounds(e, 43, 210);
}

int wide_out_of_few_rows_rounds(struct exact *e)
{
    return wide_out_rounds(e, 3, 1100);
}
