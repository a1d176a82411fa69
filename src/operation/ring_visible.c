/* Which rows of a piece see which keys of another, and the partial call that computes them. Row i of the piece is row
 * p + n i of the whole, key j is key k + n j: so n stands on both sides of each mask, and rows see keys by their places
 * in the pieces as they do in the whole, but for a remainder that is rounded to where the next key is. */
#include "base/checked_math.h"
#include "base/error.h"
#include "base/growth.h"
#include "operation/problem.h"
#include "operation/ring.h"

GROWTH_ELSEWHERE(clattn_problem);
GROWTH_ELSEWHERE(clattn_call);

/* ---- who sees whom ---------------------------------------------------------------------------- */

static int64_t floor_to(int64_t a, int64_t n)
{
    return a >= 0 ? a / n : -((n - 1 - a) / n);
}

static int64_t ceil_to(int64_t a, int64_t n)
{
    return -floor_to(-a, n);
}

void ring_band(const clattn_ring *ring, int64_t b, const clattn_ring_piece *rows, const clattn_ring_piece *keys,
               struct ring_band *band)
{
    const clattn_problem *p = &ring->whole;
    const int64_t n = rows->step, at = rows->first + ring->offset[b] - keys->first;
    const int64_t right = p->causal ? 0 : p->window_right;
    band->has_low = p->window_left >= 0;
    band->low = ceil_to(at - p->window_left, n);
    band->has_high = right >= 0;
    band->high = floor_to(at + right, n);
    band->causal_high = floor_to(at, n);
}

static int sequence_sees(const clattn_ring *ring, int64_t b, const clattn_ring_piece *rows,
                         const clattn_ring_piece *keys)
{
    const int64_t last_row = rows->count - 1, key_end = ring_before(keys, ring->length[b]);
    struct ring_band band;
    if (rows->count == 0 || key_end == 0) {
        return 0;
    }
    ring_band(ring, b, rows, keys, &band);
    if (ring_before(keys, ring->whole.always_visible_keys) > 0 &&
        (!ring->whole.causal || last_row + band.causal_high >= 0)) {
        return 1;
    }
    if (band.has_low && band.has_high && band.low > band.high) {
        return 0;
    }
    return (!band.has_low || band.low < key_end) && (!band.has_high || last_row + band.high >= 0);
}

int ring_sees(const clattn_ring *ring, const clattn_ring_piece *rows, const clattn_ring_piece *keys)
{
    for (int64_t b = 0; b < ring->whole.batch && ring->whole.query_heads > 0; ++b) {
        if (sequence_sees(ring, b, rows, keys)) {
            return 1;
        }
    }
    return 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t at_least_0(int64_t a)
{
    return a > 0 ? a : 0;
}

#define ROWS_LOOKED_AT 4096

/* Row i sees keys low to high - 1, and those before `pinned`. */
static double sequence_pairs(const clattn_ring *ring, int64_t b, const clattn_ring_piece *rows,
                             const clattn_ring_piece *keys)
{
    const int64_t end = ring_before(keys, ring->length[b]), every = (rows->count - 1) / ROWS_LOOKED_AT + 1;
    const int64_t always = smaller(end, ring_before(keys, ring->whole.always_visible_keys));
    struct ring_band band;
    double seen = 0;
    int64_t looked_at = 0;
    ring_band(ring, b, rows, keys, &band);
    for (int64_t i = every / 2; i < rows->count; i += every, ++looked_at) {
        const int64_t low = band.has_low ? at_least_0(i + band.low) : 0;
        const int64_t high = band.has_high ? smaller(end, i + band.high + 1) : end;
        const int64_t pinned = ring->whole.causal ? smaller(always, i + band.causal_high + 1) : always;
        seen += (double)(at_least_0(high - low) + at_least_0(pinned) - at_least_0(smaller(pinned, high) - low));
    }
    return looked_at > 0 ? seen / (double)looked_at * (double)rows->count : 0;
}

double ring_pairs(const clattn_ring *ring, const clattn_ring_task *task)
{
    double pairs = 0;
    for (int64_t b = 0; b < ring->whole.batch; ++b) {
        pairs += sequence_pairs(ring, b, &task->rows, &task->keys);
    }
    return pairs * (double)(task->kv_heads * problem_group(&ring->whole));
}

/* ---- the partial call -------------------------------------------------------------------------- */

/* The rows or keys of the largest task. */
static int64_t largest(const clattn_ring *ring, int64_t length, int is_whole)
{
    const int64_t ranks = ring->options.ranks;
    const int64_t pieces = ring->options.layout == CLATTN_RING_ZIGZAG ? 2 * ranks : ranks;
    return is_whole ? length : ceil_div(length, pieces);
}

/* Where pieces have other places than the whole, a band stands for causal and window. */
static void place_stripes(const clattn_ring *ring, const clattn_ring_task *task, clattn_problem *problem,
                          int32_t *offsets)
{
    struct ring_band band = { 0, 0, 0, 0, 0 };
    for (int64_t b = 0; b < problem->batch; ++b) {
        ring_band(ring, b, &task->rows, &task->keys, &band);
        offsets[b] = (int32_t)(band.has_high ? band.high : band.low);
    }
    problem->window_left = band.has_low ? band.has_high ? band.high - band.low : 0 : -1;
    problem->window_right = band.has_high && !problem->causal ? 0 : -1;
}

static void place_rows(const clattn_ring *ring, const clattn_ring_task *task, clattn_problem *problem, int32_t *offsets)
{
    if (problem->alignment == CLATTN_ALIGN_UNSET) {
        return;
    }
    problem->alignment = CLATTN_ALIGN_OFFSETS;
    if (task->rows.step > 1) {
        place_stripes(ring, task, problem, offsets);
        return;
    }
    for (int64_t b = 0; b < problem->batch; ++b) {
        offsets[b] = (int32_t)(task->rows.first + ring->offset[b] - task->keys.first);
    }
}

static void set_call(const clattn_ring *ring, const clattn_ring_task *task, int64_t group, clattn_call *call)
{
    if (call->mask_key_len >= 0) {
        call->mask_key_len = ring_before(&task->keys, call->mask_key_len);
    }
    if (call->bias_key_len >= 0) {
        call->bias_key_len = ring_before(&task->keys, call->bias_key_len);
    }
    call->query_len = task->rows.count;
    call->key_len = task->keys.count;
    call->first_row += task->rows.first;
    call->first_key += task->keys.first;
    call->first_head += task->first_kv_head * group;
    call->whole_heads = call->whole_heads ? call->whole_heads : ring->whole.query_heads;
}

static void set_problem(const clattn_ring *ring, const clattn_ring_task *task, int64_t group, clattn_problem *problem,
                        int32_t *offsets)
{
    const clattn_problem *whole = &ring->whole;
    const int is_part = ring->options.algorithm != CLATTN_RING_HEADS;
    *problem = *whole;
    problem->kv_heads = task->kv_heads;
    problem->query_heads = task->kv_heads * group;
    problem->query_len = largest(ring, whole->query_len, task->row_shard < 0);
    problem->key_len = largest(ring, whole->key_len, task->key_shard < 0);
    problem->out_type = is_part && !ring->options.gradients ? CLATTN_FLOAT32 : whole->out_type;
    problem->features |= is_part ? (uint32_t)CLATTN_WITH_LSE : 0;
    problem->features &= task->has_sinks ? ~(uint32_t)0 : ~(uint32_t)CLATTN_WITH_SINKS;
    problem->sinks_type = task->has_sinks ? whole->sinks_type : CLATTN_TYPE_NONE;
    problem->always_visible_keys = ring_before(&task->keys, whole->always_visible_keys);
    place_rows(ring, task, problem, offsets);
}

clattn_status ring_call(const clattn_ring *ring, const clattn_ring_task *task, clattn_problem *problem,
                        clattn_call *call, int32_t *offsets, int32_t *lengths)
{
    const int64_t group = problem_group(&ring->whole);
    clattn_problem part;
    clattn_call values;
    clattn_status status = growth_copy(GROWTH_OF(clattn_call), call, &values);
    if (status == CLATTN_OK && (values.query_len >= 0 || values.key_len >= 0)) {
        status = error_set(CLATTN_INVALID_ARGUMENT,
                           "call: query_len and key_len of a whole must be -1; a schedule is of the problem's lengths");
    }
    if (status == CLATTN_OK && values.mask_first_key != 0) {
        status = error_set(CLATTN_UNSUPPORTED,
                           "call: mask_first_key %lld: a schedule's masks are of all keys; make one of all, and set 0",
                           (long long)values.mask_first_key);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    set_problem(ring, task, group, &part, offsets);
    set_call(ring, task, group, &values);
    for (int64_t b = 0; b < part.batch; ++b) {
        lengths[b] = (int32_t)ring_before(&task->keys, ring->length[b]);
    }
    status = growth_give(GROWTH_OF(clattn_problem), &part, problem);
    return status == CLATTN_OK ? growth_give(GROWTH_OF(clattn_call), &values, call) : status;
}
