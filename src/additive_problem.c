/* Validation of additive attention. */
#include "additive_problem.h"

#include <inttypes.h>
#include <string.h>

static clattn_status check_kinds(const clattn_additive_problem *p)
{
    if (p->type == CLATTN_FLOAT64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: additive attention has float32, float16 and "
                                             "bfloat16");
    }
    if (p->features & ~(uint32_t)(CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: additive attention takes CLATTN_WITH_MASK and "
                         "CLATTN_WITH_KEY_LENGTHS",
                         p->features);
    }
    if (p->alignment == CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT, "alignment CLATTN_ALIGN_OFFSETS: additive attention has no "
                                                  "offsets; use top left or bottom right");
    }
    const struct layer_dimension dimensions[] = {
        { "batch", p->batch, 0 },           { "rows", p->rows, 0 },
        { "keys", p->keys, 0 },             { "query_dim", p->query_dim, 1 },
        { "key_dim", p->key_dim, 1 },       { "hidden_dim", p->hidden_dim, 1 },
        { "value_dim", p->value_dim, 1 },
    };
    clattn_status status =
        layer_check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    const struct layer_dimension rows = { "batch * rows", status == CLATTN_OK ? p->batch * p->rows : 0, 0 };
    return status == CLATTN_OK ? layer_check_dimensions(&rows, 1) : status;
}

static clattn_status init_attention(struct additive_problem *problem, const char *strategy)
{
    const clattn_additive_problem *p = &problem->p;
    clattn_problem attention = CLATTN_PROBLEM_INIT;
    attention.type = p->type;
    attention.batch = p->batch;
    attention.query_len = p->rows;
    attention.key_len = p->keys;
    attention.head_dim = 1;
    attention.head_dim_v = p->value_dim;
    attention.features = p->features;
    attention.bias_type = CLATTN_FLOAT32;
    attention.causal = p->causal;
    attention.alignment = p->alignment;
    attention.weights = p->weights ? CLATTN_WEIGHTS_SOFTMAX : CLATTN_WEIGHTS_NONE;
    attention.strategy = strategy;
    return problem_init(&problem->attention, &attention);
}

struct array_row {
    const char *name;
    int dims;
    int64_t shape[4];
    size_t element_bytes;
    int required;
};

static clattn_status describe_arrays(struct additive_problem *problem)
{
    const clattn_additive_problem *p = &problem->p;
    const size_t size = clattn_type_size(p->type);
    const struct array_row rows[ADDITIVE_ARRAYS] = {
        [ADDITIVE_QUERY] = { "query", 3, { p->batch, p->rows, p->query_dim, 0 }, size, 1 },
        [ADDITIVE_KEY] = { "key", 3, { p->batch, p->keys, p->key_dim, 0 }, size, 1 },
        [ADDITIVE_VALUE] = { "value", 3, { p->batch, p->keys, p->value_dim, 0 }, size, 1 },
        [ADDITIVE_WQ] = { "wq", 2, { p->hidden_dim, p->query_dim, 0, 0 }, size, 1 },
        [ADDITIVE_WK] = { "wk", 2, { p->hidden_dim, p->key_dim, 0, 0 }, size, 1 },
        [ADDITIVE_SCORE] = { "score", 1, { p->hidden_dim, 0, 0, 0 }, size, 1 },
        [ADDITIVE_OUT] = { "out", 3, { p->batch, p->rows, p->value_dim, 0 }, size, 1 },
        [ADDITIVE_MASK] = { "mask", 4, { p->batch, 1, p->rows, p->keys }, 1,
                            (p->features & CLATTN_WITH_MASK) != 0 },
        [ADDITIVE_KEY_LENGTHS] = { "key_lengths", 1, { p->batch, 0, 0, 0 }, 4,
                                   (p->features & CLATTN_WITH_KEY_LENGTHS) != 0 },
        [ADDITIVE_WEIGHTS] = { "weights", 3, { p->batch, p->rows, p->keys, 0 }, 4, p->weights != 0 },
    };
    for (int i = 0; i < ADDITIVE_ARRAYS; ++i) {
        struct layer_array *array = &problem->arrays[i];
        clattn_status status =
            layer_array_set(array, rows[i].name, rows[i].dims, rows[i].shape, rows[i].element_bytes);
        if (status != CLATTN_OK) {
            return status;
        }
        array->required = rows[i].required;
        array->output = i == ADDITIVE_OUT || i == ADDITIVE_WEIGHTS;
        array->is_weight = i >= ADDITIVE_WQ && i <= ADDITIVE_SCORE;
    }
    return CLATTN_OK;
}

clattn_status additive_problem_init(struct additive_problem *problem,
                                    const clattn_additive_problem *given)
{
    clattn_additive_problem *p = &problem->p;
    memset(problem, 0, sizeof(*problem));
    clattn_status status =
        layer_copy_struct(p, sizeof(*p), given, "problem", "CLATTN_ADDITIVE_PROBLEM_INIT");
    if (status == CLATTN_OK) {
        p->key_dim = p->key_dim ? p->key_dim : p->query_dim;
        status = check_kinds(p);
    }
    if (status == CLATTN_OK) {
        status = init_attention(problem, p->strategy);
    }
    p->strategy = NULL;
    return status == CLATTN_OK ? describe_arrays(problem) : status;
}

int64_t additive_call_count(const struct additive_problem *problem, const struct additive_call *call,
                            enum additive_array id)
{
    return id == ADDITIVE_MASK ? call->mask.count : problem->arrays[id].count;
}

/* The public strides have no head. */
static clattn_status finish(const struct additive_problem *problem, const int64_t mask_stride[3],
                            struct additive_call *call)
{
    const int64_t stride[4] = { mask_stride[0], 0, mask_stride[1], mask_stride[2] };
    clattn_status status = CLATTN_OK;
    memcpy(call->mask_stride, stride, sizeof(stride));
    call->mask = problem->arrays[ADDITIVE_MASK];
    if (call->mask.required) {
        status = layer_mask_strides(&call->mask, stride);
    }
    for (int i = 0; i < ADDITIVE_ARRAYS && status == CLATTN_OK; ++i) {
        const struct layer_place *place = &call->places[i];
        status = layer_check_given(&problem->arrays[i], place->buffer || place->data);
    }
    return status;
}

clattn_status additive_call_from_device(const struct additive_problem *problem,
                                        const clattn_additive_arrays *arrays, struct additive_call *call)
{
    clattn_additive_arrays a;
    clattn_status status =
        layer_copy_struct(&a, sizeof(a), arrays, "arrays", "CLATTN_ADDITIVE_ARRAYS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    const clattn_array given[ADDITIVE_ARRAYS] = { a.query, a.key,  a.value,       a.wq,     a.wk, a.score,
                                                  a.out,   a.mask, a.key_lengths, a.weights };
    memset(call, 0, sizeof(*call));
    for (int i = 0; i < ADDITIVE_ARRAYS; ++i) {
        call->places[i].buffer = given[i].buffer;
        call->places[i].offset = given[i].offset;
    }
    call->workspace = a.workspace;
    return finish(problem, a.mask_stride, call);
}

static clattn_status check_host_values(const struct additive_problem *problem,
                                       const struct additive_call *call)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < ADDITIVE_ARRAYS && status == CLATTN_OK; ++i) {
        if (problem->arrays[i].is_weight) {
            status = layer_check_finite(&problem->arrays[i], problem->p.type, call->places[i].data);
        }
    }
    const int32_t *lengths = call->places[ADDITIVE_KEY_LENGTHS].data;
    for (int64_t b = 0; lengths && b < problem->p.batch && status == CLATTN_OK; ++b) {
        if (lengths[b] < 0 || lengths[b] > problem->p.keys) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "key_lengths[%" PRId64 "] %d: must be 0 to keys %" PRId64, b,
                               (int)lengths[b], problem->p.keys);
        }
    }
    return status;
}

clattn_status additive_call_from_host(const struct additive_problem *problem,
                                      const clattn_additive_host_arrays *arrays,
                                      struct additive_call *call)
{
    clattn_additive_host_arrays a;
    clattn_status status =
        layer_copy_struct(&a, sizeof(a), arrays, "arrays", "CLATTN_ADDITIVE_HOST_ARRAYS_INIT");
    if (status != CLATTN_OK) {
        return status;
    }
    const void *given[ADDITIVE_ARRAYS] = { a.query, a.key,  a.value,       a.wq,     a.wk, a.score,
                                           a.out,   a.mask, a.key_lengths, a.weights };
    memset(call, 0, sizeof(*call));
    for (int i = 0; i < ADDITIVE_ARRAYS; ++i) {
        memcpy(&call->places[i].data, &given[i], sizeof(given[i])); /* inputs are only read */
    }
    status = finish(problem, a.mask_stride, call);
    return status == CLATTN_OK ? check_host_values(problem, call) : status;
}
