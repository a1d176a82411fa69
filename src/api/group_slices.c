/* A call by one context: what is more than its device holds, or gives out in one buffer, goes in slices of one axis,
 * the first of batch, heads, rows and keys whose slices fit. Where none does, the axis whose slices are smallest, and
 * each of them in slices again. */
#include <stdlib.h>

#include "api/entry.h"
#include "api/group_cut.h"
#include "base/error.h"
#include "operation/backward.h"
#include "program/context.h"

/* The public problem of a call: of attention, or `backward`, which becomes that of its gradients. */
static const void *problem_of(const struct group_call *call, clattn_backward_problem *backward)
{
    *backward = call->backward;
    backward->forward = &call->problem;
    return call->operation == &operation_forward ? (const void *)&call->problem : backward;
}

/* Attention has no gradients, and its operation does not read them. */
#define GIVEN_OF(call_) GIVEN(&(call_)->call, &(call_)->tensors, &(call_)->gradients)

static clattn_status run_at_once(clattn_context *context, const struct group_call *call)
{
    clattn_backward_problem backward;
    return entry_host(context, call->operation, problem_of(call, &backward), GIVEN_OF(call));
}

/* ---- what fits --------------------------------------------------------------------------------- */

/* How many times too large it is for the device: its largest tensor, or all of them together. 1 or less: it fits. */
static double excess_of_tensors(const struct device *device, const struct operands *operands)
{
    double largest = 0, all = 0;
    for (int id = 0; id < operands->operation->count; ++id) {
        const struct tensor_place *place = &operands->tensor[id];
        const double bytes = place->data ? (double)(place->high - place->low) * (double)operand_bytes(operands, id) : 0;
        largest = bytes > largest ? bytes : largest;
        all += bytes;
    }
    const double of_buffer = largest / (double)device->allocation_bytes, of_memory = all / (double)device->global_bytes;
    return of_buffer > of_memory ? of_buffer : of_memory;
}

static clattn_status excess_of(const clattn_context *context, const struct group_call *call, double *excess)
{
    clattn_backward_problem backward;
    struct any_problem *problem = NULL;
    struct any_call checked;
    clattn_status status = any_problem_new(call->operation, problem_of(call, &backward), &problem);
    if (status == CLATTN_OK) {
        status = any_call_from_host(problem, GIVEN_OF(call), &checked.operands);
    }
    *excess = status == CLATTN_OK ? excess_of_tensors(&context->device, &checked.operands) : 0;
    problem_free(problem);
    return status;
}

/* ---- slices ------------------------------------------------------------------------------------ */

static clattn_status run_slices(clattn_context *context, const struct group_parts *parts)
{
    clattn_status status = CLATTN_OK;
    for (size_t n = 0; n < parts->count && status == CLATTN_OK; ++n) {
        status = group_call_run(context, &parts->part[n].call);
    }
    return status == CLATTN_OK ? group_parts_sum(parts) : status;
}

/* A way to cut a call: how many times too large a slice is, and whether the slices were run. */
struct way {
    double of_slice;
    int was_run;
};

/* Runs slices that are no more than `most` times too large. */
static clattn_status run_if_small(clattn_context *context, const struct group_parts *parts, double most,
                                  struct way *way)
{
    const clattn_status status = excess_of(context, &parts->part[0].call, &way->of_slice);
    way->was_run = status == CLATTN_OK && way->of_slice <= most;
    return way->was_run ? run_slices(context, parts) : status;
}

/* As many slices as would fit, if every tensor were cut. */
static clattn_status try_axis(clattn_context *context, const struct group_call *call, enum group_axis axis,
                              double excess, double most, struct way *way)
{
    const int64_t pieces = group_pieces(call, axis);
    *way = (struct way){ excess, 0 };
    if (pieces <= 1) {
        return CLATTN_OK;
    }
    const int64_t slices = excess + 1 < (double)pieces ? (int64_t)excess + 1 : pieces;
    int64_t *first = malloc((size_t)(slices + 1) * sizeof(*first));
    if (!first) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the slices of a call");
    }
    for (int64_t n = 0; n <= slices; ++n) {
        first[n] = pieces / slices * n + pieces % slices * n / slices;
    }
    struct group_parts parts;
    clattn_status status = group_parts_begin(&parts, call, axis, (size_t)slices, first);
    if (status == CLATTN_OK) {
        status = run_if_small(context, &parts, most, way);
    }
    group_parts_free(&parts);
    free(first);
    return status;
}

clattn_status group_call_run(clattn_context *context, const struct group_call *call)
{
    double excess, smallest;
    enum group_axis best = GROUP_AXES;
    struct way way = { 0, 0 };
    clattn_status status = excess_of(context, call, &excess);
    smallest = excess;
    for (enum group_axis axis = GROUP_BATCH; axis < GROUP_AXES && excess > 1 && status == CLATTN_OK && !way.was_run;
         ++axis) {
        status = try_axis(context, call, axis, excess, 1, &way);
        best = way.of_slice < smallest ? axis : best;
        smallest = way.of_slice < smallest ? way.of_slice : smallest;
    }
    if (status == CLATTN_OK && !way.was_run && best < GROUP_AXES) {
        status = try_axis(context, call, best, excess, smallest, &way);
    }
    return status == CLATTN_OK && !way.was_run ? run_at_once(context, call) : status;
}
