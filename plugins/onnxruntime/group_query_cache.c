/* The cache of GroupQueryAttention: past rows, and new ones behind them, as they are or as codes of 8 or 4 bits, whose
 * scales are given. */
#include "group_query.h"
#include "rotary.h"

#include <clattn_cache.h>

/* A tensor of scales is broadcast to [batch, heads, rows, columns], rows alike. */
static OrtStatus *scales_of(const struct tensor *tensor, const struct heads *fresh, const char *name,
                            struct scales *scales)
{
    const int64_t extent[4] = { fresh->batch, fresh->heads, 1, fresh->columns };
    static const struct scales one = { CLATTN_TENSOR_NONE, 0 };
    *scales = one;
    scales->at.data = tensor->data;
    for (int axis = 3, own = tensor->rank - 1; own >= 0; --axis, --own) {
        const int64_t count = tensor->extent[own];
        if (axis < 0 || (count != 1 && count != extent[axis])) {
            return refuse(ORT_INVALID_ARGUMENT,
                          "clattn: axis %d of %s has %lld elements: must be broadcast to [%lld, %lld, 1, %lld]", own,
                          name, (long long)count, (long long)extent[0], (long long)extent[1], (long long)extent[3]);
        }
        scales->at.stride[axis] = count > 1 ? tensor->stride[own] : 0;
    }
    scales->columns = scales->at.stride[3] ? 1 : 0;
    return NULL;
}

/* int8, float8, or two codes of 4 bits in a uint8. */
static const struct {
    ONNXTensorElementDataType element;
    int64_t bits;
    clattn_type type;
} code_types[] = { { ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 8, CLATTN_INT8 },
                   { ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, 4, CLATTN_INT4 },
                   { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, 8, CLATTN_E4M3 } };
#define CODE_TYPES (sizeof(code_types) / sizeof(code_types[0]))

clattn_type group_query_code_type(ONNXTensorElementDataType element, int64_t bits)
{
    for (size_t n = 0; n < CODE_TYPES; ++n) {
        if (code_types[n].element == element && code_types[n].bits == bits) {
            return code_types[n].type;
        }
    }
    return CLATTN_TYPE_NONE;
}

static ONNXTensorElementDataType cached_element(const struct attributes *attributes, const struct heads *fresh)
{
    for (size_t n = 0; n < CODE_TYPES; ++n) {
        if (code_types[n].type == attributes->cache_type) {
            return code_types[n].element;
        }
    }
    return fresh->type;
}

/* A cache of bytes with two codes each, as the tensor of codes that it is. */
static void unpack_codes(struct heads *cache)
{
    cache->columns *= 2;
    for (int axis = 0; axis < 3; ++axis) {
        cache->at.stride[axis] *= 2;
    }
}

/* The present cache, with what the past had in it: nothing is copied where both are one buffer. */
static OrtStatus *open_cache(const struct run *run, const struct operands *o, const struct heads *fresh, int past_index,
                             int present_index, enum scratch_use use, struct heads *cache)
{
    const struct attributes *attributes = &run->kernel->attributes;
    const int is_packed = attributes->cache_type == CLATTN_INT4;
    const struct tensor *past = &o->in[past_index];
    struct heads before = *fresh;
    struct tensor present;
    before.rows = 0;
    before.columns = fresh->columns / (is_packed ? 2 : 1);
    *cache = before;
    if (past->data) {
        TRY(heads_of(past, 0, "a past", &before));
    }
    if (before.batch != cache->batch || before.heads != cache->heads || before.columns != cache->columns) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: a past of %lld heads of %lld columns for %lld of %lld",
                      (long long)before.heads, (long long)before.columns, (long long)cache->heads,
                      (long long)cache->columns);
    }
    cache->type = cached_element(attributes, fresh);
    cache->rows = before.rows > o->total ? before.rows : o->total;
    const int64_t extent[4] = { cache->batch, cache->heads, cache->rows, cache->columns };
    TRY(run_output(run, present_index, 4, extent, &present));
    TRY(cache_memory(run, present.data, use, cache));
    if (past->data && past->data != cache->at.data) {
        heads_copy_rows(&before, 0, cache);
    }
    if (is_packed) {
        unpack_codes(cache);
    }
    return NULL;
}

OrtStatus *group_query_open_caches(const struct run *run, struct operands *o, struct heads *keys, struct heads *values)
{
    if (run->kernel->attributes.cache_type != CLATTN_TYPE_NONE) {
        TRY(scales_of(&o->in[KEY_SCALE], &o->key, "k_scale", &o->key_scales));
        TRY(scales_of(&o->in[VALUE_SCALE], &o->value, "v_scale", &o->value_scales));
    }
    TRY(open_cache(run, o, &o->key, PAST_KEY, PRESENT_KEY, SCRATCH_KEY, keys));
    return open_cache(run, o, &o->value, PAST_VALUE, PRESENT_VALUE, SCRATCH_VALUE, values);
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

/* Queries come out in the lane's memory, since ONNX Runtime's are not to be written. */
static OrtStatus *append_queries(const struct run *run, struct operands *o, clattn_append_problem *p,
                                 clattn_append_host_tensors *t)
{
    const int64_t count = o->batch * o->rows * o->query.heads * o->query.columns;
    void *out = lane_room(run->lane, SCRATCH_QUERY, (size_t)count * element_bytes(o->query.type));
    if (!out) {
        return refuse_memory();
    }
    p->query_heads = o->query.heads;
    t->query = o->query.at;
    o->query.at = t->query_out = clattn_host_tensor_bhsd(out, o->query.heads, o->rows, o->query.columns);
    return NULL;
}

static OrtStatus *norm_of(const struct run *run, const struct tensor *tensor, int64_t columns, enum scratch_use use,
                          clattn_host_tensor *weight)
{
    if (tensor->rank != 1 || tensor->extent[0] != columns) {
        return refuse(ORT_INVALID_ARGUMENT,
                      "clattn: the weights of a norm have %d axes, the first of %lld: must be [%lld]", tensor->rank,
                      (long long)tensor->extent[0], (long long)columns);
    }
    float *wide = lane_room(run->lane, use, (size_t)columns * sizeof(*wide));
    if (!wide) {
        return refuse_memory();
    }
    *weight = clattn_host_tensor_bhsd(wide, 1, 1, columns);
    return tensor_widen(tensor, columns, wide);
}

static OrtStatus *append_normed(const struct run *run, const struct operands *o, clattn_append_problem *p,
                                clattn_append_host_tensors *t)
{
    p->features |= CLATTN_WITH_QUERY_NORM | CLATTN_WITH_KEY_NORM | CLATTN_WITH_NORM_WEIGHTS;
    p->norm_epsilon = (double)run->kernel->attributes.norm_epsilon;
    TRY(norm_of(run, &o->in[QUERY_NORM], p->head_dim, SCRATCH_QUERY_NORM, &t->query_norm_weight));
    return norm_of(run, &o->in[KEY_NORM], p->head_dim, SCRATCH_KEY_NORM, &t->key_norm_weight);
}

/* Keys and queries are turned by their positions. */
static OrtStatus *append_turned(const struct run *run, const struct operands *o, clattn_append_problem *p,
                                clattn_append_host_tensors *t)
{
    const struct positions positions = { o->in[IDS], o->starts };
    struct rotary_tables tables;
    TRY(rotary_tables_of(run, &o->in[COSINE], &o->in[SINE], &positions, o->batch, o->rows, &tables));
    p->pairs = run->kernel->attributes.is_interleaved ? CLATTN_PAIRS_INTERLEAVED : CLATTN_PAIRS_HALVES;
    p->columns = tables.columns;
    p->features |= CLATTN_WITH_ROTARY | CLATTN_WITH_TOKEN_TABLES;
    t->cosine = tables.cosine;
    t->sine = tables.sine;
    return NULL;
}

static void append_as_codes(clattn_type type, const struct operands *o, clattn_append_problem *p,
                            clattn_append_host_tensors *t)
{
    p->key_type = p->value_type = type;
    p->features |= CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES;
    p->key_scale_columns = o->key_scales.columns;
    p->value_scale_columns = o->value_scales.columns;
    t->key_scales = o->key_scales.at;
    t->value_scales = o->value_scales.at;
}

OrtStatus *group_query_append(const struct run *run, struct operands *o, const struct heads *keys,
                              const struct heads *values)
{
    const struct attributes *attributes = &run->kernel->attributes;
    const int is_of_codes = attributes->cache_type != CLATTN_TYPE_NONE;
    const int has_queries = attributes->is_rotary || attributes->has_norms;
    if (!has_queries && !is_of_codes) {
        copy_fresh(o, &o->key, keys);
        copy_fresh(o, &o->value, values);
        return NULL;
    }
    clattn_append_problem p = CLATTN_APPEND_PROBLEM_INIT;
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    clattn_append_host_tensors t = CLATTN_APPEND_HOST_TENSORS_INIT;
    p.type = type_of_element(o->query.type);
    p.batch = o->batch;
    p.kv_heads = o->key.heads;
    p.query_len = length_rounded_up(o->rows, 1);
    p.head_dim = o->key.columns;
    p.head_dim_v = o->value.columns;
    p.capacity = keys->rows;
    p.features = CLATTN_WITH_STARTS;
    call.query_len = o->rows;
    t.key = o->key.at;
    t.value = o->value.at;
    t.key_cache = keys->at;
    t.value_cache = values->at;
    t.starts.data = o->starts;
    t.starts.stride[0] = 1;
    if (has_queries) {
        TRY(append_queries(run, o, &p, &t));
    }
    if (attributes->has_norms) {
        TRY(append_normed(run, o, &p, &t));
    }
    if (attributes->is_rotary) {
        TRY(append_turned(run, o, &p, &t));
    }
    if (is_of_codes) {
        append_as_codes(attributes->cache_type, o, &p, &t);
    }
    const clattn_status status = clattn_append_host(run->kernel->plans->context, &p, &call, &t);
    return status == CLATTN_OK ? NULL : refuse_as_clattn(status);
}
