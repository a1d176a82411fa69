/* Ranks that play clattn_ring.h's schedules (mpi/ranks.h), each a thread, with a carrier that delivers late and out of
 * turn: random calls with the features that a schedule takes, in each layout, on 1 to 8 ranks, within the bound of the
 * whole call; gradients; bits that are those of the same partial calls merged one after the other; what one rank fails
 * with all do. CLATTN_TEST_RING_CALLS says how many calls. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "api/ring_direct.h"
#include "operation/ring.h"
#include "support/gradient_call.h"
#include "support/random_call.h"
#include "support/tolerance.h"

#define SEED 11

/* ---- a random call ------------------------------------------------------------------------------ */

/* Few programs: what kernels are compiled with is one of these. */
static const struct {
    uint32_t features;
    int causal, window, has_bias;
    double softcap, dropout;
    clattn_type type;
} kinds[] = { { 0, 1, 0, 0, 0, 0, CLATTN_FLOAT32 },
              { CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_SINKS, 1, 1, 0, 0, 0, CLATTN_FLOAT32 },
              { CLATTN_WITH_MASK | CLATTN_WITH_SLOPES, 0, 0, 1, 5, 0.25, CLATTN_FLOAT32 },
              { 0, 1, 0, 0, 0, 0, CLATTN_FLOAT16 },
              { 0, 1, 0, 0, 0, 0, CLATTN_BFLOAT16 },
              { 0, 1, 0, 0, 0, 0, CLATTN_FLOAT64 },
              { CLATTN_WITH_MASK | CLATTN_WITH_SINKS, 0, 0, 1, 0, 0, CLATTN_FLOAT32 } };

static int is_long(void)
{
    return getenv("CLATTN_TEST_LONG") != NULL;
}

static double any_value(struct random *random, const int64_t index[4], const void *unused)
{
    (void)index;
    (void)unused;
    return random_normal(random);
}

/* As ALiBi's: the rounding of a large lse, which parts have from the whole, would be in all weights of its row. */
static double a_slope(struct random *random, const int64_t index[4], const void *unused)
{
    (void)index;
    (void)unused;
    return 1.0 / (double)(1 << random_between(random, 1, 8));
}

static double a_bit(struct random *random, const int64_t index[4], const void *unused)
{
    (void)index;
    (void)unused;
    return random_chance(random, 0.8);
}

static double a_length(struct random *random, const int64_t index[4], const void *most)
{
    (void)index;
    return (double)random_between(random, 0, *(const int64_t *)most);
}

static void random_problem(struct random *random, int kind, clattn_problem *p)
{
    const clattn_problem start = CLATTN_PROBLEM_INIT;
    *p = start;
    p->batch = random_between(random, 1, 2);
    p->kv_heads = 1 << random_between(random, 0, 2);
    p->query_heads = p->kv_heads * random_between(random, 1, 2);
    p->query_len = random_between(random, 1, 40);
    p->key_len = random_between(random, 1, 40);
    p->head_dim = DIM;
    p->type = kinds[kind].type;
    p->features = kinds[kind].features | CLATTN_WITH_LSE;
    p->causal = kinds[kind].causal;
    p->alignment = random_chance(random, 0.5) ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_TOP_LEFT;
    p->window_left = kinds[kind].window ? random_between(random, 0, 20) : -1;
    p->always_visible_keys = kinds[kind].window ? random_between(random, 0, 4) : 0;
    p->bias_type = kinds[kind].has_bias ? CLATTN_FLOAT32 : CLATTN_TYPE_NONE;
    p->softcap = kinds[kind].softcap;
    p->dropout = kinds[kind].dropout;
}

static void random_test(struct random *random, int kind, struct test_call *test)
{
    clattn_problem p;
    random_problem(random, kind, &p);
    test_call_start(test, &p);
    test_call_place_all(test);
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        if (test_call_has(test, (enum tensor_id)id) && !forward_is_output(id)) {
            test_call_fill(test, (enum tensor_id)id, random,
                           id == TENSOR_KEY_LENGTHS ? a_length
                           : id == TENSOR_MASK      ? a_bit
                           : id == TENSOR_SLOPES    ? a_slope
                                                    : any_value,
                           &p.key_len);
        }
    }
    test->values.dropout_seed = 5;
    test->sum_roundings = 64;
}

/* ---- the tests ------------------------------------------------------------------------------------------- */

static int calls(int count)
{
    const char *wanted = getenv("CLATTN_TEST_RING_CALLS");
    return wanted ? atoi(wanted) : count;
}

/* The most, of no more than `ranks`, that heads are divided by. */
static int64_t ranks_of_heads(int64_t ranks, int64_t kv_heads)
{
    while (kv_heads % ranks != 0) {
        ranks--;
    }
    return ranks;
}

/* Short gradients of kind 0 are what random settings of kind 2, which has a bias, never are. */
static struct setting setting_of_turn(int turn, int64_t kv_heads)
{
    static const struct setting turns[] = { { 4, CLATTN_RING_ZIGZAG, CLATTN_RING_HEADS },
                                            { 3, CLATTN_RING_STRIPED, CLATTN_RING_KEYS },
                                            { 4, CLATTN_RING_STRIPED, CLATTN_RING_AUTO } };
    struct setting setting = turns[turn % 3];
    if (setting.algorithm == CLATTN_RING_HEADS) {
        setting.ranks = ranks_of_heads(setting.ranks, kv_heads);
    }
    return setting;
}

static struct setting random_setting(struct random *random, int kind, int gradients, int64_t kv_heads)
{
    static const clattn_ring_algorithm any[] = { CLATTN_RING_TREE, CLATTN_RING_KEYS, CLATTN_RING_HEADS,
                                                 CLATTN_RING_AUTO, CLATTN_RING_QUERIES };
    const int first = gradients ? 1 : 0, last = kinds[kind].has_bias ? 1 : gradients ? 3 : 4;
    struct setting setting = { random_between(random, 1, 8), (clattn_ring_layout)random_between(random, 0, 2),
                               any[random_between(random, first, last)] };
    setting.algorithm = kinds[kind].type == CLATTN_FLOAT64 ? CLATTN_RING_HEADS : setting.algorithm;
    if (setting.algorithm == CLATTN_RING_HEADS) {
        setting.ranks = ranks_of_heads(setting.ranks, kv_heads);
    } else if (setting.algorithm == CLATTN_RING_TREE) {
        setting.layout = CLATTN_RING_CONTIGUOUS;
    } else if (setting.layout == CLATTN_RING_STRIPED && (kind == 1 || kind == 2)) {
        setting.layout = CLATTN_RING_ZIGZAG; /* these have what stripes refuse */
    }
    return setting;
}

/* The first has a mask and a bias whose columns stripes take apart: those of few kinds that have them are refused. */
START_TEST(test_forward_is_within_the_bound)
{
    const struct setting stripes = { 3, CLATTN_RING_STRIPED, CLATTN_RING_KEYS };
    double needed = 0;
    for (int n = 0; n < calls(60); ++n) {
        struct random random = random_start(SEED, (uint64_t)n);
        const int is_striped = n == 0, kind = is_striped ? 6 : n % (is_long() ? 7 : 4);
        struct test_call test;
        struct expected expected;
        struct verdict verdict;
        struct permuted list[PERMUTED];
        struct rank ranks[8];
        clattn_host_gradients none = CLATTN_HOST_GRADIENTS_INIT;
        random_test(&random, kind, &test);
        const struct setting setting = is_striped ? stripes : random_setting(&random, kind, 0, test.problem.kv_heads);
        EXPECT_OK(test_call_validate(&test));
        EXPECT_OK(expected_create(&expected, &test));
        const struct rank_call call = { .context = context,
                                        .whole = &test.problem,
                                        .layout = setting.layout,
                                        .algorithm = setting.algorithm,
                                        .call = &test.values };
        list_permuted(&test.problem, &test.tensors, &none, list);
        permute_all(&setting, list, 0);
        run_ranks(&setting, &call, &test.tensors, &none, list, NULL, ranks);
        for (int64_t rank = 0; rank < setting.ranks; ++rank) {
            ck_assert_msg(ranks[rank].status == CLATTN_OK, "%d: %s", n, ranks[rank].failure.text);
        }
        if (setting.algorithm == CLATTN_RING_KEYS && test.problem.type == CLATTN_FLOAT32) {
            check_bits(&setting, &test, list);
        }
        permute_all(&setting, list, 1);
        tolerance_check(&test, &expected, &verdict);
        ck_assert_msg(verdict.wrong == 0, "call %d, %d ranks, layout %d, algorithm %d: %s", n, (int)setting.ranks,
                      (int)setting.layout, (int)setting.algorithm, verdict.first);
        needed = verdict.c_out > needed ? verdict.c_out : needed;
        expected_free(&expected);
        test_call_free(&test);
    }
    printf("forward: C = %.3f of 4\n", needed);
}
END_TEST

/* All that the problem has; a sum over rows, or heads, now and then. */
static void random_gradients(struct random *random, struct gradient_call *g)
{
    const struct test_layout dense = TEST_LAYOUT_DENSE;
    const clattn_problem *p = &g->test.problem;
    struct test_layout summed = dense;
    g->problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    g->problem.gradients |= p->bias_type != CLATTN_TYPE_NONE ? CLATTN_GRADIENT_BIAS | CLATTN_GRADIENT_SCALE : 0;
    g->problem.gradients |= p->features & CLATTN_WITH_SLOPES ? CLATTN_GRADIENT_SLOPES : 0;
    g->problem.gradients |= p->features & CLATTN_WITH_SINKS ? CLATTN_GRADIENT_SINKS : 0;
    EXPECT_OK(gradient_call_start(g));
    gradient_call_place_all(g);
    summed.broadcast[random_between(random, 0, 1)] = 1;
    summed.broadcast[2] = random_chance(random, 0.5);
    for (int id = GRADIENT_DBIAS; id <= GRADIENT_DSLOPES; ++id) {
        if (gradient_call_has(g, id) && random_chance(random, 0.5)) {
            free(g->arrays[id].data);
            free(g->arrays[id].reached);
            gradient_call_place(g, id, &summed);
        }
    }
}

/* All ranks have the same; it becomes the whole's. */
static void take_shared(struct gradient_call *g, const struct rank *ranks, int64_t count)
{
    clattn_host_tensor *shared[SHARED];
    shared_fields(&g->gradients, shared);
    for (int64_t rank = 1; rank < count; ++rank) {
        ck_assert_mem_eq(ranks[rank].shared, ranks[0].shared, sizeof(ranks[0].shared));
    }
    for (int n = 0; n < SHARED; ++n) {
        for (int id = GRADIENT_DBIAS; id < BACKWARD_TENSOR_COUNT && shared[n]->data; ++id) {
            const struct test_array *array = &g->arrays[id];
            if (array->data == shared[n]->data) {
                ck_assert_uint_le((size_t)array->count * array->element_bytes, sizeof(ranks[0].shared[n]));
                memcpy(array->data, ranks[0].shared[n], (size_t)array->count * array->element_bytes);
            }
        }
    }
}

/* The gradients of `g` by the ranks of a setting; `list` is what has gone into shards, to be taken back. */
static void run_gradients(const struct setting *setting, struct gradient_call *g, void (*spoil)(struct rank *rank),
                          struct permuted list[PERMUTED], struct rank *ranks)
{
    const struct rank_call call = { .context = context,
                                    .backward = &g->problem,
                                    .layout = setting->layout,
                                    .algorithm = setting->algorithm,
                                    .call = &g->test.values };
    list_permuted(&g->test.problem, &g->test.tensors, &g->gradients, list);
    permute_all(setting, list, 0);
    run_ranks(setting, &call, &g->test.tensors, &g->gradients, list, spoil, ranks);
}

START_TEST(test_gradients_are_within_the_bound)
{
    for (int n = 0; n < calls(60) / (is_long() ? 1 : 3); ++n) {
        struct random random = random_start(SEED + 1, (uint64_t)n);
        const int kind = is_long() ? n % 7 : n % 4 == 3 ? 0 : 2; /* the others compile for seconds */
        const clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
        struct gradient_call g = { .problem = problem };
        struct gradient_expected expected;
        struct gradient_verdict verdict;
        struct permuted list[PERMUTED];
        struct rank ranks[8];
        random_test(&random, kind, &g.test);
        const int64_t kv_heads = g.test.problem.kv_heads;
        const struct setting setting = !is_long() && kind == 0 ? setting_of_turn(n / 4, kv_heads)
                                                               : random_setting(&random, kind, 1, kv_heads);
        random_gradients(&random, &g);
        gradient_call_fill(&g, GRADIENT_DOUT, &random, any_value, NULL);
        gradient_call_keep(&g);
        g.sum_roundings = 64;
        run_gradients(&setting, &g, NULL, list, ranks);
        for (int64_t rank = 0; rank < setting.ranks; ++rank) {
            ck_assert_msg(ranks[rank].status == CLATTN_OK, "%d: %s", n, ranks[rank].failure.text);
        }
        permute_all(&setting, list, 1);
        take_shared(&g, ranks, setting.ranks);
        EXPECT_OK(gradient_call_expect(&g, &expected));
        gradient_call_judge(&g, &expected, &verdict);
        ck_assert_msg(verdict.wrong == 0, "call %d, %d ranks, layout %d: %s", n, (int)setting.ranks,
                      (int)setting.layout, verdict.first);
        gradient_expected_free(&expected);
        gradient_call_free(&g);
    }
}
END_TEST

/* ---- what one rank fails with --------------------------------------------------------------------------- */

static void no_query(struct rank *rank)
{
    rank->tensors.query.data = rank->carrier.rank == 1 ? NULL : rank->tensors.query.data;
}

/* Found while ranks compute: the others wait for what this one sends. */
static void no_mask(struct rank *rank)
{
    rank->tensors.mask.data = rank->carrier.rank == 2 ? NULL : rank->tensors.mask.data;
}

static void another_layout(struct rank *rank)
{
    rank->call.layout = rank->carrier.rank == 0 ? CLATTN_RING_ZIGZAG : rank->call.layout;
}

START_TEST(test_what_one_fails_with_all_do)
{
    static const struct {
        void (*spoil)(struct rank *rank);
        const char *said;
    } faults[] = { { no_query, "rank 1: query, key, value, out: must be given" },
                   { no_mask, "rank 2: mask: must be given" },
                   { another_layout, "layout: must be the same on all ranks" } };
    const struct setting setting = { 4, CLATTN_RING_CONTIGUOUS, CLATTN_RING_KEYS };
    struct random random = random_start(SEED, 2);
    struct test_call test;
    struct permuted list[PERMUTED];
    struct rank ranks[8];
    clattn_host_gradients none = CLATTN_HOST_GRADIENTS_INIT;
    random_test(&random, 2, &test);
    const struct rank_call call = { .context = context,
                                    .whole = &test.problem,
                                    .layout = setting.layout,
                                    .algorithm = setting.algorithm,
                                    .call = &test.values };
    list_permuted(&test.problem, &test.tensors, &none, list);
    permute_all(&setting, list, 0);
    for (size_t n = 0; n < sizeof(faults) / sizeof(faults[0]); ++n) {
        run_ranks(&setting, &call, &test.tensors, &none, list, faults[n].spoil, ranks);
        for (int64_t rank = 0; rank < setting.ranks; ++rank) {
            ck_assert_int_eq(ranks[rank].status, CLATTN_INVALID_ARGUMENT);
            ck_assert_msg(strstr(ranks[rank].failure.text, faults[n].said) != NULL, "%s", ranks[rank].failure.text);
        }
    }
    permute_all(&setting, list, 1);
    test_call_free(&test);
}
END_TEST

/* Parts of a rank that computes whole heads are larger than its own rows of a bias that is not there. */
static void a_gradient_of_no_bias(struct rank *rank)
{
    static float room[2 * 8 * 40 * 40];
    rank->gradients.dbias = clattn_host_tensor_bhsd(room, 8, 40, 40);
}

START_TEST(test_a_bias_that_is_not_there_has_no_gradient)
{
    const clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    const struct setting setting = { 2, CLATTN_RING_CONTIGUOUS, CLATTN_RING_HEADS };
    struct gradient_call g = { .problem = problem };
    struct permuted list[PERMUTED];
    struct rank ranks[8];
    for (uint64_t n = 0; g.test.problem.kv_heads % 2 != 0 || n == 0; ++n) {
        struct random random = random_start(SEED, n);
        if (n > 0) {
            test_call_free(&g.test);
        }
        random_test(&random, 0, &g.test);
    }
    g.problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    EXPECT_OK(gradient_call_start(&g));
    gradient_call_place_all(&g);
    g.problem.gradients |= CLATTN_GRADIENT_BIAS;
    run_gradients(&setting, &g, a_gradient_of_no_bias, list, ranks);
    for (int64_t rank = 0; rank < setting.ranks; ++rank) {
        ck_assert_int_eq(ranks[rank].status, CLATTN_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ranks[rank].failure.text, "CLATTN_GRADIENT_BIAS needs problem.bias_type") != NULL, "%s",
                      ranks[rank].failure.text);
    }
    permute_all(&setting, list, 1);
    gradient_call_free(&g);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_forward_is_within_the_bound);
    tcase_add_test(tests, test_gradients_are_within_the_bound);
    tcase_add_test(tests, test_what_one_fails_with_all_do);
    tcase_add_test(tests, test_a_bias_that_is_not_there_has_no_gradient);
}

int main(void)
{
    return api_main("ring_ranks", add);
}
