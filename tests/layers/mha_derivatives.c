/* The reference of the multi-head layer's gradients against differences of the forward reference in float64, which
 * knows nothing of derivatives: every gradient, along a random direction. And what must be refused. */
#include "mha_case.h"

#define GRADIENTS 10
#define STEP 1e-3

struct derivative_case {
    clattn_mha_problem problem;
    clattn_mha_backward_problem backward;
    clattn_mha_host_arrays arrays;
    clattn_mha_host_gradients gradients;
    struct random random;
    int64_t count[GRADIENTS], y_count;
    double *input[GRADIENTS], *gradient[GRADIENTS], *direction[GRADIENTS], *dy, *y;
    uint8_t mask[4 * 7 * 9];
    int32_t lengths[2];
};

static const char *const names[GRADIENTS] = {
    "dx", "dcontext", "dwq", "dwk", "dwv", "dwo", "dbq", "dbk", "dbv", "dbo"
};

static void place(struct derivative_case *c)
{
    const int packed = (c->problem.parts & CLATTN_MHA_PACKED) != 0, cross = (c->problem.parts & CLATTN_MHA_CROSS) != 0;
    clattn_mha_host_arrays *a = &c->arrays;
    clattn_mha_host_gradients *g = &c->gradients;
    const void **const inputs[GRADIENTS] = { &a->x,  &a->context, &a->wq, &a->wk, &a->wv,
                                             &a->wo, &a->bq,      &a->bk, &a->bv, &a->bo };
    void **const gradients[GRADIENTS] = { &g->dx,  &g->dcontext, &g->dwq, &g->dwk, &g->dwv,
                                          &g->dwo, &g->dbq,      &g->dbk, &g->dbv, &g->dbo };
    c->backward.gradients = 0;
    for (int i = 0; i < GRADIENTS; ++i) {
        const int is_part = i == 3 || i == 4 || i == 7 || i == 8;
        if ((i == 1 && !cross) || (is_part && packed)) {
            continue;
        }
        *inputs[i] = c->input[i];
        *gradients[i] = c->gradient[i];
        c->backward.gradients |= 1u << i;
    }
    a->y = c->y;
    g->dy = c->dy;
}

/* Two heads share keys; seven rows of five columns, nine of context with three. */
static void begin(struct derivative_case *c, uint32_t parts, uint64_t seed)
{
    const int cross = (parts & CLATTN_MHA_CROSS) != 0, packed = (parts & CLATTN_MHA_PACKED) != 0;
    const int64_t context_dim = cross && !packed ? 3 : 5, first = packed ? 4 * 3 + 2 * 3 + 2 * 2 : 4 * 3;
    const int64_t counts[GRADIENTS] = {
        2 * 7 * 5, 2 * 9 * context_dim, first * 5, 6 * context_dim, 4 * context_dim, 6 * 8, first, 6, 4, 6
    };
    *c = (struct derivative_case){ .problem = CLATTN_MHA_PROBLEM_INIT,
                                   .backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT,
                                   .arrays = CLATTN_MHA_HOST_ARRAYS_INIT,
                                   .gradients = CLATTN_MHA_HOST_GRADIENTS_INIT,
                                   .random = random_start(seed, parts),
                                   .y_count = 2 * 7 * 6,
                                   .lengths = { 6, 3 } };
    c->problem.type = CLATTN_FLOAT64;
    c->problem.batch = 2;
    c->problem.rows = 7;
    c->problem.context_rows = cross ? 9 : 0;
    c->problem.model_dim = 5;
    c->problem.context_dim = cross && !packed ? context_dim : 0;
    c->problem.query_heads = 4;
    c->problem.kv_heads = 2;
    c->problem.head_dim = 3;
    c->problem.head_dim_v = 2;
    c->problem.out_dim = 6;
    c->problem.parts = parts | CLATTN_MHA_BIASES;
    c->backward.forward = &c->problem;
    memcpy(c->count, counts, sizeof(counts));
    for (int i = 0; i < GRADIENTS; ++i) {
        c->input[i] = layer_test_normal(&c->random, CLATTN_FLOAT64, counts[i], 0.8);
        c->direction[i] = layer_test_normal(&c->random, CLATTN_FLOAT64, counts[i], 1);
        c->gradient[i] = layer_test_poison(counts[i]);
    }
    c->dy = layer_test_normal(&c->random, CLATTN_FLOAT64, c->y_count, 1);
    c->y = layer_test_poison(c->y_count);
    place(c);
}

static void add_masks(struct derivative_case *c)
{
    const int64_t keys = c->problem.context_rows ? 9 : 7;
    for (int64_t i = 0; i < 4 * 7 * keys; ++i) {
        c->mask[i] = (uint8_t)random_chance(&c->random, 0.7);
    }
    c->problem.features = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS;
    c->problem.causal = 1;
    c->problem.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    c->problem.has_scale = 1;
    c->problem.scale = -0.7;
    c->arrays.key_lengths = c->lengths;
    c->arrays.mask.data = c->mask;
    clattn_strides_bhsd(4, 7, keys, c->arrays.mask.stride);
    c->arrays.mask.stride[0] = 0;
}

static void end(struct derivative_case *c)
{
    for (int i = 0; i < GRADIENTS; ++i) {
        free(c->input[i]);
        free(c->direction[i]);
        free(c->gradient[i]);
    }
    free(c->dy);
    free(c->y);
}

/* The loss, dot(dy, y), with one input moved along its direction. */
static double loss(struct derivative_case *c, int input, double step)
{
    double sum = 0;
    for (int64_t i = 0; i < c->count[input]; ++i) {
        c->input[input][i] += step * c->direction[input][i];
    }
    const clattn_status status = clattn_mha_reference(&c->problem, &c->arrays);
    for (int64_t i = 0; i < c->count[input]; ++i) {
        c->input[input][i] -= step * c->direction[input][i];
    }
    for (int64_t i = 0; i < c->y_count; ++i) {
        sum += c->dy[i] * c->y[i];
    }
    return status == CLATTN_OK ? sum : (double)NAN;
}

static void check(struct layer_test *test, struct derivative_case *c)
{
    layer_test_note(test, clattn_mha_backward_reference(&c->backward, &c->arrays, &c->gradients) == CLATTN_OK,
                    "the reference");
    for (int i = 0; i < GRADIENTS; ++i) {
        double found = 0, size = 1e-3;
        if (!(c->backward.gradients >> i & 1)) {
            continue;
        }
        for (int64_t n = 0; n < c->count[i]; ++n) {
            found += c->gradient[i][n] * c->direction[i][n];
            size += fabs(c->gradient[i][n] * c->direction[i][n]);
        }
        const double near = loss(c, i, STEP) - loss(c, i, -STEP), far = loss(c, i, 2 * STEP) - loss(c, i, -2 * STEP);
        const double expected = (8 * near - far) / (12 * STEP);
        const int good = fabs(found - expected) <= 1e-8 * size;
        if (!good) {
            printf("%s: %.12g along a direction, differences give %.12g\n", names[i], found, expected);
        }
        layer_test_note(test, good, names[i]);
    }
}

static void differences(struct layer_test *test, uint32_t parts)
{
    struct derivative_case c;
    begin(&c, parts, test->seed);
    check(test, &c);
    add_masks(&c);
    check(test, &c);
    end(&c);
}

/* ---- what must be refused --------------------------------------------------------------------- */

static void refusals(struct layer_test *test)
{
    float numbers[16] = { 1, 2, 3, 4 }, result[4];
    clattn_mha_problem forward = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_backward_problem p = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_host_arrays a = CLATTN_MHA_HOST_ARRAYS_INIT;
    clattn_mha_host_gradients g = CLATTN_MHA_HOST_GRADIENTS_INIT;
    forward.rows = forward.model_dim = 2;
    forward.query_heads = 1;
    a.x = a.wq = a.wk = a.wv = a.wo = g.dy = numbers;
    g.dx = result;
    p.gradients = CLATTN_MHA_GRADIENT_X;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "forward: must point");
    p.forward = &forward;
    layer_test_note(test, clattn_mha_backward_reference(&p, &a, &g) == CLATTN_OK, "the valid problem");
    p.gradients = 0;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "gradients 0x0");
    p.gradients = 1 << 10;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "gradients 0x400");
    p.gradients = CLATTN_MHA_GRADIENT_CONTEXT;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT,
                       "dcontext needs CLATTN_MHA_CROSS");
    p.gradients = CLATTN_MHA_GRADIENT_BV;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT,
                       "dbv needs CLATTN_MHA_BIAS_VALUE");
    forward.parts = CLATTN_MHA_PACKED;
    p.gradients = CLATTN_MHA_GRADIENT_WK;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT,
                       "dwk is a part of dwq");
    forward.parts = 0;
    p.gradients = CLATTN_MHA_GRADIENT_X;
    p.accumulate = CLATTN_MHA_GRADIENT_WQ;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT,
                       "has gradients that are not asked for");
    p.accumulate = CLATTN_MHA_GRADIENT_X;
    forward.type = CLATTN_BFLOAT16;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "sums in 16 bits");
    p.accumulate = 0;
    p.gradient_type = CLATTN_FLOAT16;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "gradient_type 2");
    p.gradient_type = CLATTN_TYPE_NONE;
    forward.type = CLATTN_FLOAT32;
    forward.weights = CLATTN_MHA_WEIGHTS_HEADS;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_UNSUPPORTED, "has no gradient");
    forward.weights = CLATTN_MHA_WEIGHTS_NONE;
    g.dwq = result;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "dwq: was given");
    g.dwq = NULL;
    g.dx = NULL;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT,
                       "dx: must be given, the problem has it; its shape is [1, 2, 2]");
    g.dx = numbers;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "dx");
    g.dx = result;
    numbers[1] = NAN;
    layer_test_refused(test, clattn_mha_backward_reference(&p, &a, &g), CLATTN_INVALID_ARGUMENT, "wq[0, 1]");
}

int main(int argc, char **argv)
{
    static const uint32_t kinds[] = { 0, CLATTN_MHA_PACKED, CLATTN_MHA_CROSS, CLATTN_MHA_CROSS | CLATTN_MHA_PACKED };
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/mha_derivatives", argc, argv, 0);
    if (skip) {
        return skip;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        differences(&test, kinds[i]);
    }
    refusals(&test);
    return layer_test_end(&test);
}
