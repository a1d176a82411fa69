/* Rules on fields of problems, each with a message that names the field, its value and the rule. */
#include "operation/field_rules.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/stored_types.h"

#define TILED_MAX (INT32_MAX - 4096)

static clattn_status check_at_most(const struct dimension *dimensions, size_t count, int most)
{
    for (size_t i = 0; i < count; ++i) {
        const struct dimension *d = &dimensions[i];
        if (d->value < d->least || d->value > most) {
            return error_set(CLATTN_INVALID_SHAPE, "%s %" PRId64 ": must be %s and at most %d", d->name, d->value,
                             d->least ? "> 0" : ">= 0", most);
        }
    }
    return CLATTN_OK;
}

clattn_status check_dimensions(const struct dimension *dimensions, size_t count)
{
    return check_at_most(dimensions, count, INT32_MAX);
}

clattn_status check_tiled_dimensions(const struct dimension *dimensions, size_t count)
{
    return check_at_most(dimensions, count, TILED_MAX);
}

clattn_status check_type(clattn_type type)
{
    return type_is_float(type) ? CLATTN_OK
                               : error_set(CLATTN_INVALID_ARGUMENT,
                                           "type %d: must be CLATTN_FLOAT32, FLOAT16, BFLOAT16 or FLOAT64", (int)type);
}

clattn_status check_own_type(const struct own_type *own, clattn_type type)
{
    const int64_t block = clattn_type_columns(own->type);
    if (block == 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s %d: is not a clattn_type", own->name, (int)own->type);
    }
    if (own->columns == 0 && !type_is_float(own->type)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s %s: is for keys and values only; use float32, float16 or bfloat16", own->name,
                         clattn_type_name(own->type));
    }
    if (own->columns % block != 0) {
        return error_set(CLATTN_INVALID_SHAPE, "%s %" PRId64 ": must be a multiple of %" PRId64 ", a block of %s %s",
                         own->columns_name, own->columns, block, own->name, clattn_type_name(own->type));
    }
    if ((own->type == CLATTN_FLOAT64) != (type == CLATTN_FLOAT64)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s %s: float64 goes with no other type, and type is %s", own->name,
                         clattn_type_name(own->type), clattn_type_name(type));
    }
    return CLATTN_OK;
}
