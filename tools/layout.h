/* What the axes of a tensor mean: layouts of queries, keys and values, and the broadcasting of
 * masks. */
#ifndef CLATTN_TOOLS_LAYOUT_H
#define CLATTN_TOOLS_LAYOUT_H

#include "failure.h"
#include "tensor.h"

enum layout {
    LAYOUT_BHSD,   /* [..., heads, tokens, dim]; the heads may be missing: [tokens, dim] */
    LAYOUT_BSHD,   /* [..., tokens, heads, dim] */
    LAYOUT_PACKED, /* [..., tokens, heads * dim]: "bs(hd)" */
    LAYOUT_THD     /* [tokens of all sequences, heads, dim] */
};

/* A tensor seen as [batch, heads, rows, columns]. The axes before the layout's own are the lead:
 * their product is the batch. */
struct axes {
    int64_t batch, heads, rows, columns;
    int64_t stride[4]; /* in elements, in that order */
    int lead_dims;
    int64_t lead[TENSOR_DIMS_MAX];
    int has_heads; /* 0: the tensor had no axis for them */
};

/* `heads` is used by LAYOUT_PACKED. `name` is for messages. */
int layout_read(const struct tensor *tensor, enum layout layout, int64_t heads, const char *name, struct axes *axes,
                struct failure *failure);

/* The shape of a tensor like `like` with other columns (of a head). */
void layout_shape(const struct tensor *like, enum layout layout, const struct axes *axes, int64_t columns,
                  int64_t *shape);

/* Strides by which `tensor` broadcasts, right-aligned as in NumPy, to [lead..., heads, rows, keys]
 * of `query` with `keys` keys. *key_len: keys that it covers, which may be fewer. */
int layout_broadcast(const struct tensor *tensor, const struct axes *query, int64_t keys, const char *name,
                     int64_t stride[4], int64_t *key_len, struct failure *failure);

#endif
