/* What the gradients of layers need around their matrix products, which are projections (project_params.h) of matrices
 * whose sums run along the rows: copies that turn them round, sums of columns, and the way into the caller's arrays.
 *
 *     copy          from [count] of TYPE             -> to [count] of REAL
 *     transpose     from [rows][columns] of TYPE     -> to [columns][rows] of REAL; rows that are not kept as zeros
 *     mark_rows     from [rows][columns] of TYPE     -> to [rows]: 1 where an element is not 0, NaN included
 *     sum_columns   from [rows][columns] of TYPE     -> to [columns]
 *     give          from [count] of REAL             -> to [count] of OUT_TYPE, or added to what is there
 *
 * A row of a gradient that is 0 everywhere multiplies a row that no one sees, which may hold a NaN: hence the marks.
 *
 * group id 0: LAYER_MATRIX_RUN elements (copy, give), LAYER_MATRIX_TILE rows (transpose, mark_rows) or columns
 * (sum_columns)      1: LAYER_MATRIX_TILE columns (transpose) */
#include "layers/layer_matrix_params.h"
#include "common/sum_and_rest.clh"
#include "common/types.clh"

#define TILE LAYER_MATRIX_TILE
#define BLOCK 64 /* rows that are summed in one go */

DEFINE_ADD_EXACTLY(add_exactly, REAL)

#define FOR_RUN(p, i)                                                                                  \
    for (clattn_i64 i = (clattn_i64)get_group_id(0) * LAYER_MATRIX_RUN + get_local_id(0),              \
                    end_ = min(i - (clattn_i64)get_local_id(0) + LAYER_MATRIX_RUN, (p)->count);        \
         i < end_; i += get_local_size(0))

__kernel void copy(const clattn_layer_matrix params, __global const STORAGE *from, __global REAL *to)
{
    const clattn_layer_matrix *p = &params;
    FOR_RUN(p, i) { to[p->to_offset + i] = LOAD(from, p->from_offset + i); }
}

__kernel void transpose(const clattn_layer_matrix params, __global const STORAGE *from,
                        __global const REAL *kept, __global REAL *to)
{
    __local REAL tile[TILE][TILE + 1];
    const clattn_layer_matrix *p = &params;
    const int first_row = (int)get_group_id(0) * TILE, first_column = (int)get_group_id(1) * TILE;
    const int rows = min(TILE, p->rows - first_row), columns = min(TILE, p->columns - first_column);
    const int item = (int)get_local_id(0), items = (int)get_local_size(0);
    for (int r = 0; r < rows; ++r) {
        const clattn_i64 at = p->from_offset + (first_row + r) * p->from_row + first_column;
        const int is_kept = !p->has_kept || kept[p->kept_offset + first_row + r] != 0;
        for (int c = item; c < columns; c += items) {
            tile[r][c] = is_kept ? LOAD(from, at + c) : 0;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = 0; c < columns; ++c) {
        const clattn_i64 at = p->to_offset + (first_column + c) * p->to_row + first_row;
        for (int r = item; r < rows; r += items) {
            to[at + r] = tile[r][c];
        }
    }
}

__kernel void mark_rows(const clattn_layer_matrix params, __global const STORAGE *from, __global REAL *to)
{
    const clattn_layer_matrix *p = &params;
    const int first_row = (int)get_group_id(0) * TILE, end = min(first_row + TILE, p->rows);
    for (int row = first_row + (int)get_local_id(0); row < end; row += (int)get_local_size(0)) {
        int is_zero = 1;
        for (int c = 0; c < p->columns && is_zero; ++c) {
            is_zero = LOAD(from, p->from_offset + row * p->from_row + c) == 0;
        }
        to[p->to_offset + row] = is_zero ? 0 : 1;
    }
}

__kernel void sum_columns(const clattn_layer_matrix params, __global const STORAGE *from, __global REAL *to)
{
    const clattn_layer_matrix *p = &params;
    const int column = (int)get_global_id(0);
    REAL total = 0, rest = 0;
    for (int first = 0; first < p->rows && column < p->columns; first += BLOCK) {
        REAL sum = 0;
        for (int row = first; row < min(first + BLOCK, p->rows); ++row) {
            sum += LOAD(from, p->from_offset + row * p->from_row + column);
        }
        add_exactly(&total, &rest, sum);
    }
    if (column < p->columns) {
        to[p->to_offset + column] = total + rest;
    }
}

__kernel void give(const clattn_layer_matrix params, __global const REAL *from,
                   __global STORAGE_OF(OUT_TYPE) *to)
{
    const clattn_layer_matrix *p = &params;
    FOR_RUN(p, i)
    {
        const REAL value = p->is_zero ? 0 : from[p->from_offset + i];
        const REAL before = p->accumulate ? LOAD_OF(OUT_TYPE, to, p->to_offset + i) : 0;
        STORE_OF(OUT_TYPE, to, p->to_offset + i, p->accumulate ? before + value : value);
    }
}
