/* com.microsoft GroupQueryAttention: new keys, turned by their positions, go into the cache, and rows see what is
 * behind them, of a window where there is one. When the call is done entry b has T = seqlens_k[b] + 1 valid keys;
 * its new rows stand at T - rows, at 0 where a prompt is padded on its right. */
#include "claim.h"
#include "rotary.h"

#include <clattn_cache.h>

#include <string.h>

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS,
    TOTAL,
    COSINE,
    SINE,
    IDS,
    BIAS,
    SINKS,
    KEY_SCALE,
    VALUE_SCALE,
    QUERY_NORM,
    KEY_NORM,
    QUERY_LENGTHS
};
enum { OUT, PRESENT_KEY, PRESENT_VALUE, WEIGHTS };

static int is_of_type(const struct node *node, int index, ONNXTensorElementDataType type)
{
    return !node_has_input(node, index) || node->input[index].type == type;
}

static enum declined reason_of(const struct node *node, const struct attributes *attributes)
{
    const ONNXTensorElementDataType type = node->input[QUERY].type;
    if (type_of_element(type) == CLATTN_TYPE_NONE || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
        !is_of_type(node, PAST_KEY, type) || !is_of_type(node, PAST_VALUE, type)) {
        return DECLINED_TYPE;
    }
    for (int index = KEY_SCALE; index <= QUERY_LENGTHS; ++index) {
        if (node_has_input(node, index)) {
            return DECLINED_INPUTS;
        }
    }
    if (node_has_input(node, KEY) != node_has_input(node, VALUE) ||
        node_has_input(node, PAST_KEY) != node_has_input(node, PAST_VALUE) ||
        (attributes->is_rotary && (!node_has_input(node, COSINE) || !node_has_input(node, SINE)))) {
        return DECLINED_INPUTS;
    }
    return node_has_output(node, WEIGHTS) ? DECLINED_OUTPUTS : DECLINED_NOT;
}

static OrtStatus *gather(const struct node *node, struct claim *claim)
{
    struct attributes *attributes = &claim->attributes;
    int64_t window, bits, is_ring, rows_of_scores;
    TRY(node_integer(node, "num_heads", 0, &attributes->query_heads));
    TRY(node_integer(node, "kv_num_heads", 0, &attributes->kv_heads));
    TRY(node_contributed_scale(node, attributes));
    TRY(node_number(node, "softcap", 0.0f, &attributes->softcap));
    TRY(node_integer(node, "causal", 1, &attributes->is_causal));
    TRY(node_integer(node, "local_window_size", -1, &window));
    TRY(node_integer(node, "do_rotary", 0, &attributes->is_rotary));
    TRY(node_integer(node, "rotary_interleaved", 0, &attributes->is_interleaved));
    TRY(node_integer(node, "smooth_softmax", 0, &attributes->has_smooth_softmax));
    TRY(node_integer(node, "kv_cache_bit_width", 0, &bits));
    TRY(node_integer(node, "sliding_window_cache", 0, &is_ring));
    TRY(node_integer(node, "qk_output", 0, &rows_of_scores));
    attributes->window_left = window > 0 ? window - 1 : -1;
    attributes->window_right = -1;
    const int is_known = !bits && !is_ring && !rows_of_scores && window != 0 && attributes->softcap >= 0;
    claim->reason = is_known ? reason_of(node, attributes) : DECLINED_ATTRIBUTES;
    claim_node(node, claim);
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------------- */

struct operands {
    struct tensor in[SINKS + 1];
    struct heads query, key, value; /* what is new */
    int64_t batch, rows;
    int32_t *starts; /* of each entry's rows, in the lane's memory */
    int64_t total;   /* keys of the longest entry when the call is done */
};

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
    for (int n = 0; n <= SINKS; ++n) {
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

/* ---- the cache --------------------------------------------------------------------------------- */

/* The present cache, with what the past had in it: nothing is copied where both are one buffer. */
static OrtStatus *open_cache(const struct run *run, const struct operands *o, const struct heads *fresh, int past_index,
                             int present_index, enum scratch_use use, struct heads *cache)
{
    const struct tensor *past = &o->in[past_index];
    struct heads before = *fresh;
    struct tensor present;
    before.rows = 0;
    if (past->data) {
        TRY(heads_of(past, 0, "a past", &before));
    }
    if (before.batch != fresh->batch || before.heads != fresh->heads || before.columns != fresh->columns) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: a past of %lld heads of %lld columns for %lld of %lld",
                      (long long)before.heads, (long long)before.columns, (long long)fresh->heads,
                      (long long)fresh->columns);
    }
    *cache = *fresh;
    cache->rows = before.rows > o->total ? before.rows : o->total;
    const int64_t extent[4] = { cache->batch, cache->heads, cache->rows, cache->columns };
    TRY(run_output(run, present_index, 4, extent, &present));
    TRY(cache_memory(run, present.data, use, cache));
    if (past->data && past->data != cache->at.data) {
        heads_copy_rows(&before, 0, cache);
    }
    return NULL;
}

static void copy_fresh(const struct operands *o, const struct heads *fresh, const struct heads *cache)
{
    for (int64_t b = 0; b < o->batch; ++b) {
        struct heads from = *fresh, to = *cache;
        const size_t bytes = element_bytes(fresh->type);
        from.batch = to.batch = 1;
        from.at.data = (char *)fresh->at.data + (size_t)(b * fresh->at.stride[0]) * bytes;
        to.at.data = (char *)cache->at.data + (size_t)(b * cache->at.stride[0]) * bytes;
        heads_copy_rows(&from, o->starts[b], &to);
    }
}

/* Keys and queries turned, on the way into the cache and the lane's memory. */
static OrtStatus *append_turned(const struct run *run, struct operands *o, const struct heads *keys,
                                const struct heads *values)
{
    const struct positions positions = { o->in[IDS], o->starts };
    clattn_append_problem p = CLATTN_APPEND_PROBLEM_INIT;
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    clattn_append_host_tensors t = CLATTN_APPEND_HOST_TENSORS_INIT;
    struct rotary_tables tables;
    TRY(rotary_tables_of(run, &o->in[COSINE], &o->in[SINE], &positions, o->batch, o->rows, &tables));
    const int64_t count = o->batch * o->rows * o->query.heads * o->query.columns;
    void *turned = lane_room(run->lane, SCRATCH_QUERY, (size_t)count * element_bytes(o->query.type));
    if (!turned) {
        return refuse_memory();
    }
    p.type = type_of_element(o->query.type);
    p.pairs = run->kernel->attributes.is_interleaved ? CLATTN_PAIRS_INTERLEAVED : CLATTN_PAIRS_HALVES;
    p.batch = o->batch;
    p.query_heads = o->query.heads;
    p.kv_heads = o->key.heads;
    p.query_len = length_rounded_up(o->rows, 1);
    p.head_dim = o->key.columns;
    p.head_dim_v = o->value.columns;
    p.capacity = keys->rows;
    p.columns = tables.columns;
    p.features = CLATTN_WITH_STARTS | CLATTN_WITH_ROTARY | CLATTN_WITH_TOKEN_TABLES;
    call.query_len = o->rows;
    t.query = o->query.at;
    t.key = o->key.at;
    t.value = o->value.at;
    t.key_cache = keys->at;
    t.value_cache = values->at;
    t.starts.data = o->starts;
    t.starts.stride[0] = 1;
    t.cosine = tables.cosine;
    t.sine = tables.sine;
    o->query.at = t.query_out = clattn_host_tensor_bhsd(turned, o->query.heads, o->rows, o->query.columns);
    const clattn_status status = clattn_append_host(run->kernel->plans->context, &p, &call, &t);
    return status == CLATTN_OK ? NULL : refuse_as_clattn(status);
}

static OrtStatus *append(const struct run *run, struct operands *o, const struct heads *keys,
                         const struct heads *values)
{
    if (run->kernel->attributes.is_rotary) {
        return append_turned(run, o, keys, values);
    }
    copy_fresh(o, &o->key, keys);
    copy_fresh(o, &o->value, values);
    return NULL;
}

/* ---- attention --------------------------------------------------------------------------------- */

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
    TRY(open_cache(run, &o, &o.key, PAST_KEY, PRESENT_KEY, SCRATCH_KEY, &keys));
    TRY(open_cache(run, &o, &o.value, PAST_VALUE, PRESENT_VALUE, SCRATCH_VALUE, &values));
    TRY(append(run, &o, &keys, &values));
    keys.rows = values.rows = o.total; /* the strides are the cache's */
    attention_init(&attention);
    TRY(attention_operands(&o.query, &keys, &values, &attention));
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
