/* The largest call of a plan goes through its strategy, as calls do. */
#include "plan/rehearse_plan.h"

#include "operation/any_call.h"
#include "plan/enqueue.h"
#include "program/rehearsal.h"

#define AXES 4

/* Tensors that may be sums along axes are, along those whose bits are set: other kernels may be for that. */
static int sum_along(unsigned axes, struct operands *operands)
{
    int has_sums = 0;
    for (int id = 0; operand_follows(operands, id); ++id) {
        const int is_sum = operand_is_asked(operands, id) && operand_row(operands, id)->role == TENSOR_SUMMED;
        for (int axis = 0; axis < AXES && is_sum; ++axis) {
            operands->tensor[id].stride[axis] *= !(axes >> axis & 1);
        }
        has_sums |= is_sum;
    }
    return has_sums;
}

struct rehearsed {
    const struct clattn_plan *plan;
    double *compile_ms;
};

static clattn_status call(const void *of, struct chain *chain)
{
    const struct rehearsed *rehearsed = of;
    const struct clattn_plan *plan = rehearsed->plan;
    struct any_call largest;
    struct operands *operands = &largest.operands;
    clattn_status status = any_call_largest(plan->problem, operands);
    int has_sums = 1;
    for (unsigned axes = 0; axes < 1u << AXES && has_sums && status == CLATTN_OK; ++axes) {
        operands_stand_in(operands);
        has_sums = sum_along(axes, operands);
        status = enqueue_in_chain(plan, operands, chain);
    }
    *rehearsed->compile_ms += chain->rehearsal_ms;
    return status;
}

clattn_status rehearse_plan(struct clattn_plan *plan)
{
    const struct rehearsed rehearsed = { plan, &plan->compile_ms };
    return rehearse(plan->context, call, &rehearsed);
}
