/* Looks up the tuning table. */
#include "plan/tuning.h"

#include <string.h>

static int serves(const struct tuning_row *row, const char *strategy, enum device_class device_class, int64_t head_dim)
{
    return row->device_class == device_class && head_dim <= row->head_dim_most && strcmp(row->strategy, strategy) == 0;
}

static const struct tile *find(const char *strategy, enum device_class device_class, int64_t head_dim, int rank)
{
    for (size_t i = 0; i < tuning_row_count; ++i) {
        if (serves(&tuning_table[i], strategy, device_class, head_dim) && rank-- == 0) {
            return &tuning_table[i].tile;
        }
    }
    return NULL;
}

const struct tile *tuning_find(const char *strategy, enum device_class device_class, int64_t head_dim, int rank)
{
    int has_own = find(strategy, device_class, head_dim, 0) != NULL;
    return find(strategy, has_own ? device_class : DEVICE_GPU, head_dim, rank);
}
