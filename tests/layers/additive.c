/* usage: additive [--seed N] [--count N | --index N]
 *
 * Additive attention against its reference over random shapes and masks; wrong arguments. A failure prints the command
 * that repeats it. */
#include "additive_case.h"

#define CALLS 120 /* or CLATTN_TEST_LAYER_CALLS */

/* What the device and the reference wrote. */
struct outputs {
    void *out[2];
    float *weights[2];
};

static void compare(const struct additive_case *c, const struct outputs *o, struct layer_worst *worst)
{
    const clattn_additive_problem *p = &c->problem;
    const double tolerance = layer_test_tolerance(p->type);
    const struct layer_output out = { "out",
                                      p->type,
                                      3,
                                      { 1, p->batch, p->rows, p->value_dim },
                                      o->out[0],
                                      o->out[1],
                                      tolerance * layer_test_size(p->type, o->out[1], c->out_count) };
    const struct layer_output weights = {
        "weights", CLATTN_FLOAT32, 3, { 1, p->batch, p->rows, p->keys }, o->weights[0], o->weights[1], 2 * tolerance
    };
    layer_test_compare(worst, &out);
    if (p->weights) {
        layer_test_compare(worst, &weights);
    }
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct additive_case c = { .problem = CLATTN_ADDITIVE_PROBLEM_INIT, .arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT };
    struct layer_worst worst = { .share = 0 };
    char problem[512];
    struct outputs o;
    additive_case_choose(&c, &random);
    additive_case_fill(&c, &random);
    const clattn_additive_problem *p = &c.problem;
    for (int i = 0; i < 2; ++i) {
        o.out[i] = layer_test_poison(c.out_count);
        o.weights[i] = layer_test_poison(c.weights_count);
    }
    c.arrays.out = o.out[0];
    c.arrays.weights = p->weights ? o.weights[0] : NULL;
    clattn_status status = clattn_additive_forward_host(test->context, p, &c.arrays);
    c.arrays.out = o.out[1];
    c.arrays.weights = p->weights ? o.weights[1] : NULL;
    if (status == CLATTN_OK) {
        status = clattn_additive_reference(p, &c.arrays);
    }
    if (status == CLATTN_OK) {
        compare(&c, &o, &worst);
    }
    additive_case_describe(p, problem, sizeof(problem));
    layer_test_judge(test, index, p->type, status, &worst, problem);
    for (int i = 0; i < 2; ++i) {
        free(o.out[i]);
        free(o.weights[i]);
    }
    additive_case_free(&c);
}

static void refusals(struct layer_test *test)
{
    float data[8] = { 1, 2 }, out[4];
    clattn_additive_problem p = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_host_arrays a = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    p.rows = p.keys = p.query_dim = p.hidden_dim = p.value_dim = 2;
    p.strategy = "plain";
    a.query = a.key = a.value = a.wq = a.wk = a.score = data;
    a.out = out;
    layer_test_note(test, clattn_additive_forward_host(test->context, &p, &a) == CLATTN_OK, "the valid problem");
    p.hidden_dim = 0;
    layer_test_refused(test, clattn_additive_forward_host(test->context, &p, &a), CLATTN_INVALID_SHAPE,
                       "hidden_dim 0: must be > 0");
    p.hidden_dim = 2;
    p.type = CLATTN_FLOAT64;
    layer_test_refused(test, clattn_additive_forward_host(test->context, &p, &a), CLATTN_UNSUPPORTED, "float64");
    p.type = CLATTN_FLOAT32;
    a.score = NULL;
    layer_test_refused(test, clattn_additive_forward_host(test->context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "score: must be given");
    a.score = data;
    data[1] = NAN;
    layer_test_refused(test, clattn_additive_forward_host(test->context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "wq[0, 1] of [2, 2] is NaN");
}

int main(int argc, char **argv)
{
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/additive", argc, argv, CALLS);
    if (skip) {
        return skip;
    }
    for (uint64_t i = 0; i < test.count; ++i) {
        random_call(&test, test.first + i);
    }
    refusals(&test);
    return layer_test_end(&test);
}
