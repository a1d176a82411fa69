/* Sizes of split_simt: its work-group, and what that has in local memory; for its kernels and for
 * src/strategy/split_simt.c. split_simt.cl says what lies where. */
#ifndef CLATTN_SPLIT_SIMT_LAYOUT_H
#define CLATTN_SPLIT_SIMT_LAYOUT_H

/* Keys of a K/V split: they decide bits, so one number on every device. So do the parts of a dot product. */
#define SPLIT_SIMT_KEYS 128
#define SPLIT_SIMT_PARTS 4
#define SPLIT_SIMT_PART_ITEMS 32 /* work-items of a part */
#define SPLIT_SIMT_ITEMS (SPLIT_SIMT_PARTS * SPLIT_SIMT_PART_ITEMS)
#define SPLIT_SIMT_ROW_ITEMS 16 /* work-items that share the softmax of a row */
#define SPLIT_SIMT_ROWS_MOST (SPLIT_SIMT_ITEMS / SPLIT_SIMT_ROW_ITEMS)

/* Codes of a run. Those of keys fill one in local memory; those of values are as many sums in registers, each row. */
#define SPLIT_SIMT_KEY_CODES 16
#define SPLIT_SIMT_VALUE_CODES 8

/* A run is 16 bytes in local memory, of `run` elements. */
#define SPLIT_SIMT_RUNS(columns, run) (((columns) + (run) - 1) / (run))
/* Runs of a query or a key: as many for each part. */
#define SPLIT_SIMT_PADDED_RUNS(head_dim, run)                                                          \
    ((SPLIT_SIMT_RUNS(head_dim, run) + SPLIT_SIMT_PARTS - 1) / SPLIT_SIMT_PARTS * SPLIT_SIMT_PARTS)

/* In runs of local memory: keys, a row of which has a run more than it fills, and of codes a word of scales for each; a
 * run of sums from each work-item, which takes their place. */
#define SPLIT_SIMT_KEY_TILE(keys, head_dim, run)                                                       \
    ((keys) * (SPLIT_SIMT_PADDED_RUNS(head_dim, run) + 1) * ((run) == SPLIT_SIMT_KEY_CODES ? 5 : 4) / 4)
#define SPLIT_SIMT_SUMS(value_run) (SPLIT_SIMT_ITEMS * (value_run) / 4)
#define SPLIT_SIMT_LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SPLIT_SIMT_AREA(keys, head_dim, run, value_run)                                                \
    SPLIT_SIMT_LARGER(SPLIT_SIMT_KEY_TILE(keys, head_dim, run), SPLIT_SIMT_SUMS(value_run))

/* In floats: queries, the parts of a tile's scores, the weights of a split, and two for each work-item. */
#define SPLIT_SIMT_FLOATS(rows, keys, head_dim, run)                                                   \
    ((rows) * (SPLIT_SIMT_PADDED_RUNS(head_dim, run) * (run) + SPLIT_SIMT_PARTS * (keys) + SPLIT_SIMT_KEYS) +         \
     2 * SPLIT_SIMT_ITEMS)

#endif
