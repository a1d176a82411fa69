/* How large numbers may be (include/clattn.h, "Range"): up to there every strategy is right. Beyond, a row that leaves
 * the range harms no other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "support/device_options.h"

#define ROWS 5
#define KEYS 40
#define DIM 16
#define RAN_LEAST 3 /* plain and staged take everything here, so does the best */

/* Magnitudes of queries, keys and values, which are these times -1 to 1, and the scale. */
struct magnitudes {
    const char *what;
    double query, key, value, scale;
};

static const struct magnitudes cases[] = {
    { "ordinary", 1, 1, 1, 0.25 },
    { "products of 1e38 and a scale as small as may be", 1e19, 1e18 * 6, 1, 1.2e-38 },
    { "products of 1e38, small queries", 1e2, 1e36 / 2, 1, 5e-38 },
    { "products of 1e38, small keys", 1e36 / 2, 1e2, 1, -5e-38 },
    { "scores of 1e38", 1e3, 1e3, 1, 1e38 / 1e6 / DIM },
    { "scores of 1e38, both ways", 1e10, 1e20, 1, -1e8 / DIM },
    { "values of 1e38 in sum", 1, 1, 1e38 / KEYS, 0.25 },
    { "all of it", 1e19, 1e18 * 6, 1e38 / KEYS, 1.2e-38 },
    { "the smallest", 1e-18, 1e-18, 1e-36, 0.25 },
};

struct arrays {
    float query[ROWS * DIM], key[KEYS * DIM], value[KEYS * DIM], out[ROWS * DIM], lse[ROWS], right[ROWS * DIM],
        right_lse[ROWS];
};

static void fill(float *x, size_t n, double magnitude, unsigned *state)
{
    for (size_t i = 0; i < n; ++i) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = (float)(magnitude * ((double)(*state >> 8) / 8388608.0 - 1));
    }
}

static void set_tensors(struct arrays *arrays, float *out, float *lse, clattn_host_tensors *t)
{
    *t = (clattn_host_tensors)CLATTN_HOST_TENSORS_INIT;
    t->query.data = arrays->query;
    t->key.data = arrays->key;
    t->value.data = arrays->value;
    t->out.data = out;
    t->lse.data = lse;
    clattn_strides_bhsd(1, ROWS, DIM, t->query.stride);
    clattn_strides_bhsd(1, KEYS, DIM, t->key.stride);
    clattn_strides_bhsd(1, KEYS, DIM, t->value.stride);
    clattn_strides_bhsd(1, ROWS, DIM, t->out.stride);
    clattn_strides_bhsd(1, ROWS, 1, t->lse.stride);
}

/* Whether every number is near the right one: as near as sums of 16 products in float32, or 40, are for sure. */
static int is_near(const float *got, const float *right, size_t n, double magnitude)
{
    for (size_t i = 0; i < n; ++i) {
        if (!(fabs((double)got[i] - (double)right[i]) <= 1e-4 * magnitude)) {
            printf("%g, not %g\n", (double)got[i], (double)right[i]);
            return 0;
        }
    }
    return 1;
}

/* Runs a strategy, NULL: the best; 0 where it is not for this device, or not for float32. */
static int run(clattn_problem *p, const clattn_call *call, const clattn_host_tensors *tensors, const char *strategy)
{
    clattn_plan *plan;
    p->strategy = strategy;
    const clattn_status status = clattn_plan_create(context, p, &plan);
    clattn_plan_destroy(plan);
    if (status == CLATTN_UNSUPPORTED) {
        return 0;
    }
    EXPECT_OK(clattn_forward_host(context, p, call, tensors));
    return 1;
}

static void begin(const struct magnitudes *m, struct arrays *arrays, clattn_problem *p, clattn_call *call)
{
    unsigned state = 1;
    fill(arrays->query, ROWS * DIM, m->query, &state);
    fill(arrays->key, KEYS * DIM, m->key, &state);
    fill(arrays->value, KEYS * DIM, m->value, &state);
    *p = (clattn_problem)CLATTN_PROBLEM_INIT;
    p->query_len = ROWS;
    p->key_len = KEYS;
    p->head_dim = DIM;
    p->features = CLATTN_WITH_LSE;
    *call = (clattn_call)CLATTN_CALL_INIT;
    call->has_scale = 1;
    call->scale = m->scale;
}

START_TEST(test_range)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const struct magnitudes *m = &cases[i];
        struct arrays arrays;
        clattn_host_tensors tensors;
        clattn_problem p;
        clattn_call call;
        begin(m, &arrays, &p, &call);
        set_tensors(&arrays, arrays.right, arrays.right_lse, &tensors);
        EXPECT_OK(clattn_reference_forward(&p, &call, &tensors));
        set_tensors(&arrays, arrays.out, arrays.lse, &tensors);
        int ran = 0;
        for (size_t s = 0; s == 0 || strategy_of_table(s - 1); ++s) {
            if (!run(&p, &call, &tensors, strategy_of_table(s))) {
                continue;
            }
            const double score = fabs(m->scale) * m->query * m->key * DIM;
            ck_assert_msg(is_near(arrays.out, arrays.right, ROWS * DIM, m->value), "%s, %s: out", m->what,
                          p.strategy ? p.strategy : "auto");
            ck_assert_msg(is_near(arrays.lse, arrays.right_lse, ROWS, 1 + score), "%s, %s: lse", m->what,
                          p.strategy ? p.strategy : "auto");
            ++ran;
        }
        ck_assert_int_ge(ran, RAN_LEAST);
    }
}
END_TEST

/* The first row's products are beyond float32. */
START_TEST(test_other_rows)
{
    const struct magnitudes m = { "one row", 1e18, 1e18, 1, 1e-37 };
    struct arrays arrays;
    clattn_host_tensors tensors;
    clattn_problem p;
    clattn_call call;
    begin(&m, &arrays, &p, &call);
    for (int d = 0; d < DIM; ++d) {
        arrays.query[d] *= 1e18f;
    }
    set_tensors(&arrays, arrays.right, arrays.right_lse, &tensors);
    EXPECT_OK(clattn_reference_forward(&p, &call, &tensors));
    set_tensors(&arrays, arrays.out, arrays.lse, &tensors);
    for (size_t s = 0; s == 0 || strategy_of_table(s - 1); ++s) {
        if (run(&p, &call, &tensors, strategy_of_table(s))) {
            ck_assert_msg(is_near(arrays.out + DIM, arrays.right + DIM, (ROWS - 1) * DIM, 1) &&
                              is_near(arrays.lse + 1, arrays.right_lse + 1, ROWS - 1, 1),
                          "%s", p.strategy ? p.strategy : "auto");
        }
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_other_rows);
    tcase_add_test(tests, test_range);
}

int main(void)
{
    return api_main("range", add);
}
