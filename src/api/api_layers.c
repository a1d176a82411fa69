/* The exported functions of the layers around attention: NULL checks, then a call one floor down. */
#include <stddef.h>

#include "api/host_call.h"
#include "base/error.h"
#include "base/uncancelled.h"
#include "layers/additive_backward_layer.h"
#include "layers/additive_layer.h"
#include "layers/mha_backward_layer.h"
#include "layers/mha_layer.h"
#include "operation/overlap.h"
#include "reference/reference_additive.h"
#include "reference/reference_additive_backward.h"
#include "reference/reference_mha.h"
#include "reference/reference_mha_backward.h"

/* How an enqueue begins: no event is left of a call that fails. */
#define BEGIN_ENQUEUE(layer)                                                                                           \
    do {                                                                                                               \
        if (done) {                                                                                                    \
            *done = NULL;                                                                                              \
        }                                                                                                              \
        REQUIRE(layer);                                                                                                \
        REQUIRE(queue);                                                                                                \
    } while (0)

/* ---- multi-head ------------------------------------------------------------------------------- */

clattn_status clattn_mha_create(clattn_context *context, const clattn_mha_problem *problem, clattn_mha **mha)
{
    UNCANCELLED;
    REQUIRE(mha);
    *mha = NULL;
    struct mha_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? mha_create(context, &checked, mha) : status;
}

void clattn_mha_destroy(clattn_mha *mha)
{
    UNCANCELLED;
    mha_destroy(mha);
}

size_t clattn_mha_workspace(const clattn_mha *mha)
{
    return mha ? mha->workspace_bytes : 0;
}

const char *clattn_mha_explain(const clattn_mha *mha)
{
    return mha ? mha->explain : "";
}

clattn_status clattn_mha_enqueue(const clattn_mha *mha, cl_command_queue queue, const clattn_mha_arrays *arrays,
                                 cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(mha);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(mha->context);
    if (status == CLATTN_OK) {
        status = mha_call_from_device(&mha->problem, arrays, &operands);
    }
    return status == CLATTN_OK ? mha_enqueue(mha, &target, &operands) : status;
}

clattn_status clattn_mha_forward_host(clattn_context *context, const clattn_mha_problem *problem,
                                      const clattn_mha_host_arrays *arrays)
{
    UNCANCELLED;
    struct mha_problem checked;
    struct operands operands;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = mha_call_from_host(&checked, arrays, &operands);
    }
    return status == CLATTN_OK ? host_mha(context, &checked, &operands) : status;
}

clattn_status clattn_mha_reference(const clattn_mha_problem *problem, const clattn_mha_host_arrays *arrays)
{
    struct mha_problem checked;
    struct operands operands;
    clattn_status status = mha_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = mha_call_from_host(&checked, arrays, &operands);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&operands, 0);
    }
    return status == CLATTN_OK ? reference_mha(&checked, &operands) : status;
}

/* ---- gradients of multi-head ------------------------------------------------------------------- */

clattn_status clattn_mha_backward_create(clattn_context *context, const clattn_mha_backward_problem *problem,
                                         clattn_mha_backward **backward)
{
    UNCANCELLED;
    REQUIRE(backward);
    *backward = NULL;
    struct mha_backward_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_backward_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? mha_backward_create(context, &checked, backward) : status;
}

void clattn_mha_backward_destroy(clattn_mha_backward *backward)
{
    UNCANCELLED;
    mha_backward_destroy(backward);
}

size_t clattn_mha_backward_workspace(const clattn_mha_backward *backward)
{
    return backward ? backward->workspace_bytes : 0;
}

const char *clattn_mha_backward_explain(const clattn_mha_backward *backward)
{
    return backward ? backward->explain : "";
}

clattn_status clattn_mha_backward_enqueue(const clattn_mha_backward *backward, cl_command_queue queue,
                                          const clattn_mha_arrays *arrays, const clattn_mha_gradients *gradients,
                                          cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(backward);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(backward->context);
    if (status == CLATTN_OK) {
        status = mha_backward_from_device(&backward->problem, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? mha_backward_enqueue(backward, &target, &operands) : status;
}

clattn_status clattn_mha_backward_host(clattn_context *context, const clattn_mha_backward_problem *problem,
                                       const clattn_mha_host_arrays *arrays, const clattn_mha_host_gradients *gradients)
{
    UNCANCELLED;
    struct mha_backward_problem checked;
    struct operands operands;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_backward_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = mha_backward_from_host(&checked, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? host_mha_backward(context, &checked, &operands) : status;
}

clattn_status clattn_mha_backward_reference(const clattn_mha_backward_problem *problem,
                                            const clattn_mha_host_arrays *arrays,
                                            const clattn_mha_host_gradients *gradients)
{
    struct mha_backward_problem checked;
    struct operands operands;
    clattn_status status = mha_backward_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = mha_backward_from_host(&checked, arrays, gradients, &operands);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&operands, 0);
    }
    return status == CLATTN_OK ? reference_mha_backward(&checked, &operands) : status;
}

/* ---- additive --------------------------------------------------------------------------------- */

clattn_status clattn_additive_create(clattn_context *context, const clattn_additive_problem *problem,
                                     clattn_additive **additive)
{
    UNCANCELLED;
    REQUIRE(additive);
    *additive = NULL;
    struct additive_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? additive_create(context, &checked, additive) : status;
}

void clattn_additive_destroy(clattn_additive *additive)
{
    UNCANCELLED;
    additive_destroy(additive);
}

size_t clattn_additive_workspace(const clattn_additive *additive)
{
    return additive ? additive->workspace_bytes : 0;
}

const char *clattn_additive_explain(const clattn_additive *additive)
{
    return additive ? additive->explain : "";
}

clattn_status clattn_additive_enqueue(const clattn_additive *additive, cl_command_queue queue,
                                      const clattn_additive_arrays *arrays, cl_uint n_wait, const cl_event *wait,
                                      cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(additive);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(additive->context);
    if (status == CLATTN_OK) {
        status = additive_call_from_device(&additive->problem, arrays, &operands);
    }
    return status == CLATTN_OK ? additive_enqueue(additive, &target, &operands) : status;
}

clattn_status clattn_additive_forward_host(clattn_context *context, const clattn_additive_problem *problem,
                                           const clattn_additive_host_arrays *arrays)
{
    UNCANCELLED;
    struct additive_problem checked;
    struct operands operands;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = additive_call_from_host(&checked, arrays, &operands);
    }
    return status == CLATTN_OK ? host_additive(context, &checked, &operands) : status;
}

clattn_status clattn_additive_reference(const clattn_additive_problem *problem,
                                        const clattn_additive_host_arrays *arrays)
{
    struct additive_problem checked;
    struct operands operands;
    clattn_status status = additive_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = additive_call_from_host(&checked, arrays, &operands);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&operands, 0);
    }
    return status == CLATTN_OK ? reference_additive(&checked, &operands) : status;
}

/* ---- gradients of additive --------------------------------------------------------------------- */

clattn_status clattn_additive_backward_create(clattn_context *context, const clattn_additive_backward_problem *problem,
                                              clattn_additive_backward **backward)
{
    UNCANCELLED;
    REQUIRE(backward);
    *backward = NULL;
    struct additive_backward_problem checked;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_backward_problem_init(&checked, problem);
    }
    return status == CLATTN_OK ? additive_backward_create(context, &checked, backward) : status;
}

void clattn_additive_backward_destroy(clattn_additive_backward *backward)
{
    UNCANCELLED;
    additive_backward_destroy(backward);
}

size_t clattn_additive_backward_workspace(const clattn_additive_backward *backward)
{
    return backward ? backward->workspace_bytes : 0;
}

const char *clattn_additive_backward_explain(const clattn_additive_backward *backward)
{
    return backward ? backward->explain : "";
}

clattn_status clattn_additive_backward_enqueue(const clattn_additive_backward *backward, cl_command_queue queue,
                                               const clattn_additive_arrays *arrays,
                                               const clattn_additive_gradients *gradients, cl_uint n_wait,
                                               const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(backward);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(backward->context);
    if (status == CLATTN_OK) {
        status = additive_backward_from_device(&backward->problem, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? additive_backward_enqueue(backward, &target, &operands) : status;
}

clattn_status clattn_additive_backward_host(clattn_context *context, const clattn_additive_backward_problem *problem,
                                            const clattn_additive_host_arrays *arrays,
                                            const clattn_additive_host_gradients *gradients)
{
    UNCANCELLED;
    struct additive_backward_problem checked;
    struct operands operands;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_backward_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = additive_backward_from_host(&checked, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? host_additive_backward(context, &checked, &operands) : status;
}

clattn_status clattn_additive_backward_reference(const clattn_additive_backward_problem *problem,
                                                 const clattn_additive_host_arrays *arrays,
                                                 const clattn_additive_host_gradients *gradients)
{
    struct additive_backward_problem checked;
    struct operands operands;
    clattn_status status = additive_backward_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = additive_backward_from_host(&checked, arrays, gradients, &operands);
    }
    if (status == CLATTN_OK) {
        status = operands_check_apart(&operands, 0);
    }
    return status == CLATTN_OK ? reference_additive_backward(&checked, &operands) : status;
}
