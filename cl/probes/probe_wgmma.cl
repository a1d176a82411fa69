/* Probe of NVIDIA's warpgroup products, through the operations that fused_wgmma uses: a product of 64 x 32 and 32 x 64
 * by one warpgroup, whose left half is multiplied as scores are and whose right half as outputs are.
 *
 *     keys      tile[n][k] = b[k][n]          values   tile[k][64 + n] = b[k][n], so that the second 64 columns count
 *
 * Both come by copies aside, on whose arrivals all wait. With LARGE_BYTES, a probe of so much local memory too. */
#define TILES_SWIZZLED 1
#define TILE_ROWS 64
#define TILE_KEYS 32
#define WORK_ITEMS 128
#define DEPTH 32
#define COLUMNS 128
#define PLACES 2
#define WEIGHT_PARTS 1
#include "wgmma/ring.clh"

#ifdef LARGE_BYTES /* tiles lie at its end */
#define FIRST_TILE (LARGE_BYTES / ELEMENT_BYTES - PLACES * PLACE)
#else
#define FIRST_TILE 0
#endif
#define B_COLUMNS 64
#define WAITING_KEYS (TILE_KEYS * COLUMNS) /* values are before them */

/* Runs of a matrix of `columns`, in the ring's layout. */
INLINE void copy_runs(int item, __local element *tile, __global const element *from, int columns)
{
    for (int i = item; i < TILE_KEYS * columns / RUN; i += WORK_ITEMS) {
        const int row = i / (columns / RUN), column = i % (columns / RUN) * RUN;
        copy_16_bytes(tile + SWIZZLED_AT(row, column), from + row * columns + column);
    }
}

__kernel __attribute__((reqd_work_group_size(WORK_ITEMS, 1, 1))) SUB_GROUP void
probe_product(__global const float *a, __global const float *b, __global float *product)
{
    LOCAL_ELEMENTS(whole, FIRST_TILE + PLACES * PLACE);
    __local place_counts counts[WORK_ITEMS / 32];
    __local element *keys = whole + FIRST_TILE, *values = keys + PLACE;
    unit u;
    u.item = (int)get_local_id(0);
    u.lane = u.item % SUB_GROUP_ITEMS;
#if EMULATED
    __local int scratch[WORK_ITEMS / SUB_GROUP_ITEMS * SCRATCH];
    u.scratch = scratch + u.item / SUB_GROUP_ITEMS * SCRATCH;
#endif
    const int first = u.item / SUB_GROUP_ITEMS * MATRIX_N;

    /* They wait in the type where the product will be, for the copies. */
    __global element *waiting = (__global element *)product;
    for (int i = u.item; i < TILE_KEYS * COLUMNS; i += WORK_ITEMS) {
        const int k = i / COLUMNS, n = i % COLUMNS - (COLUMNS - B_COLUMNS);
        waiting[i] = element_of(n < 0 ? 0 : b[k * B_COLUMNS + n]);
    }
    for (int i = u.item; i < TILE_KEYS * DEPTH; i += WORK_ITEMS) {
        waiting[WAITING_KEYS + i] = element_of(b[i % DEPTH * B_COLUMNS + i / DEPTH]);
    }
#if !EMULATED
    if (u.lane == 0) {
        arrivals_begin(&counts[u.item / SUB_GROUP_ITEMS].arrivals);
    }
#endif
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    copy_runs(u.item, values, waiting, COLUMNS);
    copy_runs(u.item, keys, waiting + WAITING_KEYS, DEPTH);
#if !EMULATED
    arrive_with_copies(&counts[u.item / SUB_GROUP_ITEMS].arrivals);
    for (int warp = 0; warp < WORK_ITEMS / SUB_GROUP_ITEMS; ++warp) {
        arrivals_wait(counts + warp, 0);
    }
    show_to_products();
#endif
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);

    uint words[TILE_KEYS / 4];
    float score[TILE_KEYS / 2], output[COLUMNS / 2];
    UNROLL
    for (int w = 0; w < TILE_KEYS / 4; ++w) {
        const int row = first + u.lane / 4 + w % 2 * 8, k = w / 4 * 16 + w / 2 % 2 * 8 + u.lane % 4 * 2;
        words[w] = pack_two(a[row * DEPTH + k], a[row * DEPTH + k + 1]);
    }
    UNROLL
    for (int i = 0; i < COLUMNS / 2; ++i) {
        output[i] = 0;
    }
    value_products_begin(output, words);
    UNROLL
    for (int k = 0; k < TILE_KEYS / 16; ++k) {
        product_of_keys(&u, score, words + 4 * k, product_tile_of(keys), DEPTHS_FURTHER(k), k > 0);
        product_of_values(&u, output, words + 4 * k, product_tile_of(values), KEYS_FURTHER(k));
    }
    products_commit();
    value_products_wait(output, words);
    score_products_wait(score);
    UNROLL
    for (int i = 0; i < TILE_KEYS / 2; ++i) {
        const int row = first + u.lane / 4 + i / 2 % 2 * 8, n = i / 4 * 8 + u.lane % 4 * 2 + i % 2;
        product[row * B_COLUMNS + n] = score[i];
        product[row * B_COLUMNS + TILE_KEYS + n] = output[(COLUMNS - B_COLUMNS + TILE_KEYS) / 2 + i];
    }
}
