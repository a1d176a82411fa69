/* Reads, measures and checks a call by what its operation's table says. */
#include "operation/any_call.h"

#include <stddef.h>
#include <string.h>

#include "base/growth.h"

/* ---- the public structs ----------------------------------------------------------------------- */

_Static_assert(offsetof(clattn_tensor, buffer) == offsetof(clattn_array, buffer) &&
                   offsetof(clattn_tensor, offset) == offsetof(clattn_array, offset),
               "a tensor begins with what an array is");

/* Rows [first, end) out of the public struct that has them. */
static void read_device(struct operands *operands, int first, int end, const void *tensors)
{
    for (int id = first; id < end; ++id) {
        const char *field = (const char *)tensors + operand_row(operands, id)->device_at;
        struct tensor_place *place = &operands->tensor[id];
        clattn_array array;
        memcpy(&array, field, sizeof(array));
        if (!array.buffer) {
            continue;
        }
        place->buffer = array.buffer;
        place->offset = array.offset;
        if (operand_row(operands, id)->field == FIELD_TENSOR) {
            memcpy(place->stride, field + offsetof(clattn_tensor, stride), sizeof(place->stride));
        }
    }
}

static void read_host(struct operands *operands, int first, int end, const void *tensors)
{
    for (int id = first; id < end; ++id) {
        const char *field = (const char *)tensors + operand_row(operands, id)->host_at;
        struct tensor_place *place = &operands->tensor[id];
        memcpy(&place->data, field, sizeof(place->data)); /* what a clattn_host_tensor begins with */
        if (place->data && operand_row(operands, id)->field == FIELD_TENSOR) {
            clattn_host_tensor tensor;
            memcpy(&tensor, field, sizeof(tensor));
            place->offset = tensor.offset;
            memcpy(place->stride, tensor.stride, sizeof(tensor.stride));
        }
    }
}

static clattn_status read_struct(const struct public_tensors *of, int first, const void *given, int on_host,
                                 struct operands *operands)
{
    const struct operation *operation = operands->operation;
    _Alignas(max_align_t) char copy[GROWTH_BYTES_MAX];
    const void *known;
    clattn_status status = growth_read(on_host ? of->host : of->device, given, copy, &known);
    if (status == CLATTN_OK && operation->refuse && first == 0) {
        status = operation->refuse(known, on_host);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    if (on_host) {
        read_host(operands, first, first + of->rows, known);
        return CLATTN_OK;
    }
    read_device(operands, first, first + of->rows, known);
    if (of->workspace_at) {
        memcpy(&operands->workspace, (const char *)known + of->workspace_at, sizeof(operands->workspace));
    }
    return CLATTN_OK;
}

static clattn_status read_structs(const struct given *given, int on_host, struct operands *operands)
{
    const struct operation *operation = operands->operation;
    clattn_status status = CLATTN_OK;
    for (int i = 0, first = 0; i < PUBLIC_TENSORS && operation->tensors[i].rows > 0 && status == CLATTN_OK; ++i) {
        status = read_struct(&operation->tensors[i], first, given->tensors[i], on_host, operands);
        first += operation->tensors[i].rows;
    }
    for (int id = 0; bits_follow(operation->unlooked, id); ++id) {
        if (operation->unlooked >> id & 1) {
            memset(&operands->tensor[id], 0, sizeof(operands->tensor[id]));
        }
    }
    return status;
}

/* ---- a call ----------------------------------------------------------------------------------- */

static clattn_status read_call(const struct any_problem *problem, const struct given *given, int on_host,
                               struct operands *operands)
{
    const struct operation *operation = problem->operation;
    operands_begin(operands, operation);
    clattn_status status = read_structs(given, on_host, operands);
    if (status == CLATTN_OK) {
        status = operation->measure(problem, given->values, operands);
    }
    if (status == CLATTN_OK) {
        status = operands_check(operands);
    }
    return status == CLATTN_OK && operation->check_places ? operation->check_places(problem, operands) : status;
}

clattn_status any_call_from_device(const struct any_problem *problem, const struct given *given, struct operands *call)
{
    return read_call(problem, given, 0, call);
}

clattn_status any_call_from_host(const struct any_problem *problem, const struct given *given, struct operands *call)
{
    return read_call(problem, given, 1, call);
}

clattn_status any_call_check_values(const struct any_problem *problem, const struct operands *call)
{
    return problem->operation->check_values ? problem->operation->check_values(problem, call) : CLATTN_OK;
}

clattn_status any_call_largest(const struct any_problem *problem, struct operands *call)
{
    operands_begin(call, problem->operation);
    return problem->operation->measure(problem, NULL, call);
}
