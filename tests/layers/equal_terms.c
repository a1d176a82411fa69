/* usage: equal_terms
 *
 * Layers' long sums of equal terms, whose rounding errors all go one way: projections over 16,384 columns, gradients of
 * weights and biases over 65,536 rows; scores of additive attention over 262,144 hidden units, and what its gradients
 * need of a row over 65,536 columns. The error may be what blocks, and their sums with a rest, leave (docs/numbers.md),
 * whatever the number of terms. */
#include "clattn_additive.h"
#include "layer_test.h"

#define COLUMNS 16384
#define ROWS 65536
#define DIM 16 /* of heads, and of the small side */
#define HIDDEN 262144
#define TERM 1.8f     /* of which long chains err by much */
#define ROUNDINGS 64. /* that are allowed: of 1.8, a chain of 256 errs by 39, one of 1,024 by 159 */

struct expected {
    const char *name;
    const float *got;
    int64_t count;
    double want;
};

static float *filled(int64_t count, float value)
{
    float *array = malloc((size_t)count * sizeof(*array));
    for (int64_t i = 0; array && i < count; ++i) {
        array[i] = value;
    }
    return array;
}

static void judge(struct layer_test *test, const char *projection, clattn_status status, const struct expected *e)
{
    double worst = 0;
    char what[160];
    for (int64_t i = 0; i < e->count; ++i) {
        const double error = fabs((double)e->got[i] - e->want) / (fabs(e->want) * 0x1p-24);
        worst = error <= worst ? worst : error; /* NaN stays */
    }
    snprintf(what, sizeof(what), "%s of %s: %.4g roundings", e->name, projection, worst);
    printf("%s\n", what);
    layer_test_note(test, status == CLATTN_OK && worst <= ROUNDINGS, what);
}

/* v = 16,384 TERM in each column, and y = v. */
static void wide_rows(struct layer_test *test, clattn_projection projection, const char *name)
{
    enum { FEW = 3 };
    clattn_mha_problem p = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    p.rows = FEW;
    p.model_dim = COLUMNS;
    p.query_heads = 1;
    p.head_dim = p.out_dim = DIM;
    p.projection = projection;
    float *x = filled((int64_t)FEW * COLUMNS, TERM), *none = filled((int64_t)DIM * COLUMNS, 0);
    float *wv = filled((int64_t)DIM * COLUMNS, 1), *wo = filled((int64_t)DIM * DIM, 1.f / DIM);
    float *y = filled((int64_t)FEW * DIM, NAN);
    arrays.x = x;
    arrays.y = y;
    arrays.wq = arrays.wk = none;
    arrays.wv = wv;
    arrays.wo = wo;
    const clattn_status status = clattn_mha_forward_host(test->context, &p, &arrays);
    judge(test, name, status, &(struct expected){ "y", y, FEW * DIM, COLUMNS * (double)TERM });
    free(x);
    free(none);
    free(wv);
    free(wo);
    free(y);
}

/* One key a row: its head's output is its value, 1. So dwo and dbo are 65,536 TERM, and, by a matrix wo that adds up to
 * 1, so are dwv and dbv. */
static void many_rows(struct layer_test *test, clattn_projection projection, const char *name)
{
    clattn_mha_problem p = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_backward_problem backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    clattn_mha_host_gradients gradients = CLATTN_MHA_HOST_GRADIENTS_INIT;
    p.batch = ROWS;
    p.rows = 1;
    p.model_dim = p.head_dim = DIM;
    p.query_heads = 1;
    p.parts = CLATTN_MHA_BIASES;
    p.projection = projection;
    p.strategy = backward.strategy = "plain";
    backward.forward = &p;
    backward.gradients = CLATTN_MHA_GRADIENT_WV | CLATTN_MHA_GRADIENT_WO | CLATTN_MHA_GRADIENT_BV |
                         CLATTN_MHA_GRADIENT_BO;
    float *x = filled((int64_t)ROWS * DIM, 1), *dy = filled((int64_t)ROWS * DIM, TERM);
    float *none = filled((int64_t)DIM * DIM, 0), *mean = filled((int64_t)DIM * DIM, 1.f / DIM);
    float *dwv = filled((int64_t)DIM * DIM, NAN), *dwo = filled((int64_t)DIM * DIM, NAN);
    float *dbv = filled(DIM, NAN), *dbo = filled(DIM, NAN);
    arrays.x = x;
    arrays.wq = arrays.wk = arrays.bq = arrays.bk = arrays.bv = arrays.bo = none;
    arrays.wv = arrays.wo = mean;
    gradients.dy = dy;
    gradients.dwv = dwv;
    gradients.dwo = dwo;
    gradients.dbv = dbv;
    gradients.dbo = dbo;
    const clattn_status status = clattn_mha_backward_host(test->context, &backward, &arrays, &gradients);
    const double want = ROWS * (double)TERM;
    const struct expected expected[] = { { "dwv", dwv, DIM * DIM, want },
                                         { "dwo", dwo, DIM * DIM, want },
                                         { "dbv", dbv, DIM, want },
                                         { "dbo", dbo, DIM, want } };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); ++i) {
        judge(test, name, status, &expected[i]);
    }
    free(x);
    free(dy);
    free(none);
    free(mean);
    free(dwv);
    free(dwo);
    free(dbv);
    free(dbo);
}

static clattn_additive_problem additive_problem(int64_t hidden_dim, int64_t value_dim)
{
    clattn_additive_problem p = CLATTN_ADDITIVE_PROBLEM_INIT;
    p.rows = p.query_dim = 1;
    p.keys = 2;
    p.hidden_dim = hidden_dim;
    p.value_dim = value_dim;
    p.strategy = "plain";
    return p;
}

/* Scores of two keys: a sum of equal terms, and of zeros. */
static void many_units(struct layer_test *test)
{
    clattn_additive_problem p = additive_problem(HIDDEN, 1);
    clattn_additive_host_arrays arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    const float query = 0.6f, keys[2] = { 0, 0.6f }, values[2] = { 1, 0 }, term = TERM / HIDDEN;
    float *wq = filled(HIDDEN, 1), *wk = filled(HIDDEN, -1), *score = filled(HIDDEN, term), out = NAN;
    arrays.query = &query;
    arrays.key = keys;
    arrays.value = values;
    arrays.wq = wq;
    arrays.wk = wk;
    arrays.score = score;
    arrays.out = &out;
    const clattn_status status = clattn_additive_forward_host(test->context, &p, &arrays);
    const double want = 1 / (1 + exp(-HIDDEN * (double)term * tanh((double)query)));
    judge(test, "additive scores", status, &(struct expected){ "a weight", &out, 1, want });
    free(wq);
    free(wk);
    free(score);
}

/* Both keys weigh a half; the first one's derivative of the score is -D / 2, a sum of equal terms. */
static void many_columns(struct layer_test *test)
{
    clattn_additive_problem p = additive_problem(1, ROWS);
    clattn_additive_backward_problem backward = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_host_arrays arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    clattn_additive_host_gradients gradients = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT;
    const float zeros[2] = { 0, 0 }, one = 1;
    float *values = filled(2 * (int64_t)ROWS, 0), *dout = filled(ROWS, TERM), dkey[2] = { NAN, NAN };
    for (int64_t c = 0; c < ROWS; ++c) {
        values[ROWS + c] = 2;
    }
    backward.forward = &p;
    backward.gradients = CLATTN_ADDITIVE_GRADIENT_KEY;
    backward.strategy = "plain";
    arrays.query = arrays.key = zeros;
    arrays.value = values;
    arrays.wq = arrays.wk = arrays.score = &one;
    gradients.dout = dout;
    gradients.dkey = dkey;
    const clattn_status status = clattn_additive_backward_host(test->context, &backward, &arrays, &gradients);
    judge(test, "additive attention", status, &(struct expected){ "dkey", dkey, 1, -ROWS * (double)TERM / 2 });
    free(values);
    free(dout);
}

int main(void)
{
    struct layer_test test;
    const int status = layer_test_start(&test, "tests/layers/equal_terms", 0, NULL, 0);
    if (status != 0) {
        return status;
    }
    wide_rows(&test, CLATTN_PROJECTION_LANES, "lanes");
    wide_rows(&test, CLATTN_PROJECTION_TILES, "tiles");
    many_rows(&test, CLATTN_PROJECTION_LANES, "lanes");
    many_rows(&test, CLATTN_PROJECTION_TILES, "tiles");
    many_units(&test);
    many_columns(&test);
    return layer_test_end(&test);
}
