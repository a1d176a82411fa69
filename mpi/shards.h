/* Shards and sums in dense memory of a rank's own, and the tensors of a task in them. */
#ifndef CLATTN_MPI_SHARDS_H
#define CLATTN_MPI_SHARDS_H

#include <clattn_ring.h>

/* What a shard is of: [batch, heads, rows, columns of the first tensor], then the same of the second. */
struct shard_shape {
    int64_t batch, heads;
    clattn_type types[2]; /* CLATTN_TYPE_NONE: there is no second */
    int64_t columns[2];
};

size_t shard_bytes(const struct shard_shape *shape, int64_t rows);

/* Where tensor n begins, in a shard of so many rows; and the tensor, of rows from `place` on. */
size_t shard_at(const struct shard_shape *shape, int64_t rows, int n);
clattn_host_tensor shard_tensor(const struct shard_shape *shape, void *data, int64_t rows, int n, int64_t place);

/* Row (b, h, i) of a tensor, whose elements have so many bytes. */
char *tensor_row(const clattn_host_tensor *tensor, size_t element, int64_t b, int64_t h, int64_t i);

/* From the caller's tensors into dense memory. */
void shard_pack(const struct shard_shape *shape, int64_t rows, const clattn_host_tensor *const tensors[2], char *data);

/* Elements of an int32 tensor that is dense; NULL: it is not given. */
const int32_t *integers_of(const clattn_host_tensor *tensor);

/* Some rows of the caller's: from `place` on. */
clattn_host_tensor rows_from(const clattn_host_tensor *tensor, int64_t place);

/* Rows of numbers into the caller's tensor of a type. `wide` or `single` is given, dense [batch, heads, rows, columns];
 * not 0: there is no memory for a row. */
int rows_give(clattn_type type, const int64_t shape[4], const double *wide, const float *single,
              const clattn_host_tensor *tensor);

#endif
