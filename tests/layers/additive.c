/* usage: additive [--seed N] [--count N | --index N]
 *
 * Additive attention against its reference over random shapes and masks; wrong arguments. A failure prints the command
 * that repeats it. */
#include "clattn_layers.h"
#include "layer_test.h"

#define CALLS 120 /* or CLATTN_TEST_LAYER_CALLS */

struct additive_case {
    clattn_additive_problem problem;
    clattn_additive_host_arrays arrays;
    void *inputs[6], *out[2];
    float *weights[2];
    uint8_t *mask;
    int32_t *lengths;
};

static void choose_problem(struct random *random, struct additive_case *c)
{
    static const clattn_type types[3] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    clattn_additive_problem *p = &c->problem;
    p->type = random_chance(random, 0.5) ? CLATTN_FLOAT32 : types[random_between(random, 0, 2)];
    p->batch = random_between(random, random_chance(random, 0.05) ? 0 : 1, 3);
    p->rows = random_between(random, random_chance(random, 0.05) ? 0 : 1, 40);
    p->keys = random_between(random, 0, 70);
    p->query_dim = random_between(random, 1, 50);
    p->key_dim = random_chance(random, 0.5) ? random_between(random, 1, 50) : 0;
    p->hidden_dim = random_between(random, 1, 150);
    p->value_dim = random_between(random, 1, 40);
    p->features = (random_chance(random, 0.3) ? CLATTN_WITH_MASK : 0) |
                  (random_chance(random, 0.3) ? CLATTN_WITH_KEY_LENGTHS : 0);
    p->causal = random_chance(random, 0.3);
    p->alignment = !p->causal                   ? CLATTN_ALIGN_UNSET
                   : random_chance(random, 0.5) ? CLATTN_ALIGN_TOP_LEFT
                                                : CLATTN_ALIGN_BOTTOM_RIGHT;
    p->weights = random_chance(random, 0.5);
    p->strategy = "plain";
}

static void fill(struct random *random, struct additive_case *c)
{
    const clattn_additive_problem *p = &c->problem;
    clattn_additive_host_arrays *a = &c->arrays;
    const int64_t key_dim = p->key_dim ? p->key_dim : p->query_dim;
    const int64_t counts[6] = { p->batch * p->rows * p->query_dim, p->batch * p->keys * key_dim,
                                p->batch * p->keys * p->value_dim, p->hidden_dim * p->query_dim,
                                p->hidden_dim * key_dim,           p->hidden_dim };
    const double scales[6] = { 1, 1, 1, 1 / sqrt((double)p->query_dim), 1 / sqrt((double)key_dim), 0.7 };
    const void **const places[6] = { &a->query, &a->key, &a->value, &a->wq, &a->wk, &a->score };
    for (int i = 0; i < 6; ++i) {
        c->inputs[i] = layer_test_normal(random, p->type, counts[i], scales[i]);
        *places[i] = c->inputs[i];
    }
    for (int i = 0; i < 2; ++i) {
        c->out[i] = layer_test_poison(p->batch * p->rows * p->value_dim);
        c->weights[i] = layer_test_poison(p->batch * p->rows * p->keys);
    }
    if (p->features & CLATTN_WITH_MASK) {
        c->mask = malloc((size_t)(p->rows * p->keys) + 1);
        for (int64_t i = 0; i < p->rows * p->keys; ++i) {
            c->mask[i] = (uint8_t)random_chance(random, 0.7);
        }
        a->mask.data = c->mask;
        a->mask.stride[2] = p->keys;
        a->mask.stride[3] = 1;
    }
    if (p->features & CLATTN_WITH_KEY_LENGTHS) {
        c->lengths = calloc((size_t)p->batch + 1, sizeof(*c->lengths));
        for (int64_t b = 0; b < p->batch; ++b) {
            c->lengths[b] = (int32_t)random_between(random, 0, p->keys);
            /* NaN in the padding must reach no row. */
            for (int64_t at = (b * p->keys + c->lengths[b]) * key_dim; at < (b + 1) * p->keys * key_dim; ++at) {
                type_store(p->type, c->inputs[1], at, NAN);
            }
        }
        a->key_lengths = c->lengths;
    }
}

static void release(struct additive_case *c)
{
    for (int i = 0; i < 6; ++i) {
        free(c->inputs[i]);
    }
    for (int i = 0; i < 2; ++i) {
        free(c->out[i]);
        free(c->weights[i]);
    }
    free(c->mask);
    free(c->lengths);
}

static void compare(const struct additive_case *c, struct layer_worst *worst)
{
    const clattn_additive_problem *p = &c->problem;
    const double tolerance = layer_test_tolerance(p->type);
    const int64_t out_count = p->batch * p->rows * p->value_dim;
    const struct layer_output out = { "out",
                                      p->type,
                                      3,
                                      { 1, p->batch, p->rows, p->value_dim },
                                      c->out[0],
                                      c->out[1],
                                      tolerance * layer_test_size(p->type, c->out[1], out_count) };
    const struct layer_output weights = {
        "weights", CLATTN_FLOAT32, 3, { 1, p->batch, p->rows, p->keys }, c->weights[0], c->weights[1], 2 * tolerance
    };
    layer_test_compare(worst, &out);
    if (p->weights) {
        layer_test_compare(worst, &weights);
    }
}

static void describe(const clattn_additive_problem *p, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "%s, batch %d, rows %d, keys %d, query_dim %d, key_dim %d, hidden_dim %d, value_dim %d, features %#x, "
             "causal %d, alignment %d, weights %d",
             clattn_type_name(p->type), (int)p->batch, (int)p->rows, (int)p->keys, (int)p->query_dim, (int)p->key_dim,
             (int)p->hidden_dim, (int)p->value_dim, (unsigned)p->features, p->causal, (int)p->alignment, p->weights);
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct additive_case c = { .problem = CLATTN_ADDITIVE_PROBLEM_INIT, .arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT };
    struct layer_worst worst = { .share = 0 };
    char problem[512];
    choose_problem(&random, &c);
    fill(&random, &c);
    const clattn_additive_problem *p = &c.problem;
    c.arrays.out = c.out[0];
    c.arrays.weights = p->weights ? c.weights[0] : NULL;
    clattn_status status = clattn_additive_forward_host(test->context, p, &c.arrays);
    c.arrays.out = c.out[1];
    c.arrays.weights = p->weights ? c.weights[1] : NULL;
    if (status == CLATTN_OK) {
        status = clattn_additive_reference(p, &c.arrays);
    }
    if (status == CLATTN_OK) {
        compare(&c, &worst);
    }
    describe(p, problem, sizeof(problem));
    layer_test_judge(test, index, p->type, status, &worst, problem);
    release(&c);
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
