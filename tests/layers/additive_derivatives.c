/* The reference of the gradients of additive attention against the formula in clattn_additive.h, written once more in
 * complex numbers and differentiated by a complex step (Squire and Trapp, 1998): f'(x) = Im f(x + i h) / h, without
 * cancellation. Each gradient, along random directions. And what must be refused. */
#include <complex.h>

#include "additive_case.h"
#include "reference/reference_additive.h"
#include "reference/reference_additive_backward.h"

#define STEP 1e-30
#define DIRECTIONS 3
#define KEYS_MAX 16

struct derivative_case {
    struct additive_case layer;
    clattn_additive_backward_problem problem;
    clattn_additive_host_gradients arrays;
    struct additive_backward_problem checked;
    struct operands operands;
    struct gradient_detail detail;
    double complex *moved[ADDITIVE_INPUTS]; /* the inputs, one of them with an imaginary part */
    double *direction[ADDITIVE_INPUTS];
    void *got[ADDITIVE_INPUTS];
    float *dout;
};

static const char *const names[ADDITIVE_INPUTS] = { "dquery", "dkey", "dvalue", "dwq", "dwk", "dscore" };

/* Seven rows on nine keys in two batch entries, all dimensions different. */
static void begin(struct derivative_case *c, struct random *random, int has_masks)
{
    *c = (struct derivative_case){ .layer = { .problem = CLATTN_ADDITIVE_PROBLEM_INIT,
                                              .arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT },
                                   .problem = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT,
                                   .arrays = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT };
    clattn_additive_problem *p = &c->layer.problem;
    p->batch = 2;
    p->rows = 7;
    p->keys = 9;
    p->query_dim = 4;
    p->key_dim = 3;
    p->hidden_dim = 6;
    p->value_dim = 5;
    if (has_masks) {
        p->features = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS;
        p->causal = 1;
        p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
        c->layer.lengths = malloc(2 * sizeof(*c->layer.lengths));
        c->layer.lengths[0] = 8;
        c->layer.lengths[1] = 5;
    }
    c->problem.forward = p;
    c->problem.gradients = (1u << ADDITIVE_INPUTS) - 1;
    additive_case_fill(&c->layer, random);
    c->dout = layer_test_normal(random, CLATTN_FLOAT32, c->layer.out_count, 1);
    c->arrays.dout = c->dout;
    void **const fields[ADDITIVE_INPUTS] = { &c->arrays.dquery, &c->arrays.dkey, &c->arrays.dvalue,
                                             &c->arrays.dwq,    &c->arrays.dwk,  &c->arrays.dscore };
    for (int i = 0; i < ADDITIVE_INPUTS; ++i) {
        *fields[i] = c->got[i] = layer_test_poison(c->layer.count[i]);
        c->moved[i] = calloc((size_t)c->layer.count[i], sizeof(*c->moved[i]));
        c->direction[i] = layer_test_normal(random, CLATTN_FLOAT64, c->layer.count[i], 1);
    }
}

static void end(struct derivative_case *c)
{
    gradient_detail_free(&c->detail);
    for (int i = 0; i < ADDITIVE_INPUTS; ++i) {
        free(c->moved[i]);
        free(c->direction[i]);
        free(c->got[i]);
    }
    free(c->dout);
    additive_case_free(&c->layer);
}

/* dot(weight[h], row), rows of `dim`. */
static double complex hidden_unit(const double complex *rows, const double complex *weight, int64_t row, int64_t h,
                                  int64_t dim)
{
    double complex sum = 0;
    for (int64_t c = 0; c < dim; ++c) {
        sum += rows[row * dim + c] * weight[h * dim + c];
    }
    return sum;
}

/* What row (b, i) has in L = sum(out dout); its own out too. */
static double complex loss_of_row(const struct derivative_case *c, int64_t b, int64_t i, double *out)
{
    const clattn_additive_problem *p = &c->checked.layer.p;
    double complex weights[KEYS_MAX], sum = 0, loss = 0;
    for (int64_t j = 0; j < p->keys; ++j) {
        double complex logit = 0;
        weights[j] = 0;
        if (additive_is_allowed(&c->checked.layer, &c->operands, b, i, j)) {
            for (int64_t h = 0; h < p->hidden_dim; ++h) {
                logit += c->moved[5][h] *
                         ctanh(hidden_unit(c->moved[0], c->moved[3], b * p->rows + i, h, p->query_dim) +
                               hidden_unit(c->moved[1], c->moved[4], b * p->keys + j, h, p->key_dim));
            }
            weights[j] = cexp(logit);
            sum += weights[j];
        }
    }
    for (int64_t column = 0; column < p->value_dim; ++column) {
        double complex mixed = 0;
        for (int64_t j = 0; j < p->keys; ++j) {
            if (weights[j] != 0) {
                mixed += weights[j] / sum * c->moved[2][(b * p->keys + j) * p->value_dim + column];
            }
        }
        out[column] = creal(mixed);
        loss += mixed * (double)c->dout[(b * p->rows + i) * p->value_dim + column];
    }
    return loss;
}

/* dL along the direction of one input; -1: none. `out` as the formula has it. */
static double derivative(const struct derivative_case *c, int moved, double *out)
{
    const clattn_additive_problem *p = &c->checked.layer.p;
    double sum = 0;
    for (int i = 0; i < ADDITIVE_INPUTS; ++i) {
        for (int64_t n = 0; n < c->layer.count[i]; ++n) {
            const double value = type_load(p->type, c->layer.inputs[i], n);
            c->moved[i][n] = i == moved ? value + I * (STEP * c->direction[i][n]) : value;
        }
    }
    for (int64_t row = 0; row < p->batch * p->rows; ++row) {
        sum += cimag(loss_of_row(c, row / p->rows, row % p->rows, out + row * p->value_dim)) / STEP;
    }
    return sum;
}

/* The formula is the one that the forward reference computes, in float32's rounding. */
static void check_forward(struct layer_test *test, struct derivative_case *c, const double *out)
{
    float got[2 * 7 * 5];
    int good = 1;
    c->layer.arrays.out = got;
    good &= clattn_additive_reference(&c->layer.problem, &c->layer.arrays) == CLATTN_OK;
    for (int64_t n = 0; n < c->layer.out_count; ++n) {
        good &= fabs((double)got[n] - out[n]) <= 1e-5;
    }
    layer_test_note(test, good, "the formula");
}

static void check(struct layer_test *test, struct derivative_case *c, struct random *random)
{
    double out[2 * 7 * 5];
    clattn_status status = any_problem_init(&c->checked.layer.any, &operation_additive_backward, &c->problem);
    if (status == CLATTN_OK) {
        status = any_call_from_host(&c->checked.layer.any, GIVEN(NULL, &c->layer.arrays, &c->arrays), &c->operands);
    }
    if (status == CLATTN_OK) {
        status = reference_additive_backward_detail(&c->checked, &c->operands, &c->detail);
    }
    layer_test_note(test, status == CLATTN_OK, "the reference");
    if (status != CLATTN_OK) {
        return;
    }
    derivative(c, -1, out);
    check_forward(test, c, out);
    for (int n = 0; n < DIRECTIONS * ADDITIVE_INPUTS; ++n) {
        const int i = n % ADDITIVE_INPUTS;
        const double *gradient = c->detail.value[ADDITIVE_DQUERY + i];
        double found = 0, size = 1e-3;
        for (int64_t at = 0; at < c->layer.count[i]; ++at) {
            c->direction[i][at] = random_normal(random);
            found += gradient[at] * c->direction[i][at];
            size += fabs(gradient[at] * c->direction[i][at]);
        }
        const double expected = derivative(c, i, out);
        const int good = fabs(found - expected) <= 1e-13 * size;
        if (!good) {
            printf("%s: %.17g along a direction, not %.17g\n", names[i], found, expected);
        }
        layer_test_note(test, good, names[i]);
    }
}

/* The public reference is the same, stored. */
static void check_stored(struct layer_test *test, struct derivative_case *c)
{
    int good = clattn_additive_backward_reference(&c->problem, &c->layer.arrays, &c->arrays) == CLATTN_OK;
    for (int i = 0; i < ADDITIVE_INPUTS && good; ++i) {
        for (int64_t n = 0; n < c->layer.count[i]; ++n) {
            good &= ((const float *)c->got[i])[n] == (float)c->detail.value[ADDITIVE_DQUERY + i][n];
        }
    }
    layer_test_note(test, good, "what is stored");
}

static void differences(struct layer_test *test, int has_masks)
{
    struct random random = random_start(test->seed, (uint64_t)has_masks);
    struct derivative_case c;
    begin(&c, &random, has_masks);
    check(test, &c, &random);
    check_stored(test, &c);
    end(&c);
}

/* ---- what must be refused --------------------------------------------------------------------- */

#define REFUSED(change, status, part)                                                                                  \
    do {                                                                                                               \
        const clattn_additive_problem forward_before = forward;                                                        \
        const clattn_additive_backward_problem before = p;                                                             \
        const clattn_additive_host_gradients given = g;                                                                \
        change;                                                                                                        \
        layer_test_refused(test, clattn_additive_backward_reference(&p, &a, &g), status, part);                        \
        forward = forward_before;                                                                                      \
        p = before;                                                                                                    \
        g = given;                                                                                                     \
    } while (0)

static void refusals(struct layer_test *test)
{
    float numbers[8] = { 1, 2, 3, 4 }, result[4];
    clattn_additive_problem forward = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_backward_problem p = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_host_arrays a = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    clattn_additive_host_gradients g = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT;
    forward.rows = forward.keys = forward.query_dim = forward.hidden_dim = forward.value_dim = 2;
    a.query = a.key = a.value = a.wq = a.wk = a.score = g.dout = numbers;
    g.dquery = result;
    p.forward = &forward;
    p.gradients = CLATTN_ADDITIVE_GRADIENT_QUERY;
    layer_test_note(test, clattn_additive_backward_reference(&p, &a, &g) == CLATTN_OK, "the valid problem");
    REFUSED(p.forward = NULL, CLATTN_INVALID_ARGUMENT, "forward: must point");
    REFUSED(p.gradients = 0, CLATTN_INVALID_ARGUMENT, "gradients 0x0");
    REFUSED(p.gradients = 1 << 6, CLATTN_INVALID_ARGUMENT, "gradients 0x40: must be one or more of CLATTN_ADDITIVE_");
    REFUSED(p.accumulate = CLATTN_ADDITIVE_GRADIENT_WQ, CLATTN_INVALID_ARGUMENT,
            "has gradients that are not asked for");
    REFUSED(p.accumulate = 1; forward.type = CLATTN_BFLOAT16, CLATTN_INVALID_ARGUMENT, "sums in 16 bits");
    REFUSED(p.gradient_type = CLATTN_FLOAT16, CLATTN_INVALID_ARGUMENT, "gradient_type 2");
    REFUSED(forward.weights = 1, CLATTN_UNSUPPORTED, "weights 1: the weights output has no gradient");
    REFUSED(forward.type = CLATTN_FLOAT64, CLATTN_UNSUPPORTED, "float64");
    REFUSED(forward.batch = 1 << 20; forward.keys = 1 << 20, CLATTN_INVALID_SHAPE, "batch * keys");
    REFUSED(g.dwq = result, CLATTN_INVALID_ARGUMENT, "dwq: was given");
    REFUSED(g.dout = NULL, CLATTN_INVALID_ARGUMENT, "dout: must be given");
    REFUSED(g.dquery = NULL, CLATTN_INVALID_ARGUMENT,
            "dquery: must be given, the problem has it; its shape is [1, 2, 2]");
    REFUSED(g.dquery = numbers, CLATTN_INVALID_ARGUMENT, "dquery");
    numbers[1] = NAN;
    REFUSED((void)0, CLATTN_INVALID_ARGUMENT, "wq[0, 1]");
}

int main(int argc, char **argv)
{
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/additive_derivatives", argc, argv, 0);
    if (skip) {
        return skip;
    }
    differences(&test, 0);
    differences(&test, 1);
    refusals(&test);
    return layer_test_end(&test);
}
