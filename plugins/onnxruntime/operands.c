/* Shapes that are refused are named with their numbers: they come from a model's author, who sees no strides. */
#include "operands.h"

#include <string.h>

#define SHAPE "[%lld, %lld, %lld, %lld]"
#define EXTENTS(t) (long long)(t)->batch, (long long)(t)->heads, (long long)(t)->rows, (long long)(t)->columns

static clattn_host_tensor host_tensor_of(const struct tensor *tensor)
{
    const int64_t *s = tensor->stride;
    const clattn_host_tensor at = { tensor->data, 0, { s[0], s[1], s[2], s[3] } };
    return at;
}

OrtStatus *heads_of(const struct tensor *tensor, int64_t heads, const char *name, struct heads *of)
{
    const int64_t *n = tensor->extent;
    of->batch = n[0];
    of->type = tensor->type;
    if (tensor->rank == 4) {
        of->heads = n[1];
        of->rows = n[2];
        of->columns = n[3];
        of->at = host_tensor_of(tensor);
        return NULL;
    }
    if (tensor->rank != 3 || heads < 1 || n[2] % heads != 0) {
        return refuse(ORT_INVALID_ARGUMENT,
                      "clattn: %s has %d axes, the last of %lld: must be [batch, heads, rows, "
                      "columns], or [batch, rows, columns of all %lld heads]",
                      name, tensor->rank, (long long)(tensor->rank > 0 ? n[tensor->rank - 1] : 0), (long long)heads);
    }
    of->heads = heads;
    of->rows = n[1];
    of->columns = n[2] / heads;
    of->at = clattn_host_tensor_bshd(tensor->data, of->heads, of->rows, of->columns);
    return NULL;
}

void attention_init(struct attention *attention)
{
    static const struct attention none = { CLATTN_PROBLEM_INIT, CLATTN_CALL_INIT, CLATTN_HOST_TENSORS_INIT };
    *attention = none;
}

OrtStatus *attention_operands(const struct heads *query, const struct heads *key, const struct heads *value,
                              struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    if (key->batch != query->batch || key->columns != query->columns || key->heads < 1 ||
        query->heads % key->heads != 0) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: keys " SHAPE " do not go with queries " SHAPE, EXTENTS(key),
                      EXTENTS(query));
    }
    if (value->batch != key->batch || value->heads != key->heads || value->rows != key->rows) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: values " SHAPE " do not go with keys " SHAPE, EXTENTS(value),
                      EXTENTS(key));
    }
    p->type = type_of_element(query->type);
    p->key_type = type_of_element(key->type);
    p->value_type = type_of_element(value->type);
    p->batch = query->batch;
    p->query_heads = query->heads;
    p->kv_heads = key->heads;
    p->query_len = query->rows;
    p->key_len = key->rows;
    p->head_dim = query->columns;
    p->head_dim_v = value->columns;
    p->strided_columns = query->at.stride[3] != 1 || key->at.stride[3] != 1 || value->at.stride[3] != 1;
    attention->tensors.query = query->at;
    attention->tensors.key = key->at;
    attention->tensors.value = value->at;
    return NULL;
}

void attention_attributes(const struct attributes *attributes, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    attention->call.has_scale = attributes->has_scale;
    attention->call.scale = attributes->has_scale ? (double)attributes->scale : 0.0;
    p->softcap = (double)attributes->softcap;
    p->causal = attributes->is_causal != 0;
    p->window_left = attributes->window_left;
    p->window_right = attributes->window_right;
}

static int needs_position(const clattn_problem *p)
{
    return p->causal || p->window_left >= 0 || p->window_right >= 0;
}

void attention_at_end(struct attention *attention)
{
    if (needs_position(&attention->problem)) {
        attention->problem.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    }
}

void attention_starts(const int32_t *starts, struct attention *attention)
{
    if (needs_position(&attention->problem)) {
        attention->problem.alignment = CLATTN_ALIGN_OFFSETS;
        attention->tensors.query_offsets.data = (int32_t *)(uintptr_t)starts;
        attention->tensors.query_offsets.stride[0] = 1;
    }
}

OrtStatus *attention_position(const struct run *run, int64_t position, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    if (!needs_position(p)) {
        return NULL;
    }
    if (position == p->key_len - p->query_len || position == 0) {
        p->alignment = position == 0 && p->key_len != p->query_len ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_BOTTOM_RIGHT;
        return NULL;
    }
    int32_t *offsets = lane_room(run->lane, SCRATCH_POSITIONS, (size_t)p->batch * sizeof(*offsets));
    if (!offsets) {
        return refuse_memory();
    }
    for (int64_t b = 0; b < p->batch; ++b) {
        offsets[b] = (int32_t)position;
    }
    attention_starts(offsets, attention);
    return NULL;
}

/* Strides of a tensor that is broadcast, its last axes last, to these four extents; the last of them may be shorter. */
static OrtStatus *broadcast(const struct tensor *tensor, const int64_t extent[4], int64_t stride[4])
{
    for (int axis = 3, own = tensor->rank - 1; axis >= 0; --axis, --own) {
        const int64_t count = own >= 0 ? tensor->extent[own] : 1;
        const int is_good = axis == 3 ? count <= extent[3] : count == 1 || count == extent[axis];
        if (!is_good) {
            return refuse(ORT_INVALID_ARGUMENT, "clattn: axis %d of the mask has %lld elements: must be %s %lld", own,
                          (long long)count, axis == 3 ? "at most" : "1 or", (long long)extent[axis]);
        }
        stride[axis] = own >= 0 && (count > 1 || axis == 3) ? tensor->stride[own] : axis == 3;
    }
    return NULL;
}

OrtStatus *attention_mask(const struct tensor *mask, enum last_axis last_axis, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    const int64_t extent[4] = { p->batch, p->query_heads, p->query_len, p->key_len };
    const int64_t keys = mask->rank > 0 ? mask->extent[mask->rank - 1] : 1;
    const int is_repeated = last_axis == LAST_AXIS_REPEATED && keys == 1;
    const int is_bool = mask->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
    clattn_host_tensor *at = is_bool ? &attention->tensors.mask : &attention->tensors.bias;
    if (mask->rank > 4) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: the mask has %d axes: at most 4", mask->rank);
    }
    TRY(broadcast(mask, extent, at->stride));
    at->data = mask->data;
    at->stride[3] = is_repeated ? 0 : at->stride[3];
    if (is_bool) {
        p->features |= CLATTN_WITH_MASK;
        attention->call.mask_key_len = is_repeated ? -1 : keys;
    } else {
        p->bias_type = type_of_element(mask->type);
        attention->call.bias_key_len = is_repeated ? -1 : keys;
    }
    return NULL;
}

OrtStatus *attention_key_lengths(const struct run *run, const struct tensor *lengths, int64_t more,
                                 struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    int32_t *copy = lane_room(run->lane, SCRATCH_LENGTHS, (size_t)p->batch * sizeof(*copy));
    if (lengths->rank < 1 || lengths->extent[0] != p->batch || (lengths->rank > 1 && lengths->extent[1] != 1)) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: lengths of keys have %d axes, the first of %lld: must be [%lld]",
                      lengths->rank, (long long)lengths->extent[0], (long long)p->batch);
    }
    if (!copy) {
        return refuse_memory();
    }
    for (int64_t b = 0; b < p->batch; ++b) {
        const int64_t length = more + (lengths->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64
                                           ? ((const int64_t *)lengths->data)[b]
                                           : ((const int32_t *)lengths->data)[b]);
        if (length < 0 || length > p->key_len) {
            return refuse(ORT_INVALID_ARGUMENT, "clattn: sequence %lld has %lld keys: must be 0 to %lld", (long long)b,
                          (long long)length, (long long)p->key_len);
        }
        copy[b] = (int32_t)length;
    }
    p->features |= CLATTN_WITH_KEY_LENGTHS;
    attention->tensors.key_lengths.data = copy;
    attention->tensors.key_lengths.stride[0] = 1;
    return NULL;
}

OrtStatus *attention_out(const struct run *run, int rank, struct attention *attention)
{
    const clattn_problem *p = &attention->problem;
    const int64_t by_heads[4] = { p->batch, p->query_heads, p->query_len, p->head_dim_v };
    const int64_t by_rows[3] = { p->batch, p->query_len, p->query_heads * p->head_dim_v };
    struct tensor out;
    TRY(run_output(run, 0, rank, rank == 4 ? by_heads : by_rows, &out));
    if (rank == 4 && out.data) {
        attention->tensors.out = host_tensor_of(&out);
        return NULL;
    }
    if (!out.data) { /* only another output is taken */
        out.data = lane_room(run->lane, SCRATCH_OUT,
                             (size_t)(by_rows[0] * by_rows[1] * by_rows[2]) * clattn_type_size(p->type));
    }
    attention->tensors.out = clattn_host_tensor_bshd(out.data, p->query_heads, p->query_len, p->head_dim_v);
    return out.data ? NULL : refuse_memory();
}

/* ---- running ----------------------------------------------------------------------------------- */

static OrtStatus *enqueue_and_wait(const struct run *run, const clattn_plan *plan, const struct attention *attention)
{
    cl_event done = NULL;
    clattn_call call = attention->call;
    call.query_len = attention->problem.query_len;
    call.key_len = attention->problem.key_len;
    const clattn_status status =
        clattn_enqueue_host(plan, run->lane->queue, &call, &attention->tensors, 0, NULL, &done);
    if (status != CLATTN_OK) {
        clFinish(run->lane->queue);
        return refuse_as_clattn(status);
    }
    const cl_int code = clWaitForEvents(1, &done);
    clReleaseEvent(done);
    return code == CL_SUCCESS ? NULL : refuse(ORT_EP_FAIL, "clattn: clWaitForEvents failed with %d", code);
}

static OrtStatus *run_planned(const struct run *run, const struct attention *attention)
{
    struct plans *plans = run->kernel->plans;
    struct kept_plan *kept;
    const clattn_plan *plan;
    TRY(plans_take(plans, &attention->problem, &kept, &plan));
    OrtStatus *status = enqueue_and_wait(run, plan, attention);
    plans_give(plans, kept);
    return status;
}

/* float32 weights, rounded to the output's 16 bits. */
static OrtStatus *round_weights(const clattn_problem *p, const float *weights, void *rounded)
{
    const int64_t columns = p->key_len, rows = p->batch * p->query_heads * p->query_len;
    const size_t row_bytes = clattn_row_bytes(p->type, columns);
    for (int64_t row = 0; row < rows && columns > 0; ++row) {
        const clattn_status status = clattn_quantise(p->type, columns, weights + row * columns, NULL, 0,
                                                     (char *)rounded + (size_t)row * row_bytes);
        if (status != CLATTN_OK) {
            return refuse_as_clattn(status);
        }
    }
    return NULL;
}

static OrtStatus *run_with_weights(const struct run *run, int index, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    const int64_t extent[4] = { p->batch, p->query_heads, p->query_len, p->key_len };
    const int is_rounded = p->type == CLATTN_FLOAT16 || p->type == CLATTN_BFLOAT16;
    struct tensor output;
    TRY(run_output(run, index, 4, extent, &output));
    if (!output.data) {
        return run_planned(run, attention);
    }
    void *weights = output.data;
    if (is_rounded) {
        weights = lane_room(run->lane, SCRATCH_WEIGHTS,
                            (size_t)(extent[0] * extent[1] * extent[2] * extent[3]) * sizeof(float));
        if (!weights) {
            return refuse_memory();
        }
    }
    p->weights = run->kernel->attributes.weights;
    attention->tensors.weights = clattn_host_tensor_bhsd(weights, extent[1], extent[2], extent[3]);
    TRY(run_planned(run, attention));
    return is_rounded ? round_weights(p, weights, output.data) : NULL;
}

OrtStatus *attention_run(const struct run *run, int index, struct attention *attention)
{
    return index >= 0 ? run_with_weights(run, index, attention) : run_planned(run, attention);
}

/* ---- caches ------------------------------------------------------------------------------------ */

void heads_copy_rows(const struct heads *from, int64_t first_row, const struct heads *to)
{
    const size_t bytes = element_bytes(to->type), row_bytes = (size_t)to->columns * bytes;
    const int64_t *s = from->at.stride, *t = to->at.stride;
    const int64_t at_once = s[2] == to->columns ? from->rows : 1; /* rows that follow one another */
    for (int64_t b = 0; b < from->batch; ++b) {
        for (int64_t h = 0; h < from->heads; ++h) {
            for (int64_t row = 0; row < from->rows; row += at_once) {
                const char *source = (const char *)from->at.data + (size_t)(b * s[0] + h * s[1] + row * s[2]) * bytes;
                char *target = (char *)to->at.data + (size_t)(b * t[0] + h * t[1] + (first_row + row) * t[2]) * bytes;
                memcpy(target, source, (size_t)at_once * row_bytes);
            }
        }
    }
}

OrtStatus *cache_memory(const struct run *run, void *present, enum scratch_use use, struct heads *cache)
{
    const size_t count = (size_t)(cache->batch * cache->heads * cache->rows * cache->columns);
    const void *data = present ? present : lane_room(run->lane, use, count * element_bytes(cache->type));
    if (!data) {
        return refuse_memory();
    }
    cache->at = clattn_host_tensor_bhsd(data, cache->heads, cache->rows, cache->columns);
    return NULL;
}

OrtStatus *join_past(const struct run *run, const struct tensor *past, const struct heads *fresh, int index,
                     enum scratch_use use, struct heads *joined)
{
    struct heads before = *fresh;
    struct tensor present;
    *joined = *fresh;
    before.rows = 0;
    if (past->data) {
        TRY(heads_of(past, 0, "a past", &before));
    }
    if (past->data && (before.batch != fresh->batch || before.heads != fresh->heads ||
                       before.columns != fresh->columns || before.type != fresh->type)) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: a past of " SHAPE " does not go with " SHAPE, EXTENTS(&before),
                      EXTENTS(fresh));
    }
    joined->rows = before.rows + fresh->rows;
    const int64_t extent[4] = { joined->batch, joined->heads, joined->rows, joined->columns };
    TRY(run_output(run, index, 4, extent, &present));
    if (!present.data && !past->data) {
        return NULL;
    }
    TRY(cache_memory(run, present.data, use, joined));
    if (past->data) {
        heads_copy_rows(&before, 0, joined);
    }
    heads_copy_rows(fresh, before.rows, joined);
    return NULL;
}
