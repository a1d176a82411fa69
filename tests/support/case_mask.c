#include "case_mask.h"

#include <inttypes.h>
#include <string.h>

#include "case_meta.h"

#define WORD_BITS 32

static int has_tag(const struct attention_case *c, const char *tag)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, meta_field(c->meta, NULL, "tags"))
    {
        if (strcmp(meta_text(item), tag) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Where right-aligned broadcast puts the file, in its elements. A key axis that is shorter than `columns` hides the
 * rest (of one element: only where the case says so, else it is broadcast as every axis is). */
static int broadcast(const struct attention_case *c, int64_t columns, int64_t stride[4], int64_t *covered,
                     struct failure *failure)
{
    const struct tensor *mask = &c->input[CASE_MASK];
    const clattn_problem *p = &c->problem;
    const int64_t full[4] = { p->batch, p->query_heads, p->query_len, columns };
    int64_t dense = 1;
    *covered = columns;
    for (int axis = 3, dim = mask->dims - 1; dim >= 0; --axis, --dim) {
        const int64_t extent = mask->shape[dim];
        const int is_short = axis == 3 && extent < full[3] && (extent != 1 || has_tag(c, "short_mask"));
        if (axis < 0 || (extent != full[axis] && extent != 1 && !is_short)) {
            return failure_misuse(failure, "mask: axis %d of %" PRId64 " does not fit", dim, extent);
        }
        *covered = is_short ? extent : *covered;
        stride[axis] = extent == 1 ? 0 : dense;
        dense *= extent;
    }
    return 0;
}

static void place_bits(struct attention_case *c, clattn_host_tensor *place)
{
    c->problem.mask_bits = 1;
    for (int axis = 0; axis < 3; ++axis) {
        place->stride[axis] *= WORD_BITS / 8;
    }
    place->stride[3] = 1;
}

/* A bias that lies in fewer numbers than it has elements: meta.bias_view. */
static void place_view(const cJSON *view, clattn_host_tensor *place)
{
    place->offset = (int64_t)meta_number(meta_field(view, NULL, "offset"), 0);
    for (int axis = 0; axis < 4; ++axis) {
        place->stride[axis] = (int64_t)meta_number(cJSON_GetArrayItem(meta_field(view, NULL, "strides"), axis), 0);
    }
}

int case_place_mask(struct attention_case *c, struct failure *failure)
{
    const cJSON *view = meta_field(c->meta, NULL, "bias_view");
    struct tensor *mask = &c->input[CASE_MASK];
    clattn_host_tensor place = { mask->data, 0, { 0, 0, 0, 0 } };
    const int is_bits = mask->type == TENSOR_UINT32;
    int64_t covered;
    if (!mask->data) {
        return 0;
    }
    c->values.mask_first_key = (int64_t)meta_number(meta_field(c->meta, "params", "mask_first_key"), 0);
    const int64_t keys = c->problem.key_len - c->values.mask_first_key;
    const int64_t columns = is_bits ? (keys + WORD_BITS - 1) / WORD_BITS : keys;
    if (view) {
        place_view(view, &place);
        covered = keys;
    } else if (broadcast(c, columns, place.stride, &covered, failure) != 0) {
        return -1;
    }
    if (is_bits || mask->type == TENSOR_BOOL || mask->type == TENSOR_UINT8) {
        c->problem.features |= CLATTN_WITH_MASK;
        c->values.mask_key_len = is_bits ? keys : covered;
        if (is_bits) {
            place_bits(c, &place);
        }
        c->tensors.mask = place;
        return 0;
    }
    if (mask->type == TENSOR_FLOAT64 && c->problem.type != CLATTN_FLOAT64 &&
        tensor_convert(mask, TENSOR_FLOAT32, "mask", failure) != 0) {
        return -1;
    }
    place.data = mask->data;
    c->problem.bias_type = tensor_storage_type(mask->type);
    c->values.bias_key_len = covered;
    c->tensors.bias = place;
    return 0;
}
