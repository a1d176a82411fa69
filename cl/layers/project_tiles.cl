/* project_tiles: the projection of project_params.h for devices without wide registers, one tile of rows x columns
 * a work-group (common/tile_gemm.clh). add_bias: what a matrix multiply of CLBlast leaves to be done.
 *
 *     left [row m][depth]    as it is               right [column n][depth]   transposed:
 *     result[m][n]                                  right_tile[k][n] in local memory, TILE_K deep
 *
 * SUM_SLABS slabs of TILE_K are summed in one go, and these sums are added with what rounding takes away.
 *
 *     group id 0: block of TILE_N columns     1: block of GROUP_ROWS rows     2: batch */
#include "common/tile_gemm.clh"
#include "layers/project_params.h"
#include "common/sum_and_rest.clh"

DEFINE_ADD_EXACTLY(add_sums, REALV)

#if GROUP_ITEMS > 1
#define LEFT(m, k) left_tile[TILE_ROW(0, m) * LEFT_PITCH + (k)]
#else
#define LEFT(m, k) LOAD(left, min(row + (m), last_row) * p->left_row + first_k + (k))
#endif

/* tile[k][n] = right[first_column + n][first_k + k]; past the last column it is repeated. */
INLINE void load_right(const clattn_project *p, __global const STORAGE *right, int first_column,
                       int first_k, int depth, __local REAL *tile)
{
    for (int element = ITEM; element < TILE_N * TILE_K; element += GROUP_ITEMS) {
        const int n = element / TILE_K, k = element % TILE_K; /* neighbours read neighbours */
        if (k < depth) {
            tile[k * RIGHT_PITCH + n] =
                LOAD(right, min(first_column + n, p->columns - 1) * p->right_row + first_k + k);
        }
    }
}

#if GROUP_ITEMS > 1
INLINE void load_left(const clattn_project *p, __global const STORAGE *left, int first_row,
                      int first_k, int depth, __local REAL *tile)
{
    for (int element = ITEM; element < TILE_M * TILE_K; element += GROUP_ITEMS) {
        const int m = element / TILE_K, k = element % TILE_K;
        if (k < depth) {
            tile[m * LEFT_PITCH + k] =
                LOAD(left, min(first_row + m, p->rows - 1) * p->left_row + first_k + k);
        }
    }
}
#endif

static inline void store_tile(const clattn_project *p, __global const STORAGE *bias,
                              __global STORAGE *result, int row, int column, REALV value)
{
    _Pragma("unroll") for (int lane = 0; lane < VEC; ++lane) {
        if (row < p->rows && column + lane < p->columns) {
            const REAL added = p->has_bias ? LOAD(bias, p->bias_offset + column + lane) : 0;
            STORE(result, row * p->result_row + column + lane, ((const REAL *)&value)[lane] + added);
        }
    }
}

__kernel TILE_ATTRIBUTES void project_tiles(const clattn_project params, __global const STORAGE *left,
                                            __global const STORAGE *right,
                                            __global const STORAGE *bias, __global STORAGE *result)
{
    __local REAL right_tile[TILE_K * RIGHT_PITCH];
#if GROUP_ITEMS > 1
    __local REAL left_tile[TILE_M * LEFT_PITCH];
#endif
    const clattn_project *p = &params;
    const int batch = (int)get_group_id(2), first_column = (int)get_group_id(0) * TILE_N;
    const int first_row = (int)get_group_id(1) * GROUP_ROWS, last_row = p->rows - 1;
    left += p->left_offset + batch * p->left_batch;
    right += p->right_offset + batch * p->right_batch;
    result += p->result_offset + batch * p->result_batch;
    REALV total[BLOCKS_M][REG_M][REG_V], rest[BLOCKS_M][REG_M][REG_V];
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS { total[block][m][v] = rest[block][m][v] = (REALV)0; }
    }
    REALV sum[REG_M][REG_V];
    for (int first_k = 0; first_k < p->depth; first_k += TILE_K) {
        const int depth = min(TILE_K, p->depth - first_k);
        const int begins_sum = first_k / TILE_K % SUM_SLABS == 0;
        const int ends_sum = first_k + TILE_K >= p->depth || (first_k / TILE_K + 1) % SUM_SLABS == 0;
        load_right(p, right, first_column, first_k, depth, right_tile);
        for (int block = 0; block < BLOCKS_M && first_row + block * TILE_M <= last_row; ++block) {
            const int row = first_row + block * TILE_M;
#if GROUP_ITEMS > 1
            load_left(p, left, row, first_k, depth, left_tile);
#endif
            TILE_BARRIER();
            if (begins_sum) {
                FOR_TILE_REGISTERS { sum[m][v] = (REALV)0; }
            }
            TILE_MULTIPLY(sum, depth, LEFT, right_tile, PLAIN_PRODUCT)
            if (ends_sum) {
                FOR_TILE_REGISTERS { add_sums(&total[block][m][v], &rest[block][m][v], sum[m][v]); }
            }
            TILE_BARRIER();
        }
    }
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS
        {
            store_tile(p, bias, result, first_row + TILE_ROW(block, m), first_column + TILE_COLUMN(v),
                       total[block][m][v] + rest[block][m][v]);
        }
    }
}

/* global id 0: row, of which there may be any number     1: column     2: batch */
__kernel void add_bias(const clattn_project params, __global const STORAGE *bias,
                       __global STORAGE *result)
{
    const clattn_project *p = &params;
    const int column = (int)get_global_id(1);
    const clattn_i64 at = p->result_offset + get_global_id(2) * p->result_batch +
                          get_global_id(0) * p->result_row + column;
    if (column < p->columns) {
        STORE(result, at, LOAD(result, at) + LOAD(bias, p->bias_offset + column));
    }
}
