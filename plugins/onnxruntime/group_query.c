/* com.microsoft GroupQueryAttention: new keys, normed and turned by their positions, go into the cache, and rows see
 * what is behind them, of a window where there is one. When the call is done entry b has T = seqlens_k[b] + 1 valid
 * keys; its new rows stand at T - rows, at 0 where a prompt is padded on its right. A cache may be of codes, which
 * are written, and read again, with scales that are given. */
#include "group_query.h"

#include "claim.h"

#include <string.h>

static int is_of_type(const struct node *node, int index, ONNXTensorElementDataType type)
{
    return !node_has_input(node, index) || node->input[index].type == type;
}

/* *is_known 0: as clattn has no codes. */
static OrtStatus *read_cache_type(const struct node *node, struct attributes *attributes, int *is_known)
{
    static const char *const words[] = { "NONE", "PER_TENSOR", "PER_CHANNEL" }; /* which, the scales' shapes tell too */
    const int has_past = node_has_input(node, PAST_KEY);
    const ONNXTensorElementDataType type = has_past ? node->input[PAST_KEY].type : node->output[PRESENT_KEY].type;
    int64_t bits;
    int key, value;
    TRY(node_choice(node, "k_quant_type", words, 3, &key));
    TRY(node_choice(node, "v_quant_type", words, 3, &value));
    TRY(node_integer(node, "kv_cache_bit_width", 0, &bits));
    attributes->cache_type = CLATTN_TYPE_NONE;
    if (key == 0 && value == 0 && bits == 0) {
        *is_known = 1;
        return NULL;
    }
    attributes->cache_type = group_query_code_type(type, bits);
    *is_known = key > 0 && value > 0 && attributes->cache_type != CLATTN_TYPE_NONE;
    return NULL;
}

static enum declined reason_of(const struct node *node, const struct attributes *attributes)
{
    const ONNXTensorElementDataType type = node->input[QUERY].type;
    const int is_of_codes = attributes->cache_type != CLATTN_TYPE_NONE;
    const ONNXTensorElementDataType cached = is_of_codes ? node->input[PAST_KEY].type : type;
    if (type_of_element(type) == CLATTN_TYPE_NONE || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
        !is_of_type(node, PAST_KEY, cached) || !is_of_type(node, PAST_VALUE, cached)) {
        return DECLINED_TYPE;
    }
    if (node_has_input(node, QUERY_LENGTHS) || node_has_input(node, QUERY_NORM) != node_has_input(node, KEY_NORM) ||
        node_has_input(node, KEY_SCALE) != is_of_codes || node_has_input(node, VALUE_SCALE) != is_of_codes) {
        return DECLINED_INPUTS;
    }
    if (node_has_input(node, KEY) != node_has_input(node, VALUE) ||
        node_has_input(node, PAST_KEY) != node_has_input(node, PAST_VALUE) ||
        (attributes->is_rotary && (!node_has_input(node, COSINE) || !node_has_input(node, SINE)))) {
        return DECLINED_INPUTS;
    }
    return node_has_output(node, WEIGHTS) ? DECLINED_OUTPUTS : DECLINED_NOT;
}

/* RMS norms of queries and keys. *is_known 0: they differ in what they add to the mean of squares. */
static OrtStatus *read_norms(const struct node *node, struct attributes *attributes, int *is_known)
{
    float both, of_keys;
    TRY(node_number(node, "qk_norm_epsilon", 1e-6f, &both));
    TRY(node_number(node, "q_norm_epsilon", both, &attributes->norm_epsilon));
    TRY(node_number(node, "k_norm_epsilon", both, &of_keys));
    attributes->has_norms = node_has_input(node, QUERY_NORM);
    *is_known = !attributes->has_norms || (attributes->norm_epsilon > 0 && attributes->norm_epsilon == of_keys);
    return NULL;
}

static OrtStatus *gather(const struct node *node, struct claim *claim)
{
    struct attributes *attributes = &claim->attributes;
    int64_t window, is_ring, rows_of_scores;
    int is_known, is_known_norm;
    TRY(node_integer(node, "num_heads", 0, &attributes->query_heads));
    TRY(node_integer(node, "kv_num_heads", 0, &attributes->kv_heads));
    TRY(node_contributed_scale(node, attributes));
    TRY(node_number(node, "softcap", 0.0f, &attributes->softcap));
    TRY(node_integer(node, "causal", 1, &attributes->is_causal));
    TRY(node_integer(node, "local_window_size", -1, &window));
    TRY(node_integer(node, "do_rotary", 0, &attributes->is_rotary));
    TRY(node_integer(node, "rotary_interleaved", 0, &attributes->is_interleaved));
    TRY(node_integer(node, "smooth_softmax", 0, &attributes->has_smooth_softmax));
    TRY(read_cache_type(node, attributes, &is_known));
    TRY(read_norms(node, attributes, &is_known_norm));
    TRY(node_integer(node, "sliding_window_cache", 0, &is_ring));
    TRY(node_integer(node, "qk_output", 0, &rows_of_scores));
    attributes->window_left = window > 0 ? window - 1 : -1;
    attributes->window_right = -1;
    is_known = is_known && is_known_norm && !is_ring && !rows_of_scores && window != 0 && attributes->softcap >= 0;
    claim->reason = is_known ? reason_of(node, attributes) : DECLINED_ATTRIBUTES;
    claim_node(node, claim);
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------------- */

/* Queries, keys and values of one tensor, [batch, rows, columns of all heads, one behind the other]. */
static OrtStatus *split_packed(const struct attributes *attributes, struct operands *o)
{
    const int64_t heads = attributes->query_heads + 2 * attributes->kv_heads;
    struct heads *parts[3] = { &o->query, &o->key, &o->value };
    int64_t first = 0;
    TRY(heads_of(&o->in[QUERY], heads, "packed queries, keys and values", &o->query));
    o->key = o->value = o->query;
    for (int n = 0; n < 3; ++n) {
        parts[n]->heads = n == 0 ? attributes->query_heads : attributes->kv_heads;
        parts[n]->at.data = (char *)o->in[QUERY].data +
                            (size_t)(first * o->query.columns) * element_bytes(o->query.type);
        first += parts[n]->heads;
    }
    return NULL;
}

static OrtStatus *read_lengths(const struct run *run, struct operands *o)
{
    const struct tensor *lengths = &o->in[LENGTHS], *total = &o->in[TOTAL];
    o->starts = lane_room(run->lane, SCRATCH_POSITIONS, (size_t)o->batch * sizeof(*o->starts));
    if (!o->starts) {
        return refuse_memory();
    }
    int64_t elements = 1;
    for (int axis = 0; axis < lengths->rank; ++axis) { /* [batch], or [batch, 1] as some exporters have it */
        elements *= lengths->extent[axis];
    }
    if (elements != o->batch || lengths->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 ||
        total->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) {
        return refuse(ORT_INVALID_ARGUMENT,
                      "clattn: seqlens_k has %lld elements: must be %lld, int32, as "
                      "total_sequence_length is",
                      (long long)elements, (long long)o->batch);
    }
    o->total = *(const int32_t *)total->data;
    for (int64_t b = 0; b < o->batch; ++b) {
        const int64_t length = (int64_t)((const int32_t *)lengths->data)[b] + 1;
        if (length < 0 || length > o->total || o->total < o->rows) {
            return refuse(ORT_INVALID_ARGUMENT,
                          "clattn: sequence %lld has %lld keys, of %lld in total, %lld of them new", (long long)b,
                          (long long)length, (long long)o->total, (long long)o->rows);
        }
        o->starts[b] = (int32_t)(length > o->rows ? length - o->rows : 0);
    }
    return NULL;
}

static OrtStatus *read_operands(const struct run *run, struct operands *o)
{
    const struct attributes *attributes = &run->kernel->attributes;
    for (int n = 0; n <= KEY_NORM; ++n) {
        TRY(run_input(run, n, &o->in[n]));
    }
    if (o->in[KEY].data) {
        TRY(heads_of(&o->in[QUERY], attributes->query_heads, "query", &o->query));
        TRY(heads_of(&o->in[KEY], attributes->kv_heads, "key", &o->key));
        TRY(heads_of(&o->in[VALUE], attributes->kv_heads, "value", &o->value));
    } else {
        TRY(split_packed(attributes, o));
    }
    o->batch = o->query.batch;
    o->rows = o->query.rows;
    if (o->key.rows != o->rows || o->value.rows != o->rows || o->key.batch != o->batch || o->value.batch != o->batch ||
        o->key.heads != o->value.heads || o->key.columns != o->query.columns) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: %lld rows of queries, %lld of keys, %lld of values",
                      (long long)o->rows, (long long)o->key.rows, (long long)o->value.rows);
    }
    return read_lengths(run, o);
}

/* ---- attention --------------------------------------------------------------------------------- */

static void attend_to_codes(clattn_type type, const struct operands *o, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    p->key_type = p->value_type = type;
    p->features |= CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES;
    p->key_scale_columns = o->key_scales.columns;
    p->value_scale_columns = o->value_scales.columns;
    attention->tensors.key_scales = o->key_scales.at;
    attention->tensors.value_scales = o->value_scales.at;
}

/* One logit a head that has no value: given, or 0. */
static OrtStatus *set_sinks(const struct run *run, const struct tensor *sinks, struct attention *attention)
{
    const int64_t heads = attention->problem.query_heads;
    float *wide = lane_room(run->lane, SCRATCH_SINKS, (size_t)heads * sizeof(*wide));
    if (!wide) {
        return refuse_memory();
    }
    if (sinks->data && (sinks->rank != 1 || sinks->extent[0] != heads)) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: head_sink must be [%lld]", (long long)heads);
    }
    memset(wide, 0, (size_t)heads * sizeof(*wide));
    if (sinks->data) {
        TRY(tensor_widen(sinks, heads, wide));
    }
    attention->problem.features |= CLATTN_WITH_SINKS;
    attention->tensors.sinks.data = wide;
    attention->tensors.sinks.stride[1] = 1;
    return NULL;
}

static OrtStatus *compute(const struct run *run)
{
    const struct attributes *attributes = &run->kernel->attributes;
    struct operands o;
    struct heads keys, values;
    struct attention attention;
    TRY(read_operands(run, &o));
    TRY(group_query_open_caches(run, &o, &keys, &values));
    TRY(group_query_append(run, &o, &keys, &values));
    keys.rows = values.rows = o.total; /* the strides are the cache's */
    attention_init(&attention);
    TRY(attention_operands(&o.query, &keys, &values, &attention));
    if (attributes->cache_type != CLATTN_TYPE_NONE) {
        attend_to_codes(attributes->cache_type, &o, &attention);
    }
    attention_attributes(attributes, &attention);
    TRY(attention_key_lengths(run, &o.in[LENGTHS], 1, &attention));
    attention_starts(o.starts, &attention);
    if (o.in[BIAS].data) {
        TRY(attention_mask(&o.in[BIAS], LAST_AXIS_PADDED, &attention));
    }
    if (o.in[SINKS].data || attributes->has_smooth_softmax == 1) {
        TRY(set_sinks(run, &o.in[SINKS], &attention));
    }
    TRY(attention_out(run, 3, &attention));
    return attention_run(run, -1, &attention);
}

const struct kind kind_group_query = { "com.microsoft", "GroupQueryAttention", 1, 1, gather, compute };
