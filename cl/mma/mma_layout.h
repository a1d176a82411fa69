/* Sizes of fused_mma's tiles in local memory, in elements of the storage type; C and OpenCL C both include this.
 * mma/tile.clh says what lies where. */
#ifndef CLATTN_MMA_LAYOUT_H
#define CLATTN_MMA_LAYOUT_H

#include "forward/forward_flags.h"

/* Pads a row, and spreads rows over the banks. */
#define MMA_PADDING_BYTES 16

/* What an emulated instruction takes of local memory, a work-item, at most (mma/unit_portable.clh). */
#define MMA_SCRATCH_BYTES 128

#define MMA_LARGER(a, b) ((a) > (b) ? (a) : (b))

/* `rows` rows of `row` elements, each padded by `padding` elements. */
#define MMA_TILE(rows, row, padding) ((rows) * ((row) + (padding)))

/* Whether scores wait in local memory, in float32, to be changed. */
#define MMA_PARKS(flags) (((flags) & (CLATTN_FLAGS_CHANGING | CLATTN_FLAG_MASK_TEXT)) != 0)
#define MMA_PARKED(rows, keys, element_bytes) ((rows) * (keys) * 4 / (element_bytes))

/* Keys (or parked scores), then values, then queries, unless these are kept in registers: then they only pass through,
 * as outputs do. */
#define MMA_QUERIES_START(keys_area, value_tile, keeps_queries) ((keeps_queries) ? 0 : (keys_area) + (value_tile))
#define MMA_LOCAL_SIZE(keys_area, value_tile, keeps_queries, query_tile, output_tile)                  \
    MMA_LARGER(MMA_LARGER(MMA_QUERIES_START(keys_area, value_tile, keeps_queries) + (query_tile),      \
                          (keys_area) + (value_tile)),                                                 \
               output_tile)

/* fused_wgmma's: places of a ring, each of which holds a tile of keys or of values; parked scores, behind them. Queries
 * and outputs pass through in turns of a warpgroup's 64 rows. */
#define WGMMA_LARGE_BYTES 106496 /* of local memory, at most, where the second build may have more than OpenCL C */
#define WGMMA_ROW(columns) (((columns) + 63) / 64 * 64)
#define WGMMA_PLACE(keys, depth, columns) ((keys) * WGMMA_ROW(MMA_LARGER(depth, columns)))
#define WGMMA_RING(places, place, parked, depth, columns)                                              \
    MMA_LARGER((places) * (place) + (parked), MMA_TILE(64, MMA_LARGER(depth, columns), MMA_PADDING_BYTES / 2))

#endif
