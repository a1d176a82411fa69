/* The params and the argument list that all attention kernels begin with. */
#include "plan/attention_arguments.h"

#include "plan/strategy.h"

#define POINTERS_BYTES 192 /* of all tensors, and single numbers, at most */

_Static_assert(TENSOR_COUNT * 8 <= POINTERS_BYTES && sizeof(clattn_params) + POINTERS_BYTES <= 1024,
               "every device takes 1,024 bytes of arguments (CL_DEVICE_MAX_PARAMETER_SIZE)");

void attention_params(const clattn_plan *plan, const struct operands *operands, clattn_params *params)
{
    params_fill(attention_problem(plan->problem), attention_call(operands), params);
}

void attention_arguments(const clattn_params *params, const struct operands *operands,
                         struct launch_argument *arguments)
{
    arguments[0] = (struct launch_argument){ sizeof(*params), params };
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        arguments[1 + id] = (struct launch_argument){ sizeof(cl_mem), &operands->tensor[id].buffer };
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

void append_type_options(const struct problem *problem, struct text *options)
{
    const clattn_problem *p = &problem->p;
    text_append(options, "-D TYPE=%d", (int)p->type);
    if (problem_mixes_types(problem)) {
        text_append(options, " -D KEY_TYPE=%d -D VALUE_TYPE=%d -D OUT_TYPE=%d", (int)p->key_type, (int)p->value_type,
                    (int)p->out_type);
    }
}

void append_page_options(const clattn_problem *problem, struct text *options)
{
    if (problem->page_size > 0) {
        text_append(options, " -D PAGED=1 -D PAGE_SIZE=%d", (int)problem->page_size);
    }
}
