#include "layer_run.h"

#include <math.h>
#include <string.h>

#include "problem_options.h"

/* x or context: [rows, columns] or [batch, rows, columns]. */
static int read_rows(const struct inputs *inputs, enum role role, int64_t *batch, int64_t *rows, int64_t *columns,
                     struct failure *failure)
{
    const struct tensor *tensor = &inputs->tensor[role];
    char shape[TENSOR_SHAPE_TEXT];
    if (!tensor->data) {
        return failure_misuse(failure, "%s: is missing; a layer has x, wq, wk, wv, wo", role_name(role));
    }
    if (tensor->dims < 2 || tensor->dims > 3 || !tensor_is_float(tensor->type)) {
        return failure_misuse(failure, "%s: shape %s: must be floats [rows, columns] or [batch, rows, columns]",
                              role_name(role), tensor_shape_text(tensor, shape));
    }
    *batch = tensor->dims == 3 ? tensor->shape[0] : 1;
    *rows = tensor->shape[tensor->dims - 2];
    *columns = tensor->shape[tensor->dims - 1];
    return 0;
}

/* A weight [*rows, columns]; *rows < 0: any. */
static int read_weight(const struct inputs *inputs, enum role role, int64_t columns, int64_t *rows,
                       struct failure *failure)
{
    const struct tensor *w = &inputs->tensor[role];
    char shape[TENSOR_SHAPE_TEXT];
    if (!w->data) {
        return failure_misuse(failure, "%s: is missing; a layer has x, wq, wk, wv, wo", role_name(role));
    }
    if (w->dims != 2 || w->shape[1] != columns || !tensor_is_float(w->type)) {
        return failure_misuse(failure, "%s: shape %s: must be floats [out, %lld], as wide as what it multiplies",
                              role_name(role), tensor_shape_text(w, shape), (long long)columns);
    }
    *rows = w->shape[0];
    return 0;
}

static int check_bias(const struct inputs *inputs, enum role role, enum role weight, int64_t rows,
                      struct failure *failure)
{
    const struct tensor *b = &inputs->tensor[role];
    char shape[TENSOR_SHAPE_TEXT];
    if (b->data && (b->dims != 1 || b->shape[0] != rows || !tensor_is_float(b->type))) {
        return failure_misuse(failure, "%s: shape %s: must be floats [%lld], the rows of %s", role_name(role),
                              tensor_shape_text(b, shape), (long long)rows, role_name(weight));
    }
    return 0;
}

static int divide(int64_t rows, int64_t parts, const char *name, const char *what, int64_t *each,
                  struct failure *failure)
{
    if (parts < 1 || rows % parts != 0 || rows == 0) {
        return failure_misuse(failure, "%s: its %lld rows must be a multiple of %lld %s", name, (long long)rows,
                              (long long)parts, what);
    }
    *each = rows / parts;
    return 0;
}

static int read_heads(const struct options *options, const struct inputs *inputs, int64_t q, int64_t k, int64_t v,
                      clattn_mha_problem *p, struct failure *failure)
{
    const struct tensor *stored = &inputs->tensor[ROLE_WEIGHTS];
    p->query_heads = stored->data && stored->dims >= 3 ? stored->shape[stored->dims - 3] : 0;
    if (option_integer(options, OPTION_HEADS, 1, INT32_MAX, &p->query_heads, failure) != 0) {
        return -1;
    }
    if (p->query_heads < 1) {
        return failure_misuse(failure, "--heads: is missing; a layer does not say how many heads it has");
    }
    if (divide(q, p->query_heads, "wq", "heads", &p->head_dim, failure) != 0) {
        return -1;
    }
    p->kv_heads = k / p->head_dim;
    if (option_integer(options, OPTION_KV_HEADS, 1, INT32_MAX, &p->kv_heads, failure) != 0) {
        return -1;
    }
    if (p->kv_heads * p->head_dim != k) {
        return failure_misuse(failure, "wk: its %lld rows must be %lld heads of %lld, the head dim of wq", (long long)k,
                              (long long)p->kv_heads, (long long)p->head_dim);
    }
    return divide(v, p->kv_heads, "wv", "key and value heads", &p->head_dim_v, failure);
}

static int read_shapes(const struct options *options, const struct inputs *inputs, clattn_mha_problem *p,
                       struct failure *failure)
{
    int64_t q, k, v, context_batch;
    const int cross = inputs->tensor[ROLE_CONTEXT].data != NULL;
    if (read_rows(inputs, ROLE_X, &p->batch, &p->rows, &p->model_dim, failure) != 0) {
        return -1;
    }
    p->context_dim = p->model_dim;
    if (cross) {
        p->parts |= CLATTN_MHA_CROSS;
        if (read_rows(inputs, ROLE_CONTEXT, &context_batch, &p->context_rows, &p->context_dim, failure) != 0) {
            return -1;
        }
        if (context_batch != p->batch) {
            return failure_misuse(failure, "context: batch %lld: must be that of x, %lld", (long long)context_batch,
                                  (long long)p->batch);
        }
    }
    if (read_weight(inputs, ROLE_WQ, p->model_dim, &q, failure) != 0 ||
        read_weight(inputs, ROLE_WK, p->context_dim, &k, failure) != 0 ||
        read_weight(inputs, ROLE_WV, p->context_dim, &v, failure) != 0 ||
        read_heads(options, inputs, q, k, v, p, failure) != 0 ||
        read_weight(inputs, ROLE_WO, p->query_heads * p->head_dim_v, &p->out_dim, failure) != 0) {
        return -1;
    }
    return check_bias(inputs, ROLE_BQ, ROLE_WQ, q, failure) != 0 ||
                   check_bias(inputs, ROLE_BK, ROLE_WK, k, failure) != 0 ||
                   check_bias(inputs, ROLE_BV, ROLE_WV, v, failure) != 0 ||
                   check_bias(inputs, ROLE_BO, ROLE_WO, p->out_dim, failure) != 0
               ? -1
               : 0;
}

static int convert(const struct options *options, struct inputs *inputs, clattn_mha_problem *p, struct failure *failure)
{
    p->type = tensor_storage_type(inputs->tensor[ROLE_X].type);
    if (problem_type_read(options, OPTION_DTYPE, &p->type, failure) != 0) {
        return -1;
    }
    for (int role = ROLE_X; role < ROLE_Y; ++role) {
        struct tensor *tensor = &inputs->tensor[role];
        if (tensor->data &&
            tensor_convert(tensor, tensor_type_of_storage(p->type), role_name((enum role)role), failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* uint8 or bool [rows, keys], [batch, rows, keys] or [batch, heads, rows, keys]; key_lengths [batch]. */
static int read_masks(struct inputs *inputs, struct layer_run *run, struct failure *failure)
{
    clattn_mha_problem *p = &run->problem;
    struct tensor *mask = &inputs->tensor[ROLE_MASK], *lengths = &inputs->tensor[ROLE_KEY_LENGTHS];
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    char shape[TENSOR_SHAPE_TEXT];
    if (lengths->data) {
        if (lengths->dims != 1 || lengths->shape[0] != p->batch || tensor_is_float(lengths->type)) {
            return failure_misuse(failure, "key_lengths: shape %s: must be integers [%lld], one a batch entry",
                                  tensor_shape_text(lengths, shape), (long long)p->batch);
        }
        if (tensor_convert(lengths, TENSOR_INT32, "key_lengths", failure) != 0) {
            return -1;
        }
        p->features |= CLATTN_WITH_KEY_LENGTHS;
        run->arrays.key_lengths = lengths->data;
    }
    if (inputs->tensor[ROLE_BIAS].data) {
        return failure_misuse(failure, "mask: must be bool or uint8: a layer takes no float mask");
    }
    if (!mask->data) {
        return 0;
    }
    const int64_t full[4] = { p->batch, p->query_heads, p->rows, keys };
    int64_t step = 1;
    for (int axis = 3, at = mask->dims - 1; at >= 0; --axis, --at) {
        axis = mask->dims == 3 && at == 0 ? 0 : axis; /* [batch, rows, keys] */
        if (axis < 0 || (mask->shape[at] != full[axis] && mask->shape[at] != 1)) {
            return failure_misuse(failure,
                                  "mask: shape %s: must broadcast to [%lld batch, %lld heads, %lld rows, %lld "
                                  "keys]; of three axes, the first is the batch",
                                  tensor_shape_text(mask, shape), (long long)full[0], (long long)full[1],
                                  (long long)full[2], (long long)full[3]);
        }
        run->arrays.mask.stride[axis] = mask->shape[at] == 1 ? 0 : step;
        step *= mask->shape[at];
    }
    p->features |= CLATTN_WITH_MASK;
    run->arrays.mask.data = mask->data;
    return 0;
}

static int allocate(clattn_mha_weights weights, const struct inputs *inputs, struct layer_run *run,
                    struct failure *failure)
{
    const clattn_mha_problem *p = &run->problem;
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    const int batched = inputs->tensor[ROLE_X].dims == 3;
    const int64_t y_shape[3] = { p->batch, p->rows, p->out_dim };
    const int64_t heads_shape[4] = { p->batch, p->query_heads, p->rows, keys };
    const int64_t average_shape[3] = { p->batch, p->rows, keys };
    const int average = weights == CLATTN_MHA_WEIGHTS_AVERAGE;
    const int64_t *shape = average ? average_shape : heads_shape;
    if (tensor_create(&run->y, tensor_type_of_storage(p->type), 2 + batched, y_shape + !batched, "y", failure) != 0) {
        return -1;
    }
    return weights == CLATTN_MHA_WEIGHTS_NONE
               ? 0
               : tensor_create(&run->weights, p->type == CLATTN_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32,
                               (average ? 2 : 3) + batched, shape + !batched, "weights", failure);
}

static void point(const struct inputs *inputs, struct layer_run *run)
{
    clattn_mha_host_arrays *a = &run->arrays;
    const struct tensor *t = inputs->tensor;
    a->x = t[ROLE_X].data;
    a->context = t[ROLE_CONTEXT].data;
    a->wq = t[ROLE_WQ].data;
    a->wk = t[ROLE_WK].data;
    a->wv = t[ROLE_WV].data;
    a->wo = t[ROLE_WO].data;
    a->bq = t[ROLE_BQ].data;
    a->bk = t[ROLE_BK].data;
    a->bv = t[ROLE_BV].data;
    a->bo = t[ROLE_BO].data;
    a->y = run->y.data;
    a->weights = run->weights.data;
    run->problem.parts |= (a->bq ? CLATTN_MHA_BIAS_QUERY : 0) | (a->bk ? CLATTN_MHA_BIAS_KEY : 0) |
                          (a->bv ? CLATTN_MHA_BIAS_VALUE : 0) | (a->bo ? CLATTN_MHA_BIAS_OUT : 0);
}

static int read_choices(const struct options *options, clattn_mha_problem *p, struct failure *failure)
{
    int projection = 0, causal = 0;
    if (option_choice(options, OPTION_PROJECTION, &projection, failure) != 0 ||
        option_choice(options, OPTION_BENCH_CAUSAL, &causal, failure) != 0 ||
        problem_strategy_read(options, &p->strategy, failure) != 0 ||
        option_number(options, OPTION_SCALE, &p->scale, failure) != 0) {
        return -1;
    }
    p->projection = (clattn_projection)projection;
    p->causal = causal > 0;
    p->alignment = causal == 1 ? CLATTN_ALIGN_TOP_LEFT : causal == 2 ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_UNSET;
    p->has_scale = options->value[OPTION_SCALE] != NULL;
    return 0;
}

static int check_finite(const struct inputs *inputs, struct failure *failure)
{
    for (int role = ROLE_WQ; role <= ROLE_BO; ++role) {
        const struct tensor *tensor = &inputs->tensor[role];
        for (int64_t i = 0; tensor->data && i < tensor_count(tensor); ++i) {
            const double value = tensor_load(tensor, i);
            if (!isfinite(value)) {
                char shape[TENSOR_SHAPE_TEXT];
                const int64_t columns = tensor->shape[tensor->dims - 1];
                return failure_misuse(failure, "%s, shape %s: row %lld, column %lld is %s: weights must be finite",
                                      role_name((enum role)role), tensor_shape_text(tensor, shape),
                                      (long long)(i / columns), (long long)(i % columns),
                                      isnan(value) ? "NaN" : "infinite");
            }
        }
    }
    return 0;
}

/* Three tensors below each other. */
static int pack(const struct inputs *inputs, enum role first, struct tensor *packed, struct failure *failure)
{
    const struct tensor *parts = &inputs->tensor[first];
    const int64_t shape[2] = { parts[0].shape[0] + parts[1].shape[0] + parts[2].shape[0], parts[0].shape[1] };
    char *to;
    if (tensor_create(packed, parts[0].type, parts[0].dims, shape, "packed weights", failure) != 0) {
        return -1;
    }
    to = packed->data;
    for (int i = 0; i < 3; ++i) {
        memcpy(to, parts[i].data, tensor_bytes(&parts[i]));
        to += tensor_bytes(&parts[i]);
    }
    return 0;
}

/* One multiply for query, key and value where the weights are of one width and the biases are all there or
 * none is. */
static int pack_inputs(const struct inputs *inputs, struct layer_run *run, struct failure *failure)
{
    clattn_mha_host_arrays *a = &run->arrays;
    const int biases = (a->bq != NULL) + (a->bk != NULL) + (a->bv != NULL);
    if (run->problem.context_dim != run->problem.model_dim || (biases != 0 && biases != 3)) {
        return 0;
    }
    if (pack(inputs, ROLE_WQ, &run->packed_weights, failure) != 0 ||
        (biases && pack(inputs, ROLE_BQ, &run->packed_biases, failure) != 0)) {
        return -1;
    }
    a->wq = run->packed_weights.data;
    a->bq = run->packed_biases.data;
    a->wk = a->wv = a->bk = a->bv = NULL;
    run->problem.parts |= CLATTN_MHA_PACKED;
    return 0;
}

int layer_run_prepare(const struct options *options, struct inputs *inputs, clattn_mha_weights weights,
                      struct layer_run *run, struct failure *failure)
{
    const clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    const clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    memset(run, 0, sizeof(*run));
    run->problem = problem;
    run->arrays = arrays;
    run->problem.weights = weights;
    if (read_choices(options, &run->problem, failure) != 0 ||
        read_shapes(options, inputs, &run->problem, failure) != 0 ||
        convert(options, inputs, &run->problem, failure) != 0 || read_masks(inputs, run, failure) != 0 ||
        allocate(weights, inputs, run, failure) != 0) {
        return -1;
    }
    if (check_finite(inputs, failure) != 0) {
        return -1;
    }
    point(inputs, run);
    return pack_inputs(inputs, run, failure);
}

void layer_run_free(struct layer_run *run)
{
    tensor_free(&run->y);
    tensor_free(&run->weights);
    tensor_free(&run->packed_weights);
    tensor_free(&run->packed_biases);
}

void layer_run_as_attention(const struct layer_run *run, struct attention *attention)
{
    const clattn_mha_problem *p = &run->problem;
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    const int64_t heads = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE ? 1 : p->query_heads;
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    memset(attention, 0, sizeof(*attention));
    attention->problem = problem;
    attention->problem.type = p->type;
    attention->problem.batch = p->batch;
    attention->problem.query_heads = heads;
    attention->problem.kv_heads = heads;
    attention->problem.query_len = p->rows;
    attention->problem.key_len = keys;
    attention->problem.weights = run->weights.data ? CLATTN_WEIGHTS_SOFTMAX : CLATTN_WEIGHTS_NONE;
    attention->query.batch = p->batch;
    attention->query.heads = heads;
    attention->query.rows = p->rows;
    attention->key.batch = p->batch;
    attention->key.rows = keys;
    attention->weights = run->weights;
    clattn_strides_bhsd(heads, p->rows, keys, attention->host.weights.stride);
}
