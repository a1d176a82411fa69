/* Validation of one call against its problem: which tensors there must be, lengths, scale, strides and
 * extents. One table describes the tensors of both public structs. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cl/forward_params.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "operation/problem.h"

enum element { ELEMENT_STORAGE, ELEMENT_FLOAT, ELEMENT_BYTE, ELEMENT_BIAS, ELEMENT_WEIGHTS, ELEMENT_INT };

enum axes {
    AXES_QUERY, /* batch, query_heads, query_len, head_dim */
    AXES_KEY,   /* batch, kv_heads, key_len, head_dim */
    AXES_VALUE, /* batch, kv_heads, key_len, head_dim_v */
    AXES_OUT,   /* batch, query_heads, query_len, head_dim_v */
    AXES_ROWS,  /* batch, query_heads, query_len */
    AXES_PAIRS, /* batch, query_heads, query_len, key_len */
    AXES_HEADS, /* batch, query_heads */
    AXES_HEAD,  /* query_heads */
    AXES_BATCH, /* batch, dense */
    AXES_SEAMS  /* batch + 1, dense */
};

static const struct tensor_row {
    const char *name;
    size_t device_at, host_at; /* in clattn_tensors, clattn_host_tensors */
    enum axes axes;
    enum element element;
    int output;
    uint32_t flag; /* present exactly where the problem has this flag; 0: see is_present */
} table[TENSOR_COUNT] = {
#define ROW(field, axes, element, output, flag)                                                        \
    { #field, offsetof(clattn_tensors, field), offsetof(clattn_host_tensors, field), axes, element,    \
      output, flag }
    [TENSOR_QUERY] = ROW(query, AXES_QUERY, ELEMENT_STORAGE, 0, 0),
    [TENSOR_KEY] = ROW(key, AXES_KEY, ELEMENT_STORAGE, 0, 0),
    [TENSOR_VALUE] = ROW(value, AXES_VALUE, ELEMENT_STORAGE, 0, 0),
    [TENSOR_OUT] = ROW(out, AXES_OUT, ELEMENT_STORAGE, 1, 0),
    [TENSOR_LSE] = ROW(lse, AXES_ROWS, ELEMENT_FLOAT, 1, CLATTN_FLAG_LSE),
    [TENSOR_MASK] = ROW(mask, AXES_PAIRS, ELEMENT_BYTE, 0, CLATTN_FLAG_MASK),
    [TENSOR_BIAS] = ROW(bias, AXES_PAIRS, ELEMENT_BIAS, 0, CLATTN_FLAG_BIAS),
    [TENSOR_WEIGHTS] = ROW(weights, AXES_PAIRS, ELEMENT_WEIGHTS, 1, 0),
    [TENSOR_SLOPES] = ROW(slopes, AXES_HEADS, ELEMENT_FLOAT, 0, CLATTN_FLAG_SLOPES),
    [TENSOR_SINKS] = ROW(sinks, AXES_HEAD, ELEMENT_FLOAT, 0, CLATTN_FLAG_SINKS),
    [TENSOR_KEY_LENGTHS] = ROW(key_lengths, AXES_BATCH, ELEMENT_INT, 0, CLATTN_FLAG_KEY_LENGTHS),
    [TENSOR_QUERY_OFFSETS] = ROW(query_offsets, AXES_BATCH, ELEMENT_INT, 0, 0),
    [TENSOR_CU_QUERY] = ROW(cu_query, AXES_SEAMS, ELEMENT_INT, 0, CLATTN_FLAG_VARLEN),
    [TENSOR_CU_KEY] = ROW(cu_key, AXES_SEAMS, ELEMENT_INT, 0, CLATTN_FLAG_VARLEN),
#undef ROW
};

const char *tensor_name(enum tensor_id id)
{
    return table[id].name;
}

int tensor_is_output(enum tensor_id id)
{
    return table[id].output;
}

size_t tensor_element_bytes(const struct problem *problem, enum tensor_id id)
{
    switch (table[id].element) {
    case ELEMENT_STORAGE:
        return clattn_type_size(problem->p.type);
    case ELEMENT_BYTE:
        return 1;
    case ELEMENT_BIAS:
        return clattn_type_size(problem->p.bias_type);
    case ELEMENT_WEIGHTS:
        return problem->p.type == CLATTN_FLOAT64 ? 8 : 4;
    case ELEMENT_FLOAT:
    case ELEMENT_INT:
        break;
    }
    return 4;
}

static void set_shape(int64_t shape[4], int64_t batch, int64_t head, int64_t row, int64_t column)
{
    shape[0] = batch;
    shape[1] = head;
    shape[2] = row;
    shape[3] = column;
}

/* Rows of a packed tensor: all of them where the seams can be read, else those of one sequence. */
static int64_t packed_rows(const struct problem *problem, const struct call *call, enum tensor_id seams,
                           int64_t one)
{
    const struct tensor_place *place = &call->tensor[seams];
    if (!place->data || place->offset < 0) { /* negative: check_place refuses it */
        return one;
    }
    int64_t rows = ((const int32_t *)place->data)[place->offset + problem->p.batch];
    return rows > 0 ? rows : 0;
}

void tensor_shape(const struct problem *problem, const struct call *call, enum tensor_id id,
                  int64_t shape[4])
{
    const clattn_problem *p = &problem->p;
    int64_t batch = p->batch, rows = call->query_len, keys = call->key_len;
    if (problem->flags & CLATTN_FLAG_VARLEN && id <= TENSOR_LSE) {
        batch = p->batch > 0; /* packed: sequences follow one another on the row axis */
        rows = packed_rows(problem, call, TENSOR_CU_QUERY, rows);
        keys = packed_rows(problem, call, TENSOR_CU_KEY, keys);
    }
    switch (table[id].axes) {
    case AXES_QUERY:
        set_shape(shape, batch, p->query_heads, rows, p->head_dim);
        break;
    case AXES_KEY:
        set_shape(shape, batch, p->kv_heads, keys, p->head_dim);
        break;
    case AXES_VALUE:
        set_shape(shape, batch, p->kv_heads, keys, p->head_dim_v);
        break;
    case AXES_OUT:
        set_shape(shape, batch, p->query_heads, rows, p->head_dim_v);
        break;
    case AXES_ROWS:
        set_shape(shape, batch, p->query_heads, rows, 1);
        break;
    case AXES_PAIRS:
        keys = id == TENSOR_MASK ? call->mask_key_len : id == TENSOR_BIAS ? call->bias_key_len : keys;
        set_shape(shape, batch, p->query_heads, rows, keys);
        break;
    case AXES_HEADS:
        set_shape(shape, p->batch, p->query_heads, 1, 1);
        break;
    case AXES_HEAD:
        set_shape(shape, 1, p->query_heads, 1, 1);
        break;
    case AXES_BATCH:
        set_shape(shape, 1, 1, 1, p->batch);
        break;
    case AXES_SEAMS:
        set_shape(shape, 1, 1, 1, p->batch + 1);
        break;
    }
}

clattn_status tensor_extent(const struct problem *problem, const struct call *call, enum tensor_id id,
                            int64_t *low, int64_t *high)
{
    const struct tensor_place *place = &call->tensor[id];
    int64_t shape[4];
    tensor_shape(problem, call, id, shape);
    *low = *high = 0;
    for (int axis = 0; axis < 4; ++axis) {
        if (shape[axis] == 0) {
            return CLATTN_OK;
        }
    }
    *low = *high = place->offset;
    for (int axis = 0; axis < 4; ++axis) {
        int64_t reach, *end = place->stride[axis] < 0 ? low : high;
        if (!checked_multiply(shape[axis] - 1, place->stride[axis], &reach) ||
            !checked_add(*end, reach, end)) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "%s.stride[%d] %" PRId64 ": the tensor's %" PRId64
                             " elements on this axis do not fit 64-bit indices",
                             table[id].name, axis, place->stride[axis], shape[axis]);
        }
    }
    if (!checked_add(*high, 1, high)) {
        return error_set(CLATTN_INVALID_SHAPE, "%s.offset %" PRId64 ": does not fit 64-bit indices",
                         table[id].name, place->offset);
    }
    return CLATTN_OK;
}

static int is_present(const struct problem *problem, enum tensor_id id)
{
    if (table[id].flag) {
        return (problem->flags & table[id].flag) != 0;
    }
    if (id == TENSOR_WEIGHTS) {
        return problem->p.weights != CLATTN_WEIGHTS_NONE;
    }
    return id != TENSOR_QUERY_OFFSETS || problem->p.alignment == CLATTN_ALIGN_OFFSETS;
}

/* Elements exist on every axis (sequences count as one). Empty tensors may be NULL. */
static int is_empty(const struct problem *problem, const struct call *call, enum tensor_id id)
{
    int64_t shape[4];
    tensor_shape(problem, call, id, shape);
    return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0;
}

static clattn_status check_presence(const struct problem *problem, const struct call *call,
                                    enum tensor_id id)
{
    const struct tensor_place *place = &call->tensor[id];
    int given = place->buffer || place->data;
    if (is_present(problem, id) && !given && !is_empty(problem, call, id)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must be given, the problem has it",
                         table[id].name);
    }
    if (!is_present(problem, id) && given) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s: was given, but the problem does not have it and it would be ignored; set "
                         "its field in clattn_problem",
                         table[id].name);
    }
    return CLATTN_OK;
}

/* Inputs may broadcast; two elements of an output must not be one. */
static clattn_status check_output_strides(const struct problem *problem, const struct call *call,
                                          enum tensor_id id)
{
    int64_t shape[4];
    tensor_shape(problem, call, id, shape);
    for (int axis = 0; axis < 4 && table[id].output; ++axis) {
        if (shape[axis] > 1 && call->tensor[id].stride[axis] == 0) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s.stride[%d] 0: must not be 0, an output of %" PRId64
                             " elements on this axis would write one place more than once",
                             table[id].name, axis, shape[axis]);
        }
    }
    return CLATTN_OK;
}

static clattn_status check_place(const struct problem *problem, struct call *call, enum tensor_id id)
{
    struct tensor_place *place = &call->tensor[id];
    clattn_status status = check_presence(problem, call, id);
    if (status != CLATTN_OK || !(place->buffer || place->data)) {
        return status;
    }
    if (table[id].axes == AXES_BATCH || table[id].axes == AXES_SEAMS) {
        set_shape(place->stride, 0, 0, 0, 1);
    }
    if (place->offset < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s.offset %" PRId64 ": must be >= 0",
                         table[id].name, place->offset);
    }
    int is_storage = table[id].element == ELEMENT_STORAGE;
    if (is_storage && !problem->p.strided_columns && place->stride[3] != 1) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s.stride[3] %" PRId64 ": must be 1, or set problem.strided_columns",
                         table[id].name, place->stride[3]);
    }
    status = check_output_strides(problem, call, id);
    int64_t low = 0, high;
    if (status == CLATTN_OK) {
        status = tensor_extent(problem, call, id, &low, &high);
    }
    /* A device call does not know how many packed rows there are: fewer than one longest sequence, maybe. */
    int rows_unknown = place->buffer && problem->flags & CLATTN_FLAG_VARLEN && id <= TENSOR_LSE;
    if (status == CLATTN_OK && low < 0 && !rows_unknown) {
        status = error_set(CLATTN_INVALID_SHAPE,
                           "%s: its strides reach element %" PRId64 ", before the buffer's first",
                           table[id].name, low);
    }
    return status;
}

static clattn_status resolve_length(const char *name, int64_t given, int64_t most, int64_t *length)
{
    *length = given == -1 ? most : given;
    if (*length < 0 || *length > most) {
        return error_set(CLATTN_INVALID_SHAPE, "%s %" PRId64 ": must be -1 or 0 to %" PRId64, name,
                         given, most);
    }
    return CLATTN_OK;
}

static clattn_status resolve_values(const struct problem *problem, const clattn_call *given,
                                    struct call *call)
{
    const clattn_problem *p = &problem->p;
    clattn_status status = resolve_length("query_len", given->query_len, p->query_len, &call->query_len);
    if (status == CLATTN_OK) {
        status = resolve_length("key_len", given->key_len, p->key_len, &call->key_len);
    }
    if (status == CLATTN_OK) {
        status = resolve_length("mask_key_len", given->mask_key_len, call->key_len, &call->mask_key_len);
    }
    if (status == CLATTN_OK) {
        status = resolve_length("bias_key_len", given->bias_key_len, call->key_len, &call->bias_key_len);
    }
    if (status == CLATTN_OK) {
        status = problem_check_scale(given->has_scale, given->scale);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    call->scale = given->has_scale ? given->scale : 1.0 / sqrt((double)p->head_dim);
    call->dropout_seed = given->dropout_seed;
    call->dropout_offset = given->dropout_offset;
    return CLATTN_OK;
}

static clattn_status check_call(const struct problem *problem, const clattn_call *given,
                                struct call *call)
{
    clattn_status status = resolve_values(problem, given, call);
    for (int id = 0; id < TENSOR_COUNT && status == CLATTN_OK; ++id) {
        status = check_place(problem, call, (enum tensor_id)id);
    }
    return status;
}

static clattn_status check_size(const void *tensors, size_t given, size_t expected, const char *init)
{
    if (!tensors) {
        return error_set(CLATTN_INVALID_ARGUMENT, "tensors: must not be NULL");
    }
    if (given != expected) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "tensors.struct_size %zu: must be %zu, set by %s of the same version", given,
                         expected, init);
    }
    return CLATTN_OK;
}

clattn_status call_from_device(const struct problem *problem, const clattn_tensors *tensors,
                               struct call *call)
{
    clattn_status status = check_size(tensors, tensors ? tensors->struct_size : 0, sizeof(*tensors),
                                      "CLATTN_TENSORS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    memset(call, 0, sizeof(*call));
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        clattn_tensor tensor;
        memcpy(&tensor, (const char *)tensors + table[id].device_at, sizeof(tensor));
        call->tensor[id].buffer = tensor.buffer;
        call->tensor[id].offset = tensor.offset;
        memcpy(call->tensor[id].stride, tensor.stride, sizeof(tensor.stride));
    }
    call->workspace = tensors->workspace;
    return check_call(problem, &tensors->call, call);
}

clattn_status call_from_host(const struct problem *problem, const clattn_host_tensors *tensors,
                             struct call *call)
{
    clattn_status status = check_size(tensors, tensors ? tensors->struct_size : 0, sizeof(*tensors),
                                      "CLATTN_HOST_TENSORS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    memset(call, 0, sizeof(*call));
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        clattn_host_tensor tensor;
        memcpy(&tensor, (const char *)tensors + table[id].host_at, sizeof(tensor));
        call->tensor[id].data = tensor.data;
        call->tensor[id].offset = tensor.offset;
        memcpy(call->tensor[id].stride, tensor.stride, sizeof(tensor.stride));
    }
    return check_call(problem, &tensors->call, call);
}
