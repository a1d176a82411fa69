/* The argument list that all attention kernels begin with. */
#include "plan/attention_arguments.h"

#define POINTERS_BYTES 128 /* of all tensors, and single numbers, at most */

void attention_arguments(const clattn_params *params, const struct call *call,
                         struct launch_argument *arguments)
{
    arguments[0] = (struct launch_argument){ sizeof(*params), params };
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        arguments[1 + id] =
            (struct launch_argument){ sizeof(cl_mem), &call->tensor[id].buffer };
    }
}

int attention_arguments_fit(const struct device *device, size_t own_bytes, struct text *why)
{
    if (device->parameter_bytes < sizeof(clattn_params) + own_bytes + POINTERS_BYTES) {
        text_append(why, "the device takes only %zu bytes of kernel arguments", device->parameter_bytes);
        return 0;
    }
    return 1;
}
