/* Merging two partial attentions over disjoint keys: checks, and one kernel. */
#include "layers/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cl/merge_params.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "program/launch.h"

static const char *const side_names[3] = { "a", "b", "merged" };

static clattn_status check_tensor(const clattn_context *context, const clattn_tensor *tensor,
                                  int side_index, const char *name, const int64_t shape[4], int axes,
                                  size_t element_bytes)
{
    const char *side = side_names[side_index];
    const int is_output = side_index == 2;
    size_t bytes = 0;
    if (!tensor->buffer) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s->%s: must be given", side, name);
    }
    char full_name[32];
    snprintf(full_name, sizeof(full_name), "%s->%s", side, name);
    clattn_status status = chain_check_buffer(context, tensor->buffer, full_name, &bytes);
    if (status != CLATTN_OK) {
        return status;
    }
    int64_t low = tensor->offset, high = tensor->offset;
    for (int axis = 0; axis < axes; ++axis) {
        int64_t reach, *end = tensor->stride[axis] < 0 ? &low : &high;
        if (is_output && shape[axis] > 1 && tensor->stride[axis] == 0) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s->%s.stride[%d] 0: must not be 0, an output of %" PRId64
                             " elements on this axis would write one place more than once",
                             side, name, axis, shape[axis]);
        }
        if (!checked_multiply(shape[axis] - 1, tensor->stride[axis], &reach) ||
            !checked_add(*end, reach, end)) {
            return error_set(CLATTN_INVALID_SHAPE, "%s->%s.stride[%d] %" PRId64 ": does not fit 64 bits",
                             side, name, axis, tensor->stride[axis]);
        }
    }
    if (low < 0 || (uint64_t)high >= bytes / element_bytes) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "%s->%s: its strides reach elements %" PRId64 " to %" PRId64
                         ", its buffer has %zu",
                         side, name, low, high, bytes / element_bytes);
    }
    return CLATTN_OK;
}

static clattn_status check_shape(clattn_type type, const int64_t shape[4])
{
    static const char *const axes[4] = { "batch", "heads", "rows", "columns" };
    if (clattn_type_size(type) == 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "type %d: is not a storage type", (int)type);
    }
    for (int axis = 0; axis < 4; ++axis) {
        const int least = axis == 3; /* a head has a column; all else may be empty */
        if (shape[axis] < least || shape[axis] > INT32_MAX) {
            return error_set(CLATTN_INVALID_SHAPE, "shape[%d] (%s) %" PRId64 ": must be %d to %d", axis,
                             axes[axis], shape[axis], least, INT32_MAX);
        }
    }
    return CLATTN_OK;
}

static clattn_status fill(const clattn_context *context, const clattn_partial *const partials[3],
                          clattn_type type, const int64_t shape[4], clattn_merge_params *params)
{
    memset(params, 0, sizeof(*params));
    clattn_status status = CLATTN_OK;
    for (int side = 0; side < 3 && status == CLATTN_OK; ++side) {
        const clattn_tensor *out = &partials[side]->out, *lse = &partials[side]->lse;
        status = check_tensor(context, out, side, "out", shape, 4, clattn_type_size(type));
        if (status == CLATTN_OK) {
            status = check_tensor(context, lse, side, "lse", shape, 3, sizeof(float));
        }
        params->out_offset[side] = out->offset;
        params->lse_offset[side] = lse->offset;
        memcpy(params->out_stride[side], out->stride, sizeof(out->stride));
        memcpy(params->lse_stride[side], lse->stride, sizeof(lse->stride));
    }
    params->heads = (int)shape[1];
    params->rows = (int)shape[2];
    params->columns = (int)shape[3];
    return status;
}

static clattn_status launch_merge(struct chain *chain, struct kernel *kernel,
                                  const clattn_partial *const partials[3], const int64_t shape[4],
                                  const clattn_merge_params *params)
{
    const size_t global[3] = { (size_t)shape[2], (size_t)shape[1], (size_t)shape[0] };
    const size_t local[3] = { 1, 1, 1 };
    const struct launch_argument arguments[] = {
        { sizeof(*params), params },          ARGUMENT(partials[0]->out.buffer),
        ARGUMENT(partials[1]->out.buffer),    ARGUMENT(partials[2]->out.buffer),
        ARGUMENT(partials[0]->lse.buffer),    ARGUMENT(partials[1]->lse.buffer),
        ARGUMENT(partials[2]->lse.buffer),
    };
    chain_final(chain);
    return launch(chain, kernel, 3, global, local, sizeof(arguments) / sizeof(arguments[0]), arguments);
}

clattn_status merge_enqueue(clattn_context *context, cl_command_queue queue, clattn_type type,
                            const int64_t shape[4], const clattn_partial *const partials[3],
                            cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    clattn_merge_params params;
    struct kernel *kernel = NULL;
    clattn_status status = check_shape(type, shape);
    if (status == CLATTN_OK && type == CLATTN_FLOAT64 && !context->device.has_fp64) {
        status = error_set(CLATTN_UNSUPPORTED, "type float64: device \"%s\" has no float64",
                           context->device.name);
    }
    const int empty = status == CLATTN_OK &&
                      (shape[0] == 0 || shape[1] == 0 || shape[2] == 0);
    if (status == CLATTN_OK && !empty) {
        status = fill(context, partials, type, shape, &params);
    }
    if (status == CLATTN_OK && !empty) {
        char options[32];
        snprintf(options, sizeof(options), "-D TYPE=%d", (int)type);
        status = program_kernel(context, "merge.cl", options, "merge", &kernel);
    }
    struct chain chain;
    if (status == CLATTN_OK) {
        status = chain_check_queue(context, queue);
    }
    if (status == CLATTN_OK) {
        status = chain_begin(&chain, queue, n_wait, wait, done);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    if (!empty) {
        status = launch_merge(&chain, kernel, partials, shape, &params);
    }
    return chain_end(&chain, status);
}
