/* The exported functions of the layers around attention: NULL checks, then a call one floor down. */
#include <stddef.h>

#include "api/host_call.h"
#include "base/error.h"
#include "base/nearest.h"
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
    struct layer *layer = NULL;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = layer_create(context, &layer_mha, &checked, &layer);
    }
    *mha = (clattn_mha *)layer;
    return status;
}

void clattn_mha_destroy(clattn_mha *mha)
{
    UNCANCELLED;
    layer_destroy((struct layer *)mha);
}

size_t clattn_mha_workspace(const clattn_mha *mha)
{
    return mha ? mha->layer.steps.workspace_bytes : 0;
}

const char *clattn_mha_explain(const clattn_mha *mha)
{
    return mha ? mha->layer.explain : "";
}

clattn_status clattn_mha_enqueue(const clattn_mha *mha, cl_command_queue queue, const clattn_mha_arrays *arrays,
                                 cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(mha);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(mha->layer.context);
    if (status == CLATTN_OK) {
        status = mha_call_from_device(&mha->problem, arrays, &operands);
    }
    return status == CLATTN_OK ? layer_enqueue(&mha->layer, &target, &operands) : status;
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
    ROUNDED_TO_NEAREST;
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
    struct layer *layer = NULL;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = mha_backward_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = layer_create(context, &layer_mha_backward, &checked, &layer);
    }
    *backward = (clattn_mha_backward *)layer;
    return status;
}

void clattn_mha_backward_destroy(clattn_mha_backward *backward)
{
    UNCANCELLED;
    layer_destroy((struct layer *)backward);
}

size_t clattn_mha_backward_workspace(const clattn_mha_backward *backward)
{
    return backward ? backward->layer.steps.workspace_bytes : 0;
}

const char *clattn_mha_backward_explain(const clattn_mha_backward *backward)
{
    return backward ? backward->layer.explain : "";
}

clattn_status clattn_mha_backward_enqueue(const clattn_mha_backward *backward, cl_command_queue queue,
                                          const clattn_mha_arrays *arrays, const clattn_mha_gradients *gradients,
                                          cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(backward);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(backward->layer.context);
    if (status == CLATTN_OK) {
        status = mha_backward_from_device(&backward->problem, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? layer_enqueue(&backward->layer, &target, &operands) : status;
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
    return status == CLATTN_OK ? host_layer(context, &layer_mha_backward, &checked, &operands) : status;
}

clattn_status clattn_mha_backward_reference(const clattn_mha_backward_problem *problem,
                                            const clattn_mha_host_arrays *arrays,
                                            const clattn_mha_host_gradients *gradients)
{
    ROUNDED_TO_NEAREST;
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
    struct layer *layer = NULL;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = layer_create(context, &layer_additive, &checked, &layer);
    }
    *additive = (clattn_additive *)layer;
    return status;
}

void clattn_additive_destroy(clattn_additive *additive)
{
    UNCANCELLED;
    layer_destroy((struct layer *)additive);
}

size_t clattn_additive_workspace(const clattn_additive *additive)
{
    return additive ? additive->layer.steps.workspace_bytes : 0;
}

const char *clattn_additive_explain(const clattn_additive *additive)
{
    return additive ? additive->layer.explain : "";
}

clattn_status clattn_additive_enqueue(const clattn_additive *additive, cl_command_queue queue,
                                      const clattn_additive_arrays *arrays, cl_uint n_wait, const cl_event *wait,
                                      cl_event *done)
{
    UNCANCELLED;
    BEGIN_ENQUEUE(additive);
    const struct enqueue_target target = { queue, n_wait, wait, done };
    struct operands operands;
    clattn_status status = context_check(additive->layer.context);
    if (status == CLATTN_OK) {
        status = additive_call_from_device(&additive->problem, arrays, &operands);
    }
    return status == CLATTN_OK ? layer_enqueue(&additive->layer, &target, &operands) : status;
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
    return status == CLATTN_OK ? host_layer(context, &layer_additive, &checked, &operands) : status;
}

clattn_status clattn_additive_reference(const clattn_additive_problem *problem,
                                        const clattn_additive_host_arrays *arrays)
{
    ROUNDED_TO_NEAREST;
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
    struct layer *layer = NULL;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = additive_backward_problem_init(&checked, problem);
    }
    if (status == CLATTN_OK) {
        status = layer_create(context, &layer_additive_backward, &checked, &layer);
    }
    *backward = (clattn_additive_backward *)layer;
    return status;
}

void clattn_additive_backward_destroy(clattn_additive_backward *backward)
{
    UNCANCELLED;
    layer_destroy((struct layer *)backward);
}

size_t clattn_additive_backward_workspace(const clattn_additive_backward *backward)
{
    return backward ? backward->layer.steps.workspace_bytes : 0;
}

const char *clattn_additive_backward_explain(const clattn_additive_backward *backward)
{
    return backward ? backward->layer.explain : "";
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
    clattn_status status = context_check(backward->layer.context);
    if (status == CLATTN_OK) {
        status = additive_backward_from_device(&backward->problem, arrays, gradients, &operands);
    }
    return status == CLATTN_OK ? layer_enqueue(&backward->layer, &target, &operands) : status;
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
    return status == CLATTN_OK ? host_layer(context, &layer_additive_backward, &checked, &operands) : status;
}

clattn_status clattn_additive_backward_reference(const clattn_additive_backward_problem *problem,
                                                 const clattn_additive_host_arrays *arrays,
                                                 const clattn_additive_host_gradients *gradients)
{
    ROUNDED_TO_NEAREST;
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
