/* What a float16 mask of ggml says: which keys each row sees, and whether it adds anything to them. */
#ifndef GGML_CLATTN_MASK_H
#define GGML_CLATTN_MASK_H

#include <stddef.h>
#include <stdint.h>

/* Memory that is kept from call to call and only grows. */
struct scratch {
    void *data;
    size_t bytes;
};

/* Room for so many bytes, NULL where there is none; what was in it is lost. */
void *scratch_room(struct scratch *scratch, size_t bytes);
void scratch_free(struct scratch *scratch);

/* mask [batch, heads, rows, keys]: 0 is seen, -inf is hidden, another number is added. Rows follow each other by
 * row_stride elements, heads by head_stride, batch entries by batch_stride. */
struct mask {
    const uint16_t *data;
    int64_t batch, heads, rows, keys;
    int64_t batch_stride, head_stride, row_stride;
};

/* The hulls of what rows see: row (b, h, i) sees no key outside low[n] <= j < high[n], n = (b heads + h) rows + i, and
 * [first, end) is the hull of them all. low and high count from `first` on. */
struct mask_ranges {
    int32_t *low, *high; /* of the scratch */
    int64_t first, end;
    int is_uniform; /* every row's hull is [first, end) */
    int is_added;   /* within a hull something is hidden, or something else than 0 is added */
};

/* Reads each element of the mask once, but for hulls' inner elements after the first that is not 0. 0: no memory. */
int mask_read(const struct mask *mask, struct scratch *scratch, struct mask_ranges *ranges);

/* The numbers of the keys that a row sees, and -1 behind the last, for a mask of one head: row n has its own at
 * lists + n capacity, counted from ranges->first. Where it succeeds ranges->is_added says whether another number than 0
 * is added to a key that is seen. 0: a row sees more keys than there is room for. */
int mask_list_keys(const struct mask *mask, struct mask_ranges *ranges, int64_t capacity, int32_t *lists);

/* ALiBi's mask of causal attention: within the hulls it is the distance j - position, of keys at or before the row's
 * position, and row i of batch entry b stands at key offsets[b] + i - ranges->first (as mask_ranges counts). 1: it is
 * just that, in all heads, and offsets[batch] was written. `row` has room for mask->keys numbers. */
int mask_is_causal_distance(const struct mask *mask, const struct mask_ranges *ranges, float *row, int32_t *offsets);

#endif
