#include "operation/value_in_key.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "operation/forward.h"

clattn_status value_in_key_resolve(clattn_problem *p)
{
    const int scaled = (p->features & CLATTN_WITH_KEY_SCALES) != 0;
    p->value_in_key = p->value_in_key != 0;
    if (!p->value_in_key) {
        return CLATTN_OK;
    }
    if (p->head_dim_v > p->head_dim) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "head_dim_v %" PRId64 ": must be at most head_dim %" PRId64
                         ", whose first columns are values with value_in_key",
                         p->head_dim_v, p->head_dim);
    }
    if (p->value_type != CLATTN_TYPE_NONE && p->value_type != forward_type(p, p->key_type)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "value_type %s: must be key_type, %s, with value_in_key; leave it CLATTN_TYPE_NONE",
                         clattn_type_name(p->value_type), clattn_type_name(forward_type(p, p->key_type)));
    }
    if (p->features & CLATTN_WITH_VALUE_SCALES && !scaled) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_VALUE_SCALES needs CLATTN_WITH_KEY_SCALES "
                                                  "with value_in_key: values have the scales of keys");
    }
    if ((p->value_scale_rows != 0 && p->value_scale_rows != p->key_scale_rows) ||
        (p->value_scale_columns != 0 && p->value_scale_columns != p->key_scale_columns)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "value_scale_rows %" PRId64 ", value_scale_columns %" PRId64
                         ": must be those of keys with value_in_key; leave them 0",
                         p->value_scale_rows, p->value_scale_columns);
    }
    p->value_type = p->key_type;
    p->features |= scaled ? CLATTN_WITH_VALUE_SCALES : 0u;
    p->value_scale_rows = p->key_scale_rows;
    p->value_scale_columns = p->key_scale_columns;
    return CLATTN_OK;
}

static int is_there(const struct tensor_place *place)
{
    return place->buffer || place->data;
}

static int is_same(const struct tensor_place *a, const struct tensor_place *b)
{
    return a->buffer == b->buffer && a->data == b->data && a->offset == b->offset &&
           memcmp(a->stride, b->stride, sizeof(a->stride)) == 0;
}

clattn_status value_in_key_place(const clattn_problem *problem, struct operands *operands)
{
    static const struct {
        enum tensor_id key, value;
    } pairs[] = {
        { TENSOR_KEY, TENSOR_VALUE },
        { TENSOR_KEY_SCALES, TENSOR_VALUE_SCALES },
        { TENSOR_KEY_ZERO_POINTS, TENSOR_VALUE_ZERO_POINTS },
        { TENSOR_KEY_TENSOR_SCALE, TENSOR_VALUE_TENSOR_SCALE },
        { TENSOR_KEY_POOL_1, TENSOR_VALUE_POOL_1 },
        { TENSOR_KEY_POOL_2, TENSOR_VALUE_POOL_2 },
        { TENSOR_KEY_POOL_3, TENSOR_VALUE_POOL_3 },
    };
    for (size_t i = 0; problem->value_in_key && i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        const struct tensor_place *key = &operands->tensor[pairs[i].key];
        struct tensor_place *value = &operands->tensor[pairs[i].value];
        if (is_there(value) && !is_same(value, key)) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s: must be left out, or be %s itself, with value_in_key: values are columns of keys",
                             operand_name(operands, (int)pairs[i].value), operand_name(operands, (int)pairs[i].key));
        }
        *value = *key;
    }
    return CLATTN_OK;
}
