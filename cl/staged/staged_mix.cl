/* mix_values: out = weights value, one tile of rows x columns of out a work-group, over all keys that some row of
 * the tile may see. The last of the four kernels of the staged strategy, where CLBlast does not multiply.
 *
 *     scores[row i][key j]   left: softmax left weights there (staged.h)
 *     value[key j][column]   right, as it is, through local memory: value_tile[k][column], TILE_K keys deep
 *     out[row i][column]
 *
 *     group id 0: block of TILE_N columns   1: block of GROUP_ROWS rows   2: plane of the chunk
 *
 * The value of a hidden key never counts, not even as 0 * NaN: softmax left -0.0 as the weight of such a
 * key, which no exponential makes, and where a value is not finite the product is skipped by that sign.
 * Finite values need no test, since adding or subtracting 0 changes nothing. */
#define HAS_BARRIERS (GROUP_ITEMS > 1)
#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "pair/hidden.clh"
#include "forward/kv_rows.clh"
#include "pair/mask.clh"
#include "staged/staged_params.h"
#include "common/sum_and_rest.clh"
#include "common/tile_gemm.clh"

DEFINE_ADD_EXACTLY(add_sums, REALV)

#define GUARDED_PRODUCT(left, right, sum)                                                              \
    (IS_HIDDEN_WEIGHT(left) ? (sum) : PLAIN_PRODUCT(left, right, sum))

#if GROUP_ITEMS > 1
#define LEFT(m, k) weight_tile[TILE_ROW(0, m) * LEFT_PITCH + (k)]
#else
#define LEFT(m, k) weight_at[m][k]
#endif

/* value_tile[k][c] = value[first_key + k][first_column + c], 0 beyond the last column. Returns whether a
 * value that this work-item loaded is not finite. */
INLINE int load_values(const clattn_params *p, const attention_buffers *in, const kv_rows *values,
                       int first_key, int first_column, int depth, __local REAL *value_tile)
{
    INTV largest = (INTV)0; /* of bits without the sign: a NaN or an infinity is above all numbers. Mesa folds
                               value * 0 to 0, so arithmetic would not tell. */
    for (int element = ITEM; element < TILE_K * (TILE_N / VEC); element += GROUP_ITEMS) {
        const int k = element / (TILE_N / VEC), c = element % (TILE_N / VEC) * VEC;
        const int columns = p->head_dim_v - first_column - c;
        if (k >= depth) {
            continue;
        }
        const clattn_i64 at = kv_row(values, first_key + k) + (first_column + c) * values->column;
        REALV loaded = (REALV)0;
        if (columns >= VEC && values->column == 1) {
            loaded = LOADV_OF(VALUE_TYPE, in->value, at);
        } else {
            REAL lane[VEC];
            for (int n = 0; n < VEC; ++n) {
                lane[n] = n < columns ? VALUE_LOAD(in->value, at + n * values->column) : (REAL)0;
            }
            loaded = VLOAD(lane);
        }
        largest = max(largest, TO_BITS(loaded) & (INTV)MAGNITUDE_BITS);
        VSTORE(loaded, value_tile + k * RIGHT_PITCH + c);
    }
    INT_OF_REAL lane[VEC];
    VSTORE(largest, lane);
    int not_finite = 0;
    for (int n = 0; n < VEC; ++n) {
        not_finite |= lane[n] >= INFINITY_BITS;
    }
    return not_finite;
}

#if GROUP_ITEMS > 1
INLINE void load_weights(__global const REAL *scores, clattn_i64 row_stride, int rows, int depth,
                         __local REAL *weight_tile)
{
    /* Unrolled, NVIDIA's assembler spills a register in float64. */
    #pragma unroll 1
    for (int element = ITEM; element < TILE_M * TILE_K; element += GROUP_ITEMS) {
        const int i = element / TILE_K, k = element % TILE_K;
        if (k < depth) {
            weight_tile[i * LEFT_PITCH + k] = scores[min(i, rows - 1) * row_stride + k];
        }
    }
}
#endif

static inline void store_out(const clattn_params *p, const attention_buffers *in, clattn_i64 row_at, int column,
                             REALV total)
{
    REAL lane[VEC];
    VSTORE(total, lane);
#pragma unroll
    for (int n = 0; n < VEC; ++n) {
        if (column + n < p->head_dim_v) {
            OUT_STORE(in->out, row_at + (column + n) * STRIDE(out, 3), lane[n]);
        }
    }
}

__kernel TILE_ATTRIBUTES void mix_values(ATTENTION_ARGUMENTS, const staged_chunk chunk, __global REAL *scores)
{
    __local REAL value_tile[TILE_K * RIGHT_PITCH];
#if GROUP_ITEMS > 1
    __local REAL weight_tile[TILE_M * LEFT_PITCH];
    __local int group_not_finite;
    if (ITEM == 0) {
        group_not_finite = 0;
    }
    TILE_BARRIER();
#else
    int group_not_finite = 0;
#endif
    ATTENTION_INPUTS(p, in);
    const int plane = chunk.first_plane + (int)get_group_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int kv_head = h / (p->query_heads / p->kv_heads);
    const sequence s = sequence_of(p, &in, b);
    const int first_column = (int)get_group_id(0) * TILE_N;
    const int end_row = min(chunk.first_row + chunk.rows, s.query_len);
    const kv_rows values = value_rows_of(p, &in, &s, b, kv_head);
    const int first_row = chunk.first_row + (int)get_group_id(1) * GROUP_ROWS;
    const int rows = min(GROUP_ROWS, end_row - first_row);
    if (rows <= 0) {
        return;
    }
    const int low = key_low(p, &s, first_row), high = key_high(p, &s, first_row + rows - 1);
    __global const REAL *weight_rows = scores + get_group_id(2) * chunk.plane_stride +
                                       (first_row - chunk.first_row) * chunk.row_stride;
    REALV total[BLOCKS_M][REG_M][REG_V], rest[BLOCKS_M][REG_M][REG_V];
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS { total[block][m][v] = rest[block][m][v] = (REALV)0; }
    }
    /* Slabs begin at multiples of TILE_K, so that a row's sums do not depend on its neighbours. */
    const int first_slab = low - low % TILE_K;
    REALV sum[REG_M][REG_V];
    for (int slab = first_slab; slab < high; slab += TILE_K) {
        const int begins_sum = slab == first_slab || slab / TILE_K % SUM_SLABS == 0;
        const int ends_sum = slab + TILE_K >= high || (slab / TILE_K + 1) % SUM_SLABS == 0;
        const int first_key = max(slab, low), depth = min(slab + TILE_K, high) - first_key;
        const int not_finite = load_values(p, &in, &values, first_key, first_column, depth, value_tile);
#if GROUP_ITEMS > 1
        if (not_finite) {
            atomic_or(&group_not_finite, 1);
        }
#else
        group_not_finite |= not_finite;
#endif
        for (int block = 0; block < BLOCKS_M && block * TILE_M < rows; ++block) {
#if GROUP_ITEMS > 1
            load_weights(weight_rows + block * TILE_M * chunk.row_stride + first_key, chunk.row_stride,
                         rows - block * TILE_M, depth, weight_tile);
#else
            __global const REAL *weight_at[REG_M];
            for (int m = 0; m < REG_M; ++m) {
                weight_at[m] =
                    weight_rows + min(TILE_ROW(block, m), rows - 1) * chunk.row_stride + first_key;
            }
#endif
            TILE_BARRIER();
            if (begins_sum) {
                FOR_TILE_REGISTERS { sum[m][v] = (REALV)0; }
            }
            if (group_not_finite) {
                TILE_MULTIPLY(sum, depth, LEFT, value_tile, GUARDED_PRODUCT)
            } else {
                TILE_MULTIPLY(sum, depth, LEFT, value_tile, PLAIN_PRODUCT)
            }
            if (ends_sum) {
                FOR_TILE_REGISTERS { add_sums(&total[block][m][v], &rest[block][m][v], sum[m][v]); }
            }
            TILE_BARRIER();
        }
    }
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS
        {
            if (TILE_ROW(block, m) < rows) {
                store_out(p, &in, out_row_at(p, &s, b, h, first_row + TILE_ROW(block, m)),
                          first_column + TILE_COLUMN(v), total[block][m][v] + rest[block][m][v]);
            }
        }
    }
}
