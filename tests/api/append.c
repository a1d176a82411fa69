/* clattn_enqueue_append and clattn_enqueue_rotary on a device: random caches between guard values, what a device must
 * not do with values that are none, attention over what was appended, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/stored_types.h"
#include "clattn_cache.h"
#include "program/context.h"
#include "support/append_call.h"
#include "support/random.h"
#include "support/small_cache.h"

/* ---- random calls ----------------------------------------------------------------------------- */

static void check_random(uint64_t seed, uint64_t n, const struct append_wish *wish)
{
    struct random random = random_start(seed, n);
    struct append_call_test test, expected, reference;
    append_call_draw(&test, &random, wish);
    append_call_expect(&test, &expected);
    if (!wish->hostile) {
        struct append_call_test copy = test;
        for (int id = 0; id < ARRAYS; ++id) {
            if (test.array[id].data) {
                copy.array[id].data = malloc(test.array[id].bytes);
                memcpy(copy.array[id].data, test.array[id].data, test.array[id].bytes);
            }
        }
        reference = copy;
        ck_assert_msg(append_call_reference(&reference) == CLATTN_OK, "reference %d: %s", (int)n, clattn_last_error());
        const char *off = append_call_difference(&expected, &reference);
        ck_assert_msg(!off, "reference %d: %s", (int)n, off);
        append_call_free(&reference);
    }
    ck_assert_msg(append_call_run(&test, context) == CLATTN_OK, "%d: %s", (int)n, clattn_last_error());
    const char *difference = append_call_difference(&expected, &test);
    ck_assert_msg(!difference, "%d: %s", (int)n, difference);
    append_call_free(&test);
    append_call_free(&expected);
}

static int calls(int count)
{
    const char *wanted = getenv("CLATTN_TEST_APPEND_CALLS");
    return wanted ? atoi(wanted) : count;
}

START_TEST(test_random_calls)
{
    const struct append_wish wish = { .rotary = -1, .norms = -1 };
    for (int n = 0; n < calls(40); ++n) {
        check_random(1, (uint64_t)n, &wish);
    }
}
END_TEST

/* What a blocking call refuses, a device must not follow. */
START_TEST(test_hostile_values)
{
    const struct append_wish wish = { .hostile = 1, .rotary = -1, .norms = -1 };
    for (int n = 0; n < calls(40); ++n) {
        check_random(2, (uint64_t)n, &wish);
    }
}
END_TEST

/* Each stored type, its bytes when nothing is turned. */
START_TEST(test_stored_types)
{
    for (int type = CLATTN_FLOAT32; type < CACHE_TYPES; ++type) {
        const int is_double = type == CLATTN_FLOAT64;
        if (!is_double || context->device.has_fp64) {
            const struct append_wish wish = {
                .type = is_double ? CLATTN_FLOAT64 : CLATTN_FLOAT32,
                .key_type = (clattn_type)type,
                .value_type = (clattn_type)type,
                .rotary = is_double,
                .norms = is_double,
            };
            check_random(3, (uint64_t)type, &wish);
        }
    }
}
END_TEST

/* What no code stands for becomes the same code on the host and on the device. */
START_TEST(test_ends_of_ranges)
{
    for (int type = CLATTN_FLOAT32; type < CACHE_TYPES; ++type) {
        const struct append_wish wish = {
            .type = CLATTN_FLOAT32, .key_type = (clattn_type)type, .value_type = (clattn_type)type, .ends = 1
        };
        for (uint64_t n = 0; n < 4 && type != CLATTN_FLOAT64; ++n) {
            check_random(4 + n, (uint64_t)type, &wish);
        }
    }
}
END_TEST

/* Squares of 1e30 are infinite in float32, and their norm is not. */
START_TEST(test_norms_of_ends)
{
    const struct append_wish wish = {
        .type = CLATTN_FLOAT32, .key_type = CLATTN_FLOAT32, .value_type = CLATTN_FLOAT32, .ends = 1, .norms = 1
    };
    for (uint64_t n = 0; n < 8; ++n) {
        check_random(8, n, &wish);
    }
}
END_TEST

/* Rows cut as for a GPU: work-items side by side have one together, and meet where it is normed. */
START_TEST(test_cut_of_gpus)
{
    const struct append_wish wish = { .rotary = -1, .norms = 1 };
    const enum device_class own = context->device.device_class;
    context->device.device_class = DEVICE_GPU;
    for (int n = 0; n < calls(20); ++n) {
        check_random(9, (uint64_t)n, &wish);
    }
    context->device.device_class = own;
}
END_TEST

/* ---- rotary ----------------------------------------------------------------------------------- */

#define HEADS 2
#define ROWS 6
#define DIM 32
#define POSITIONS 64

static void fill_normal(float *values, size_t count, uint64_t seed)
{
    struct random random = random_start(seed, 0);
    for (size_t i = 0; i < count; ++i) {
        values[i] = (float)random_normal(&random);
    }
}

struct turn {
    float cosine[POSITIONS * DIM / 2], sine[POSITIONS * DIM / 2];
    int32_t positions[ROWS];
    clattn_rotary_problem problem;
    clattn_rotary_host_tensors tensors;
};

static void turn_begin(struct turn *turn, clattn_rotary_pairs pairs)
{
    const clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    const clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    const clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
    EXPECT_OK(clattn_rotary_table(&scaling, DIM, POSITIONS, NULL, turn->cosine, turn->sine));
    turn->problem = problem;
    turn->problem.pairs = pairs;
    turn->problem.heads = HEADS;
    turn->problem.query_len = ROWS;
    turn->problem.head_dim = DIM;
    turn->problem.positions = POSITIONS;
    turn->problem.features = CLATTN_WITH_POSITIONS;
    turn->tensors = tensors;
    turn->tensors.cosine = clattn_host_tensor_bhsd(turn->cosine, 1, POSITIONS, DIM / 2);
    turn->tensors.sine = clattn_host_tensor_bhsd(turn->sine, 1, POSITIONS, DIM / 2);
    turn->tensors.positions.data = turn->positions;
    turn->tensors.positions.stride[2] = 1;
    for (int i = 0; i < ROWS; ++i) {
        turn->positions[i] = 7 * i + 3;
    }
}

static void turn_rows(struct turn *turn, const float *x, float *out)
{
    turn->tensors.x = clattn_host_tensor_bhsd(x, HEADS, ROWS, DIM);
    turn->tensors.out = clattn_host_tensor_bhsd(out, HEADS, ROWS, DIM);
    EXPECT_OK(clattn_rotary_host(context, &turn->problem, NULL, &turn->tensors));
}

/* There and back, in place; and the other pairing does not lead back. */
START_TEST(test_back_again)
{
    float x[HEADS * ROWS * DIM], out[HEADS * ROWS * DIM];
    struct turn turn;
    fill_normal(x, HEADS * ROWS * DIM, 5);
    for (int pairs = CLATTN_PAIRS_INTERLEAVED; pairs <= CLATTN_PAIRS_HALVES; ++pairs) {
        double right = 0, wrong = 0;
        turn_begin(&turn, (clattn_rotary_pairs)pairs);
        turn_rows(&turn, x, out);
        turn.problem.inverse = 1;
        float other[HEADS * ROWS * DIM];
        memcpy(other, out, sizeof(out));
        turn_rows(&turn, out, out);
        turn.problem.pairs = (clattn_rotary_pairs)(3 - pairs);
        turn_rows(&turn, other, other);
        for (int i = 0; i < HEADS * ROWS * DIM; ++i) {
            const double off = (double)out[i] - (double)x[i], off_other = (double)other[i] - (double)x[i];
            right = off * off > right ? off * off : right;
            wrong = off_other * off_other > wrong ? off_other * off_other : wrong;
        }
        ck_assert_double_lt(right, 1e-11);
        ck_assert_double_gt(wrong, 0.1);
    }
}
END_TEST

/* ---- append, then attend ---------------------------------------------------------------------- */

#define PAGE 4
#define PAGES 5
#define CAPACITY 12

/* Rows [from, to) of the keys and values, into a dense cache or into pages. */
static void append_rows(const struct turn *turn, int from, int to, const float *key, const float *value,
                        float *key_cache, float *value_cache, const int32_t *table)
{
    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    clattn_append_host_tensors tensors = CLATTN_APPEND_HOST_TENSORS_INIT;
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    int32_t starts = from;
    problem.pairs = CLATTN_PAIRS_HALVES;
    problem.kv_heads = HEADS;
    problem.query_len = ROWS;
    problem.head_dim = DIM;
    problem.capacity = CAPACITY;
    problem.positions = POSITIONS;
    problem.features = CLATTN_WITH_STARTS | CLATTN_WITH_ROTARY | (table ? CLATTN_WITH_PAGES : 0u);
    problem.page_size = table ? PAGE : 0;
    problem.pages = table ? PAGES : 0;
    call.query_len = to - from;
    tensors.starts.data = &starts;
    tensors.cosine = turn->tensors.cosine;
    tensors.sine = turn->tensors.sine;
    tensors.key = clattn_host_tensor_bhsd(key, HEADS, ROWS, DIM);
    tensors.value = clattn_host_tensor_bhsd(value, HEADS, ROWS, DIM);
    tensors.key.offset = tensors.value.offset = (int64_t)from * DIM;
    tensors.key_cache = clattn_host_tensor_bhsd(key_cache, HEADS, table ? PAGE : CAPACITY, DIM);
    tensors.value_cache = clattn_host_tensor_bhsd(value_cache, HEADS, table ? PAGE : CAPACITY, DIM);
    tensors.page_table.data = (void *)(uintptr_t)table;
    tensors.page_table.stride[3] = 1;
    EXPECT_OK(clattn_append_host(context, &problem, &call, &tensors));
}

static void attend(const float *query, const float *key, const float *value, int64_t rows, const int32_t *table,
                   float *out)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    int32_t length = ROWS;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = 1;
    problem.key_len = ROWS;
    problem.head_dim = DIM;
    problem.strategy = "plain";
    tensors.query = clattn_host_tensor_bhsd(query, HEADS, 1, DIM);
    tensors.key = clattn_host_tensor_bhsd(key, HEADS, rows, DIM);
    tensors.value = clattn_host_tensor_bhsd(value, HEADS, rows, DIM);
    tensors.out = clattn_host_tensor_bhsd(out, HEADS, 1, DIM);
    if (table) {
        problem.features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
        problem.page_size = PAGE;
        problem.pages = PAGES;
        tensors.page_table.data = (void *)(uintptr_t)table;
        tensors.page_table.stride[3] = 1;
        tensors.key_lengths.data = &length;
    }
    EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
}

/* A cache filled in two steps, one of a single row, gives the bits of keys that were turned and lie together: dense and
 * in pages, where all that was not appended is NaN. */
START_TEST(test_append_then_attend)
{
    enum { NEW = HEADS * ROWS * DIM, DENSE = HEADS * CAPACITY * DIM, POOL = PAGES * HEADS * PAGE * DIM };
    static const int32_t table[3] = { 3, 1, 4 };
    static float key[NEW], value[NEW], turned[NEW], query[HEADS * DIM];
    static float dense[2][DENSE], pool[2][POOL], out[3][HEADS * DIM];
    struct turn turn;
    fill_normal(key, NEW, 6);
    fill_normal(value, NEW, 7);
    fill_normal(query, HEADS * DIM, 8);
    memset(dense, 0xff, sizeof(dense));
    memset(pool, 0xff, sizeof(pool));
    turn_begin(&turn, CLATTN_PAIRS_HALVES);
    for (int i = 0; i < ROWS; ++i) {
        turn.positions[i] = i;
    }
    turn_rows(&turn, key, turned);
    append_rows(&turn, 0, ROWS - 1, key, value, dense[0], dense[1], NULL);
    append_rows(&turn, ROWS - 1, ROWS, key, value, dense[0], dense[1], NULL);
    append_rows(&turn, 0, ROWS - 1, key, value, pool[0], pool[1], table);
    append_rows(&turn, ROWS - 1, ROWS, key, value, pool[0], pool[1], table);
    attend(query, turned, value, ROWS, NULL, out[0]);
    attend(query, dense[0], dense[1], CAPACITY, NULL, out[1]);
    attend(query, pool[0], pool[1], PAGE, table, out[2]);
    ck_assert_mem_eq(out[0], out[1], sizeof(out[0]));
    ck_assert_mem_eq(out[0], out[2], sizeof(out[0]));
}
END_TEST

/* ---- what is refused -------------------------------------------------------------------------- */

START_TEST(test_plans_of_others)
{
    struct small_cache cache;
    clattn_rotary_tensors rotary = CLATTN_ROTARY_TENSORS_INIT;
    clattn_append_tensors append = CLATTN_APPEND_TENSORS_INIT;
    clattn_tensors forward = CLATTN_TENSORS_INIT;
    cl_command_queue queue = clattn_context_queue(context);
    ck_assert(small_cache_create(&cache, context));
    expect_error(clattn_enqueue_rotary(cache.append, queue, NULL, &rotary, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "plan: computes append, and this call is for plans of rotary", "rotary");
    expect_error(clattn_enqueue_append(cache.rotary, queue, NULL, &append, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "plan: computes rotary, and this call is for plans of append", "append");
    expect_error(clattn_enqueue_forward(cache.rotary, queue, NULL, &forward, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "plan: computes rotary, and this call is for plans of forward", "forward");
    small_cache_release(&cache);
}
END_TEST

/* query_out may be query, exactly; a cache may be nothing else. */
START_TEST(test_overlaps)
{
    struct small_cache cache;
    cl_command_queue queue = clattn_context_queue(context);
    clattn_append_tensors t = CLATTN_APPEND_TENSORS_INIT;
    ck_assert(small_cache_create(&cache, context));
    t.query = clattn_tensor_bhsd(cache.results[0], 1, 2, 2);
    t.key = t.value = clattn_tensor_bhsd(cache.zeros, 1, 2, 2);
    t.query_out = t.query;
    t.key_cache = clattn_tensor_bhsd(cache.results[1], 1, 2, 2);
    t.value_cache = clattn_tensor_bhsd(cache.results[2], 1, 2, 2);
    t.cosine = t.sine = clattn_tensor_bhsd(cache.zeros, 1, 2, 1);
    t.starts.buffer = cache.zeros;
    EXPECT_OK(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL));
    t.query_out.offset = 1;
    expect_error(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "query_out: its memory is also query's", "moved");
    t.query_out = t.query;
    t.key_cache = t.query;
    expect_error(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "its memory is also", "a cache in the queries");
    t.key_cache = t.value_cache;
    expect_error(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "its memory is also", "both caches in one");
    t.key_cache = t.key;
    expect_error(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "its memory is also", "a cache in the new keys");
    t.key_cache = clattn_tensor_bhsd(cache.results[1], 1, 2, 2);
    t.key_cache.offset = 13;
    expect_error(clattn_enqueue_append(cache.append, queue, NULL, &t, 0, NULL, NULL), CLATTN_INVALID_SHAPE,
                 "key_cache.buffer of 64 bytes: its strides reach element 16", "a cache that is too small");
    clFinish(queue);
    small_cache_release(&cache);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_random_calls);
    tcase_add_test(tests, test_hostile_values);
    tcase_add_test(tests, test_stored_types);
    tcase_add_test(tests, test_ends_of_ranges);
    tcase_add_test(tests, test_norms_of_ends);
    tcase_add_test(tests, test_cut_of_gpus);
    tcase_add_test(tests, test_back_again);
    tcase_add_test(tests, test_append_then_attend);
    tcase_add_test(tests, test_plans_of_others);
    tcase_add_test(tests, test_overlaps);
}

int main(void)
{
    return api_main("append", add);
}
