/* Calls with bounds of keys, held against what the reference makes of the same calls with a mask. */
#include "key_bounds.h"

#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 40
#define HEAD_DIM_V 24

struct shape {
    int64_t query_len, key_len;
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

static int64_t always_visible(const struct shape *shape)
{
    return shape->key_len * 6 / 11;
}

static int64_t window(const struct shape *shape)
{
    return shape->key_len / 11;
}

/* Rows stand at the end of the keys. */
static double window_shows(struct random *random, const int64_t index[4], const void *context)
{
    const struct shape *shape = context;
    const int64_t behind = index[2] + shape->key_len - shape->query_len - index[3];
    (void)random;
    return index[3] < always_visible(shape) || (behind >= 0 && behind <= window(shape));
}

int window_is_a_mask(struct exact *e, int64_t query_len, int64_t key_len)
{
    const struct shape shape = { query_len, key_len };
    clattn_problem p = problem_of(e, &shape);
    struct test_call bounded;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = window(&shape);
    p.window_right = 0;
    p.always_visible_keys = always_visible(&shape);
    exact_build(&bounded, &p, 0);
    return is_as_masked(e, &shape, &bounded, window_shows);
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
    const struct shape shape = { query_len, key_len };
    clattn_problem p = problem_of(e, &shape);
    struct test_call bounded;
    p.features |= CLATTN_WITH_ROW_RANGES;
    exact_build(&bounded, &p, 0);
    test_call_fill(&bounded, TENSOR_ROW_LOW, NULL, low_of, &shape);
    test_call_fill(&bounded, TENSOR_ROW_HIGH, NULL, high_of, &shape);
    return is_as_masked(e, &shape, &bounded, range_shows);
}
