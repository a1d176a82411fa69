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
    if (own->type == CLATTN_E8M0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s e8m0: is what scales are stored as; give the type of their codes, "
                         "mxfp8 or mxfp4",
                         own->name);
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

clattn_status check_head_type(const struct head_type *own, uint32_t features, clattn_type type)
{
    if (own->type != CLATTN_TYPE_NONE && !(features & own->feature)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s %s: needs %s, and would be ignored; set it, or leave it 0",
                         own->name, clattn_type_name(own->type), own->feature_name);
    }
    if (own->type != CLATTN_TYPE_NONE && own->type != CLATTN_FLOAT32 &&
        (own->type != CLATTN_FLOAT64 || type != CLATTN_FLOAT64)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s %s: must be float32, or float64 with type float64, which is %s",
                         own->name, clattn_type_name(own->type), clattn_type_name(type));
    }
    return CLATTN_OK;
}

clattn_status check_scales_of_type(const struct shared_scales *scales)
{
    const int64_t columns = type_scale_columns(scales->type);
    if (scales->are_there && !type_takes_scales(scales->type)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features: %s scales are for int8, int4, e4m3, e5m2, u8, u4, mxfp8, mxfp4 and nvfp4, and "
                         "%s_type is %s",
                         scales->name, scales->name, clattn_type_name(scales->type));
    }
    if (type_makes_scales(scales->type) && !scales->are_there) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s_type %s: has scales beside its codes; set the feature for them",
                         scales->name, clattn_type_name(scales->type));
    }
    if (columns > 0 &&
        ((scales->rows != 0 && scales->rows != 1) || (scales->columns != 0 && scales->columns != columns))) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s_scale_rows %" PRId64 ", %s_scale_columns %" PRId64 ": of %s they are 1 and %" PRId64
                         "; leave them 0",
                         scales->name, scales->rows, scales->name, scales->columns, clattn_type_name(scales->type),
                         columns);
    }
    if (!scales->are_there && (scales->rows != 0 || scales->columns != 0)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s_scale_rows %" PRId64 ", %s_scale_columns %" PRId64
                         ": would be ignored without %s scales; set their feature, or leave them 0",
                         scales->name, scales->rows, scales->name, scales->columns, scales->name);
    }
    if (scales->rows < 0 || scales->rows > DIMENSION_MAX || scales->columns < 0 || scales->columns > DIMENSION_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s_scale_rows %" PRId64 ", %s_scale_columns %" PRId64 ": must be 0 (all) to %d", scales->name,
                         scales->rows, scales->name, scales->columns, DIMENSION_MAX);
    }
    return CLATTN_OK;
}

void own_shares(clattn_type type, int64_t *rows, int64_t *columns)
{
    const int64_t of_type = type_scale_columns(type);
    *rows = of_type > 0 ? 1 : *rows;
    *columns = of_type > 0 ? of_type : *columns;
}
