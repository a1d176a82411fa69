/* One call with windows, one without, each of many sequences. */
#include "split_edges.h"

#include <math.h>

#define HEADS 2
#define ROWS 6 /* of two heads: no more than the kernels for few rows take */
#define HEAD_DIM 40
#define HEAD_DIM_V 24
#define SPLIT_KEYS 512
#define LEFT (SPLIT_KEYS - 1)
#define SHORTEST (2 * SPLIT_KEYS - 5)
#define SEQUENCES (ROWS + 11) /* until the first row's window begins 5 keys behind the end of a split */
#define KEYS (SHORTEST + SEQUENCES + 40)

static int64_t length_of_sequence(int64_t b)
{
    return SHORTEST + b;
}

static int64_t first_key_of_window(int64_t b, int64_t i)
{
    return length_of_sequence(b) - ROWS + i - LEFT;
}

static double fill_length(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)context;
    return (double)length_of_sequence(index[3]);
}

/* Rows stand at the end of the keys. */
static double shows(struct random *random, const int64_t index[4], const void *context)
{
    const int has_window = *(const int *)context;
    const int64_t last = length_of_sequence(index[0]) - (has_window ? ROWS - index[2] : 1);
    (void)random;
    return index[3] <= last && (!has_window || index[3] >= first_key_of_window(index[0], index[2]));
}

/* The last keys count much: a split that has few of them must not be missed. */
static double fill_value(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t behind = length_of_sequence(index[0]) - index[2];
    (void)context;
    return random_normal(random) + (behind > 0 && behind <= ROWS ? 1000 : 0);
}

static int one_call(struct exact *e, int has_window)
{
    clattn_problem p = exact_problem(e, SEQUENCES, HEADS, 1, ROWS, KEYS, HEAD_DIM, HEAD_DIM_V);
    struct test_call bounded, masked;
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_MASK;
    exact_build(&masked, &p, 0);
    test_call_fill(&masked, TENSOR_MASK, NULL, shows, &has_window);
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_KEY_LENGTHS;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = has_window ? LEFT : -1;
    p.window_right = has_window ? 0 : -1;
    exact_build(&bounded, &p, 0);
    test_call_fill(&bounded, TENSOR_KEY_LENGTHS, NULL, fill_length, NULL);
    struct random random = random_start(8, 0), again = random;
    test_call_fill(&masked, TENSOR_VALUE, &random, fill_value, NULL);
    test_call_fill(&bounded, TENSOR_VALUE, &again, fill_value, NULL);
    for (int64_t b = 0; b < SEQUENCES && has_window; ++b) {
        for (int64_t c = 0; c < HEAD_DIM_V; ++c) {
            test_call_set(&masked, TENSOR_VALUE, b, 0, first_key_of_window(b, 0), c, (double)NAN);
            test_call_set(&bounded, TENSOR_VALUE, b, 0, first_key_of_window(b, 0), c, (double)NAN);
        }
    }
    const int status = exact_run(e, &bounded) || exact_within_bound(e, &bounded, &masked) ? -1 : 0;
    test_call_free(&bounded);
    test_call_free(&masked);
    return status;
}

int split_edges_are_a_mask(struct exact *e)
{
    return one_call(e, 1) || one_call(e, 0) ? -1 : 0;
}
