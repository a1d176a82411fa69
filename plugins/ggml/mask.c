/* A mask is read before the keys are, so that keys that no row sees are not computed. */
#include "mask.h"

#include "ggml.h"

#include <stdlib.h>

#define HIDDEN 0xfc00u /* -inf in float16 */
#define WITHOUT_SIGN 0x7fff
#define BLOCK 64 /* elements that are looked at together, so that compilers make vectors of them */

void *scratch_room(struct scratch *scratch, size_t bytes)
{
    if (bytes > scratch->bytes) {
        free(scratch->data);
        scratch->data = malloc(bytes);
        scratch->bytes = scratch->data ? bytes : 0;
    }
    return scratch->data;
}

void scratch_free(struct scratch *scratch)
{
    free(scratch->data);
    scratch->data = NULL;
    scratch->bytes = 0;
}

static int all_hidden(const uint16_t *values)
{
    unsigned differs = 0;
    for (int i = 0; i < BLOCK; ++i) {
        differs |= values[i] ^ HIDDEN;
    }
    return differs == 0;
}

static int64_t first_seen(const uint16_t *row, int64_t keys)
{
    int64_t j = 0;
    while (j + BLOCK <= keys && all_hidden(row + j)) {
        j += BLOCK;
    }
    while (j < keys && row[j] == HIDDEN) {
        ++j;
    }
    return j;
}

/* One behind the last key that is seen, from `low` on, which is seen or the end. */
static int64_t end_seen(const uint16_t *row, int64_t low, int64_t keys)
{
    int64_t end = keys;
    while (end - BLOCK >= low && all_hidden(row + end - BLOCK)) {
        end -= BLOCK;
    }
    while (end > low && row[end - 1] == HIDDEN) {
        --end;
    }
    return end;
}

static int all_zero(const uint16_t *row, int64_t low, int64_t high)
{
    unsigned bits = 0;
    int64_t j = low;
    for (; j + BLOCK <= high && bits == 0; j += BLOCK) {
        for (int i = 0; i < BLOCK; ++i) {
            bits |= row[j + i] & WITHOUT_SIGN;
        }
    }
    for (; j < high; ++j) {
        bits |= row[j] & WITHOUT_SIGN;
    }
    return bits == 0;
}

static const uint16_t *mask_row(const struct mask *mask, int64_t n)
{
    const int64_t i = n % mask->rows, h = n / mask->rows % mask->heads, b = n / mask->rows / mask->heads;
    return mask->data + b * mask->batch_stride + h * mask->head_stride + i * mask->row_stride;
}

/* Rows that see nothing take no part in the hull, and have an empty one at its beginning. */
static void count_from_first(struct mask_ranges *ranges, int64_t count)
{
    ranges->is_uniform = 1;
    for (int64_t n = 0; n < count; ++n) {
        const int is_empty = ranges->high[n] <= ranges->low[n];
        ranges->low[n] = is_empty ? 0 : ranges->low[n] - (int32_t)ranges->first;
        ranges->high[n] = is_empty ? 0 : ranges->high[n] - (int32_t)ranges->first;
        ranges->is_uniform &= ranges->low[n] == 0 && ranges->high[n] == ranges->end - ranges->first;
    }
}

int mask_read(const struct mask *mask, struct scratch *scratch, struct mask_ranges *ranges)
{
    const int64_t count = mask->batch * mask->heads * mask->rows;
    ranges->low = scratch_room(scratch, 2 * (size_t)count * sizeof(*ranges->low));
    if (!ranges->low) {
        return 0;
    }
    ranges->high = ranges->low + count;
    ranges->first = mask->keys;
    ranges->end = 0;
    ranges->is_added = 0;
    for (int64_t n = 0; n < count; ++n) {
        const uint16_t *row = mask_row(mask, n);
        const int64_t low = first_seen(row, mask->keys), high = end_seen(row, low, mask->keys);
        ranges->low[n] = (int32_t)low;
        ranges->high[n] = (int32_t)high;
        if (low < high) {
            ranges->first = low < ranges->first ? low : ranges->first;
            ranges->end = high > ranges->end ? high : ranges->end;
            ranges->is_added = ranges->is_added || !all_zero(row, low, high);
        }
    }
    ranges->first = ranges->end > 0 ? ranges->first : 0; /* nobody sees anything: no keys */
    count_from_first(ranges, count);
    return 1;
}

int mask_list_keys(const struct mask *mask, struct mask_ranges *ranges, int64_t capacity, int32_t *lists)
{
    unsigned added = 0;
    for (int64_t n = 0; n < mask->batch * mask->rows; ++n) {
        const uint16_t *row = mask_row(mask, n) + ranges->first;
        int32_t *list = lists + n * capacity;
        int64_t count = 0;
        for (int64_t j = ranges->low[n] + first_seen(row + ranges->low[n], ranges->high[n] - ranges->low[n]);
             j < ranges->high[n]; j += 1 + first_seen(row + j + 1, ranges->high[n] - j - 1)) {
            if (count == capacity) {
                return 0;
            }
            list[count++] = (int32_t)j;
            added |= row[j] & WITHOUT_SIGN;
        }
        if (count < capacity) {
            list[count] = -1;
        }
    }
    ranges->is_added = added != 0;
    return 1;
}

/* Whether the row's visible values are j - position, for the position that its last visible key tells. */
static int row_is_distance(const uint16_t *values, int64_t low, int64_t high, float *row, int64_t *position)
{
    ggml_fp16_to_fp32_row(values + low, row, high - low);
    const float last = row[high - low - 1];
    if (!(last <= 0 && last >= -65504.0f)) {
        return 0;
    }
    *position = high - 1 + (int64_t)-last;
    int differs = 0;
    for (int64_t j = low; j < high; ++j) {
        differs |= row[j - low] != (float)(j - *position);
    }
    return !differs;
}

int mask_is_causal_distance(const struct mask *mask, const struct mask_ranges *ranges, float *row, int32_t *offsets)
{
    const int64_t per_entry = mask->heads * mask->rows;
    for (int64_t b = 0; b < mask->batch; ++b) {
        int is_known = 0;
        int64_t offset = 0, position;
        for (int64_t n = b * per_entry; n < (b + 1) * per_entry; ++n) {
            const int64_t low = ranges->first + ranges->low[n], high = ranges->first + ranges->high[n];
            if (low == high) {
                continue;
            }
            if (!row_is_distance(mask_row(mask, n), low, high, row, &position)) {
                return 0;
            }
            position -= n % mask->rows;
            if (is_known && position != offset) {
                return 0;
            }
            is_known = 1;
            offset = position;
        }
        offsets[b] = (int32_t)(offset - ranges->first);
    }
    return 1;
}
