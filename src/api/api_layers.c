/* The exported functions of clattn_layers.h and clattn_additive.h. */
#include "api/entry.h"
#include "base/growth.h"
#include "layers/additive_backward_layer.h"
#include "layers/additive_layer.h"
#include "layers/mha_backward_layer.h"
#include "layers/mha_layer.h"

/* ---- structs --------------------------------------------------------------------------------- */

/* clang-format off */
void clattn_mha_problem_init(clattn_mha_problem *to, size_t size)
{ GROWTH_INIT(clattn_mha_problem, CLATTN_MHA_PROBLEM_INIT); }
void clattn_mha_arrays_init(clattn_mha_arrays *to, size_t size)
{ GROWTH_INIT(clattn_mha_arrays, CLATTN_MHA_ARRAYS_INIT); }
void clattn_mha_host_arrays_init(clattn_mha_host_arrays *to, size_t size)
{ GROWTH_INIT(clattn_mha_host_arrays, CLATTN_MHA_HOST_ARRAYS_INIT); }
void clattn_mha_backward_problem_init(clattn_mha_backward_problem *to, size_t size)
{ GROWTH_INIT(clattn_mha_backward_problem, CLATTN_MHA_BACKWARD_PROBLEM_INIT); }
void clattn_mha_gradients_init(clattn_mha_gradients *to, size_t size)
{ GROWTH_INIT(clattn_mha_gradients, CLATTN_MHA_GRADIENTS_INIT); }
void clattn_mha_host_gradients_init(clattn_mha_host_gradients *to, size_t size)
{ GROWTH_INIT(clattn_mha_host_gradients, CLATTN_MHA_HOST_GRADIENTS_INIT); }
void clattn_additive_problem_init(clattn_additive_problem *to, size_t size)
{ GROWTH_INIT(clattn_additive_problem, CLATTN_ADDITIVE_PROBLEM_INIT); }
void clattn_additive_arrays_init(clattn_additive_arrays *to, size_t size)
{ GROWTH_INIT(clattn_additive_arrays, CLATTN_ADDITIVE_ARRAYS_INIT); }
void clattn_additive_host_arrays_init(clattn_additive_host_arrays *to, size_t size)
{ GROWTH_INIT(clattn_additive_host_arrays, CLATTN_ADDITIVE_HOST_ARRAYS_INIT); }
void clattn_additive_backward_problem_init(clattn_additive_backward_problem *to, size_t size)
{ GROWTH_INIT(clattn_additive_backward_problem, CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT); }
void clattn_additive_gradients_init(clattn_additive_gradients *to, size_t size)
{ GROWTH_INIT(clattn_additive_gradients, CLATTN_ADDITIVE_GRADIENTS_INIT); }
void clattn_additive_host_gradients_init(clattn_additive_host_gradients *to, size_t size)
{ GROWTH_INIT(clattn_additive_host_gradients, CLATTN_ADDITIVE_HOST_GRADIENTS_INIT); }
/* clang-format on */

/* ---- multi-head ------------------------------------------------------------------------------- */

clattn_status clattn_mha_create(clattn_context *context, const clattn_mha_problem *problem, clattn_mha **mha)
{
    return entry_layer(context, &layer_mha, problem, mha);
}

void clattn_mha_destroy(clattn_mha *mha)
{
    entry_layer_destroy((struct layer *)mha);
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
    return entry_layer_enqueue(&layer_mha, (const struct layer *)mha, GIVEN(NULL, arrays), TARGET);
}

clattn_status clattn_mha_forward_host(clattn_context *context, const clattn_mha_problem *problem,
                                      const clattn_mha_host_arrays *arrays)
{
    return entry_layer_host(context, &layer_mha, problem, GIVEN(NULL, arrays));
}

clattn_status clattn_mha_reference(const clattn_mha_problem *problem, const clattn_mha_host_arrays *arrays)
{
    return entry_reference(&operation_mha, problem, GIVEN(NULL, arrays));
}

/* ---- gradients of multi-head ------------------------------------------------------------------- */

clattn_status clattn_mha_backward_create(clattn_context *context, const clattn_mha_backward_problem *problem,
                                         clattn_mha_backward **backward)
{
    return entry_layer(context, &layer_mha_backward, problem, backward);
}

void clattn_mha_backward_destroy(clattn_mha_backward *backward)
{
    entry_layer_destroy((struct layer *)backward);
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
    return entry_layer_enqueue(&layer_mha_backward, (const struct layer *)backward, GIVEN(NULL, arrays, gradients),
                               TARGET);
}

clattn_status clattn_mha_backward_host(clattn_context *context, const clattn_mha_backward_problem *problem,
                                       const clattn_mha_host_arrays *arrays, const clattn_mha_host_gradients *gradients)
{
    return entry_layer_host(context, &layer_mha_backward, problem, GIVEN(NULL, arrays, gradients));
}

clattn_status clattn_mha_backward_reference(const clattn_mha_backward_problem *problem,
                                            const clattn_mha_host_arrays *arrays,
                                            const clattn_mha_host_gradients *gradients)
{
    return entry_reference(&operation_mha_backward, problem, GIVEN(NULL, arrays, gradients));
}

/* ---- additive --------------------------------------------------------------------------------- */

clattn_status clattn_additive_create(clattn_context *context, const clattn_additive_problem *problem,
                                     clattn_additive **additive)
{
    return entry_layer(context, &layer_additive, problem, additive);
}

void clattn_additive_destroy(clattn_additive *additive)
{
    entry_layer_destroy((struct layer *)additive);
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
    return entry_layer_enqueue(&layer_additive, (const struct layer *)additive, GIVEN(NULL, arrays), TARGET);
}

clattn_status clattn_additive_forward_host(clattn_context *context, const clattn_additive_problem *problem,
                                           const clattn_additive_host_arrays *arrays)
{
    return entry_layer_host(context, &layer_additive, problem, GIVEN(NULL, arrays));
}

clattn_status clattn_additive_reference(const clattn_additive_problem *problem,
                                        const clattn_additive_host_arrays *arrays)
{
    return entry_reference(&operation_additive, problem, GIVEN(NULL, arrays));
}

/* ---- gradients of additive --------------------------------------------------------------------- */

clattn_status clattn_additive_backward_create(clattn_context *context, const clattn_additive_backward_problem *problem,
                                              clattn_additive_backward **backward)
{
    return entry_layer(context, &layer_additive_backward, problem, backward);
}

void clattn_additive_backward_destroy(clattn_additive_backward *backward)
{
    entry_layer_destroy((struct layer *)backward);
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
    return entry_layer_enqueue(&layer_additive_backward, (const struct layer *)backward, GIVEN(NULL, arrays, gradients),
                               TARGET);
}

clattn_status clattn_additive_backward_host(clattn_context *context, const clattn_additive_backward_problem *problem,
                                            const clattn_additive_host_arrays *arrays,
                                            const clattn_additive_host_gradients *gradients)
{
    return entry_layer_host(context, &layer_additive_backward, problem, GIVEN(NULL, arrays, gradients));
}

clattn_status clattn_additive_backward_reference(const clattn_additive_backward_problem *problem,
                                                 const clattn_additive_host_arrays *arrays,
                                                 const clattn_additive_host_gradients *gradients)
{
    return entry_reference(&operation_additive_backward, problem, GIVEN(NULL, arrays, gradients));
}
