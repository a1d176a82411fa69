/* Tile parameters by strategy, device class and head dim. */
#ifndef CLATTN_SRC_TUNING_H
#define CLATTN_SRC_TUNING_H

#include "device/device.h"

/* What a tile is made of. A field means the same in every strategy, and is 0 where its kernel has no such thing. */
struct tile {
    int rows;           /* query rows a work-group */
    int keys;           /* keys a block */
    int work_items;     /* a work-group */
    int item_keys;      /* keys whose scores a work-item has in registers at once */
    int item_columns;   /* output columns that a work-item has at once, at most */
    int group_columns;  /* output columns that a work-group has, at most */
    int register_depth; /* head dims up to this keep their queries in registers */
    double speed;       /* on long sequences, of the strategy's best tile; 0: the order of the rows decides */
};

struct tuning_row {
    const char *strategy;
    enum device_class device_class;
    int head_dim_most; /* serves max(head_dim, head_dim_v) up to this; rows go up, then smaller tiles */
    struct tile tile;
};

extern const struct tuning_row tuning_table[];
extern const size_t tuning_row_count;

/* The rank-th row that serves, best first; NULL when there are no more. Strategies ask for the next rank
 * when a tile does not fit the device. A class without rows of its own uses the GPU's. */
const struct tile *tuning_find(const char *strategy, enum device_class device_class, int64_t head_dim, int rank);

#endif
