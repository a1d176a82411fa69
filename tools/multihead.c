#include "multihead.h"

#include <string.h>

int multihead_given(const struct inputs *inputs)
{
    return inputs->tensor[ROLE_X].data && inputs->tensor[ROLE_WQ].data && !inputs->tensor[ROLE_QUERY].data;
}

/* W must be [rows, columns]; its bias, where there is one, [rows]. */
static int check_projection(const struct inputs *inputs, enum role weight, enum role bias, int64_t columns,
                            struct failure *failure)
{
    const struct tensor *w = &inputs->tensor[weight], *b = &inputs->tensor[bias];
    char shape[TENSOR_SHAPE_TEXT];
    if (!w->data) {
        return failure_misuse(failure, "%s: is missing; a layer of x has wq, wk and wv", role_name(weight));
    }
    if (w->dims != 2 || w->shape[1] != columns || !tensor_is_float(w->type)) {
        return failure_misuse(failure, "%s: shape %s: must be floats [out, %lld]", role_name(weight),
                              tensor_shape_text(w, shape), (long long)columns);
    }
    if (b->data && (b->dims != 1 || b->shape[0] != w->shape[0] || !tensor_is_float(b->type))) {
        return failure_misuse(failure, "%s: shape %s: must be floats [%lld], the rows of %s", role_name(bias),
                              tensor_shape_text(b, shape), (long long)w->shape[0], role_name(weight));
    }
    return 0;
}

/* How `token` and feature `f` of [..., tokens, heads * dim] lie in [..., heads, tokens, dim]. */
static int64_t split_index(int64_t token, int64_t f, int64_t tokens, int64_t heads, int64_t dim)
{
    return ((token / tokens * heads + f / dim) * tokens + token % tokens) * dim + f % dim;
}

static double row_product(const struct tensor *x, int64_t x_row, const struct tensor *w, int64_t w_row)
{
    int64_t columns = w->shape[1];
    double sum = 0;
    for (int64_t c = 0; c < columns; c++) {
        sum += tensor_load(x, x_row * columns + c) * tensor_load(w, w_row * columns + c);
    }
    return sum;
}

static int project(struct inputs *inputs, enum role weight, enum role bias, enum role to, int64_t heads,
                   struct failure *failure)
{
    const struct tensor *x = &inputs->tensor[ROLE_X], *w = &inputs->tensor[weight];
    const struct tensor *b = &inputs->tensor[bias];
    struct tensor *made = &inputs->tensor[to];
    int64_t tokens = x->shape[x->dims - 2], dim = w->shape[0] / heads, shape[TENSOR_DIMS_MAX];
    int lead = x->dims - 2;
    memcpy(shape, x->shape, (size_t)lead * sizeof *shape);
    shape[lead] = heads;
    shape[lead + 1] = tokens;
    shape[lead + 2] = dim;
    if (w->shape[0] % heads != 0 || dim == 0) {
        return failure_misuse(failure, "%s: its %lld rows must be a multiple of %lld heads", role_name(weight),
                              (long long)w->shape[0], (long long)heads);
    }
    if (tensor_create(made, x->type == TENSOR_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32, x->dims + 1, shape,
                      role_name(to), failure) != 0) {
        return -1;
    }
    for (int64_t row = 0, rows = tensor_count(made) / w->shape[0]; row < rows; row++) {
        for (int64_t f = 0; f < w->shape[0]; f++) {
            tensor_store(made, split_index(row, f, tokens, heads, dim),
                         row_product(x, row, w, f) + (b->data ? tensor_load(b, f) : 0));
        }
    }
    return 0;
}

static int count_heads(const struct options *options, const struct inputs *inputs, int64_t *heads,
                       struct failure *failure)
{
    const struct tensor *weights = &inputs->tensor[ROLE_WEIGHTS];
    *heads = weights->data && weights->dims >= 3 ? weights->shape[weights->dims - 3] : 0;
    if (option_integer(options, OPTION_HEADS, 1, INT32_MAX, heads, failure) != 0) {
        return -1;
    }
    if (*heads < 1) {
        return failure_misuse(failure, "--heads: is missing; a layer of x and wq does not say how many heads "
                                       "it has");
    }
    return 0;
}

int multihead_project(const struct options *options, struct inputs *inputs, struct failure *failure)
{
    const struct tensor *x = &inputs->tensor[ROLE_X];
    int64_t heads, kv_heads, columns;
    char shape[TENSOR_SHAPE_TEXT];
    if (options->value[OPTION_LAYOUT] || options->value[OPTION_KV_HEADS]) {
        return failure_misuse(failure, "--%s: is not for a layer of x and wq, whose axes are known",
                              option_name(options->value[OPTION_LAYOUT] ? OPTION_LAYOUT : OPTION_KV_HEADS));
    }
    if (inputs->tensor[ROLE_CONTEXT].data) {
        return failure_misuse(failure, "context: a layer with cross-attention is computed by `clattn mha`");
    }
    if (x->dims < 2 || x->dims > 6 || !tensor_is_float(x->type)) {
        return failure_misuse(failure, "x: shape %s: must be floats [..., tokens, features]",
                              tensor_shape_text(x, shape));
    }
    columns = x->shape[x->dims - 1];
    if (check_projection(inputs, ROLE_WQ, ROLE_BQ, columns, failure) != 0 ||
        check_projection(inputs, ROLE_WK, ROLE_BK, columns, failure) != 0 ||
        check_projection(inputs, ROLE_WV, ROLE_BV, columns, failure) != 0 ||
        count_heads(options, inputs, &heads, failure) != 0 ||
        project(inputs, ROLE_WQ, ROLE_BQ, ROLE_QUERY, heads, failure) != 0) {
        return -1;
    }
    /* Grouped heads: the keys have the queries' head dim, so their rows tell how many heads they
     * are. */
    kv_heads = inputs->tensor[ROLE_WK].shape[0] / (inputs->tensor[ROLE_WQ].shape[0] / heads);
    if (kv_heads < 1) {
        return failure_misuse(failure, "wk: its %lld rows are less than one head",
                              (long long)inputs->tensor[ROLE_WK].shape[0]);
    }
    if (project(inputs, ROLE_WK, ROLE_BK, ROLE_KEY, kv_heads, failure) != 0) {
        return -1;
    }
    inputs->is_layer = 1;
    return project(inputs, ROLE_WV, ROLE_BV, ROLE_VALUE, kv_heads, failure);
}

int multihead_merge(const struct inputs *inputs, const struct tensor *out, struct tensor *y, struct failure *failure)
{
    const struct tensor *wo = &inputs->tensor[ROLE_WO], *bo = &inputs->tensor[ROLE_BO];
    int lead = out->dims - 3;
    int64_t heads = out->shape[lead], tokens = out->shape[lead + 1], dim = out->shape[lead + 2];
    int64_t shape[TENSOR_DIMS_MAX];
    if (check_projection(inputs, ROLE_WO, ROLE_BO, heads * dim, failure) != 0) {
        return -1;
    }
    memcpy(shape, out->shape, (size_t)lead * sizeof *shape);
    shape[lead] = tokens;
    shape[lead + 1] = wo->shape[0];
    if (tensor_create(y, out->type, lead + 2, shape, "y", failure) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < tensor_count(y); i++) {
        int64_t row = i / wo->shape[0], f = i % wo->shape[0];
        double sum = bo->data ? tensor_load(bo, f) : 0;
        for (int64_t c = 0; c < heads * dim; c++) {
            sum += tensor_load(out, split_index(row, c, tokens, heads, dim)) * tensor_load(wo, f * heads * dim + c);
        }
        tensor_store(y, i, sum);
    }
    return 0;
}
