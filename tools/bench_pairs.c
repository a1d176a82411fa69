#include "bench_pairs.h"

int64_t bench_key_length(const clattn_problem *p, int64_t batch_entry)
{
    return p->features & CLATTN_WITH_KEY_LENGTHS && p->page_size == 0
               ? (int64_t)((double)p->key_len * (double)(batch_entry + 1) / (double)p->batch)
               : p->key_len;
}

/* Keys from `low` to `high` are in sight of a query, of the first `always` too. */
static int64_t count_keys(int64_t low, int64_t high, int64_t always)
{
    if (low < 0) {
        low = 0;
    }
    if (high < low) {
        return always;
    }
    return high + 1 - low + (always < low ? always : low) + (always > high + 1 ? always - high - 1 : 0);
}

static int64_t visible_keys(const clattn_problem *p, int64_t position, int64_t length)
{
    const int64_t end = p->causal && position + 1 < length ? position + 1 : length;
    const int64_t last = end > 0 ? end : 0;
    const int has_left = p->window_left >= 0, has_right = p->window_right >= 0;
    const int64_t right = has_right ? position + p->window_right : last - 1;
    const int64_t always = has_left || has_right ? p->always_visible_keys : 0;
    return count_keys(has_left ? position - p->window_left : 0, right < last ? right : last - 1,
                      always < last ? always : last);
}

double bench_visible_pairs(const clattn_problem *p)
{
    double pairs = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        const int64_t length = bench_key_length(p, b);
        const int64_t offset = p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? length - p->query_len : 0;
        for (int64_t i = 0; i < p->query_len; i++) {
            pairs += (double)visible_keys(p, i + offset, length);
        }
    }
    return pairs;
}
