/* project: result = left right^T + bias, for CPU devices. Both matrices have their sums' axis innermost, so
 * float16 lanes run along it and nothing is packed or transposed: a tile of REG_M x REG_N results is that
 * many accumulators of sixteen partial sums, folded at the end of DEPTH_BLOCK products. Folded sums are added with what
 * rounding takes away, so that their number changes no error.
 *
 *                      right row n   [k0 ... k15]  x REG_N
 *     left row m       accumulator[m][n] += left[m][k0 ... k15] * right[n][k0 ... k15]
 *     [k0 ... k15]     result[m][n] = sum of its lanes
 *     x REG_M
 *
 *     group id 0: block of group_rows rows       1: block of group_columns columns      2: batch
 *
 * One work-item a work-group. REG_N rows of right stay in the first cache while all rows of the block
 * pass by. Small register files take COLUMNS_AT_ONCE of the columns after each other. */
#include "vector/lanes.clh"
#include "layers/project_params.h"
#include "common/sum_and_rest.clh"

#define REG_M PROJECT_LANES_ROWS
#define REG_N PROJECT_LANES_COLUMNS
#define DEPTH_BLOCK 2048 /* 128 roundings a lane; a multiple of LANES */
#define UNROLL _Pragma("unroll")
#ifndef COLUMNS_AT_ONCE
#define COLUMNS_AT_ONCE REG_N /* whose sums, times REG_M, the registers hold; they change no bit */
#endif

DEFINE_ADD_EXACTLY(add_exactly_8, float8)

/* Lanes: eight half sums of a, eight of b. */
static inline float16 fold_8(float16 a, float16 b)
{
    return (float16)(a.lo, b.lo) + (float16)(a.hi, b.hi);
}

static inline float16 fold_4(float16 a, float16 b)
{
    return (float16)(a.s0123, b.s0123, a.s89ab, b.s89ab) + (float16)(a.s4567, b.s4567, a.scdef, b.scdef);
}

static inline float16 fold_2(float16 a, float16 b)
{
    return (float16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd) +
           (float16)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef);
}

/* Sum of the lanes of each of v[0] ... v[7]. */
static inline float8 sum_of_8(const float16 *v)
{
    const float16 even = fold_4(fold_8(v[0], v[4]), fold_8(v[2], v[6]));
    const float16 odd = fold_4(fold_8(v[1], v[5]), fold_8(v[3], v[7]));
    const float16 pairs = fold_2(even, odd);
    return pairs.even + pairs.odd;
}

/* The last, incomplete vector of a row; zeros add nothing. */
static inline float16 load_tail(__global const STORAGE *from, int count)
{
    float16 tail = 0;
    for (int lane = 0; lane < count; ++lane) {
        set_lane(&tail, lane, LOAD(from, lane));
    }
    return tail;
}

#define MULTIPLY(LOAD_ROW)                                                                             \
    {                                                                                                  \
        float16 left_row[REG_M];                                                                       \
        UNROLL for (int m = 0; m < REG_M; ++m) { left_row[m] = LOAD_ROW(left_at[m] + k); }             \
        UNROLL for (int n = first; n < first + COLUMNS_AT_ONCE; ++n)                                   \
        {                                                                                              \
            const float16 right_row = LOAD_ROW(right_at[n] + k);                                       \
            UNROLL for (int m = 0; m < REG_M; ++m)                                                     \
            {                                                                                          \
                sums[m][n] = FMA(left_row[m], right_row, sums[m][n]);                                  \
            }                                                                                          \
        }                                                                                              \
    }
#define LOAD_TAIL(from) load_tail(from, p->depth - k)

/* float16 is widened by one instruction where every row begins at 16 bytes (see vector/lanes.clh). */
#if TYPE == CLATTN_CL_FLOAT16
#define ALIGNMENT_MATTERS 1
#define LOAD_ALIGNED(from) vload_half16(0, from)
#else
#define ALIGNMENT_MATTERS 0
#define LOAD_ALIGNED(from) LOAD_16(from)
#endif

static inline int rows_are_aligned(const clattn_project *p, __global const STORAGE *left,
                                   __global const STORAGE *right)
{
    const ulong strides = (ulong)(p->left_row | p->right_row) * sizeof(ushort);
    return (((ulong)left | (ulong)right | strides) & 15) == 0;
}

/* Sums of columns [from, end). Rows past the last one repeat it; what they give is not stored. */
static inline void sum_columns(const clattn_project *p, __global const STORAGE *left, __global const STORAGE *right,
                               int row, int column, int from, int end, float8 *results)
{
    __global const STORAGE *left_at[REG_M], *right_at[REG_N];
    float16 sums[REG_M][REG_N];
    UNROLL for (int m = 0; m < REG_M; ++m)
    {
        left_at[m] = left + min(row + m, p->rows - 1) * p->left_row;
    }
    UNROLL for (int n = 0; n < REG_N; ++n)
    {
        right_at[n] = right + min(column + n, p->columns - 1) * p->right_row;
    }
    UNROLL for (int m = 0; m < REG_M; ++m)
    {
        UNROLL for (int n = 0; n < REG_N; ++n) { sums[m][n] = 0; }
    }
    UNROLL for (int first = 0; first < REG_N; first += COLUMNS_AT_ONCE)
    {
        int k = from;
        if (ALIGNMENT_MATTERS && rows_are_aligned(p, left, right)) {
            for (; k + LANES <= end; k += LANES) {
                MULTIPLY(LOAD_ALIGNED)
            }
        }
        for (; k + LANES <= end; k += LANES) {
            MULTIPLY(LOAD_16)
        }
        if (k < end) {
            MULTIPLY(LOAD_TAIL)
        }
    }
    UNROLL for (int m = 0; m < REG_M; ++m) { results[m] = sum_of_8(sums[m]); }
}

/* What columns from DEPTH_BLOCK on add. Not inline: in one function with the first block, sums leave the registers. */
__attribute__((noinline)) static void add_columns(const clattn_project *p, __global const STORAGE *left,
                                                  __global const STORAGE *right, int row, int column, float8 *results)
{
    float8 rests[REG_M];
    UNROLL for (int m = 0; m < REG_M; ++m) { rests[m] = 0; }
    for (int from = DEPTH_BLOCK; from < p->depth; from += DEPTH_BLOCK) {
        float8 block[REG_M];
        sum_columns(p, left, right, row, column, from, min(from + DEPTH_BLOCK, p->depth), block);
        UNROLL for (int m = 0; m < REG_M; ++m) { add_exactly_8(&results[m], &rests[m], block[m]); }
    }
    UNROLL for (int m = 0; m < REG_M; ++m) { results[m] += rests[m]; }
}

static inline void make_results(const clattn_project *p, __global const STORAGE *left, __global const STORAGE *right,
                                int row, int column, float8 *results)
{
    sum_columns(p, left, right, row, column, 0, min(DEPTH_BLOCK, p->depth), results);
    if (p->depth > DEPTH_BLOCK) {
        add_columns(p, left, right, row, column, results);
    }
}

static inline float8 load_bias_of(const clattn_project *p, __global const STORAGE *bias, int column)
{
    float8 values = 0;
    for (int n = 0; n < REG_N && p->has_bias && column + n < p->columns; ++n) {
        ((float *)&values)[n] = LOAD(bias, p->bias_offset + column + n);
    }
    return values;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
project(const clattn_project params, __global const STORAGE *left, __global const STORAGE *right,
        __global const STORAGE *bias, __global STORAGE *result)
{
    const clattn_project *p = &params;
    const int batch = (int)get_group_id(2);
    const int first_row = (int)get_group_id(0) * p->group_rows;
    const int first_column = (int)get_group_id(1) * p->group_columns;
    const int end_row = min(first_row + p->group_rows, p->rows);
    const int end_column = min(first_column + p->group_columns, p->columns);
    left += p->left_offset + batch * p->left_batch;
    right += p->right_offset + batch * p->right_batch;
    result += p->result_offset + batch * p->result_batch;
    for (int column = first_column; column < end_column; column += REG_N) {
        const float8 added = load_bias_of(p, bias, column);
        const int columns = min(REG_N, end_column - column);
        for (int row = first_row; row < end_row; row += REG_M) {
            float8 results[REG_M];
            make_results(p, left, right, row, column, results);
            for (int m = 0; m < REG_M && row + m < end_row; ++m) {
                const float8 values = results[m] + added;
                for (int n = 0; n < columns; ++n) {
                    STORE(result, (row + m) * p->result_row + column + n, ((const float *)&values)[n]);
                }
            }
        }
    }
}
