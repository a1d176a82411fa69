/* score: scores = scale * query key^T, one tile of rows x keys a work-group. The first of the four kernels
 * of the staged strategy, where CLBlast does not multiply.
 *
 *     query [row i][head_dim]   left, as it is              key [key j][head_dim]   right, transposed:
 *     scores[row i][key j]      see staged.h                key_tile[k][j] in local memory, TILE_K deep
 *
 *     group id 0: block of TILE_N keys   1: block of GROUP_ROWS rows   2: plane of the chunk
 *
 * Tiles of which no row may see a key are left out, except where the caller wants all scores. */
#define HAS_BARRIERS (GROUP_ITEMS > 1)
#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "forward/kv_rows.clh"
#include "pair/mask.clh"
#include "staged/staged_params.h"
#include "common/tile_gemm.clh"

#if GROUP_ITEMS > 1
#define LEFT(m, k) query_tile[TILE_ROW(0, m) * LEFT_PITCH + (k)]
#else
#define LEFT(m, k) LOAD(in.query, query_at[m] + (k) * STRIDE(query, 3))
#endif

/* Keys that some row of [first, last] may see, or whose scores are wanted: [low, high). */
static inline int2 wanted_keys(const clattn_params *p, const sequence *s, int first, int last)
{
    if (p->weights == CLATTN_CL_WEIGHTS_SCORES || p->weights == CLATTN_CL_WEIGHTS_SOFTCAP) {
        return (int2)(0, s->stored_len);
    }
    return (int2)(key_low(p, s, first), key_high(p, s, last));
}

/* key_tile[k][j] = key[first_key + j][first_k + k]; beyond the last key it is repeated, beyond head_dim
 * nothing is read. Neighbouring work-items read neighbours; a single one goes along the rows. */
INLINE void load_keys(const attention_buffers *in, const kv_rows *keys, int first_key, int last_key,
                      int first_k, int depth, __local REAL *key_tile)
{
#if GROUP_ITEMS > 1
    for (int element = ITEM; element < TILE_N * TILE_K; element += GROUP_ITEMS) {
        const int j = element / TILE_K, k = element % TILE_K;
        if (k < depth) {
            key_tile[k * RIGHT_PITCH + j] =
                KEY_LOAD(in->key, kv_row(keys, min(first_key + j, last_key)) + (first_k + k) * keys->column);
        }
    }
#else
    for (int j = 0; j < TILE_N; ++j) {
        const clattn_i64 row_at = kv_row(keys, min(first_key + j, last_key)) + first_k * keys->column;
        for (int k = 0; k < depth; ++k) {
            key_tile[k * RIGHT_PITCH + j] = KEY_LOAD(in->key, row_at + k * keys->column);
        }
    }
#endif
}

#if GROUP_ITEMS > 1
INLINE void load_queries(const clattn_params *p, const attention_buffers *in, clattn_i64 query_at,
                         int first_row, int last_row, int first_k, int depth,
                         __local REAL *query_tile)
{
    for (int element = ITEM; element < TILE_M * TILE_K; element += GROUP_ITEMS) {
        const int i = element / TILE_K, k = element % TILE_K;
        if (k < depth) {
            query_tile[i * LEFT_PITCH + k] =
                LOAD(in->query, query_at + min(first_row + i, last_row) * STRIDE(query, 2) +
                                    (first_k + k) * STRIDE(query, 3));
        }
    }
}
#endif

__kernel TILE_ATTRIBUTES void score(ATTENTION_ARGUMENTS, const staged_chunk chunk, __global REAL *scores)
{
    __local REAL key_tile[TILE_K * RIGHT_PITCH];
#if GROUP_ITEMS > 1
    __local REAL query_tile[TILE_M * LEFT_PITCH];
#endif
    ATTENTION_INPUTS(p, in);
    const int plane = chunk.first_plane + (int)get_group_id(2);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int kv_head = h / (p->query_heads / p->kv_heads);
    const sequence s = sequence_of(p, &in, b);
    const int first_key = (int)get_group_id(0) * TILE_N;
    const int end_row = min(chunk.first_row + chunk.rows, s.query_len);
    const kv_rows keys = key_rows_of(p, &in, &s, b, kv_head);
    const clattn_i64 query_head_at = query_row_at(p, &s, b, h, 0);
    const int first_row = chunk.first_row + (int)get_group_id(1) * GROUP_ROWS;
    const int last_row = min(first_row + GROUP_ROWS, end_row) - 1;
    const int2 wanted = wanted_keys(p, &s, first_row, last_row);
    if (last_row < first_row || first_key >= wanted.y || first_key + TILE_N <= wanted.x) {
        return;
    }
    REALV total[BLOCKS_M][REG_M][REG_V];
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS { total[block][m][v] = (REALV)0; }
    }
    REALV sum[REG_M][REG_V];
    for (int first_k = 0; first_k < p->head_dim; first_k += TILE_K) {
        const int depth = min(TILE_K, p->head_dim - first_k);
        const int begins_sum = first_k / TILE_K % SUM_SLABS == 0;
        const int ends_sum = first_k + TILE_K >= p->head_dim || (first_k / TILE_K + 1) % SUM_SLABS == 0;
        load_keys(&in, &keys, first_key, s.stored_len - 1, first_k, depth, key_tile);
        for (int block = 0; block < BLOCKS_M && first_row + block * TILE_M <= last_row; ++block) {
            const int block_row = first_row + block * TILE_M;
#if GROUP_ITEMS > 1
            load_queries(p, &in, query_head_at, block_row, last_row, first_k, depth, query_tile);
#else
            clattn_i64 query_at[REG_M];
            for (int m = 0; m < REG_M; ++m) {
                query_at[m] = query_head_at + min(block_row + m, last_row) * STRIDE(query, 2) +
                              first_k * STRIDE(query, 3);
            }
#endif
            TILE_BARRIER();
            if (begins_sum) {
                FOR_TILE_REGISTERS { sum[m][v] = (REALV)0; }
            }
            TILE_MULTIPLY(sum, depth, LEFT, key_tile, PLAIN_PRODUCT)
            if (ends_sum) {
                FOR_TILE_REGISTERS { total[block][m][v] += sum[m][v]; }
            }
            TILE_BARRIER();
        }
    }
    for (int block = 0; block < BLOCKS_M; ++block) {
        FOR_TILE_REGISTERS
        {
            const int i = first_row + TILE_ROW(block, m), j = first_key + TILE_COLUMN(v);
            if (i <= last_row && j < p->key_len) {
                VSTORE(total[block][m][v] * PARAM_REAL(p, scale),
                       scores + get_group_id(2) * chunk.plane_stride +
                           (i - chunk.first_row) * chunk.row_stride + j);
            }
        }
    }
}
