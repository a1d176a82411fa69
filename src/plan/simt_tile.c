/* The tile of fused_simt and of its gradients. */
#include "plan/simt_tile.h"

#include <limits.h>

#include "base/checked_math.h"
#include "cl/simt/simt_layout.h"

/* Output columns come in few sizes, so that there are few programs: as many a work-item as is in this list. */
static int column_count(const struct tile *tile, int64_t output_columns)
{
    static const int a_work_item[] = { 1, 2, 4, 6, 8, 12, 16 };
    const int across = tile->keys / tile->item_keys;
    int columns = across;
    for (size_t i = 0; i < sizeof(a_work_item) / sizeof(a_work_item[0]); ++i) {
        if (a_work_item[i] <= tile->item_columns && columns < output_columns) {
            columns = across * a_work_item[i];
        }
    }
    return columns;
}

/* Stages for scores and for values share their memory: as many values as fill about what scores take, a power of 2, and
 * enough that each work-item has one to load. */
struct simt_shape simt_shape_of(const struct tile *tile, int64_t depth, int64_t output_columns, size_t real_bytes)
{
    const int across = tile->keys / tile->item_keys;
    const int columns = column_count(tile, output_columns);
    const int score_stage = SIMT_SCORE_STAGE(tile->rows, tile->keys);
    int keys_staged = tile->work_items / SIMT_VALUE_SPAN(columns, tile->work_items, across);
    while (keys_staged < SIMT_WEIGHT_KEYS(tile->rows, tile->keys) &&
           SIMT_VALUE_STAGE(2 * keys_staged, columns) <= score_stage + score_stage / 4) {
        keys_staged *= 2;
    }
    const int reals = SIMT_STAGE(tile->rows, tile->keys, keys_staged, columns) + SIMT_WEIGHTS(tile->rows, tile->keys);
    const int64_t rounded = round_up(depth, SIMT_DEPTH);
    return (struct simt_shape){
        .of = { .tile = *tile,
                .depth = rounded < INT_MAX ? (int)rounded : INT_MAX,
                .columns = columns,
                .local_bytes = real_bytes * (size_t)reals + 64 },
        .keys_staged = keys_staged,
    };
}

void simt_append_options(const struct problem *problem, const struct simt_shape *shape, struct text *options)
{
    const struct tile *tile = &shape->of.tile;
    append_type_options(problem, options);
    text_append(options, " -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d", problem->flags & ~ROW_BLOCK_RUN_TIME_FEATURES,
                problem->p.strided_columns != 0);
    text_append(options,
                " -D TILE_ROWS=%d -D TILE_KEYS=%d -D ITEM_KEYS=%d -D WORK_ITEMS=%d -D COLUMNS=%d -D KEYS_STAGED=%d",
                tile->rows, tile->keys, tile->item_keys, tile->work_items, shape->of.columns, shape->keys_staged);
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(options, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
}
