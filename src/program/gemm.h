/* The only door to CLBlast: one row-major matrix product, with everything that CLBlast needs to be told or
 * must be kept from. */
#ifndef CLATTN_SRC_GEMM_H
#define CLATTN_SRC_GEMM_H

#include "program/launch.h"

/* Rows of `row_stride` elements, the columns next to each other, from element `offset` on. */
struct gemm_matrix {
    cl_mem buffer;
    int64_t offset, row_stride;
};

/* result[rows][columns] = alpha * left[rows][depth] * right, all of `type` (float32 or float64), where
 * right is [depth][columns], or [columns][depth] when it is transposed. */
struct gemm_product {
    clattn_type type;
    int64_t rows, columns, depth;
    double alpha;
    int right_is_transposed;
    struct gemm_matrix left, right, result;
};

/* Whether the library was built with CLBlast. Without it (gemm_none.c) all types are declined, and clattn's own tiles
 * multiply. */
int gemm_is_built(void);

/* NULL when CLBlast multiplies matrices of this type on this device, else why not. */
const char *gemm_declines_type(const struct device *device, clattn_type type);

/* NULL when CLBlast can compute this product, of a type it takes, on the chain's queue, else why not. No
 * size may be 0. */
const char *gemm_declines(const struct chain *chain, const struct gemm_product *product);

/* Has CLBlast build its kernels for `type`, which takes up to half a minute where no cache is warm. The
 * context's destruction gives back what it built, by gemm_forget. For callers that can do without it, *declines is
 * why its kernels can never run on this device, which is no failure, else NULL; where `declines` is NULL it is
 * one. All else is a failure, memory that ran out first: it must choose no other product. */
clattn_status gemm_prepare(clattn_context *context, clattn_type type, const char **declines);

/* Enqueues a product that gemm_declines accepts as the chain's next command. */
clattn_status gemm_enqueue(struct chain *chain, const struct gemm_product *product);

/* At the end of a context: when no other context of the process used CLBlast, its programs are freed. */
void gemm_forget(clattn_context *context);

#endif
