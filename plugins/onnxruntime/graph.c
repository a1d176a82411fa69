/* Ways through a graph. */
#include "graph.h"

#include <string.h>

int node_is(const struct node *node, const char *operation)
{
    return node->domain && !*node->domain && strcmp(node->operation, operation) == 0;
}

OrtStatus *graph_producer(const struct value *value, struct node *producer, int *is_found)
{
    const OrtNode *node = NULL;
    size_t output;
    bool is_required, is_optional;
    *is_found = 0;
    if (!value->info || !value->name || !*value->name) {
        return NULL;
    }
    /* ONNX Runtime 1.23 aborts where the producer is outside of a graph of some nodes of another. */
    TRY(ort->ValueInfo_IsRequiredGraphInput(value->info, &is_required));
    TRY(ort->ValueInfo_IsOptionalGraphInput(value->info, &is_optional));
    if (is_required || is_optional) {
        return NULL;
    }
    TRY(ort->ValueInfo_GetValueProducer(value->info, &node, &output));
    if (node) {
        TRY(node_read(node, producer));
        *is_found = output == 0;
    }
    return NULL;
}

OrtStatus *graph_own_producer(const struct value *value, struct node *producer, int *is_found)
{
    const OrtNode *reader;
    size_t readers;
    TRY(graph_producer(value, producer, is_found));
    if (*is_found) {
        TRY(graph_consumers(value, &reader, 1, &readers));
        *is_found = readers == 1;
    }
    return NULL;
}

OrtStatus *graph_readers(const struct value *value, const OrtNode **readers, size_t max, size_t *count)
{
    int64_t inputs[GRAPH_READERS_MAX];
    *count = 0;
    if (!value->info || !value->name || !*value->name || max > GRAPH_READERS_MAX) {
        return NULL;
    }
    TRY(ort->ValueInfo_GetValueNumConsumers(value->info, count));
    if (*count > max) {
        *count = 0;
    }
    return *count > 0 ? ort->ValueInfo_GetValueConsumers(value->info, readers, inputs, *count) : NULL;
}

OrtStatus *graph_consumers(const struct value *value, const OrtNode **consumers, size_t max, size_t *count)
{
    bool is_output = true;
    *count = 0;
    if (value->info) {
        TRY(ort->ValueInfo_IsGraphOutput(value->info, &is_output));
    }
    return is_output ? NULL : graph_readers(value, consumers, max, count);
}

OrtStatus *graph_only_consumer(const struct value *value, const char *operation, struct node *consumer, int *is_found)
{
    const OrtNode *node;
    size_t count;
    *is_found = 0;
    TRY(graph_consumers(value, &node, 1, &count));
    if (count == 1) {
        TRY(node_read(node, consumer));
        *is_found = node_is(consumer, operation);
    }
    return NULL;
}

OrtStatus *graph_scalar(const struct value *value, float *number, int *is_found)
{
    const OrtValue *constant = NULL;
    struct tensor tensor;
    bool is_constant;
    int64_t count = 1;
    *is_found = 0;
    if (!value->info || !value->name || !*value->name) {
        return NULL;
    }
    TRY(ort->ValueInfo_IsConstantInitializer(value->info, &is_constant));
    if (is_constant) {
        TRY(ort->ValueInfo_GetInitializerValue(value->info, &constant));
    }
    if (!constant || type_of_element(value->type) == CLATTN_TYPE_NONE ||
        value->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
        return NULL;
    }
    TRY(tensor_read(constant, &tensor));
    for (int axis = 0; axis < tensor.rank; ++axis) {
        count *= tensor.extent[axis];
    }
    *is_found = count == 1;
    return count == 1 ? tensor_widen(&tensor, 1, number) : NULL;
}
