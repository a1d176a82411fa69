#include "kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "support/device_options.h"

#define TOLERANCE 2e-5

double sums_worst;
clattn_context *kind_context;
static clattn_type kind_type = CLATTN_FLOAT32;
static int passed, failed, skipped;

double kind_normal(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    (void)context;
    return random_normal(random);
}

double kind_integer(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    (void)context;
    return (double)random_between(random, -4, 4);
}

static double length(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    return index[3] == 0 ? *(const double *)context : *(const double *)context - 9;
}

/* Packed sequences are all as long as the longest. */
static double seam(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    return (double)(index[3] * *(const int64_t *)context);
}

static double open(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)index;
    (void)context;
    return 1;
}

clattn_problem kind_problem(const struct kind *kind)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = kind_type;
    p.batch = kind->batch;
    p.query_heads = kind->query_heads;
    p.kv_heads = kind->kv_heads;
    p.query_len = kind->query_len;
    p.key_len = kind->key_len;
    p.head_dim = kind->head_dim;
    p.head_dim_v = kind->head_dim_v;
    p.causal = kind->causal;
    p.alignment = kind->causal ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_UNSET;
    p.features = kind->features | CLATTN_WITH_LSE;
    return p;
}

void kind_begin(struct gradient_call *g, const clattn_problem *problem, const char *strategy, test_value *value)
{
    static const enum tensor_id by_value[] = { TENSOR_QUERY, TENSOR_KEY,    TENSOR_VALUE,
                                               TENSOR_BIAS,  TENSOR_SLOPES, TENSOR_SINKS };
    const clattn_backward_problem defaults = CLATTN_BACKWARD_PROBLEM_INIT;
    struct random random = random_start(7, 1);
    const double keys = (double)problem->key_len;
    memset(g, 0, sizeof(*g));
    test_call_start(&g->test, problem);
    g->test.packed_queries = problem->batch * problem->query_len;
    g->test.packed_keys = problem->batch * problem->key_len;
    test_call_place_all(&g->test);
    if (test_call_has(&g->test, TENSOR_CU_QUERY)) {
        test_call_fill(&g->test, TENSOR_CU_QUERY, &random, seam, &problem->query_len);
        test_call_fill(&g->test, TENSOR_CU_KEY, &random, seam, &problem->key_len);
    }
    for (size_t i = 0; i < sizeof(by_value) / sizeof(by_value[0]); ++i) {
        if (test_call_has(&g->test, by_value[i])) {
            test_call_fill(&g->test, by_value[i], &random, value, NULL);
        }
    }
    if (test_call_has(&g->test, TENSOR_KEY_LENGTHS)) {
        test_call_fill(&g->test, TENSOR_KEY_LENGTHS, &random, length, &keys);
    }
    if (test_call_has(&g->test, TENSOR_MASK)) {
        test_call_fill(&g->test, TENSOR_MASK, &random, open, NULL);
    }
    g->problem = defaults;
    g->problem.gradients = ALL_THREE_AND_SCALE;
    g->problem.gradient_type = CLATTN_FLOAT32;
    g->problem.strategy = strategy;
}

/* Forward calls whose out and lse are kept: the reference takes longer than the gradients do, and a call differs from
 * those before it in its gradients, strategy or limits alone. All lie in memory alike. */
#define KNOWN_MOST 64
static struct known {
    clattn_problem problem;
    clattn_call values;
    uint64_t inputs; /* hash of what is in their memory */
    struct test_array out, lse;
} known[KNOWN_MOST];
static size_t known_count;

static void copy_array(struct test_array *to, const struct test_array *from)
{
    memcpy(to->data, from->data, (size_t)from->count * from->element_bytes);
}

static struct test_array copied_array(const struct test_array *from)
{
    struct test_array copy = *from;
    copy.data = malloc((size_t)from->count * from->element_bytes);
    if (!copy.data) {
        abort();
    }
    copy_array(&copy, from);
    return copy;
}

static const struct known *known_forward(const struct test_call *test, uint64_t inputs)
{
    for (size_t i = 0; i < known_count; ++i) {
        if (known[i].inputs == inputs && memcmp(&known[i].problem, &test->problem, sizeof(test->problem)) == 0 &&
            memcmp(&known[i].values, &test->values, sizeof(test->values)) == 0) {
            return &known[i];
        }
    }
    return NULL;
}

/* gradient_call_start, where the call is not known yet. */
static int start(struct gradient_call *g)
{
    struct test_array *arrays = g->test.arrays;
    const uint64_t inputs = test_call_input_hash(&g->test);
    const struct known *same = known_forward(&g->test, inputs);
    if (same) {
        gradient_call_begin(g);
        copy_array(&arrays[TENSOR_OUT], &same->out);
        copy_array(&arrays[TENSOR_LSE], &same->lse);
        return 1;
    }
    const int good = gradient_call_start(g) == CLATTN_OK;
    if (good && known_count < KNOWN_MOST) {
        known[known_count++] = (struct known){ g->test.problem, g->test.values, inputs,
                                               copied_array(&arrays[TENSOR_OUT]), copied_array(&arrays[TENSOR_LSE]) };
    }
    return good;
}

static void forget_all(void)
{
    while (known_count > 0) {
        --known_count;
        free(known[known_count].out.data);
        free(known[known_count].lse.data);
    }
}

int kind_finish(struct gradient_call *g, test_value *value)
{
    struct random random = random_start(9, 2);
    const int good = start(g);
    gradient_call_place_all(g);
    for (int id = GRADIENT_DOUT; id <= GRADIENT_DLSE; ++id) {
        if (gradient_call_has(g, id)) {
            gradient_call_fill(g, id, &random, value, NULL);
        }
    }
    gradient_call_keep(g);
    return good;
}

int kind_in_bfloat16(void)
{
    return kind_type == CLATTN_BFLOAT16;
}

static clattn_type type_of(const struct test_array *array)
{
    return array->element_bytes == sizeof(float) ? CLATTN_FLOAT32 : CLATTN_BFLOAT16;
}

double kind_get(const struct test_array *array, int64_t at)
{
    return type_load(type_of(array), array->data, at);
}

void kind_set(struct test_array *array, int64_t at, double value)
{
    type_store(type_of(array), array->data, at, value);
}

void kind_scale(struct test_array *array, double by)
{
    for (int64_t i = 0; i < array->count; ++i) {
        kind_set(array, i, kind_get(array, i) * by);
    }
}

int kind_same_bits(const struct gradient_call *a, const struct gradient_call *b, int id)
{
    return a->arrays[id].count == b->arrays[id].count &&
           memcmp(a->arrays[id].data, b->arrays[id].data, (size_t)a->arrays[id].count * a->arrays[id].element_bytes) ==
               0;
}

void sum_add(struct sum *sum, double term)
{
    sum->sum += term;
    sum->size += fabs(term);
}

int sum_near(struct sum a, struct sum b)
{
    const double share = fabs(a.sum - b.sum) / (TOLERANCE * (a.size + b.size + 1));
    sums_worst = share <= 1 ? fmax(sums_worst, share) : sums_worst;
    return share <= 1;
}

int kind_same(const struct gradient_call *a, const struct gradient_call *b)
{
    int good = 1;
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        const float *x = (const float *)(const void *)a->arrays[id].data;
        const float *y = (const float *)(const void *)b->arrays[id].data;
        good &= a->arrays[id].count == b->arrays[id].count;
        for (int64_t at = 0; at < a->arrays[id].count && good; ++at) {
            good = sum_near((struct sum){ x[at], fabsf(x[at]) }, (struct sum){ y[at], fabsf(y[at]) });
        }
    }
    return good;
}

/* ---- programs ----------------------------------------------------------------------------------- */

void kind_report(const char *strategy, const char *what, int good)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("FAIL %s: %s: %s\n", strategy, what, clattn_last_error());
    }
}

void kind_skip(const char *strategy, const char *what, const char *why)
{
    ++skipped;
    printf("SKIP %s: %s: %s\n", strategy, what, why);
}

static int takes(const char *strategy, clattn_type type)
{
    const struct kind one = { "one", 1, 1, 1, 1, 1, 8, 8, 0, 0 };
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_plan *plan = NULL;
    kind_type = type;
    const clattn_problem forward = kind_problem(&one);
    problem.forward = &forward;
    problem.gradients = ALL_THREE;
    problem.strategy = strategy;
    const clattn_status status = clattn_backward_plan_create(kind_context, &problem, &plan);
    clattn_plan_destroy(plan);
    return status == CLATTN_OK;
}

int kind_main(int argc, char **argv, int in_bfloat16_too, void (*check)(const char *strategy))
{
    const char *strategy;
    if (clattn_context_open(NULL, NULL, &kind_context) != CLATTN_OK) {
        printf("%s\n", clattn_last_error());
        return 1;
    }
    for (size_t s = 0; (strategy = strategy_of_operation(&operation_backward, s)); ++s) {
        /* Matrix units of GPUs are emulated here: tests/emulated/matrix_units.sh asks for them. */
        const int is_emulated = strcmp(strategy, "fused_mma") == 0 || strcmp(strategy, "fused_wgmma") == 0;
        if (argc > 2 ? strcmp(argv[2], strategy) != 0 : is_emulated) {
            continue;
        }
        if (takes(strategy, CLATTN_FLOAT32) || (in_bfloat16_too && takes(strategy, CLATTN_BFLOAT16))) {
            check(strategy);
        } else {
            ++skipped;
        }
    }
    clattn_context_destroy(kind_context);
    forget_all();
    kind_check_forget();
    if (sums_worst > 0) {
        printf("the largest difference is %.2g of its tolerance\n", sums_worst);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || !(passed || skipped);
}
