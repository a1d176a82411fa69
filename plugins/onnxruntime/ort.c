/* What is read through ONNX Runtime's tables. */
#include "ort.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 2048

const OrtApi *ort;
const OrtEpApi *ort_ep;

OrtStatus *refuse(OrtErrorCode code, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return ort->CreateStatus(code, text);
}

OrtStatus *refuse_as_clattn(clattn_status status)
{
    const int is_the_callers = status == CLATTN_INVALID_ARGUMENT || status == CLATTN_INVALID_SHAPE;
    const OrtErrorCode code = is_the_callers                 ? ORT_INVALID_ARGUMENT
                              : status == CLATTN_UNSUPPORTED ? ORT_NOT_IMPLEMENTED
                                                             : ORT_EP_FAIL;
    return refuse(code, "clattn: %s", clattn_last_error());
}

OrtStatus *refuse_memory(void)
{
    return refuse(ORT_FAIL, "clattn: out of memory");
}

clattn_type type_of_element(ONNXTensorElementDataType type)
{
    switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        return CLATTN_FLOAT32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
        return CLATTN_FLOAT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
        return CLATTN_BFLOAT16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
        return CLATTN_FLOAT64;
    default:
        return CLATTN_TYPE_NONE;
    }
}

size_t element_bytes(ONNXTensorElementDataType type)
{
    switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN:
        return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        return 8;
    default:
        return clattn_type_size(type_of_element(type));
    }
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static OrtStatus *read_shape(const OrtTensorTypeAndShapeInfo *shape, struct value *value)
{
    size_t rank;
    TRY(ort->GetTensorElementType(shape, &value->type));
    TRY(ort->GetDimensionsCount(shape, &rank));
    value->rank = rank > 0 && rank <= RANK_MAX ? (int)rank : -1; /* 0: mostly one that is not known */
    return value->rank > 0 ? ort->GetDimensions(shape, value->extent, rank) : NULL;
}

static OrtStatus *read_value(const OrtValueInfo *info, struct value *value)
{
    const OrtTypeInfo *type;
    const OrtTensorTypeAndShapeInfo *shape = NULL;
    memset(value, 0, sizeof(*value));
    value->rank = -1;
    if (!info) {
        return NULL;
    }
    value->info = info;
    TRY(ort->GetValueInfoName(info, &value->name));
    TRY(ort->GetValueInfoTypeInfo(info, &type));
    if (type) {
        TRY(ort->CastTypeInfoToTensorInfo(type, &shape));
    }
    return shape ? read_shape(shape, value) : NULL;
}

static OrtStatus *read_values(const OrtNode *node, struct node *read)
{
    const OrtValueInfo *info[64];
    if (read->inputs > 64 || read->outputs > 64) {
        return NULL; /* an operation of another kind, of which nothing more is asked */
    }
    TRY(ort->Node_GetInputs(node, info, read->inputs));
    for (size_t i = 0; i < read->inputs && i < INPUTS_MAX; ++i) {
        TRY(read_value(info[i], &read->input[i]));
    }
    TRY(ort->Node_GetOutputs(node, info, read->outputs));
    for (size_t i = 0; i < read->outputs && i < OUTPUTS_MAX; ++i) {
        TRY(read_value(info[i], &read->output[i]));
    }
    return NULL;
}

OrtStatus *node_read(const OrtNode *node, struct node *read)
{
    memset(read, 0, sizeof(*read));
    read->node = node;
    TRY(ort->Node_GetOperatorType(node, &read->operation));
    TRY(ort->Node_GetDomain(node, &read->domain));
    TRY(ort->Node_GetSinceVersion(node, &read->version));
    TRY(ort->Node_GetNumInputs(node, &read->inputs));
    TRY(ort->Node_GetNumOutputs(node, &read->outputs));
    return read_values(node, read);
}

/* An input that is left out has no name. */
static int is_given(const struct value *value)
{
    return value->info && value->name && *value->name;
}

int node_has_input(const struct node *node, int index)
{
    return index < INPUTS_MAX && is_given(&node->input[index]);
}

int node_has_output(const struct node *node, int index)
{
    return index < OUTPUTS_MAX && is_given(&node->output[index]);
}

/* NULL where the node has none, or the operator set knows of none. */
static const OrtOpAttr *find_attribute(const struct node *node, const char *name)
{
    const OrtOpAttr *attribute = NULL;
    OrtStatus *status = ort->Node_GetAttributeByName(node->node, name, &attribute);
    if (status) {
        ort->ReleaseStatus(status);
        return NULL;
    }
    return attribute;
}

OrtStatus *node_integer(const struct node *node, const char *name, int64_t by_default, int64_t *number)
{
    const OrtOpAttr *attribute = find_attribute(node, name);
    size_t bytes;
    *number = by_default;
    return attribute ? ort->ReadOpAttr(attribute, ORT_OP_ATTR_INT, number, sizeof(*number), &bytes) : NULL;
}

OrtStatus *node_number(const struct node *node, const char *name, float by_default, float *number)
{
    const OrtOpAttr *attribute = find_attribute(node, name);
    size_t bytes;
    *number = by_default;
    return attribute ? ort->ReadOpAttr(attribute, ORT_OP_ATTR_FLOAT, number, sizeof(*number), &bytes) : NULL;
}

OrtStatus *node_choice(const struct node *node, const char *name, const char *const *words, int count, int *choice)
{
    const OrtOpAttr *attribute = find_attribute(node, name);
    char text[32];
    size_t bytes = 0;
    *choice = attribute ? -1 : 0;
    if (!attribute) {
        return NULL;
    }
    OrtStatus *status = ort->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text, sizeof(text), &bytes);
    if (status) { /* longer than any of the words */
        ort->ReleaseStatus(status);
        return NULL;
    }
    for (int n = 0; n < count; ++n) {
        if (strlen(words[n]) == bytes && memcmp(words[n], text, bytes) == 0) {
            *choice = n;
        }
    }
    return NULL;
}

OrtStatus *node_integers(const struct node *node, const char *name, int64_t *numbers, size_t max, size_t *count)
{
    const OrtOpAttr *attribute = find_attribute(node, name);
    size_t bytes = 0;
    *count = 0;
    if (!attribute) {
        return NULL;
    }
    OrtStatus *status = ort->ReadOpAttr(attribute, ORT_OP_ATTR_INTS, numbers, max * sizeof(*numbers), &bytes);
    if (status) { /* more than that */
        ort->ReleaseStatus(status);
        return NULL;
    }
    *count = bytes / sizeof(*numbers);
    return NULL;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static OrtStatus *read_extents(const OrtTensorTypeAndShapeInfo *shape, struct tensor *tensor)
{
    size_t rank;
    TRY(ort->GetTensorElementType(shape, &tensor->type));
    TRY(ort->GetDimensionsCount(shape, &rank));
    if (rank > RANK_MAX) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: a tensor has %zu axes: at most %d", rank, RANK_MAX);
    }
    tensor->rank = (int)rank;
    return rank > 0 ? ort->GetDimensions(shape, tensor->extent, rank) : NULL;
}

OrtStatus *tensor_read(const OrtValue *value, struct tensor *tensor)
{
    static char nothing[16]; /* where a tensor without elements lies */
    OrtTensorTypeAndShapeInfo *shape;
    const void *data;
    TRY(ort->GetTensorTypeAndShape(value, &shape));
    OrtStatus *status = read_extents(shape, tensor);
    ort->ReleaseTensorTypeAndShapeInfo(shape);
    TRY(status);
    TRY(ort->GetTensorData(value, &data));
    tensor->data = data ? (void *)(uintptr_t)data : nothing;
    int64_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; --axis) {
        tensor->stride[axis] = stride;
        stride *= tensor->extent[axis];
    }
    return NULL;
}

OrtStatus *tensor_widen(const struct tensor *tensor, int64_t count, float *wide)
{
    if (tensor->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
        memcpy(wide, tensor->data, (size_t)count * sizeof(*wide));
        return NULL;
    }
    const clattn_status status = clattn_dequantise(type_of_element(tensor->type), count, tensor->data, NULL, 0, wide);
    return status == CLATTN_OK ? NULL : refuse_as_clattn(status);
}
