/* Sizes of fused_simt's tiles in local memory, in elements of REAL; C and OpenCL C both include this. simt/tile.clh
 * says what lies where. `across`: work-items that share a row. */
#ifndef CLATTN_SIMT_LAYOUT_H
#define CLATTN_SIMT_LAYOUT_H

#include "common/column_runs.h"

#define SIMT_DEPTH 16 /* columns of queries and keys that are staged at once */
#define SIMT_PITCH(count) ((count) + 4) /* padded against bank conflicts, by what keeps vectors aligned */
#define SIMT_SCORE_STAGE(rows, keys) (SIMT_DEPTH * (SIMT_PITCH(rows) + SIMT_PITCH(keys)))
#define SIMT_VALUE_STAGE(keys_staged, columns) ((keys_staged) * (columns))
/* One after the other in the same memory. */
#define SIMT_STAGE(rows, keys, keys_staged, columns)                                                   \
    (SIMT_SCORE_STAGE(rows, keys) > SIMT_VALUE_STAGE(keys_staged, columns)                             \
         ? SIMT_SCORE_STAGE(rows, keys)                                                                \
         : SIMT_VALUE_STAGE(keys_staged, columns))
/* Keys whose weights are there at once: of long tiles half, so that two work-groups share AMD's 64 KiB. */
#define SIMT_WEIGHT_KEYS(rows, keys) ((rows) > (keys) ? (keys) / 2 : (keys))
#define SIMT_WEIGHTS(rows, keys) (SIMT_WEIGHT_KEYS(rows, keys) * SIMT_PITCH(rows))
/* Maxima that work-items read of each of their rows: those of all that share it or, where a work-item has so many rows
 * that reading costs, those of the `work_items / rows` by which these were combined. */
#define SIMT_COMBINES(rows, across, work_items) ((rows) * (across) >= 8 * (work_items))
#define SIMT_MAXIMA(rows, across, work_items)                                                          \
    (SIMT_COMBINES(rows, across, work_items) ? (work_items) / (rows) : (across))
/* Work-items that load a row of values together. */
#define SIMT_VALUE_SPAN(columns, work_items, across) ((columns) % 32 == 0 && (work_items) >= 32 ? 32 : (across))

#endif
