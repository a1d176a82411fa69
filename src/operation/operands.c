/* Reads, checks and measures the tensors of a call, row by row. */
#include "operation/operands.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"

int64_t operand_columns(const struct operands *operands, int id)
{
    const int64_t columns = operands->element_columns[operand_row(operands, id)->element];
    return columns > 1 ? columns : 1;
}

void operand_shape(const struct operands *operands, int id, int64_t shape[4])
{
    const struct tensor_row *row = operand_row(operands, id);
    const int64_t columns = operand_columns(operands, id);
    for (int axis = 0; axis < 4; ++axis) {
        shape[axis] = operands->extent[row->axis[axis]];
    }
    shape[3] = columns == 1 ? shape[3] : shape[3] / columns; /* divisions are slow */
}

void operand_stored_shape(const struct operands *operands, int id, int64_t shape[4])
{
    const int sums = operand_row(operands, id)->role == TENSOR_SUMMED && operand_is_given(operands, id);
    operand_shape(operands, id, shape);
    for (int axis = 0; axis < 4 && sums; ++axis) {
        shape[axis] = operands->tensor[id].stride[axis] == 0 ? 1 : shape[axis];
    }
}

static int is_empty(const int64_t shape[4])
{
    return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

int operand_is_empty(const struct operands *operands, int id)
{
    int64_t shape[4];
    operand_stored_shape(operands, id, shape);
    return is_empty(shape);
}

int operands_are_empty(const struct operands *operands)
{
    for (int id = 0; operand_follows(operands, id); ++id) {
        if (operand_is_written(operands, id) && operand_is_asked(operands, id) && !operand_is_empty(operands, id)) {
            return 0;
        }
    }
    return 1;
}

const char *operand_shape_text(const struct operands *operands, int id, char *text)
{
    int64_t shape[4];
    size_t length = 0;
    operand_shape(operands, id, shape);
    shape[3] *= operand_columns(operands, id);
    for (int axis = 0; axis < 4; ++axis) {
        if (operand_row(operands, id)->axis[axis] != 0) { /* axes that the tensor has */
            length += (size_t)snprintf(text + length, SHAPE_TEXT_BYTES - length, "%s%" PRId64, length ? ", " : "[",
                                       shape[axis]);
        }
    }
    snprintf(text + length, SHAPE_TEXT_BYTES - length, "]");
    return text;
}

void operands_begin(struct operands *operands, const struct operation *operation)
{
    memset(operands, 0, offsetof(struct operands, tensor) + (size_t)operation->count * sizeof(operands->tensor[0]));
    operands->operation = operation;
    operands->element[ELEMENT_FLOAT] = CLATTN_FLOAT32;
    operands->element_bytes[ELEMENT_FLOAT] = sizeof(float);
    operands->element_bytes[ELEMENT_INT] = sizeof(int32_t);
    operands->element_bytes[ELEMENT_BYTE] = 1;
}

void operands_set_type(struct operands *operands, int element, clattn_type type)
{
    operands->element[element] = type;
    operands->element_bytes[element] = type_element(type, &operands->element_columns[element]);
}

static void set_dense_strides(const struct operands *operands, int id, int64_t stride[4])
{
    int64_t shape[4], step = 1;
    operand_shape(operands, id, shape);
    for (int axis = 3; axis >= 0; --axis) {
        stride[axis] = operand_row(operands, id)->axis[axis] ? step : 0;
        if (!checked_multiply(step, shape[axis] > 0 ? shape[axis] : 1, &step)) {
            step = INT64_MAX; /* set_reach refuses it */
        }
    }
}

/* ---- checks ----------------------------------------------------------------------------------- */

/* CLATTN_INVALID_SHAPE where what the strides reach does not fit int64. */
static clattn_status set_reach(struct operands *operands, int id, const int64_t shape[4])
{
    struct tensor_place *place = &operands->tensor[id];
    int64_t low = place->offset, high = place->offset;
    for (int axis = 0; axis < 4; ++axis) {
        int64_t reach;
        if (!checked_multiply(shape[axis] - 1, place->stride[axis], &reach) ||
            !(reach < 0 ? checked_add(low, reach, &low) : checked_add(high, reach, &high))) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "%s.stride[%d] %" PRId64 ": the tensor's %" PRId64
                             " elements on this axis do not fit 64-bit indices",
                             operand_name(operands, id), axis, place->stride[axis], shape[axis]);
        }
    }
    place->low = low;
    if (!checked_add(high, 1, &place->high)) {
        return error_set(CLATTN_INVALID_SHAPE, "%s.offset %" PRId64 ": does not fit 64-bit indices",
                         operand_name(operands, id), place->offset);
    }
    return CLATTN_OK;
}

static clattn_status check_presence(const struct operands *operands, int id)
{
    const char *name = operand_name(operands, id);
    char shape[SHAPE_TEXT_BYTES];
    const int asked = operand_is_asked(operands, id), given = operand_is_given(operands, id);
    if (asked && !given && !operand_is_empty(operands, id)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must be given, the problem has it; its shape is %s", name,
                         operand_shape_text(operands, id, shape));
    }
    if (!asked && given) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s: was given, but the problem does not have it and it would be ignored; set its field in "
                         "the problem",
                         name);
    }
    return CLATTN_OK;
}

/* Inputs may broadcast; two elements of an output must not be one. */
static clattn_status check_output_strides(const struct operands *operands, int id, const int64_t shape[4])
{
    for (int axis = 0; axis < 4; ++axis) {
        if (shape[axis] > 1 && operands->tensor[id].stride[axis] == 0) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s.stride[%d] 0: must not be 0, an output of %" PRId64
                             " elements on this axis would write one place more than once",
                             operand_name(operands, id), axis, shape[axis]);
        }
    }
    return CLATTN_OK;
}

void operands_stand_in(struct operands *operands)
{
    static const char nowhere = 0;
    const cl_mem buffer = (cl_mem)(uintptr_t)&nowhere;
    for (int id = 0; operand_follows(operands, id); ++id) {
        struct tensor_place *place = &operands->tensor[id];
        int64_t shape[4], stride = 1;
        operand_shape(operands, id, shape);
        place->buffer = operand_is_asked(operands, id) ? buffer : NULL;
        for (int axis = 3; axis >= 0; --axis) {
            place->stride[axis] = stride;
            if (!checked_multiply(stride, shape[axis] > 0 ? shape[axis] : 1, &stride)) {
                stride = 1; /* no memory holds that */
            }
        }
    }
    operands->workspace = buffer;
}

/* From here on, offset and strides of a tensor whose elements have several columns count elements. */
static clattn_status count_in_blocks(struct operands *operands, int id)
{
    struct tensor_place *place = &operands->tensor[id];
    const int64_t columns = operand_columns(operands, id);
    const char *name = operand_name(operands, id);
    if (place->stride[3] != 1) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s.stride[3] %" PRId64 ": must be 1, columns of a block are neighbours", name,
                         place->stride[3]);
    }
    if (place->offset % columns != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s.offset %" PRId64 ": must be a multiple of %" PRId64 ", the columns of a block", name,
                         place->offset, columns);
    }
    for (int axis = 0; axis < 3; ++axis) {
        if (place->stride[axis] % columns != 0) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s.stride[%d] %" PRId64 ": must be a multiple of %" PRId64 ", the columns of a block",
                             name, axis, place->stride[axis], columns);
        }
        place->stride[axis] /= columns;
    }
    place->offset /= columns;
    return CLATTN_OK;
}

/* Where the strides lead: no element, nothing is reached. */
static clattn_status check_reach(struct operands *operands, int id)
{
    const struct tensor_row *row = operand_row(operands, id);
    struct tensor_place *place = &operands->tensor[id];
    clattn_status status = CLATTN_OK;
    int64_t shape[4];
    operand_stored_shape(operands, id, shape);
    place->low = place->high = 0;
    if (is_empty(shape)) {
        return CLATTN_OK;
    }
    if (operand_is_written(operands, id) && row->role != TENSOR_SUMMED) {
        status = check_output_strides(operands, id, shape);
    }
    if (status == CLATTN_OK) {
        status = set_reach(operands, id, shape);
    }
    /* Fewer rows than those of one longest sequence, maybe. */
    const int rows_unknown = (operands->unknown_extents >> row->axis[2] & 1) != 0;
    if (status == CLATTN_OK && place->low < 0 && !rows_unknown) {
        status = error_set(CLATTN_INVALID_SHAPE, "%s: its strides reach element %" PRId64 ", before the buffer's first",
                           row->name, place->low);
    }
    return status;
}

static clattn_status check_place(struct operands *operands, int id)
{
    const struct tensor_row *row = operand_row(operands, id);
    struct tensor_place *place = &operands->tensor[id];
    clattn_status status = check_presence(operands, id);
    if (status != CLATTN_OK || !operand_is_given(operands, id)) {
        return status;
    }
    if (row->dense) {
        set_dense_strides(operands, id, place->stride);
    }
    if (place->offset < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s.offset %" PRId64 ": must be >= 0", row->name, place->offset);
    }
    if (row->columns && !operands->strided_columns && place->stride[3] != 1) {
        if (!(place->stride[0] | place->stride[1] | place->stride[2] | place->stride[3])) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s.stride: all are 0: must be set, as by clattn_strides_bhsd() of "
                             "heads, rows and columns",
                             row->name);
        }
        return error_set(CLATTN_INVALID_ARGUMENT, "%s.stride[3] %" PRId64 ": must be 1, or set problem.strided_columns",
                         row->name, place->stride[3]);
    }
    if (operand_columns(operands, id) > 1) {
        status = count_in_blocks(operands, id);
    }
    return status == CLATTN_OK ? check_reach(operands, id) : status;
}

/* Bit n: place n has memory. Without a branch a row, of which there are many more than a call has tensors. */
static uint64_t given_places(const struct operands *operands)
{
    uint64_t given = 0;
    for (int id = 0; id < operands->operation->count; ++id) {
        given |= (uint64_t)operand_is_given(operands, id) << id;
    }
    return given;
}

clattn_status operands_check(struct operands *operands)
{
    clattn_status status = CLATTN_OK;
    const uint64_t asked_or_given = operands->asked | given_places(operands);
    for (int id = 0; bits_follow(asked_or_given, id) && status == CLATTN_OK; ++id) {
        if (asked_or_given >> id & 1) {
            status = check_place(operands, id);
        }
    }
    return status;
}

int operand_is_dense(const struct operands *operands, int id)
{
    const int64_t *stride = operands->tensor[id].stride;
    int64_t shape[4], filled = 1;
    int left = 0, found = 1;
    operand_stored_shape(operands, id, shape);
    for (int axis = 0; axis < 4; ++axis) {
        left |= shape[axis] > 1 ? 1 << axis : 0;
    }
    while (left && found) {
        found = 0;
        for (int axis = 0; axis < 4 && !found; ++axis) {
            if (left & 1 << axis && stride[axis] == filled) {
                found = checked_multiply(filled, shape[axis], &filled);
                left &= ~(1 << axis);
            }
        }
    }
    return left == 0 && found;
}

void operands_fill(const struct operands *operands, void *params)
{
    for (int id = 0; operand_follows(operands, id); ++id) {
        const struct tensor_row *row = operand_row(operands, id);
        const struct tensor_place *place = &operands->tensor[id];
        if (!operand_is_asked(operands, id) || row->is_apart) {
            continue; /* params have zeros of it, or nothing */
        }
        memcpy((char *)params + row->param_offset_at, &place->offset, sizeof(place->offset));
        memcpy((char *)params + row->param_stride_at, place->stride, row->strides * sizeof(int64_t));
    }
}

size_t operands_number(const struct operands *operands, uint64_t tensors, int64_t *numbers)
{
    int64_t *next = numbers;
    for (int id = 0; bits_follow(tensors, id); ++id) {
        if (tensors >> id & 1) {
            const struct tensor_place *place = &operands->tensor[id];
            const size_t strides = operand_row(operands, id)->strides;
            *next++ = place->offset;
            memcpy(next, place->stride, strides * sizeof(*next));
            next += strides;
        }
    }
    return (size_t)(next - numbers);
}

int64_t product_of_extents(const int64_t *factors, int count)
{
    int64_t result = 1;
    for (int i = 0; i < count; ++i) {
        if (factors[i] < 0 || !checked_multiply(result, factors[i], &result)) {
            return -1;
        }
    }
    return result;
}
