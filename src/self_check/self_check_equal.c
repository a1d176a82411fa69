/* The turn of equal terms: rounding errors of a long sum whose terms are equal all go one way. So the turn shows
 * kernels whose sums are not made of blocks, or whose blocks a compiler put together again. Other turns have too few
 * terms. */
#include "operation/forward.h"
#include "self_check/self_check_call.h"

#define EQUAL_VALUE 1.8 /* of which a sum of 2,000, 4,000 or 8,000 in a row errs by most */

/* Multiply-adds that the reference may be asked for, as in self_check_call.c: without and with gradients. */
static const double work_most[2] = { 5e6, 1.2e6 };

/* Keys of which a row sees all, whatever the call's window, ring and offsets are. */
static int sees_all_keys(const clattn_problem *p, int64_t keys)
{
    const int is_moving = p->causal || p->window_left >= 0 || p->window_right >= 0;
    const int is_cut = (p->window_left >= 0 && p->window_left < keys) || forward_ring_turns(p);
    return !is_cut && !(is_moving && p->alignment == CLATTN_ALIGN_TOP_LEFT);
}

/* Terms that few bits are left of say nothing: a result of 16 bits rounds more away than a long sum errs by. */
static int has_bits(const clattn_problem *p, int of_gradients)
{
    const clattn_type type = of_gradients ? p->type : p->out_type;
    return type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64;
}

/* Rows of all heads that share a key are terms of its gradients; those that see it are, which rules may hide. */
static int sums_rows(const clattn_problem *p)
{
    return !p->causal && p->window_left < 0 && p->window_right < 0;
}

int check_equal_lengths(const clattn_problem *p, int of_gradients, int64_t *rows, int64_t *keys)
{
    static const int64_t steps[] = { 8100, 4090, 2040 };
    const int64_t group = problem_group(p);
    if (!has_bits(p, of_gradients) || p->page_size > CHECK_MANY_PAGE_ROWS) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); ++i) {
        *rows = of_gradients ? steps[i] / group : 1;
        *keys = of_gradients ? 2 : steps[i];
        const double work = (double)*rows * (double)*keys * (double)group *
                            ((double)p->head_dim + (double)p->head_dim_v);
        if (*rows <= p->query_len && *keys <= p->key_len && work <= work_most[of_gradients] &&
            (of_gradients ? sums_rows(p) : sees_all_keys(p, *keys))) {
            return 1;
        }
    }
    return 0;
}

double check_equal_value(const struct check_call *check, int id, int64_t stored_row, int64_t column)
{
    const double of_column = 0.25 + 0.125 * (double)(column % 3);
    if (id == TENSOR_VALUE) { /* gradients: of the second key another, or its dZ would be 0 */
        return EQUAL_VALUE * (check->of_gradients && stored_row % 2 ? -0.5 : 1);
    }
    return !check->of_gradients ? 0 : id == TENSOR_KEY && stored_row % 2 ? -of_column : of_column;
}
