/* The two functions by which the OpenCL loader takes a layer in; included once by a layer, behind its own calls.
 * The layer defines `next`, `own` and LAYER_CALLS(own), which puts its calls into the table. */
#ifndef CLATTN_TESTS_ICD_ICD_ENTRY_H
#define CLATTN_TESTS_ICD_ICD_ENTRY_H

#include <CL/cl_layer.h>
#include <string.h>

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t size, void *value, size_t *needed)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what != CL_LAYER_API_VERSION || (value && size < sizeof(version))) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, &version, sizeof(version));
    }
    if (needed) {
        *needed = sizeof(version);
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const struct _cl_icd_dispatch *target,
                                            cl_uint *own_entries, const struct _cl_icd_dispatch **result)
{
    const size_t all = sizeof(own) / sizeof(void (*)(void));
    if (entries < 80) {
        return CL_INVALID_VALUE; /* older than OpenCL 1.2 */
    }
    memcpy(&own, target, (entries < all ? entries : all) * sizeof(void (*)(void)));
    LAYER_CALLS(own);
    next = target;
    *own_entries = (cl_uint)all;
    *result = &own;
    return CL_SUCCESS;
}

#endif
