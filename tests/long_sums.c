/* usage: long_sums [--strategy S,S...] [--device D]
 *
 * Sums of many terms whose rounding errors are no accident: equal ones, signs in turns, one large and many small,
 * rising and falling, and dot products of equal columns, against what long double makes of them. Errors may be what
 * docs/numbers.md derives, whatever the number of terms. Keys are few in memory: a page of them stands for many. Up to
 * 2^28 keys with CLATTN_TEST_LONG, else up to 2^20; kernels of GPUs, on a CPU, and staged fewer. Strategies: all of the
 * table, in the first way of those below that they take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "program/gemm.h"
#include "reference/sum_bound.h"
#include "support/device_options.h"

#define UNIT 0x1p-24
#define PAGE ((int64_t)1 << 16)

/* What strategies multiply: numbers of `type`, which are of `exact` too, so that tf32 rounds none of them; and what
 * they store. */
static const struct way {
    clattn_type type, exact;
    int allow_tf32;
    clattn_type out;
    double out_rounding; /* half an ulp of out, as a share of it */
} ways[] = { { CLATTN_FLOAT32, CLATTN_FLOAT32, 0, CLATTN_FLOAT32, 0 },
             { CLATTN_FLOAT32, CLATTN_FLOAT16, 1, CLATTN_FLOAT32, 0 },
             { CLATTN_BFLOAT16, CLATTN_BFLOAT16, 0, CLATTN_FLOAT32, 0 },
             { CLATTN_FLOAT16, CLATTN_FLOAT16, 0, CLATTN_FLOAT16, 0x1p-11 } };

/* Key j of n: its logit and its value. In pages, the first two say what all have. */
struct terms {
    const char *name;
    double first_logit, logit, first_value, even, odd; /* of key 0, and of others */
    double rise;                                       /* of the value, over all keys */
    double slope;                                      /* of the logit, over all keys: up to it, or down from it */
};

static const struct terms kinds[] = {
    { "equal", 0.3, 0.3, 1.1, 1.1, 1.1, 0, 0 },
    { "signs in turns", 0, 0, 1.3, 1.3, -1.1, 0, 0 },
    { "one large value", 0, 0, 32768, 1, 1, 0, 0 },
    { "one large weight", 0, -16.7, 1.1, 1.1, 1.1, 0, 0 },
    { "values rise", 0, 0, 1.1, 1.1, 1.1, 1, 0 },
    { "values fall", 0, 0, 2.1, 2.1, 2.1, -1, 0 },
    { "weights rise", 0, 0, 1.1, 1.1, 1.1, 0, 8 },
    { "weights fall", 0, 0, 1.1, 1.1, 1.1, 0, -8 },
    { "a maximum creeps", 0, 0, 1.1, 1.1, 1.1, 0, 0x1p-6 },
    /* 16,387 keys leave nearly nothing, which an out of 16 bits holds nearly exactly. */
    { "one against all", 0, -1, 6628, -1.1, -1.1, 0, 0 },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct run {
    clattn_context *context;
    const char *strategy;
    const struct way *way;
    double largest; /* error, as a share of what is allowed */
    int passed, failed, declined;
};

static double rounded(clattn_type type, double value)
{
    double memory = 0;
    type_store(type, &memory, 0, value);
    return type_load(type, &memory, 0);
}

/* How many keys there are, and how they come: in pages, as tensors, their slopes as such or in their logits. */
struct keys {
    int64_t count;
    int in_pages, by_slopes;
};

static double logit_of(const struct terms *t, int64_t j, const struct keys *keys)
{
    const int64_t below = t->slope > 0 ? keys->count - 1 - j : j;
    const double slope = keys->by_slopes ? 0 : fabs(t->slope) * (double)below / (double)keys->count;
    return (j == 0 ? t->first_logit : t->logit) - slope;
}

static double value_of(const struct terms *t, int64_t j, const struct keys *keys)
{
    const double turn = j == 0 ? t->first_value : j % 2 ? t->odd : t->even;
    return turn + t->rise * (double)j / (double)keys->count;
}

/* ---- what is right ----------------------------------------------------------------------------- */

struct expected {
    long double weights, products, magnitudes; /* sums, of weights over the largest logit */
    double largest_logit;
};

static void add_key(struct expected *e, long double weight, double value)
{
    e->weights += weight;
    e->products += weight * (long double)value;
    e->magnitudes += weight * fabsl((long double)value);
}

/* Weights in a geometric row, values alike. */
static struct expected expect_slope(const struct terms *t, int64_t keys, double slope, clattn_type type)
{
    const long double sum = expm1l(-(long double)keys * (long double)slope) / expm1l(-(long double)slope);
    const long double products = sum * (long double)rounded(type, t->even);
    return (struct expected){ sum, products, products, rounded(type, t->logit) };
}

/* In pages: key 0, and the next two with what they stand for; else each key. */
static struct expected expect(const struct terms *t, const struct keys *keys, clattn_type type)
{
    const double first = rounded(type, logit_of(t, 0, keys)), last = rounded(type, logit_of(t, keys->count - 1, keys));
    struct expected e = { 0, 0, 0, first > last ? first : last };
    long double weight = expl((long double)first - (long double)e.largest_logit);
    add_key(&e, weight, rounded(type, value_of(t, 0, keys)));
    if (keys->in_pages) {
        const int64_t odd = keys->count / 2, even = (keys->count + 1) / 2 - 1;
        weight = expl((long double)last - (long double)e.largest_logit);
        add_key(&e, weight * (long double)odd, rounded(type, value_of(t, 1, keys)));
        add_key(&e, weight * (long double)even, rounded(type, value_of(t, 2, keys)));
        return e;
    }
    for (int64_t j = 1; j < keys->count; ++j) {
        const double logit = rounded(type, logit_of(t, j, keys));
        weight = j == 1 || t->slope != 0 ? expl((long double)logit - (long double)e.largest_logit) : weight;
        add_key(&e, weight, rounded(type, value_of(t, j, keys)));
    }
    return e;
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* What a plan may err by: the bound's c, in units of 4 roundings, and what weights are rounded by, but those of 1. */
struct allowed {
    double sums, weights;
};

static void note(struct run *run, const char *what, int64_t terms, double error, double allowed)
{
    const int good = error <= allowed;
    printf("%s: %s, %lld terms: %.3g u%s\n", run->strategy, what, (long long)terms, error / UNIT,
           good ? "" : ", FAILED");
    run->passed += good;
    run->failed += !good;
    run->largest = fmax(run->largest, error / allowed);
}

static clattn_problem problem_of(const struct run *run, int64_t keys, int64_t head_dim)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.key_len = keys;
    p.query_len = 1;
    p.head_dim = head_dim;
    p.head_dim_v = 1;
    p.type = run->way->type;
    p.out_type = run->way->out;
    p.allow_tf32 = run->way->allow_tf32;
    p.features = CLATTN_WITH_LSE;
    strategy_set(&p, run->strategy);
    return p;
}

static clattn_host_tensor tensor_at(void *data, int64_t row_stride)
{
    return (clattn_host_tensor){ data, 0, { 0, 0, row_stride, 1 } };
}

/* Runs it; 0: the strategy does not take such a call, or it failed, which is counted. */
static int attend(struct run *run, const clattn_problem *p, const clattn_call *call, const clattn_host_tensors *tensors,
                  struct allowed *allowed)
{
    clattn_plan *plan = NULL;
    clattn_status status = clattn_plan_create(run->context, p, &plan);
    if (status == CLATTN_UNSUPPORTED) {
        ++run->declined;
        return 0;
    }
    allowed->sums = sum_bound((double)p->key_len, clattn_plan_sum_roundings(plan));
    allowed->weights = clattn_plan_weight_rounding(plan);
    clattn_plan_destroy(plan);
    if (status == CLATTN_OK) {
        status = clattn_forward_host(run->context, p, call, tensors);
    }
    if (status != CLATTN_OK) {
        printf("%s: %s\n", run->strategy, clattn_last_error());
        ++run->failed;
    }
    return status == CLATTN_OK;
}

static void fill(const struct terms *t, const struct keys *keys, const struct way *way, int64_t stored, void *key,
                 void *value)
{
    for (int64_t j = 0; j < stored; ++j) {
        type_store(way->type, key, j, rounded(way->exact, logit_of(t, j, keys)));
        type_store(way->type, value, j, rounded(way->exact, value_of(t, j, keys)));
    }
}

static void judge(struct run *run, const struct terms *t, const struct keys *keys, const struct expected *e,
                  const struct allowed *allowed, long double out, long double lse)
{
    const long double right = e->products / e->weights, right_lse = (long double)e->largest_logit + logl(e->weights);
    const double logits = fabs(e->largest_logit) + fabs(t->slope), of_lse = logits + fabs((double)right_lse);
    const double weights = t->slope != 0 || t->logit != t->first_logit ? allowed->weights : 0;
    const double rounding = run->way->out_rounding * (double)(fabsl(right) * e->weights / e->magnitudes);
    note(run, t->name, keys->count, (double)(fabsl(out - right) * e->weights / e->magnitudes),
         4 * UNIT * (logits + allowed->sums + 8) + weights + rounding);
    note(run, "their lse", keys->count, (double)fabsl(lse - right_lse), 4 * UNIT * (of_lse + allowed->sums / 2 + 8));
}

static void run_terms(struct run *run, const struct terms *t, const struct keys *keys)
{
    const size_t bytes = clattn_type_size(run->way->type);
    const int64_t stored = keys->in_pages ? 2 * PAGE : keys->count, pages = (keys->count + PAGE - 1) / PAGE;
    clattn_problem p = problem_of(run, keys->count, 1);
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    unsigned char out[8] = { 0 };
    float lse = NAN, slope = (float)(fabs(t->slope) / (double)keys->count);
    int32_t length = (int32_t)keys->count, *table = calloc((size_t)pages, sizeof(*table));
    unsigned char query[8], *key = malloc((size_t)stored * bytes), *value = malloc((size_t)stored * bytes);
    if (!table || !key || !value) {
        abort();
    }
    fill(t, keys, run->way, stored, key, value);
    type_store(run->way->type, query, 0, 1);
    for (int64_t n = 1; n < pages; ++n) {
        table[n] = 1;
    }
    call.has_scale = 1;
    call.scale = 1;
    tensors.query = tensor_at(query, 1);
    tensors.key = tensor_at(key, 1);
    tensors.value = tensor_at(value, 1);
    tensors.out = tensor_at(out, 1);
    tensors.lse = tensor_at(&lse, 1);
    if (keys->in_pages) {
        p.features |= CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
        p.page_size = PAGE;
        p.pages = 2;
        tensors.key.stride[0] = tensors.value.stride[0] = PAGE;
        tensors.page_table = tensor_at(table, pages);
        tensors.key_lengths = tensor_at(&length, 1);
    }
    if (keys->by_slopes) {
        p.features |= CLATTN_WITH_SLOPES;
        p.alignment = t->slope > 0 ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_TOP_LEFT;
        tensors.slopes = tensor_at(&slope, 1);
    }
    struct allowed allowed;
    if (attend(run, &p, &call, &tensors, &allowed)) {
        const struct expected e = keys->by_slopes ? expect_slope(t, keys->count, (double)slope, run->way->exact)
                                                  : expect(t, keys, run->way->exact);
        judge(run, t, keys, &e, &allowed, (long double)type_load(run->way->out, out, 0), (long double)lse);
    }
    free(table);
    free(key);
    free(value);
}

/* A dot product of equal columns, as large as 1. */
static void run_columns(struct run *run, int64_t columns)
{
    enum { KEYS = 5 };
    const clattn_type type = run->way->type;
    const double of_query = rounded(run->way->exact, 1.1), of_key = rounded(run->way->exact, 0.7);
    const size_t bytes = clattn_type_size(type);
    const clattn_problem p = problem_of(run, KEYS, columns);
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_call call = CLATTN_CALL_INIT;
    float lse = NAN;
    unsigned char *query = malloc((size_t)columns * bytes), *key = malloc((size_t)columns * bytes), value[8], out[8];
    if (!query || !key) {
        abort();
    }
    for (int64_t c = 0; c < columns; ++c) {
        type_store(type, query, c, of_query);
        type_store(type, key, c, of_key);
    }
    type_store(type, value, 0, 1);
    call.has_scale = 1;
    call.scale = 1 / (double)columns;
    tensors.query = tensor_at(query, columns);
    tensors.key = tensor_at(key, 0);
    tensors.value = tensor_at(value, 0);
    tensors.out = tensor_at(out, 1);
    tensors.lse = tensor_at(&lse, 1);
    struct allowed allowed;
    if (attend(run, &p, &call, &tensors, &allowed)) {
        const double logit = (double)(float)call.scale * (double)columns * of_query * of_key;
        note(run, "equal columns", columns, fabs((double)lse - logit - log(KEYS)),
             4 * UNIT * (sqrt((double)columns) * logit + fabs(logit + log(KEYS)) + allowed.sums / 2 + 8));
    }
    free(query);
    free(key);
}

/* ---- strategies -------------------------------------------------------------------------------- */

static int is_staged(const char *strategy)
{
    return strncmp(strategy, "staged", 6) == 0;
}

/* As a power of two; in the long form. What a name has in it: the first row that fits. */
static int64_t keys_most(const char *strategy)
{
    static const struct {
        const char *has;
        int usual, in_long;
    } rows[] = {
        { "_simt", 14, 20 }, { "mma", 14, 20 }, { "staged/clblast", 22, 24 }, { "staged", 20, 24 }, { "", 20, 28 }
    };
    size_t row = 0;
    while (!strstr(strategy, rows[row].has)) {
        ++row;
    }
    return (int64_t)1 << (getenv("CLATTN_TEST_LONG") ? rows[row].in_long : rows[row].usual);
}

/* Each number of keys, kind and width in the long form; else those that stand for all. */
static void run_strategy(struct run *run)
{
    static const int64_t counts[] = { 100, 1024, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 28 };
    const int is_long = getenv("CLATTN_TEST_LONG") != NULL;
    const int64_t most = keys_most(run->strategy);
    for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]) && counts[n] <= most; ++n) {
        const int is_few = counts[n] == 1024 && !strategy_is_for_gpus(run->strategy);
        for (size_t k = 0; k < KINDS && (is_long || is_few || counts[n] == most); ++k) {
            const int in_pages = !is_staged(run->strategy) && counts[n] > PAGE && kinds[k].rise == 0;
            const int by_slopes = kinds[k].slope != 0 && (in_pages || is_staged(run->strategy));
            const struct keys keys = { counts[n] + (counts[n] > 4096 ? 3 : 0), in_pages, by_slopes };
            if (in_pages || counts[n] <= 1 << 20 || is_staged(run->strategy)) {
                run_terms(run, &kinds[k], &keys);
            }
        }
    }
    for (int64_t columns = 64; columns <= 4096; columns *= 2) {
        if (is_long || columns == 2048 || columns == 4096) {
            run_columns(run, columns);
        }
    }
}

static int is_taken(struct run *run)
{
    const clattn_problem p = problem_of(run, 16, 1);
    clattn_plan *plan = NULL;
    const clattn_status status = clattn_plan_create(run->context, &p, &plan);
    clattn_plan_destroy(plan);
    return status != CLATTN_UNSUPPORTED;
}

int main(int argc, char **argv)
{
    struct device_options o;
    const char *strategies = gemm_is_built() ? "all,-auto,staged/clblast" : "all,-auto";
    const size_t count = sizeof(ways) / sizeof(ways[0]);
    int passed = 0, failed = 0, skipped = 0;
    if (device_options_parse(argc, argv, strategies, &o) != 0) {
        return device_options_usage("long_sums");
    }
    clattn_context *context = device_options_open(&o);
    if (!context) {
        return 1;
    }
    for (int s = 0; s < o.n_strategies; ++s) {
        struct run run = { .context = context, .strategy = o.strategies[s], .way = ways };
        while (run.way < ways + count && !is_taken(&run)) {
            ++run.way;
        }
        if (run.way == ways + count) {
            printf("%s: not on this device\n", run.strategy);
            ++skipped;
            continue;
        }
        run_strategy(&run);
        printf("%s, %s: %d passed, %d failed, %d declined; largest %.2f of what is allowed\n", run.strategy,
               clattn_type_name(run.way->type), run.passed, run.failed, run.declined, run.largest);
        passed += run.passed;
        failed += run.failed + (run.passed == 0);
    }
    clattn_context_destroy(context);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
