/* The life of a layer, whatever it computes. */
#include "layers/layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "operation/any_call.h"
#include "plan/host_session.h"

static clattn_status make(struct layer *layer)
{
    const struct layer_kind *kind = layer->kind;
    struct text explain = TEXT_INIT;
    struct operands largest;
    clattn_status status = kind->plan(layer, &explain);
    if (status == CLATTN_OK) {
        status = any_call_largest(layer->problem, &largest);
    }
    if (status == CLATTN_OK) {
        status = steps_end(&layer->steps, &largest);
    }
    if (status == CLATTN_OK) {
        kind->explain(layer, &explain);
        status = text_give(&explain, "an explanation", &layer->explain);
    }
    text_free(&explain);
    return status;
}

clattn_status layer_create(clattn_context *context, const struct layer_kind *kind, const struct any_problem *problem,
                           struct layer **result)
{
    struct layer *layer = calloc(1, kind->bytes);
    struct any_problem *copy = problem_copy(problem);
    if (!layer || !copy) {
        free(layer);
        problem_free(copy);
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "%s: out of memory for its plan", kind->operation->name);
    }
    layer->kind = kind;
    layer->context = context;
    layer->problem = copy;
    const clattn_status status = make(layer);
    if (status != CLATTN_OK) {
        layer_destroy(layer);
        return status;
    }
    *result = layer;
    return CLATTN_OK;
}

void layer_destroy(struct layer *layer)
{
    if (layer) {
        steps_free(&layer->steps);
        problem_free(layer->problem);
        free(layer->explain);
        free(layer);
    }
}

clattn_status layer_enqueue(const struct layer *layer, const struct enqueue_target *target,
                            const struct operands *operands)
{
    return steps_enqueue(&layer->steps, target, operands);
}

static clattn_status enqueue_of_layer(const void *of, const struct enqueue_target *target,
                                      const struct operands *operands)
{
    return layer_enqueue(of, target, operands);
}

clattn_status layer_run(clattn_context *context, const struct layer_kind *kind, const struct any_problem *problem,
                        struct operands *operands)
{
    struct layer *layer = NULL;
    clattn_status status = layer_create(context, kind, problem, &layer);
    if (status == CLATTN_OK) {
        status = host_session_call(context, context->queue, operands, layer->steps.workspace_bytes, HOST_CONTENT_NOW,
                                   enqueue_of_layer, layer);
        layer_destroy(layer);
    }
    return status;
}

clattn_tensor layer_heads(struct matrix matrix, int64_t rows, int64_t head_dim)
{
    const clattn_tensor tensor = { matrix.buffer,
                                   matrix.offset,
                                   { at_least_1(rows) * matrix.stride, head_dim, matrix.stride, 1 } };
    return tensor;
}

clattn_tensor layer_given(const struct operands *operands, int id)
{
    const struct tensor_place *given = &operands->tensor[id];
    clattn_tensor tensor = { given->buffer, given->offset, { 0, 0, 0, 0 } };
    memcpy(tensor.stride, given->stride, sizeof(tensor.stride));
    return tensor;
}
