/* The tensors and the problem of merging. */
#include "operation/merging.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"

enum merge_extent { EXTENT_ONE, EXTENT_BATCH, EXTENT_HEADS, EXTENT_ROWS, EXTENT_COLUMNS, MERGE_EXTENTS };

enum merge_element { ELEMENT_PARTIAL, ELEMENT_FIRST, ELEMENT_OUT, ELEMENT_FLOAT, MERGE_ELEMENTS };

_Static_assert(MERGE_AT_ONCE == CLATTN_MERGE_AT_ONCE, "the header tells how many partials a command takes");
_Static_assert(sizeof(clattn_merge_params) + 2 * MERGE_PLACES * 8 <= 1024,
               "every device takes 1,024 bytes of arguments");
_Static_assert(2 * MERGE_PLACES <= OPERANDS_MAX, "an operation's tables must have room");

/* Fields are read by merge_operands, from structs of their own. */
#define OUT_ROW(n, name, type, role)                                                                \
    { name ".out", FIELD_TENSOR, 0, 0, { EXTENT_BATCH, EXTENT_HEADS, EXTENT_ROWS, EXTENT_COLUMNS }, \
      ELEMENT_##type, role, 0, 0, 0, 4, offsetof(clattn_merge_params, out_offset[n]),               \
      offsetof(clattn_merge_params, out_stride[n]) }
#define LSE_ROW(n, name, role)                                                                                 \
    { name ".lse", FIELD_TENSOR, 0, 0, { EXTENT_BATCH, EXTENT_HEADS, EXTENT_ROWS, EXTENT_ONE }, ELEMENT_FLOAT, \
      role, 0, 0, 0, 3, offsetof(clattn_merge_params, lse_offset[n]),                                          \
      offsetof(clattn_merge_params, lse_stride[n]) }
#define OUT_OF(n) OUT_ROW(n, "partials[" #n "]", PARTIAL, TENSOR_INPUT)
#define LSE_OF(n) LSE_ROW(n, "partials[" #n "]", TENSOR_INPUT)

static const struct tensor_row tensor_rows[2 * MERGE_PLACES] = {
    OUT_ROW(0, "partials[0]", FIRST, TENSOR_INPUT),
    OUT_OF(1), OUT_OF(2), OUT_OF(3), OUT_OF(4), OUT_OF(5), OUT_OF(6), OUT_OF(7),
    OUT_ROW(MERGED, "merged", OUT, TENSOR_OUTPUT),
    LSE_OF(0), LSE_OF(1), LSE_OF(2), LSE_OF(3), LSE_OF(4), LSE_OF(5), LSE_OF(6), LSE_OF(7),
    LSE_ROW(MERGED, "merged", TENSOR_OUTPUT),
};

const struct operation operation_merge = { .name = "merge", .rows = tensor_rows, .count = 2 * MERGE_PLACES };

GROWTH_CHECK(clattn_merge_problem, columns);

static const clattn_merge_problem default_problem = CLATTN_MERGE_PROBLEM_INIT;
static const struct growth problem_growth = { "problem", "CLATTN_MERGE_PROBLEM_INIT", sizeof(clattn_merge_problem),
                                              GROWTH_UP_TO(clattn_merge_problem, columns), &default_problem };

void clattn_merge_problem_init(clattn_merge_problem *problem, size_t struct_size)
{
    growth_init(&problem_growth, problem, struct_size);
}

clattn_status merge_problem_check(const clattn_merge_problem *given, clattn_merge_problem *p)
{
    clattn_status status = growth_copy(&problem_growth, given, p);
    if (status != CLATTN_OK) {
        return status;
    }
    p->out_type = p->out_type != CLATTN_TYPE_NONE ? p->out_type : p->type;
    if (clattn_type_size(p->type) == 0 || clattn_type_size(p->out_type) == 0) {
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

clattn_status merge_operands(const clattn_merge_problem *problem, clattn_type first_type, int count,
                             const clattn_partial *const *partials, const clattn_partial *merged,
                             struct operands *operands)
{
    const int64_t extents[MERGE_EXTENTS] = { 1, problem->batch, problem->heads, problem->rows, problem->columns };
    const clattn_type types[MERGE_ELEMENTS] = { [ELEMENT_PARTIAL] = problem->type,
                                                [ELEMENT_FIRST] = first_type,
                                                [ELEMENT_OUT] = problem->out_type,
                                                [ELEMENT_FLOAT] = CLATTN_FLOAT32 };
    memset(operands, 0, sizeof(*operands));
    operands->operation = &operation_merge;
    memcpy(operands->extent, extents, sizeof(extents));
    memcpy(operands->element, types, sizeof(types));
    for (int i = 0; i < MERGE_ELEMENTS; ++i) {
        operands->element_bytes[i] = clattn_type_size(types[i]);
    }
    for (int n = 0; n <= count; ++n) {
        const clattn_partial *partial = n < count ? partials[n] : merged;
        const int place = n < count ? n : MERGED;
        operands->asked |= 1u << place | 1u << (MERGE_PLACES + place);
        read_tensor(&partial->out, &operands->tensor[place]);
        read_tensor(&partial->lse, &operands->tensor[MERGE_PLACES + place]);
    }
    return operands_check(operands);
}
