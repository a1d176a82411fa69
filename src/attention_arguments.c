/* The argument list that all attention kernels begin with. */
#include "attention_arguments.h"

void attention_arguments(const clattn_params *params, const struct call *call,
                         struct launch_argument *arguments)
{
    arguments[0] = (struct launch_argument){ sizeof(*params), params };
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        arguments[1 + id] =
            (struct launch_argument){ sizeof(cl_mem), &call->tensor[id].buffer };
    }
}
