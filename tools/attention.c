#include "attention.h"

#include <stdlib.h>
#include <string.h>

#include "attention_cache.h"
#include "attention_extras.h"
#include "problem_options.h"

/* ---- types ---- */

static int convert_inputs(const struct options *options, struct inputs *inputs, clattn_problem *problem,
                          struct failure *failure)
{
    const enum role stored[] = { ROLE_QUERY, ROLE_KEY, ROLE_VALUE, ROLE_PAST_KEY, ROLE_PAST_VALUE };
    const clattn_type *const own[] = { NULL, &problem->key_type, &problem->value_type, &problem->key_type,
                                       &problem->value_type };
    clattn_type type = tensor_storage_type(inputs->tensor[ROLE_QUERY].type);
    if (problem_type_read(options, OPTION_DTYPE, &type, failure) != 0 ||
        attention_stored_types(options, inputs, problem, failure) != 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        struct tensor *tensor = &inputs->tensor[stored[i]];
        const char *name = role_name(stored[i]);
        if (!tensor->data || (own[i] && *own[i] != CLATTN_TYPE_NONE)) {
            continue;
        }
        if (!options->value[OPTION_DTYPE] &&
            (!tensor_is_float(tensor->type) || tensor_storage_type(tensor->type) != type)) {
            return failure_misuse(failure,
                                  "%s %s: must be a float type, the same for query, key and value; "
                                  "convert with --dtype",
                                  name, tensor_type_name(tensor->type));
        }
        if (tensor_convert(tensor, tensor_type_of_storage(type), name, failure) != 0) {
            return -1;
        }
    }
    problem->type = type;
    return 0;
}

/* ---- layouts ---- */

static int choose_layout(const struct options *options, enum layout *layout, int64_t *heads, int64_t *kv_heads,
                         struct failure *failure)
{
    /* in the order of the option's words */
    static const enum layout layouts[] = { LAYOUT_BHSD, LAYOUT_BSHD, LAYOUT_PACKED, LAYOUT_THD, LAYOUT_PACKED };
    const enum option_id layout_option[] = { OPTION_LAYOUT, OPTION_NONE };
    const enum option_id heads_option[] = { OPTION_HEADS, OPTION_NONE };
    int index = 0;
    if (option_choice(options, OPTION_LAYOUT, &index, failure) != 0 ||
        option_needs(options, OPTION_HEADS, layout_option, failure) != 0 ||
        option_needs(options, OPTION_KV_HEADS, heads_option, failure) != 0 ||
        option_integer(options, OPTION_HEADS, 1, INT32_MAX, heads, failure) != 0) {
        return -1;
    }
    *kv_heads = *heads;
    *layout = layouts[index];
    if (*heads && *layout != LAYOUT_PACKED) {
        return failure_misuse(failure, "--heads %lld: layout %s has an axis for them; leave it out", (long long)*heads,
                              option_words(OPTION_LAYOUT)[index]);
    }
    return option_integer(options, OPTION_KV_HEADS, 1, INT32_MAX, kv_heads, failure);
}

static int read_layouts(const struct options *options, struct inputs *inputs, struct attention *attention,
                        struct failure *failure)
{
    int64_t heads = 0, kv_heads = 0;
    enum layout keys;
    attention->layout = LAYOUT_BHSD; /* a layer's heads are an axis already */
    if (!inputs->is_layer && choose_layout(options, &attention->layout, &heads, &kv_heads, failure) != 0) {
        return -1;
    }
    if (attention_pool_layout(options, inputs, attention->layout, &keys, failure) != 0 ||
        layout_read(&inputs->tensor[ROLE_QUERY], attention->layout, heads, "query", &attention->query, failure) != 0 ||
        layout_read(&inputs->tensor[ROLE_KEY], keys, kv_heads, "key", &attention->key, failure) != 0) {
        return -1;
    }
    return inputs->tensor[ROLE_VALUE].data
               ? layout_read(&inputs->tensor[ROLE_VALUE], keys, kv_heads, "value", &attention->value, failure)
               : 0; /* attention_values_in_keys */
}

static int check_shapes(const struct attention *attention, struct failure *failure)
{
    const struct axes *q = &attention->query, *k = &attention->key, *v = &attention->value;
    const int64_t batch = attention->problem.page_size ? k->batch : q->batch; /* of a pool: its pages */
    if (attention_must_equal("key batch", k->batch, "query", batch, failure) != 0 ||
        attention_must_equal("value batch", v->batch, attention->problem.page_size ? "key" : "query", batch, failure) !=
            0 ||
        attention_must_equal("key head dim", k->columns, "query", q->columns, failure) != 0 ||
        attention_must_equal("value heads", v->heads, "key", k->heads, failure) != 0) {
        return -1;
    }
    return attention_must_equal("value length", v->rows, "key", k->rows, failure);
}

/* ---- past keys and values ---- */

static void copy_rows(const struct tensor *from, const struct axes *axes, struct tensor *to, int64_t rows,
                      int64_t first_row)
{
    size_t size = tensor_type_size(from->type), bytes = (size_t)axes->columns * size;
    for (int64_t b = 0; b < axes->batch; b++) {
        for (int64_t h = 0; h < axes->heads; h++) {
            for (int64_t i = 0; i < axes->rows; i++) {
                int64_t source = b * axes->stride[0] + h * axes->stride[1] + i * axes->stride[2];
                int64_t target = ((b * axes->heads + h) * rows + first_row + i) * axes->columns;
                memcpy((char *)to->data + (size_t)target * size, (const char *)from->data + (size_t)source * size,
                       bytes);
            }
        }
    }
}

/* Replaces a tensor by [batch, heads, past rows + rows, columns] and its axes by those. The past
 * may be in layout bhsd where the rest is bs(hd), as ONNX has it. */
static int prepend(struct inputs *inputs, enum role past_role, enum role role, enum layout layout, struct axes *axes,
                   struct failure *failure)
{
    const struct tensor *past = &inputs->tensor[past_role];
    const char *name = role_name(past_role);
    struct axes before;
    struct tensor joined;
    if (inputs->tensor[ROLE_PAGE_TABLE].data) {
        return failure_misuse(failure, "%s: is already in the pages; leave it out", name);
    }
    enum layout past_layout = layout == LAYOUT_PACKED && past->dims >= 4 ? LAYOUT_BHSD : layout;
    if (layout == LAYOUT_THD) {
        return failure_misuse(failure, "%s: layout thd has no past; put it into the packed keys", name);
    }
    if (layout_read(past, past_layout, axes->heads, name, &before, failure) != 0 ||
        attention_must_equal("past batch", before.batch, "the new keys", axes->batch, failure) != 0 ||
        attention_must_equal("past heads", before.heads, "the new keys", axes->heads, failure) != 0 ||
        attention_must_equal("past head dim", before.columns, "the new keys", axes->columns, failure) != 0) {
        return -1;
    }
    const int64_t shape[4] = { axes->batch, axes->heads, before.rows + axes->rows, axes->columns };
    if (tensor_create(&joined, past->type, 4, shape, name, failure) != 0) {
        return -1;
    }
    copy_rows(past, &before, &joined, shape[2], 0);
    copy_rows(&inputs->tensor[role], axes, &joined, shape[2], before.rows);
    tensor_free(&inputs->tensor[role]);
    inputs->tensor[role] = joined;
    return layout_read(&joined, LAYOUT_BHSD, 0, role_name(role), axes, failure);
}

static int prepend_past(const struct options *options, struct inputs *inputs, struct attention *attention,
                        struct failure *failure)
{
    const int has_key = inputs->tensor[ROLE_PAST_KEY].data != NULL;
    const int has_value = inputs->tensor[ROLE_PAST_VALUE].data != NULL;
    const int is_in_keys = options->value[OPTION_VALUES_IN_KEYS] != NULL;
    if (has_key != has_value && !is_in_keys) {
        return failure_misuse(failure, "%s: is missing; past keys and past values come together",
                              role_name(has_key ? ROLE_PAST_VALUE : ROLE_PAST_KEY));
    }
    if (!has_key) {
        return 0;
    }
    if (prepend(inputs, ROLE_PAST_KEY, ROLE_KEY, attention->layout, &attention->key, failure) != 0) {
        return -1;
    }
    return is_in_keys ? 0 : prepend(inputs, ROLE_PAST_VALUE, ROLE_VALUE, attention->layout, &attention->value, failure);
}

/* ---- outputs ---- */

static int prepare_out(const struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    const struct tensor *query = &inputs->tensor[ROLE_QUERY];
    struct axes axes;
    int64_t shape[TENSOR_DIMS_MAX];
    layout_shape(query, attention->layout, &attention->query, attention->value.columns, shape);
    if (tensor_create(&attention->out, query->type, query->dims, shape, "out", failure) != 0 ||
        layout_read(&attention->out, attention->layout, attention->query.heads, "out", &axes, failure) != 0) {
        return -1;
    }
    attention->host.out.data = attention->out.data;
    memcpy(attention->host.out.stride, axes.stride, sizeof axes.stride);
    return 0;
}

/* [lead..., heads, queries] and, for weights, keys. Packed: lse [heads, tokens], weights
 * [sequences, heads, longest, longest]. */
static int prepare_rows(struct attention *attention, int with_keys, struct tensor *tensor, clattn_host_tensor *host,
                        struct failure *failure)
{
    const struct axes *query = &attention->query;
    const clattn_problem *problem = &attention->problem;
    int64_t rows = attention->sequences && with_keys ? problem->query_len : query->rows;
    int64_t keys = with_keys ? problem->key_len : 1, shape[TENSOR_DIMS_MAX + 2];
    int dims = query->lead_dims;
    memcpy(shape, query->lead, (size_t)dims * sizeof *shape);
    if (attention->layout == LAYOUT_THD && with_keys) {
        shape[dims++] = problem->batch;
    }
    if (query->has_heads) {
        shape[dims++] = query->heads;
    }
    shape[dims++] = rows;
    if (with_keys) {
        shape[dims++] = keys;
    }
    if (tensor_create(tensor, with_keys && problem->type == CLATTN_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32, dims,
                      shape, with_keys ? "weights" : "lse", failure) != 0) {
        return -1;
    }
    host->data = tensor->data;
    clattn_strides_bhsd(query->heads, rows, keys, host->stride);
    return 0;
}

static void place(clattn_host_tensor *host, const struct tensor *tensor, const struct axes *axes)
{
    host->data = tensor->data;
    memcpy(host->stride, axes->stride, sizeof axes->stride);
}

static int prepare_all(const struct options *options, struct inputs *inputs, struct tensor *offsets,
                       struct attention *attention, struct failure *failure)
{
    clattn_problem *problem = &attention->problem;
    if (convert_inputs(options, inputs, problem, failure) != 0 ||
        user_text_complete(&inputs->code, problem, failure) != 0 ||
        read_layouts(options, inputs, attention, failure) != 0 ||
        prepend_past(options, inputs, attention, failure) != 0 ||
        attention_cache_axes(options, inputs, attention, failure) != 0 ||
        attention_values_in_keys(options, inputs, attention, failure) != 0 || check_shapes(attention, failure) != 0) {
        return -1;
    }
    problem->batch = attention->query.batch;
    problem->query_heads = attention->query.heads;
    problem->kv_heads = attention->key.heads;
    problem->query_len = attention->query.rows;
    problem->key_len = attention->key.rows;
    problem->head_dim = attention->query.columns;
    problem->head_dim_v = attention->value.columns;
    if (problem->head_dim < 1 || problem->head_dim_v < 1) {
        return failure_misuse(failure, "head dim 0: query, key and value must have at least one column");
    }
    user_text_place(&inputs->code, &attention->values, &attention->host);
    place(&attention->host.query, &inputs->tensor[ROLE_QUERY], &attention->query);
    place(&attention->host.key, &inputs->tensor[ROLE_KEY], &attention->key);
    if (!problem->value_in_key) {
        place(&attention->host.value, &inputs->tensor[ROLE_VALUE], &attention->value);
    }
    if (attention_prepare_extras(options, inputs, offsets, attention, failure) != 0) {
        return -1;
    }
    return prepare_out(inputs, attention, failure);
}

int attention_prepare(const struct options *options, struct inputs *inputs, clattn_weights weights, int with_lse,
                      struct attention *attention, struct failure *failure)
{
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    struct tensor offsets = TENSOR_INIT;
    int result;
    memset(attention, 0, sizeof *attention);
    attention->problem = problem;
    attention->host = host;
    clattn_call_init(&attention->values, sizeof attention->values);
    result = problem_options_read(options, &attention->problem, &attention->values, &offsets, failure);
    if (result == 0) {
        result = prepare_all(options, inputs, &offsets, attention, failure);
    }
    tensor_free(&offsets);
    if (result == 0 && weights != CLATTN_WEIGHTS_NONE) {
        attention->problem.weights = weights;
        result = prepare_rows(attention, 1, &attention->weights, &attention->host.weights, failure);
    }
    if (result == 0 && with_lse) {
        attention->problem.features |= CLATTN_WITH_LSE;
        result = prepare_rows(attention, 0, &attention->lse, &attention->host.lse, failure);
    }
    return result;
}

void attention_free(struct attention *attention)
{
    tensor_free(&attention->out);
    tensor_free(&attention->weights);
    tensor_free(&attention->lse);
    tensor_free(&attention->key_sums);
    tensor_free(&attention->max_logit);
}
