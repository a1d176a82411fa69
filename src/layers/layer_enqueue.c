/* Joints between chains, and the sizes of buffers. */
#include "layers/layer_enqueue.h"

#include <inttypes.h>
#include <string.h>

#define SECTION_ALIGNMENT 4096 /* no device asks more of a sub-buffer */

clattn_status layer_joint_begin(struct layer_joint *joint, const clattn_context *context,
                                cl_command_queue queue, cl_uint n_wait, const cl_event *wait)
{
    struct chain chain;
    memset(joint, 0, sizeof(*joint));
    clattn_status status = chain_check_queue(context, queue);
    if (status == CLATTN_OK) {
        status = chain_begin(&chain, queue, n_wait, wait, NULL); /* for its checks */
    }
    if (status == CLATTN_OK) {
        *joint = (struct layer_joint){ queue, chain.in_order, n_wait, wait, NULL };
    }
    return status;
}

cl_uint layer_joint_count(const struct layer_joint *joint)
{
    return joint->before ? 1 : joint->n_wait;
}

const cl_event *layer_joint_wait(const struct layer_joint *joint)
{
    return joint->before ? &joint->before : joint->wait;
}

void layer_joint_pass(struct layer_joint *joint, cl_event event)
{
    if (joint->before) {
        clReleaseEvent(joint->before);
    }
    joint->before = event;
    joint->n_wait = 0;
    joint->wait = NULL;
}

static clattn_status check_size(const char *name, cl_mem buffer, int64_t elements, size_t element_bytes,
                                const char *advice)
{
    size_t bytes = 0;
    cl_int code = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetMemObjectInfo", "%s: is it a valid cl_mem?", name);
    }
    if ((uint64_t)elements > bytes / element_bytes) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "%s of %zu bytes: must have %" PRId64 " elements of %zu bytes%s", name, bytes,
                         elements, element_bytes, advice);
    }
    return CLATTN_OK;
}

clattn_status layer_check_buffer(const struct layer_array *array, int64_t count,
                                 const struct layer_place *place)
{
    if (!place->buffer || count == 0) {
        return CLATTN_OK;
    }
    if (place->offset < 0 || place->offset > INT64_MAX - count) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s.offset %" PRId64 ": must be >= 0 and fit 64 bits",
                         array->name, place->offset);
    }
    return check_size(array->name, place->buffer, place->offset + count, array->element_bytes,
                      ", its offset included");
}

clattn_status layer_check_workspace(cl_mem workspace, size_t bytes, const char *function)
{
    if (bytes > 0 && !workspace) {
        return error_set(CLATTN_INVALID_ARGUMENT, "workspace: must be a buffer of %zu bytes (%s)", bytes,
                         function);
    }
    return bytes > 0 ? check_size("workspace", workspace, (int64_t)bytes, 1, "") : CLATTN_OK;
}

clattn_status layer_place_sections(const struct device *device, const int64_t *bytes, size_t *at,
                                   int count, size_t *total)
{
    int64_t sum = 0;
    int fits = 1;
    for (int i = 0; i < count && fits; ++i) {
        at[i] = (size_t)sum;
        fits = bytes[i] >= 0 && bytes[i] <= INT64_MAX / 16;
        sum += fits ? (bytes[i] + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT : 0;
    }
    *total = (size_t)sum;
    if (!fits || (uint64_t)sum > device->allocation_bytes || (uint64_t)sum > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "workspace of %s%" PRId64 " bytes: device \"%s\" allows %llu bytes in one buffer "
                         "and has %llu in all; lower batch or rows",
                         fits ? "" : "more than ", sum, device->name,
                         (unsigned long long)device->allocation_bytes,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

clattn_status layer_section_buffer(cl_mem workspace, size_t at, size_t bytes, cl_mem *buffer)
{
    cl_int code;
    cl_buffer_region region = { at, bytes };
    *buffer = NULL;
    if (bytes == 0) {
        return CLATTN_OK;
    }
    *buffer =
        clCreateSubBuffer(workspace, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    return *buffer ? CLATTN_OK
                   : error_opencl(code, "clCreateSubBuffer", "%zu bytes of the workspace", bytes);
}
