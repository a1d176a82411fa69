#include "plan/host_regions.h"

#include <string.h>

/* The bytes of a tensor, from the lowest that its strides reach; 0: it has none. */
static int bytes_of(const struct operands *host, int id, struct host_region *bytes)
{
    const struct tensor_place *place = &host->tensor[id];
    const intptr_t element_bytes = (intptr_t)operand_bytes(host, id);
    if (!place->data || place->high <= place->low) {
        return 0;
    }
    bytes->first = (uintptr_t)place->data + (uintptr_t)(place->low * element_bytes);
    bytes->end = (uintptr_t)place->data + (uintptr_t)(place->high * element_bytes);
    bytes->is_written = operand_is_written(host, id);
    return 1;
}

static int meet(const struct host_region *a, const struct host_region *b)
{
    return a->first < b->end && b->first < a->end;
}

/* Whether a written tensor is in the way of another one. */
static int is_crowded(const struct operands *host, int id, const struct host_region *bytes)
{
    struct host_region other;
    for (int i = 0; i < host->operation->count && bytes->is_written; ++i) {
        if (i != id && bytes_of(host, i, &other) && meet(bytes, &other)) {
            return 1;
        }
    }
    return 0;
}

static void widen(struct host_region *region, size_t alignment_bytes)
{
    region->first -= region->first % alignment_bytes;
    region->end += (alignment_bytes - region->end % alignment_bytes) % alignment_bytes;
}

/* Adds a region and joins all that it meets, so that those that are there never meet. */
static void add(struct host_regions *regions, struct host_region region)
{
    int kept = 0;
    for (int i = 0; i < regions->count; ++i) {
        const struct host_region other = regions->region[i];
        if (meet(&region, &other)) {
            region.first = other.first < region.first ? other.first : region.first;
            region.end = other.end > region.end ? other.end : region.end;
            region.is_written |= other.is_written;
        } else {
            regions->region[kept++] = other;
        }
    }
    regions->region[kept] = region;
    regions->count = kept + 1;
}

static int region_around(const struct host_regions *regions, uintptr_t first)
{
    int i = 0;
    while (i < regions->count && !(first >= regions->region[i].first && first < regions->region[i].end)) {
        ++i;
    }
    return i;
}

/* A buffer counts in whole elements from its first byte on. */
static int is_whole(uintptr_t first, const struct host_region *region, size_t element_bytes)
{
    return (first - region->first) % element_bytes == 0;
}

/* Regions that are too large, or hold nothing that is wrapped, are left without a tensor, and get no buffer. */
void host_regions_find(struct host_regions *regions, const struct operands *host, size_t alignment_bytes,
                       uint64_t most_bytes)
{
    struct host_region bytes;
    int wanted[OPERANDS_MAX] = { 0 };
    regions->count = 0;
    for (int id = 0; id < host->operation->count; ++id) {
        regions->of[id] = -1;
        wanted[id] = alignment_bytes > 0 && bytes_of(host, id, &bytes) && !is_crowded(host, id, &bytes);
        if (wanted[id]) {
            widen(&bytes, alignment_bytes);
            add(regions, bytes);
        }
    }
    for (int id = 0; id < host->operation->count; ++id) {
        if (wanted[id] && bytes_of(host, id, &bytes)) {
            const int at = region_around(regions, bytes.first);
            const struct host_region *region = &regions->region[at];
            const int fits = region->end - region->first <= most_bytes;
            regions->of[id] = fits && is_whole(bytes.first, region, operand_bytes(host, id)) ? at : -1;
        }
    }
}
