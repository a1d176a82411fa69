#include "shards.h"

#include <stdlib.h>
#include <string.h>

size_t shard_at(const struct shard_shape *shape, int64_t rows, int n)
{
    const size_t planes = (size_t)(shape->batch * shape->heads * rows);
    const size_t bytes = n > 0 ? planes * clattn_row_bytes(shape->types[0], shape->columns[0]) : 0;
    return (bytes + 63) / 64 * 64;
}

size_t shard_bytes(const struct shard_shape *shape, int64_t rows)
{
    const size_t planes = (size_t)(shape->batch * shape->heads * rows);
    return shape->types[1] == CLATTN_TYPE_NONE
               ? planes * clattn_row_bytes(shape->types[0], shape->columns[0])
               : shard_at(shape, rows, 1) + planes * clattn_row_bytes(shape->types[1], shape->columns[1]);
}

clattn_host_tensor shard_tensor(const struct shard_shape *shape, void *data, int64_t rows, int n, int64_t place)
{
    clattn_host_tensor tensor =
        clattn_host_tensor_bhsd((char *)data + shard_at(shape, rows, n), shape->heads, rows, shape->columns[n]);
    tensor.offset = place * shape->columns[n];
    return tensor;
}

char *tensor_row(const clattn_host_tensor *tensor, size_t element, int64_t b, int64_t h, int64_t i)
{
    const int64_t at = tensor->offset + b * tensor->stride[0] + h * tensor->stride[1] + i * tensor->stride[2];
    return (char *)tensor->data + at * (int64_t)element;
}

void shard_pack(const struct shard_shape *shape, int64_t rows, const clattn_host_tensor *const tensors[2], char *data)
{
    for (int n = 0; n < 2 && shape->types[n] != CLATTN_TYPE_NONE; ++n) {
        const size_t bytes = clattn_row_bytes(shape->types[n], shape->columns[n]);
        char *to = data + shard_at(shape, rows, n);
        for (int64_t plane = 0; plane < shape->batch * shape->heads; ++plane) {
            for (int64_t i = 0; i < rows; ++i, to += bytes) {
                memcpy(to,
                       tensor_row(tensors[n], clattn_type_size(shape->types[n]), plane / shape->heads,
                                  plane % shape->heads, i),
                       bytes);
            }
        }
    }
}

const int32_t *integers_of(const clattn_host_tensor *tensor)
{
    return tensor->data ? (const int32_t *)tensor->data + tensor->offset : NULL;
}

clattn_host_tensor rows_from(const clattn_host_tensor *tensor, int64_t place)
{
    clattn_host_tensor rows = *tensor;
    rows.offset += place * tensor->stride[2];
    return rows;
}

int rows_give(clattn_type type, const int64_t shape[4], const double *wide, const float *single,
              const clattn_host_tensor *tensor)
{
    const int64_t columns = shape[3];
    float *row = malloc((size_t)columns * sizeof(*row));
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] && row; ++n) {
        const int64_t plane = n / shape[2];
        for (int64_t c = 0; c < columns; ++c) {
            row[c] = wide ? (float)wide[n * columns + c] : single[n * columns + c];
        }
        clattn_quantise(type, columns, row, NULL, 0,
                        tensor_row(tensor, clattn_type_size(type), plane / shape[1], plane % shape[1], n % shape[2]));
    }
    const int failed = !row;
    free(row);
    return failed;
}
