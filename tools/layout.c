#include "layout.h"

#include <string.h>

/* How many axes belong to a layout, and which of them are heads and rows, counted from the end. */
static const struct {
    const char *text;
    int dims, heads, rows;
} layouts[] = {
    [LAYOUT_BHSD] = { "[..., heads, tokens, dim]", 3, 3, 2 },
    [LAYOUT_BSHD] = { "[..., tokens, heads, dim]", 3, 2, 3 },
    [LAYOUT_PACKED] = { "[..., tokens, heads * dim]", 2, 0, 2 },
    [LAYOUT_THD] = { "[tokens, heads, dim]", 3, 2, 3 },
};

/* Elements from one index of an axis, counted from the end, to the next. */
static int64_t stride_of(const struct tensor *tensor, int from_end)
{
    int64_t stride = 1;
    for (int i = tensor->dims - from_end + 1; i < tensor->dims; i++) {
        stride *= tensor->shape[i];
    }
    return stride;
}

static int split_columns(struct axes *axes, int64_t heads, const char *name, struct failure *failure)
{
    if (heads < 1) {
        return failure_misuse(failure, "--heads: is missing; layout bs(hd) of %s needs it", name);
    }
    if (axes->columns % heads != 0) {
        return failure_misuse(failure, "%s: its last axis %lld: must be a multiple of the %lld heads", name,
                              (long long)axes->columns, (long long)heads);
    }
    axes->heads = heads;
    axes->columns /= heads;
    axes->stride[1] = axes->columns;
    return 0;
}

int layout_read(const struct tensor *tensor, enum layout layout, int64_t heads, const char *name, struct axes *axes,
                struct failure *failure)
{
    int own = layouts[layout].dims, rows_axis = layouts[layout].rows, heads_axis = layouts[layout].heads;
    char shape[TENSOR_SHAPE_TEXT];
    memset(axes, 0, sizeof *axes);
    if (layout == LAYOUT_BHSD && tensor->dims == 2) {
        own = 2;
    }
    if (tensor->dims < own || tensor->dims > own + 4 || (layout == LAYOUT_THD && tensor->dims != own)) {
        return failure_misuse(failure, "%s: shape %s: must be %s; see --layout", name, tensor_shape_text(tensor, shape),
                              layouts[layout].text);
    }
    axes->lead_dims = tensor->dims - own;
    axes->batch = 1;
    for (int i = 0; i < axes->lead_dims; i++) {
        axes->batch *= axes->lead[i] = tensor->shape[i];
    }
    axes->has_heads = own == 3 || layout == LAYOUT_PACKED;
    axes->heads = own == 3 ? tensor->shape[tensor->dims - heads_axis] : 1;
    axes->rows = tensor->shape[tensor->dims - rows_axis];
    axes->columns = tensor->shape[tensor->dims - 1];
    axes->stride[0] = layout == LAYOUT_THD ? 0 : stride_of(tensor, own + 1);
    axes->stride[1] = own == 3 ? stride_of(tensor, heads_axis) : 0;
    axes->stride[2] = stride_of(tensor, rows_axis);
    axes->stride[3] = 1;
    return layout == LAYOUT_PACKED ? split_columns(axes, heads, name, failure) : 0;
}

void layout_shape(const struct tensor *like, enum layout layout, const struct axes *axes, int64_t columns,
                  int64_t *shape)
{
    memcpy(shape, like->shape, (size_t)like->dims * sizeof *shape);
    shape[like->dims - 1] = layout == LAYOUT_PACKED ? axes->heads * columns : columns;
}

/* Whether the axes before the last three are those of the query, or all 1. */
static int check_lead(const struct tensor *tensor, int dims, const struct axes *query, int *is_one)
{
    int same = dims == query->lead_dims;
    *is_one = 1;
    for (int i = 0; i < dims; i++) {
        *is_one = *is_one && tensor->shape[i] == 1;
        same = same && tensor->shape[i] == query->lead[i];
    }
    return *is_one || same ? 0 : -1;
}

int layout_broadcast(const struct tensor *tensor, const struct axes *query, int64_t keys, const char *name,
                     int64_t stride[4], int64_t *key_len, struct failure *failure)
{
    const int64_t wanted[3] = { query->heads, query->rows, keys };
    int lead = tensor->dims > 3 ? tensor->dims - 3 : 0, is_one = 1;
    char shape[TENSOR_SHAPE_TEXT];
    int64_t step = 1;
    int fits = tensor->dims > 0 && check_lead(tensor, lead, query, &is_one) == 0;
    *key_len = -1;
    memset(stride, 0, 4 * sizeof *stride);
    for (int axis = 2, at = tensor->dims - 1; fits && axis >= 0 && at >= lead; axis--, at--) {
        int64_t extent = tensor->shape[at];
        int is_short = axis == 2 && extent < keys && extent != 1;
        fits = extent == wanted[axis] || extent == 1 || is_short;
        stride[axis + 1] = extent == 1 ? 0 : step;
        if (is_short) {
            *key_len = extent;
        }
        step *= extent;
    }
    stride[0] = is_one ? 0 : step;
    if (fits) {
        return 0;
    }
    return failure_misuse(failure,
                          "%s: shape %s: must broadcast to [batch as the query's, %lld heads, %lld queries, "
                          "%lld keys]",
                          name, tensor_shape_text(tensor, shape), (long long)query->heads, (long long)query->rows,
                          (long long)keys);
}
