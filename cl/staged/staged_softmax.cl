/* softmax: a row of logits becomes weights, in place, in two passes, one work-group a row. The third kernel
 * of the staged strategy. Writes lse, and the caller's weights when these are the softmax; then applies
 * dropout to what mix reads.
 *
 *     group id 0: row of the chunk     1: plane
 *
 *     logits   | hidden | x x x x x x x x x x x x x | hidden |       bounds of the row: low, high
 *                       | item 0  | item 1 | item 0 |  ...           VEC keys each, in turn
 *
 *     pass 1   each lane: m = max x, l = sum exp(x - m), rescaled once a block; then over lanes and items
 *     pass 2   exp(x - m) * (1 / l), a sink being in l alone
 *
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.) Only keys between the bounds
 * are read; hidden keys among them carry HIDDEN_LOGIT when scale_mask ran. All hidden keys get -0.0. */
#define HAS_BARRIERS (ITEMS > 1)
#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "common/exp.clh"
#include "pair/hidden.clh"
#include "pair/mask.clh"
#include "pair/philox.clh"
#include "staged/staged_params.h"
#include "common/sum_and_rest.clh"
#include "common/tile_vector.clh"

#ifndef ITEMS
#define ITEMS 1 /* a power of two */
#endif
#define BLOCK 8 /* vectors that share one rescaling and one partial sum */

/* Unrolled, so that they stay in registers. */
#define FOR_BLOCK _Pragma("unroll") for (int n = 0; n < BLOCK; ++n)

#if ITEMS > 1
#define ROW_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#else
#define ROW_BARRIER()
#endif

/* What is known of a set of keys. Visible logits that are all -inf have the sum 0, and weights 0 / 0. */
typedef struct extent {
    REAL maximum, sum;
    int visible;
} extent;

/* The point that exponentials are taken from: any finite number will do when there is no maximum. */
#define ORIGIN(maximum) ((maximum) == -(REAL)INFINITY ? (REAL)0 : (maximum))
#define ORIGIN_VECTOR(maximum) ((maximum) == (REALV)(-INFINITY) ? (REALV)0 : (maximum))

static inline extent join(extent a, extent b)
{
    extent both;
    both.maximum = fmax(a.maximum, b.maximum);
    both.sum = a.sum * exp(a.maximum - ORIGIN(both.maximum)) + b.sum * exp(b.maximum - ORIGIN(both.maximum));
    both.visible = a.visible | b.visible;
    return both;
}

/* VEC keys from j on: their logits, -inf where hidden; sets the lanes of *visible that are not. */
static inline REALV load_logits(__global const REAL *row, int has_logits, int low, int high, int j,
                                INTV *visible)
{
    const REALV logits = VLOAD(row + j);
    const INTV keys = LANE_NUMBERS + (INTV)j;
    *visible = keys >= (INTV)low & keys < (INTV)high;
    if (has_logits) {
        *visible &= TO_BITS(logits) != (INTV)HIDDEN_LOGIT_BITS;
    }
    return *visible ? logits : (REALV)(-INFINITY);
}

DEFINE_ADD_EXACTLY(add_sums, REALV)

/* Pass 1 of one work-item, lanes joined. Sums of BLOCK vectors are added with what rounding takes away, and a maximum
 * rises by 1 at least, so that the errors of rescaling become less each time: no error grows with the row. */
static inline extent measure(__global const REAL *row, int has_logits, int low, int high)
{
    REALV maximum = (REALV)(-INFINITY), sum = (REALV)0, rest = (REALV)0;
    INTV visible = (INTV)0;
    const int step = ITEMS * VEC;
    const int first = low - low % step + (int)get_local_id(0) * VEC; /* the same keys as in pass 2 */
    for (int start = first; start < high; start += BLOCK * step) {
        REALV logits[BLOCK], block_maximum = (REALV)(-INFINITY);
        const int count = (high - start + step - 1) / step;
        FOR_BLOCK
        {
            if (start + n * step < high) {
                INTV now_visible;
                logits[n] = load_logits(row, has_logits, low, high, start + n * step, &now_visible);
                visible |= now_visible;
                block_maximum = fmax(block_maximum, logits[n]);
            }
        }
        const REALV new_maximum = block_maximum > maximum ? fmax(block_maximum, maximum + (REAL)1) : maximum;
        const REALV origin = ORIGIN_VECTOR(new_maximum);
        REALV block_sum = (REALV)0;
        FOR_BLOCK
        {
            if (n < count) {
                block_sum += exp_of_negative(logits[n] - origin);
            }
        }
        const REALV rescale = exp_of_negative(maximum - origin);
        sum *= rescale;
        rest *= rescale;
        add_sums(&sum, &rest, block_sum);
        maximum = new_maximum;
    }
    REAL lane_maximum[VEC], lane_sum[VEC];
    INT_OF_REAL lane_visible[VEC];
    VSTORE(maximum, lane_maximum);
    VSTORE(sum + rest, lane_sum);
    VSTORE(visible, lane_visible);
    extent all = { -(REAL)INFINITY, 0, 0 };
    for (int n = 0; n < VEC; ++n) {
        const extent lane = { lane_maximum[n], lane_sum[n], lane_visible[n] != 0 };
        all = lane.visible ? join(all, lane) : all;
    }
    return all;
}

#if ITEMS > 1
/* All work-items' extents joined, by a tree of fixed shape. Not the function's result: Oclgrind does not know what
 * clang makes of inlined functions that return a struct. */
INLINE void join_items(extent *all, __local REAL *maxima, __local REAL *sums, __local int *visible)
{
    const int item = (int)get_local_id(0);
    maxima[item] = all->maximum;
    sums[item] = all->sum;
    visible[item] = all->visible;
    for (int half_items = ITEMS / 2; half_items > 0; half_items /= 2) {
        ROW_BARRIER();
        if (item < half_items) {
            const extent a = { maxima[item], sums[item], visible[item] };
            const extent b = { maxima[item + half_items], sums[item + half_items],
                               visible[item + half_items] };
            const extent both = join(a, b);
            maxima[item] = both.maximum;
            sums[item] = both.sum;
            visible[item] = both.visible;
        }
    }
    ROW_BARRIER();
    all->maximum = maxima[0];
    all->sum = sums[0];
    all->visible = visible[0];
}
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void softmax(ATTENTION_ARGUMENTS,
                                                                         const staged_chunk chunk,
                                                                         __global REAL *scores)
{
#if ITEMS > 1
    __local REAL item_maximum[ITEMS], item_sum[ITEMS];
    __local int item_visible[ITEMS];
#endif
    ATTENTION_INPUTS(p, in);
    const int plane = chunk.first_plane + (int)get_group_id(1);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int i = chunk.first_row + (int)get_group_id(0);
    const sequence s = sequence_of(p, &in, b);
    const int exists = i < s.query_len;
    const int low = exists ? key_low(p, &s, i) : 0, high = exists ? key_high(p, &s, i) : 0;
    __global REAL *row = scores + get_group_id(1) * chunk.plane_stride +
                         get_group_id(0) * chunk.row_stride;

    extent all = measure(row, chunk.has_logits, low, high);
#if ITEMS > 1
    join_items(&all, item_maximum, item_sum, item_visible);
#endif
    /* From the maximum of the keys: beside a large sink exp_of_negative has no weights as small as theirs. */
    const REAL origin = ORIGIN(all.maximum);
    REAL carry = 1;
    if (HAS(SINKS)) {
        const extent keys = all, sink = { sink_of(p, &in, h), 1, 0 };
        all = join(keys, sink);
        carry = exp(keys.maximum - ORIGIN(all.maximum));
    }
    if (HAS(LSE) && exists && get_local_id(0) == 0) {
        in.lse[lse_at(p, &s, b, h, i)] = lse_of(p, all.visible, all.maximum, all.sum);
    }

    const REAL factor = all.visible ? carry / all.sum : 0;
    const int writes_weights = p->weights == CLATTN_CL_WEIGHTS_SOFTMAX;
    const clattn_i64 weights_at = weights_row_at(p, b, h, i);
    for (int j = (int)get_local_id(0) * VEC; j < p->key_len; j += ITEMS * VEC) {
        INTV visible = (INTV)0;
        REALV weight = (REALV)0;
        if (j < high && j + VEC > low) {
            const REALV logits = load_logits(row, chunk.has_logits, low, high, j, &visible);
            weight = visible ? exp_of_negative(logits - origin) * factor : (REALV)0;
        }
        if (writes_weights || HAS(DROPOUT)) {
            REAL lane[VEC];
            VSTORE(weight, lane);
            for (int n = 0; n < VEC && j + n < p->key_len; ++n) {
                if (writes_weights) {
                    in.weights[weights_at + (j + n) * STRIDE(weights, 3)] = lane[n];
                }
                if (HAS(DROPOUT)) {
                    lane[n] = dropout_keeps(p, b, h, i, j + n) ? lane[n] * PARAM_REAL(p, keep_scale) : 0;
                }
            }
            weight = VLOAD(lane);
        }
        if (exists) {
            VSTORE(visible ? weight : FROM_BITS((INTV)HIDDEN_WEIGHT_BITS), row + j);
        }
    }
}
