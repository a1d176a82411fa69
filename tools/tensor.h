/* A dense array in host memory with a type and a shape: what the file formats read and write. */
#ifndef CLATTN_TOOLS_TENSOR_H
#define CLATTN_TOOLS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "clattn.h"
#include "failure.h"

enum tensor_type {
    TENSOR_FLOAT32,
    TENSOR_FLOAT16,
    TENSOR_BFLOAT16,
    TENSOR_FLOAT64,
    TENSOR_INT32,
    TENSOR_INT64,
    TENSOR_UINT8,
    TENSOR_INT8,
    TENSOR_BOOL, /* one byte each, 0 or 1 */
    TENSOR_E4M3, /* 8-bit floats, as CLATTN_E4M3 and CLATTN_E5M2 */
    TENSOR_E5M2,
    TENSOR_E8M0,   /* scales, as CLATTN_E8M0 */
    TENSOR_UINT32, /* words of bits */
    TENSOR_TYPES
};

#define TENSOR_DIMS_MAX 8

struct tensor {
    void *data; /* owned; C order; NULL: no tensor */
    enum tensor_type type;
    int dims;
    int64_t shape[TENSOR_DIMS_MAX];
};

#define TENSOR_INIT                                                                                                    \
    {                                                                                                                  \
        NULL, TENSOR_FLOAT32, 0,                                                                                       \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

size_t tensor_type_size(enum tensor_type type);      /* in bytes */
const char *tensor_type_name(enum tensor_type type); /* "float32" */

/* clattn's storage type for a tensor's, CLATTN_TYPE_NONE for those that are none; and back. */
clattn_type tensor_storage_type(enum tensor_type type);
int tensor_is_float(enum tensor_type type); /* a type that queries may have: float32, float16, bfloat16, float64 */
enum tensor_type tensor_type_of_storage(clattn_type type);

/* The number of elements and bytes of a shape. -1 when the product of the extents (zeros left out,
 * so that strides are safe too) times the element size does not fit into 62 bits, or one is
 * negative. */
int tensor_measure(enum tensor_type type, int dims, const int64_t *shape, int64_t *count, int64_t *bytes);

/* Allocates a tensor of zeros; `what` names it in the failure. Free it with tensor_free. */
int tensor_create(struct tensor *tensor, enum tensor_type type, int dims, const int64_t *shape, const char *what,
                  struct failure *failure);
void tensor_free(struct tensor *tensor); /* leaves TENSOR_INIT */

int64_t tensor_count(const struct tensor *tensor);
size_t tensor_bytes(const struct tensor *tensor);

/* Element `index` of the data in C order, converted to and from double, to nearest even. */
double tensor_load(const struct tensor *tensor, int64_t index);
void tensor_store(struct tensor *tensor, int64_t index, double value);

/* Gives the tensor another type, in place. */
int tensor_convert(struct tensor *tensor, enum tensor_type type, const char *what, struct failure *failure);

/* "[6, 12, 5, 32]" in a buffer of TENSOR_SHAPE_TEXT bytes; returns it. */
#define TENSOR_SHAPE_TEXT 192
char *tensor_shape_text(const struct tensor *tensor, char *text);

#endif
