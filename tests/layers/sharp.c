/* usage: sharp
 *
 * Gradients of layers at logits of 100 to 200, where the rounding of lse to float32 is more than all others.
 *
 * A multi-head layer whose projections change nothing has the gradients of attention by itself, to the bit, and in
 * float32 whatever its type is: tests/gradients/sharp_gradients says what these are. Additive attention's scores are
 * exact here, since each tanh is 1, -1 or 0; its gradients are as exact as the formula in float32, and weights of
 * exactly 1 and 0 give dout as dvalue. */
#include "clattn_additive.h"
#include "clattn_backward.h"
#include "layer_test.h"

#define ROWS 24
#define KEYS 40
#define DIM 16

static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };

/* Elements of a type that float32 holds too. */
struct values {
    void *typed;
    float *wide;
};

static struct values values_new(int64_t count)
{
    const struct values made = { calloc((size_t)count, sizeof(float)), calloc((size_t)count, sizeof(float)) };
    if (!made.typed || !made.wide) {
        abort();
    }
    return made;
}

static void values_set(clattn_type type, const struct values *values, int64_t at, double value)
{
    type_store(type, values->typed, at, value);
    values->wide[at] = (float)type_load(type, values->typed, at);
}

static struct values values_normal(clattn_type type, struct random *random, int64_t count, double scale)
{
    const struct values made = values_new(count);
    for (int64_t i = 0; i < count; ++i) {
        values_set(type, &made, i, scale * random_normal(random));
    }
    return made;
}

static void values_free(struct values *values, int count)
{
    for (int i = 0; i < count; ++i) {
        free(values[i].typed);
        free(values[i].wide);
    }
}

/* ---- the multi-head layer --------------------------------------------------------------------- */

enum { MHA_Q, MHA_K, MHA_V, MHA_DY, MHA_SOURCES };

/* dq, dk and dv of attention by itself. */
static int attention_gradients(const struct layer_test *test, const struct values *in, float *dq, float *dk, float *dv)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    const clattn_host_tensor rows = { NULL, 0, { ROWS * DIM, ROWS * DIM, DIM, 1 } };
    const clattn_host_tensor keys = { NULL, 0, { KEYS * DIM, KEYS * DIM, DIM, 1 } };
    float out[ROWS * DIM], lse[ROWS];
    p.query_len = ROWS;
    p.key_len = KEYS;
    p.head_dim = p.head_dim_v = DIM;
    p.query_heads = p.kv_heads = 1;
    p.features = CLATTN_WITH_LSE;
    p.strategy = backward.strategy = "plain";
    backward.forward = &p;
    backward.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    tensors.query = tensors.out = gradients.dout = gradients.dquery = rows;
    tensors.key = tensors.value = gradients.dkey = gradients.dvalue = keys;
    tensors.query.data = in[MHA_Q].wide;
    tensors.key.data = in[MHA_K].wide;
    tensors.value.data = in[MHA_V].wide;
    tensors.out.data = out;
    tensors.lse = (clattn_host_tensor){ lse, 0, { ROWS, ROWS, 1, 1 } };
    gradients.dout.data = in[MHA_DY].wide;
    gradients.dquery.data = dq;
    gradients.dkey.data = dk;
    gradients.dvalue.data = dv;
    return clattn_forward_host(test->context, &p, NULL, &tensors) == CLATTN_OK &&
           clattn_backward_host(test->context, &backward, NULL, &tensors, &gradients) == CLATTN_OK;
}

/* The context has a key and its value side by side; so have its gradients. */
static int layer_gradients(const struct layer_test *test, clattn_type type, const struct values *in, float *dx,
                           float *dcontext)
{
    clattn_mha_problem p = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_backward_problem backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    clattn_mha_host_gradients gradients = CLATTN_MHA_HOST_GRADIENTS_INIT;
    struct values same = values_new(DIM * DIM), key = values_new(DIM * 2 * DIM);
    struct values value = values_new(DIM * 2 * DIM), context = values_new(KEYS * 2 * DIM);
    for (int c = 0; c < DIM; ++c) {
        values_set(type, &same, c * DIM + c, 1);
        values_set(type, &key, c * 2 * DIM + c, 1);
        values_set(type, &value, c * 2 * DIM + DIM + c, 1);
    }
    for (int j = 0; j < KEYS * DIM; ++j) {
        values_set(type, &context, j / DIM * 2 * DIM + j % DIM, in[MHA_K].wide[j]);
        values_set(type, &context, j / DIM * 2 * DIM + DIM + j % DIM, in[MHA_V].wide[j]);
    }
    p.type = type;
    p.rows = ROWS;
    p.context_rows = KEYS;
    p.model_dim = p.head_dim = DIM;
    p.context_dim = 2 * DIM;
    p.query_heads = p.kv_heads = 1;
    p.parts = CLATTN_MHA_CROSS;
    p.strategy = backward.strategy = "plain";
    backward.forward = &p;
    backward.gradients = CLATTN_MHA_GRADIENT_X | CLATTN_MHA_GRADIENT_CONTEXT;
    backward.gradient_type = CLATTN_FLOAT32;
    arrays.x = in[MHA_Q].typed;
    arrays.context = context.typed;
    arrays.wq = arrays.wo = same.typed;
    arrays.wk = key.typed;
    arrays.wv = value.typed;
    gradients.dy = in[MHA_DY].typed;
    gradients.dx = dx;
    gradients.dcontext = dcontext;
    const clattn_status status = clattn_mha_backward_host(test->context, &backward, &arrays, &gradients);
    values_free((struct values[]){ same, key, value, context }, 4);
    return status == CLATTN_OK;
}

static void check_multi_head(struct layer_test *test, clattn_type type)
{
    struct random random = random_start(test->seed, 1);
    float dq[ROWS * DIM], dk[KEYS * DIM], dv[KEYS * DIM], dx[ROWS * DIM], dcontext[KEYS * 2 * DIM];
    struct values in[MHA_SOURCES] = { values_normal(type, &random, ROWS * DIM, 50),
                                      values_normal(type, &random, KEYS * DIM, 1),
                                      values_normal(type, &random, KEYS * DIM, 1),
                                      values_normal(type, &random, ROWS * DIM, 1) };
    int good = attention_gradients(test, in, dq, dk, dv) && layer_gradients(test, type, in, dx, dcontext);
    good = good && memcmp(dx, dq, sizeof(dx)) == 0;
    for (int j = 0; j < KEYS && good; ++j) {
        good = memcmp(dcontext + j * 2 * DIM, dk + j * DIM, DIM * sizeof(float)) == 0 &&
               memcmp(dcontext + j * 2 * DIM + DIM, dv + j * DIM, DIM * sizeof(float)) == 0;
    }
    layer_test_note(test, good, "a multi-head layer has the gradients of its attention");
    values_free(in, MHA_SOURCES);
}

/* ---- additive attention ----------------------------------------------------------------------- */

#define DRAWS 40
#define LARGE 6 /* hidden units that put a row's logits up; the others tell its keys apart, but the last, which is 0 */
#define UNITS (DIM + 1)
#define VALUES 12

enum { ADD_QUERY, ADD_KEY, ADD_VALUE, ADD_WQ, ADD_WK, ADD_SCORE, ADD_DOUT, ADD_SOURCES };

struct additive_call {
    clattn_type type;
    int rows;
    struct values in[ADD_SOURCES];
    float dvalue[KEYS * VALUES], dwq[UNITS * DIM], dwk[UNITS * DIM], dscore[UNITS];
};

/* A hidden unit's argument is 90, 30 or -30, so that its tanh is 1 or -1; of the last one 0. Scores of keys differ by
 * sixteenths times `apart`. */
static void additive_begin(struct additive_call *c, clattn_type type, int rows, uint64_t draw, double apart)
{
    struct random random = random_start(31, draw);
    *c = (struct additive_call){ .type = type, .rows = rows };
    c->in[ADD_QUERY] = values_new(ROWS * DIM);
    c->in[ADD_KEY] = values_new(KEYS * DIM);
    c->in[ADD_VALUE] = values_normal(type, &random, KEYS * VALUES, 1);
    c->in[ADD_WQ] = values_new(UNITS * DIM);
    c->in[ADD_WK] = values_new(UNITS * DIM);
    c->in[ADD_SCORE] = values_new(UNITS);
    c->in[ADD_DOUT] = values_normal(type, &random, ROWS * VALUES, 1);
    for (int64_t i = 0; i < ROWS * DIM; ++i) {
        values_set(type, &c->in[ADD_QUERY], i, i % DIM < LARGE || random_chance(&random, 0.2) ? 60 : 0);
    }
    for (int64_t j = 0; j < KEYS * DIM; ++j) {
        values_set(type, &c->in[ADD_KEY], j, random_chance(&random, 0.5) ? 30 : -30);
    }
    for (int unit = 0; unit < UNITS; ++unit) {
        const double least = unit < LARGE ? 17 : 0, by = unit < LARGE ? 0.125 : 0.0625 * apart;
        values_set(type, &c->in[ADD_SCORE], unit, least + by * (double)random_between(&random, 1, 24));
        if (unit < DIM) {
            values_set(type, &c->in[ADD_WQ], unit * DIM + unit, 1);
            values_set(type, &c->in[ADD_WK], unit * DIM + unit, 1);
        }
    }
}

static clattn_status additive_run(const struct layer_test *test, struct additive_call *c)
{
    clattn_additive_problem p = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_backward_problem backward = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_host_arrays arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    clattn_additive_host_gradients gradients = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT;
    p.type = c->type;
    p.rows = c->rows;
    p.keys = KEYS;
    p.query_dim = DIM;
    p.hidden_dim = UNITS;
    p.value_dim = VALUES;
    p.strategy = backward.strategy = "plain";
    backward.forward = &p;
    backward.gradients = CLATTN_ADDITIVE_GRADIENT_VALUE | CLATTN_ADDITIVE_GRADIENT_WQ | CLATTN_ADDITIVE_GRADIENT_WK |
                         CLATTN_ADDITIVE_GRADIENT_SCORE;
    backward.gradient_type = CLATTN_FLOAT32;
    arrays.query = c->in[ADD_QUERY].typed;
    arrays.key = c->in[ADD_KEY].typed;
    arrays.value = c->in[ADD_VALUE].typed;
    arrays.wq = c->in[ADD_WQ].typed;
    arrays.wk = c->in[ADD_WK].typed;
    arrays.score = c->in[ADD_SCORE].typed;
    gradients.dout = c->in[ADD_DOUT].typed;
    gradients.dvalue = c->dvalue;
    gradients.dwq = c->dwq;
    gradients.dwk = c->dwk;
    gradients.dscore = c->dscore;
    return clattn_additive_backward_host(test->context, &backward, &arrays, &gradients);
}

static float unit_of(const struct additive_call *c, int unit, int i, int j)
{
    const float argument = unit < DIM ? c->in[ADD_QUERY].wide[i * DIM + unit] + c->in[ADD_KEY].wide[j * DIM + unit] : 0;
    return argument > 0 ? 1 : argument < 0 ? -1.f : 0;
}

/* The formula in REAL. The last unit's rows of dwq and dwk are all that are not 0. */
#define DEFINE_FORMULA(name, REAL, exp_of)                                                                             \
    struct name {                                                                                                      \
        REAL dvalue[KEYS * VALUES], dwq[DIM], dwk[DIM], dscore[UNITS];                                                 \
    };                                                                                                                 \
    static void name##_add_row(struct name *f, const struct additive_call *c, int i)                                   \
    {                                                                                                                  \
        const float *dout = c->in[ADD_DOUT].wide + i * VALUES, *score = c->in[ADD_SCORE].wide;                         \
        REAL weight[KEYS], product[KEYS], most = 0, sum = 0, d = 0;                                                    \
        for (int j = 0; j < KEYS; ++j) {                                                                               \
            weight[j] = product[j] = 0;                                                                                \
            for (int unit = 0; unit < UNITS; ++unit) {                                                                 \
                weight[j] += (REAL)score[unit] * unit_of(c, unit, i, j);                                               \
            }                                                                                                          \
            for (int n = 0; n < VALUES; ++n) {                                                                         \
                product[j] += (REAL)dout[n] * c->in[ADD_VALUE].wide[j * VALUES + n];                                   \
            }                                                                                                          \
            most = weight[j] > most ? weight[j] : most;                                                                \
        }                                                                                                              \
        for (int j = 0; j < KEYS; ++j) {                                                                               \
            weight[j] = exp_of(weight[j] - most);                                                                      \
            sum += weight[j];                                                                                          \
        }                                                                                                              \
        for (int j = 0; j < KEYS; ++j) {                                                                               \
            weight[j] /= sum;                                                                                          \
            d += weight[j] * product[j];                                                                               \
        }                                                                                                              \
        for (int j = 0; j < KEYS; ++j) {                                                                               \
            const REAL ds = weight[j] * (product[j] - d), unit_0 = ds * score[DIM];                                    \
            for (int n = 0; n < VALUES; ++n) {                                                                         \
                f->dvalue[j * VALUES + n] += weight[j] * dout[n];                                                      \
            }                                                                                                          \
            for (int n = 0; n < DIM; ++n) {                                                                            \
                f->dwq[n] += unit_0 * c->in[ADD_QUERY].wide[i * DIM + n];                                              \
                f->dwk[n] += unit_0 * c->in[ADD_KEY].wide[j * DIM + n];                                                \
            }                                                                                                          \
            for (int unit = 0; unit < UNITS; ++unit) {                                                                 \
                f->dscore[unit] += ds * unit_of(c, unit, i, j);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_FORMULA(formula, float, expf)
DEFINE_FORMULA(exact, double, exp)

/* Sums of squares of errors. */
struct errors {
    double own, formula;
};

static void add_errors(struct errors *errors, const float *got, const float *by_formula, const double *right, int count)
{
    for (int i = 0; i < count; ++i) {
        errors->own += (got[i] - right[i]) * (got[i] - right[i]);
        errors->formula += (by_formula[i] - right[i]) * (by_formula[i] - right[i]);
    }
}

static void check_additive(struct layer_test *test, clattn_type type)
{
    static const char *const names[] = { "dvalue", "dwq", "dwk", "dscore" };
    struct errors of[4] = { { 0, 0 } };
    char what[160];
    int good = 1;
    for (uint64_t draw = 0; draw < DRAWS && good; ++draw) {
        struct additive_call c;
        struct formula formula = { .dvalue = { 0 } };
        struct exact exact = { .dvalue = { 0 } };
        additive_begin(&c, type, ROWS, draw, 1);
        good = additive_run(test, &c) == CLATTN_OK;
        for (int i = 0; i < ROWS; ++i) {
            formula_add_row(&formula, &c, i);
            exact_add_row(&exact, &c, i);
        }
        add_errors(&of[0], c.dvalue, formula.dvalue, exact.dvalue, KEYS * VALUES);
        add_errors(&of[1], c.dwq + DIM * DIM, formula.dwq, exact.dwq, DIM);
        add_errors(&of[2], c.dwk + DIM * DIM, formula.dwk, exact.dwk, DIM);
        add_errors(&of[3], c.dscore, formula.dscore, exact.dscore, UNITS);
        values_free(c.in, ADD_SOURCES);
    }
    layer_test_note(test, good, "additive attention, sharp logits");
    for (int g = 0; g < 4; ++g) {
        const double ratio = sqrt(of[g].own / of[g].formula);
        snprintf(what, sizeof(what), "additive attention in %s: %s: %.2f of the formula's error",
                 clattn_type_name(type), names[g], ratio);
        printf("%s\n", what);
        layer_test_note(test, ratio <= 1, what);
    }
}

/* A row whose best key weighs 1, and all others 0. */
static void check_one_hot(struct layer_test *test, clattn_type type)
{
    struct additive_call c;
    additive_begin(&c, type, 1, DRAWS, 512);
    int good = additive_run(test, &c) == CLATTN_OK, hot = 0;
    for (int j = 0; j < KEYS && good; ++j) {
        const float *dvalue = c.dvalue + j * VALUES;
        const int is_dout = memcmp(dvalue, c.in[ADD_DOUT].wide, sizeof(float) * VALUES) == 0;
        hot += is_dout;
        for (int n = 0; n < VALUES; ++n) {
            good = good && (is_dout || dvalue[n] == 0);
        }
    }
    layer_test_note(test, good && hot == 1, "additive attention: weights of exactly 1 and 0: dvalue is dout");
    values_free(c.in, ADD_SOURCES);
}

int main(void)
{
    struct layer_test test;
    const int status = layer_test_start(&test, "tests/layers/sharp", 0, NULL, 0);
    if (status != 0) {
        return status;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        check_multi_head(&test, types[i]);
        check_additive(&test, types[i]);
        check_one_hot(&test, types[i]);
    }
    return layer_test_end(&test);
}
