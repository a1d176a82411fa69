#include "additive_case.h"

void additive_case_choose(struct additive_case *c, struct random *random)
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

static void fill_lengths(struct additive_case *c, struct random *random)
{
    const clattn_additive_problem *p = &c->problem;
    const int64_t dims[2] = { p->key_dim ? p->key_dim : p->query_dim, p->value_dim };
    const int is_given = c->lengths != NULL;
    c->lengths = is_given ? c->lengths : calloc((size_t)p->batch + 1, sizeof(*c->lengths));
    for (int64_t b = 0; b < p->batch; ++b) {
        c->lengths[b] = is_given ? c->lengths[b] : (int32_t)random_between(random, 0, p->keys);
        for (int i = 0; i < 2; ++i) {
            for (int64_t at = (b * p->keys + c->lengths[b]) * dims[i]; at < (b + 1) * p->keys * dims[i]; ++at) {
                type_store(p->type, c->inputs[1 + i], at, NAN);
            }
        }
    }
    c->arrays.key_lengths = c->lengths;
}

void additive_case_fill(struct additive_case *c, struct random *random)
{
    const clattn_additive_problem *p = &c->problem;
    clattn_additive_host_arrays *a = &c->arrays;
    const int64_t key_dim = p->key_dim ? p->key_dim : p->query_dim;
    const int64_t counts[ADDITIVE_INPUTS] = { p->batch * p->rows * p->query_dim, p->batch * p->keys * key_dim,
                                              p->batch * p->keys * p->value_dim, p->hidden_dim * p->query_dim,
                                              p->hidden_dim * key_dim,           p->hidden_dim };
    const double scales[ADDITIVE_INPUTS] = { 1, 1, 1, 1 / sqrt((double)p->query_dim), 1 / sqrt((double)key_dim), 0.7 };
    const void **const places[ADDITIVE_INPUTS] = { &a->query, &a->key, &a->value, &a->wq, &a->wk, &a->score };
    for (int i = 0; i < ADDITIVE_INPUTS; ++i) {
        c->count[i] = counts[i];
        c->inputs[i] = layer_test_normal(random, p->type, counts[i], scales[i]);
        *places[i] = c->inputs[i];
    }
    c->out_count = p->batch * p->rows * p->value_dim;
    c->weights_count = p->batch * p->rows * p->keys;
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
        fill_lengths(c, random);
    }
}

void additive_case_free(struct additive_case *c)
{
    for (int i = 0; i < ADDITIVE_INPUTS; ++i) {
        free(c->inputs[i]);
    }
    free(c->mask);
    free(c->lengths);
}

void additive_case_describe(const clattn_additive_problem *p, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "%s, batch %d, rows %d, keys %d, query_dim %d, key_dim %d, hidden_dim %d, value_dim %d, features %#x, "
             "causal %d, alignment %d, weights %d",
             clattn_type_name(p->type), (int)p->batch, (int)p->rows, (int)p->keys, (int)p->query_dim, (int)p->key_dim,
             (int)p->hidden_dim, (int)p->value_dim, (unsigned)p->features, p->causal, (int)p->alignment, p->weights);
}
