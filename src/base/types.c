/* Names of statuses, the version, dense strides and tensors. */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "clattn.h"

#define TEXT_OF(x) #x
#define DIGITS(x) TEXT_OF(x)

const char *clattn_version(void)
{
    return DIGITS(CLATTN_VERSION_MAJOR) "." DIGITS(CLATTN_VERSION_MINOR) "." DIGITS(CLATTN_VERSION_PATCH);
}

int clattn_version_number(void)
{
    return CLATTN_VERSION_NUMBER;
}

const char *clattn_status_name(clattn_status status)
{
    static const char *const names[] = {
#define NAME(status) [status] = #status
        NAME(CLATTN_OK),
        NAME(CLATTN_INVALID_ARGUMENT),
        NAME(CLATTN_INVALID_SHAPE),
        NAME(CLATTN_UNSUPPORTED),
        NAME(CLATTN_NO_DEVICE),
        NAME(CLATTN_OUT_OF_HOST_MEMORY),
        NAME(CLATTN_OUT_OF_DEVICE_MEMORY),
        NAME(CLATTN_BUILD_FAILED),
        NAME(CLATTN_OPENCL_ERROR),
        NAME(CLATTN_GEMM_ERROR),
        NAME(CLATTN_FORKED),
        NAME(CLATTN_INTERNAL),
#undef NAME
    };
    return (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown status";
}

/* What does not fit becomes a stride that no tensor of more than one element can have: the call refuses
 * it. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t result;
    return checked_multiply(a, b, &result) ? result : INT64_MAX;
}

static void set_strides(int64_t batch, int64_t head, int64_t row, int64_t stride[4])
{
    stride[0] = batch;
    stride[1] = head;
    stride[2] = row;
    stride[3] = 1;
}

void clattn_strides_bhsd(int64_t heads, int64_t rows, int64_t columns, int64_t stride[4])
{
    set_strides(product(heads, product(rows, columns)), product(rows, columns), columns, stride);
}

void clattn_strides_bshd(int64_t heads, int64_t rows, int64_t columns, int64_t stride[4])
{
    set_strides(product(rows, product(heads, columns)), columns, product(heads, columns), stride);
}

/* One function for each layout, of tensors on the device and on the host. */
#define TENSORS(layout)                                                                                                \
    clattn_tensor clattn_tensor_##layout(cl_mem buffer, int64_t heads, int64_t rows, int64_t columns)                  \
    {                                                                                                                  \
        clattn_tensor tensor = { buffer, 0, { 0 } };                                                                   \
        clattn_strides_##layout(heads, rows, columns, tensor.stride);                                                  \
        return tensor;                                                                                                 \
    }                                                                                                                  \
    clattn_host_tensor clattn_host_tensor_##layout(const void *data, int64_t heads, int64_t rows, int64_t columns)     \
    {                                                                                                                  \
        clattn_host_tensor tensor = CLATTN_TENSOR_NONE;                                                                \
        memcpy(&tensor.data, &data, sizeof(data)); /* inputs are only read */                                          \
        clattn_strides_##layout(heads, rows, columns, tensor.stride);                                                  \
        return tensor;                                                                                                 \
    }

TENSORS(bhsd)
TENSORS(bshd)
