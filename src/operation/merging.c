/* The tensors and the problem of merging. */
#include "operation/merging.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "base/stored_types.h"
#include "operation/field_rules.h"
#include "operation/rows.h"

enum merge_extent { EXTENT_ONE, EXTENT_BATCH, EXTENT_HEADS, EXTENT_ROWS, EXTENT_COLUMNS, MERGE_EXTENTS };

enum merge_element { ELEMENT_PARTIAL = OWN_ELEMENTS, ELEMENT_OUT, MERGE_ELEMENTS };

_Static_assert(MERGE_AT_ONCE == CLATTN_MERGE_AT_ONCE, "the header tells how many partials a command takes");
_Static_assert(sizeof(clattn_merge_params) + (2 * MERGE_PLACES + 1) * 8 <= 1024,
               "every device takes 1,024 bytes of arguments");
ROWS_HAVE_ROOM(2 * MERGE_PLACES, MERGE_EXTENTS, MERGE_ELEMENTS);

/* Fields are read by merge_operands, from structs of their own. */
/* clang-format off */
#define PART_ROW(n, part, name_, axes, element_, access)                                                 \
    { .name = name_ "." #part, .axis = AXES_OF axes, .element = ELEMENT_##element_, .role = ROLE_##access, \
      .strides = sizeof(((clattn_merge_params *)NULL)->part##_stride[n]) / sizeof(clattn_i64),           \
      .param_offset_at = offsetof(clattn_merge_params, part##_offset[n]),                                \
      .param_stride_at = offsetof(clattn_merge_params, part##_stride[n]) }
#define OUT_ROW(n, name, element, access)                                                                \
    PART_ROW(n, out, name, (BATCH, HEADS, ROWS, COLUMNS), element, access)
#define LSE_ROW(n, name, access) PART_ROW(n, lse, name, (BATCH, HEADS, ROWS, ONE), FLOAT, access)
#define OUT_OF(n) OUT_ROW(n, "partials[" #n "]", PARTIAL, IN)
#define LSE_OF(n) LSE_ROW(n, "partials[" #n "]", IN)

static const struct tensor_row tensor_rows[2 * MERGE_PLACES] = {
    OUT_OF(0), OUT_OF(1), OUT_OF(2), OUT_OF(3), OUT_OF(4), OUT_OF(5), OUT_OF(6), OUT_OF(7),
    OUT_ROW(MERGED, "merged", OUT, OUT),
    LSE_OF(0), LSE_OF(1), LSE_OF(2), LSE_OF(3), LSE_OF(4), LSE_OF(5), LSE_OF(6), LSE_OF(7),
    LSE_ROW(MERGED, "merged", OUT),
};
/* clang-format on */

const struct operation operation_merge = { .name = "merge", .rows = tensor_rows, .count = 2 * MERGE_PLACES };

GROWTH(clattn_merge_problem, "problem", columns, columns, CLATTN_MERGE_PROBLEM_INIT);

clattn_status merge_problem_check(const clattn_merge_problem *given, clattn_merge_problem *p)
{
    clattn_status status = growth_copy(GROWTH_OF(clattn_merge_problem), given, p);
    if (status != CLATTN_OK) {
        return status;
    }
    p->out_type = p->out_type != CLATTN_TYPE_NONE ? p->out_type : p->type;
    if (!type_is_float(p->type) || !type_is_float(p->out_type)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "type %d, out_type %d: must be storage types", (int)p->type,
                         (int)p->out_type);
    }
    if ((p->type == CLATTN_FLOAT64) != (p->out_type == CLATTN_FLOAT64)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "out_type %s: float64 goes with no other type, and type is %s",
                         clattn_type_name(p->out_type), clattn_type_name(p->type));
    }
    const struct dimension dimensions[] = {
        { "batch", p->batch, 0 },
        { "heads", p->heads, 0 },
        { "rows", p->rows, 0 },
        { "columns", p->columns, 1 },
    };
    return check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
}

static void read_tensor(const clattn_tensor *tensor, struct tensor_place *place)
{
    place->buffer = tensor->buffer;
    place->offset = tensor->offset;
    memcpy(place->stride, tensor->stride, sizeof(tensor->stride));
}

clattn_status merge_operands(const clattn_merge_problem *problem, int count, const clattn_partial *partials,
                             const clattn_partial *merged, struct operands *operands)
{
    const int64_t extents[MERGE_EXTENTS] = { 1, problem->batch, problem->heads, problem->rows, problem->columns };
    operands_begin(operands, &operation_merge);
    memcpy(operands->extent, extents, sizeof(extents));
    operands_set_type(operands, ELEMENT_PARTIAL, problem->type);
    operands_set_type(operands, ELEMENT_OUT, problem->out_type);
    for (int n = 0; n <= count; ++n) {
        const clattn_partial *partial = n < count ? &partials[n] : merged;
        const int place = n < count ? n : MERGED;
        operands->asked |= 1u << place | 1u << (MERGE_PLACES + place);
        operands->in_place |= 1u << place | 1u << (MERGE_PLACES + place);
        read_tensor(&partial->out, &operands->tensor[place]);
        read_tensor(&partial->lse, &operands->tensor[MERGE_PLACES + place]);
    }
    return operands_check(operands);
}
