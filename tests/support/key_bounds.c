/* Calls with bounds of keys, held against what the reference makes of the same calls with a mask. */
#include "key_bounds.h"

#include <string.h>

#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 40
#define HEAD_DIM_V 24
#define WIDE_DIM_V 128 /* of which split_simt's work-items sum four splits side by side */
#define SPLIT_END 511  /* the last key of a K/V split of every length, and of blocks of 32, 64 and 128 */

struct shape {
    int64_t query_len, key_len, always_visible, window_left;
};

static clattn_problem problem_of(const struct exact *e, const struct shape *shape)
{
    clattn_problem p = exact_problem(e, 1, HEADS, KV_HEADS, shape->query_len, shape->key_len, HEAD_DIM, HEAD_DIM_V);
    p.features = CLATTN_WITH_LSE;
    return p;
}

/* The bounded call's outputs, against those of the call with the mask. Frees the bounded one. */
static int is_as_masked(struct exact *e, const struct shape *shape, struct test_call *bounded, test_value *shows)
{
    clattn_problem p = problem_of(e, shape);
    struct test_call masked;
    p.features |= CLATTN_WITH_MASK;
    exact_build(&masked, &p, 0);
    test_call_fill(&masked, TENSOR_MASK, NULL, shows, shape);
    const int status = exact_run(e, bounded) || exact_within_bound(e, bounded, &masked) ? -1 : 0;
    test_call_free(bounded);
    test_call_free(&masked);
    return status;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* Rows stand at the end of the keys. */
static double window_shows(struct random *random, const int64_t index[4], const void *context)
{
    const struct shape *shape = context;
    const int64_t behind = index[2] + shape->key_len - shape->query_len - index[3];
    (void)random;
    return index[3] < shape->always_visible || (behind >= 0 && behind <= shape->window_left);
}

static int one_window(struct exact *e, const struct shape *shape)
{
    clattn_problem p = problem_of(e, shape);
    struct test_call bounded;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = shape->window_left;
    p.window_right = 0;
    p.always_visible_keys = shape->always_visible;
    exact_build(&bounded, &p, 0);
    return is_as_masked(e, shape, &bounded, window_shows);
}

int window_is_a_mask(struct exact *e, int64_t query_len, int64_t key_len)
{
    const int64_t most = key_len - query_len;
    const struct shape apart = { query_len, key_len, key_len * 6 / 11, key_len / 11 };
    const struct shape across = { query_len, key_len, 0, most > SPLIT_END ? most - SPLIT_END : most / 2 };
    return one_window(e, &apart) || one_window(e, &across) ? -1 : 0;
}

static int same_row(struct exact *e, const struct test_call *two, struct test_call *alone)
{
    int status = exact_run(e, alone);
    if (status == 0 && (!e->strategy || strncmp(e->strategy, "split", 5) != 0)) {
        return exact_within_bound(e, alone, alone);
    }
    for (int64_t at = 0; at < HEADS * WIDE_DIM_V && status == 0; ++at) {
        const int64_t h = at / WIDE_DIM_V, c = at % WIDE_DIM_V;
        const struct exact_row row = { alone, 0, h, 0 };
        status = exact_same_value(e, &row, c, test_call_get(two, TENSOR_OUT, 0, h, 1, c));
    }
    return status;
}

int window_rows_stand_alone(struct exact *e, int64_t key_len)
{
    const int64_t border = key_len > 2 * SPLIT_END ? SPLIT_END : SPLIT_END / 4;
    clattn_problem p = exact_problem(e, 1, HEADS, KV_HEADS, 2, key_len, HEAD_DIM, WIDE_DIM_V);
    struct test_call two, alone;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = key_len - p.query_len - border;
    p.window_right = 0;
    exact_build(&two, &p, 0);
    p.query_len = 1;
    exact_build(&alone, &p, 0);
    exact_copy_entry(&alone, 0, &two, 0, TENSOR_KEY);
    exact_copy_entry(&alone, 0, &two, 0, TENSOR_VALUE);
    for (int64_t at = 0; at < HEADS * HEAD_DIM; ++at) {
        const int64_t h = at / HEAD_DIM, c = at % HEAD_DIM;
        test_call_set(&alone, TENSOR_QUERY, 0, h, 0, c, test_call_get(&two, TENSOR_QUERY, 0, h, 1, c));
    }
    const int status = exact_run(e, &two) || same_row(e, &two, &alone) ? -1 : 0;
    test_call_free(&two);
    test_call_free(&alone);
    return status;
}

/* ---- row ranges ----------------------------------------------------------------------------- */

/* Heads that share keys begin far from each other. Every other row sees more: not the first, nor the last of many. */
static double low_of(struct random *random, const int64_t index[4], const void *context)
{
    const struct shape *shape = context;
    const int64_t h = index[1], i = index[2];
    (void)random;
    const int64_t first = h == 1 ? -9 : h == 3 ? shape->key_len / 5 : shape->key_len * 6 / 11;
    return (double)(first + 3 * i + (i % 2 ? 0 : shape->key_len / 8));
}

static double high_of(struct random *random, const int64_t index[4], const void *context)
{
    const struct shape *shape = context;
    const int64_t h = index[1], i = index[2];
    (void)random;
    const int64_t end = shape->key_len - shape->key_len / 7 + (h == 2 ? shape->key_len : 0);
    return i % 11 == 5 ? -2 : (double)(end - 2 * i - (i % 2 ? 0 : shape->key_len / 16));
}

static double range_shows(struct random *random, const int64_t index[4], const void *context)
{
    return (double)index[3] >= low_of(random, index, context) && (double)index[3] < high_of(random, index, context);
}

int ranges_are_a_mask(struct exact *e, int64_t query_len, int64_t key_len)
{
    const struct shape shape = { query_len, key_len, 0, 0 };
    clattn_problem p = problem_of(e, &shape);
    struct test_call bounded;
    p.features |= CLATTN_WITH_ROW_RANGES;
    exact_build(&bounded, &p, 0);
    test_call_fill(&bounded, TENSOR_ROW_LOW, NULL, low_of, &shape);
    test_call_fill(&bounded, TENSOR_ROW_HIGH, NULL, high_of, &shape);
    return is_as_masked(e, &shape, &bounded, range_shows);
}
