#include "tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "insides.h"

static const struct {
    const char *name;
    size_t bytes;
    clattn_type storage;
} types[TENSOR_TYPES] = {
    [TENSOR_FLOAT32] = { "float32", 4, CLATTN_FLOAT32 },
    [TENSOR_FLOAT16] = { "float16", 2, CLATTN_FLOAT16 },
    [TENSOR_BFLOAT16] = { "bfloat16", 2, CLATTN_BFLOAT16 },
    [TENSOR_FLOAT64] = { "float64", 8, CLATTN_FLOAT64 },
    [TENSOR_INT32] = { "int32", 4, CLATTN_TYPE_NONE },
    [TENSOR_INT64] = { "int64", 8, CLATTN_TYPE_NONE },
    [TENSOR_UINT8] = { "uint8", 1, CLATTN_TYPE_NONE },
    [TENSOR_INT8] = { "int8", 1, CLATTN_INT8 },
    [TENSOR_BOOL] = { "bool", 1, CLATTN_TYPE_NONE },
    [TENSOR_E4M3] = { "e4m3", 1, CLATTN_E4M3 },
    [TENSOR_E5M2] = { "e5m2", 1, CLATTN_E5M2 },
    [TENSOR_E8M0] = { "e8m0", 1, CLATTN_E8M0 },
    [TENSOR_UINT32] = { "uint32", 4, CLATTN_TYPE_NONE },
};

size_t tensor_type_size(enum tensor_type type)
{
    return types[type].bytes;
}

const char *tensor_type_name(enum tensor_type type)
{
    return types[type].name;
}

clattn_type tensor_storage_type(enum tensor_type type)
{
    return types[type].storage;
}

int tensor_is_float(enum tensor_type type)
{
    return type_is_float(types[type].storage);
}

enum tensor_type tensor_type_of_storage(clattn_type type)
{
    int found = TENSOR_FLOAT32;
    for (int i = 0; i < TENSOR_TYPES; i++) {
        if (types[i].storage == type && type != CLATTN_TYPE_NONE) {
            found = i;
        }
    }
    return (enum tensor_type)found;
}

int tensor_measure(enum tensor_type type, int dims, const int64_t *shape, int64_t *count, int64_t *bytes)
{
    const int64_t limit = (int64_t)1 << 62;
    int64_t product = 1, size = (int64_t)types[type].bytes;
    int empty = 0;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0) {
            return -1;
        }
        if (shape[i] == 0) {
            empty = 1;
        } else {
            if (product > limit / size / shape[i]) {
                return -1;
            }
            product *= shape[i];
        }
    }
    *count = empty ? 0 : product;
    *bytes = *count * size;
    return 0;
}

int tensor_create(struct tensor *tensor, enum tensor_type type, int dims, const int64_t *shape, const char *what,
                  struct failure *failure)
{
    int64_t count, bytes;
    tensor->type = type;
    tensor->dims = dims;
    for (int i = 0; i < dims; i++) {
        tensor->shape[i] = shape[i];
    }
    tensor->data = NULL;
    if (tensor_measure(type, dims, shape, &count, &bytes) != 0) {
        return failure_misuse(failure, "%s: its size does not fit into 62 bits", what);
    }
    tensor->data = calloc(bytes > 0 ? (size_t)bytes : 1, 1);
    if (!tensor->data) {
        return failure_failed(failure, "%s: no memory for %lld bytes", what, (long long)bytes);
    }
    return 0;
}

void tensor_free(struct tensor *tensor)
{
    const struct tensor none = TENSOR_INIT;
    free(tensor->data);
    *tensor = none;
}

int64_t tensor_count(const struct tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

size_t tensor_bytes(const struct tensor *tensor)
{
    return (size_t)tensor_count(tensor) * types[tensor->type].bytes;
}

double tensor_load(const struct tensor *tensor, int64_t index)
{
    switch (tensor->type) {
    case TENSOR_INT32:
        return ((const int32_t *)tensor->data)[index];
    case TENSOR_INT64:
        return (double)((const int64_t *)tensor->data)[index];
    case TENSOR_UINT32:
        return ((const uint32_t *)tensor->data)[index];
    case TENSOR_UINT8:
        return ((const uint8_t *)tensor->data)[index];
    case TENSOR_INT8:
        return ((const int8_t *)tensor->data)[index];
    case TENSOR_BOOL:
        return ((const uint8_t *)tensor->data)[index] != 0;
    default:
        return type_load(types[tensor->type].storage, tensor->data, index);
    }
}

void tensor_store(struct tensor *tensor, int64_t index, double value)
{
    switch (tensor->type) {
    case TENSOR_INT32:
        ((int32_t *)tensor->data)[index] = (int32_t)value;
        break;
    case TENSOR_INT64:
        ((int64_t *)tensor->data)[index] = (int64_t)value;
        break;
    case TENSOR_UINT32:
        ((uint32_t *)tensor->data)[index] = (uint32_t)value;
        break;
    case TENSOR_UINT8:
        ((uint8_t *)tensor->data)[index] = (uint8_t)value;
        break;
    case TENSOR_INT8:
        ((int8_t *)tensor->data)[index] = (int8_t)value;
        break;
    case TENSOR_BOOL:
        ((uint8_t *)tensor->data)[index] = value != 0;
        break;
    default:
        type_store(types[tensor->type].storage, tensor->data, index, value);
    }
}

int tensor_convert(struct tensor *tensor, enum tensor_type type, const char *what, struct failure *failure)
{
    struct tensor converted;
    if (tensor->type == type) {
        return 0;
    }
    if (tensor_create(&converted, type, tensor->dims, tensor->shape, what, failure) != 0) {
        return -1;
    }
    for (int64_t i = 0, n = tensor_count(tensor); i < n; i++) {
        tensor_store(&converted, i, tensor_load(tensor, i));
    }
    tensor_free(tensor);
    *tensor = converted;
    return 0;
}

char *tensor_shape_text(const struct tensor *tensor, char *text)
{
    int used = snprintf(text, TENSOR_SHAPE_TEXT, "[");
    for (int i = 0; i < tensor->dims; i++) {
        used += snprintf(text + used, TENSOR_SHAPE_TEXT - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)tensor->shape[i]);
    }
    snprintf(text + used, TENSOR_SHAPE_TEXT - (size_t)used, "]");
    return text;
}
