/* How an operation's table of rows is written: T(ID, field, axes, element, access, place, asked for by), as in
 * cl/forward/forward_tensors.h. Only for the .c file of an operation, whose own enumerators EXTENT_* and ELEMENT_* the
 * rows name; EXTENT_ONE, which is 0, where the tensor has no such axis. */
#ifndef CLATTN_SRC_ROWS_H
#define CLATTN_SRC_ROWS_H

#include <stddef.h>

#include "base/growth.h"
#include "operation/operands.h"

/* The row of a tensor that is `field` in the public structs for devices and hosts, placed in the kernels' `params`. */
#define TENSOR_ROW(field_, axes, element, access, place, device, host, params)                                         \
    MEMBER_ROW(field_, field_, axes, element, ROLE_##access, place, device, host, params)

/* A row whose public structs lie in others, as their `member`. */
#define MEMBER_ROW(field_, member, axes, element_, role_, place, device, host, params)                                 \
    {                                                                                                                  \
        .name = #field_, .device_at = offsetof(device, member), .host_at = offsetof(host, member),                     \
        .axis = AXES_OF axes, .element = ELEMENT_##element_, .role = role_, PLACE_##place(params, field_)              \
    }

/* A tensor of a text: of forward_rows.h's extents and elements. */
#define CODE_ROW(number)                                                                                               \
    TENSOR_ROW(code_tensors[number], (ONE, ONE, ONE, CODE_##number), CODE_##number, IN, CODE, clattn_tensors,          \
               clattn_host_tensors, none)

#define AXES_OF(batch, head, row, column)                                                                              \
    {                                                                                                                  \
        EXTENT_##batch, EXTENT_##head, EXTENT_##row, EXTENT_##column                                                   \
    }

#define ROLE_IN TENSOR_INPUT
#define ROLE_WEIGHT TENSOR_WEIGHT
#define ROLE_OUT TENSOR_OUTPUT
#define ROLE_UPDATED TENSOR_UPDATED
#define ROLE_SUMMED TENSOR_SUMMED

/* What `params` has of the place, as CLATTN_PLACE_* of cl/cache/rotary_params.h declares it. */
#define PLACE_DENSE(params, name) .dense = 1, .param_offset_at = offsetof(params, name##_offset)
#define PLACE_STRIDED(params, name)                                                                                    \
    .strides = 4, .param_offset_at = offsetof(params, name##_offset), .param_stride_at = offsetof(params, name##_stride)
#define PLACE_COLUMNS(params, name) PLACE_STRIDED(params, name), .columns = 1

/* A place of a tensor of attention, which cl/forward/forward_places.h numbers, is named PLACED_*. */
#define PLACED_ROW(field, axes, element, access, place, device, host)                                                  \
    TENSOR_ROW(field, axes, element, access, PLACED_##place, device, host, none)
#define PLACE_PLACED_DENSE(none, name) .dense = 1
#define PLACE_PLACED_HEADS(none, name) .strides = CLATTN_STRIDES_HEADS
#define PLACE_PLACED_ROWS(none, name) .strides = CLATTN_STRIDES_ROWS
#define PLACE_PLACED_STRIDED(none, name) .strides = CLATTN_STRIDES_STRIDED
#define PLACE_PLACED_COLUMNS(none, name) .strides = CLATTN_STRIDES_COLUMNS, .columns = 1

/* The fields of a row in params are a matter of the operation. */
#define PLACE_POOL(params, name) .columns = 1, .is_apart = 1
#define PLACE_CODE(params, name) .dense = 1, .is_apart = 1
/* Layers have no params: their steps are other operations. */
#define PLACE_ARRAY(params, name) .field = FIELD_ARRAY, .dense = 1, .is_apart = 1
#define PLACE_TENSOR(params, name) .field = FIELD_TENSOR, .is_apart = 1

/* In an operation: the public problem, as the field `p` of its own; a public struct of tensors, of so many rows. The
 * types have a GROWTH (base/growth.h). */
#define PROBLEM_OF(own, type)                                                                                          \
    .problem_bytes = sizeof(own), .given = GROWTH_OF(type), .given_at = offsetof(own, p),                              \
    .strategy_at = offsetof(own, p.strategy)
#define TENSORS_OF(device_type, host_type, count, workspace)                                                           \
    {                                                                                                                  \
        .device = GROWTH_OF(device_type), .host = GROWTH_OF(host_type), .rows = count, .workspace_at = workspace       \
    }

#define ROWS_HAVE_ROOM(tensors, extents, elements)                                                                     \
    _Static_assert(tensors <= OPERANDS_MAX && extents <= EXTENTS_MAX && elements <= ELEMENTS_MAX,                      \
                   "an operation's tables must have room")

#endif
