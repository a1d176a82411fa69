/* Validation of additive attention. */
#include "operation/additive_problem.h"

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

static clattn_status describe_arrays(struct additive_problem *problem)
{
    const clattn_additive_problem *p = &problem->p;
    const size_t size = clattn_type_size(p->type);
    const struct layer_array arrays[ADDITIVE_ARRAYS] = {
        [ADDITIVE_QUERY] = { "query", LAYER_INPUT, 3, { p->batch, p->rows, p->query_dim, 0 },
                             size, 1, 0 },
        [ADDITIVE_KEY] = { "key", LAYER_INPUT, 3, { p->batch, p->keys, p->key_dim, 0 }, size, 1, 0 },
        [ADDITIVE_VALUE] = { "value", LAYER_INPUT, 3, { p->batch, p->keys, p->value_dim, 0 },
                             size, 1, 0 },
        [ADDITIVE_WQ] = { "wq", LAYER_WEIGHT, 2, { p->hidden_dim, p->query_dim, 0, 0 }, size, 1, 0 },
        [ADDITIVE_WK] = { "wk", LAYER_WEIGHT, 2, { p->hidden_dim, p->key_dim, 0, 0 }, size, 1, 0 },
        [ADDITIVE_SCORE] = { "score", LAYER_WEIGHT, 1, { p->hidden_dim, 0, 0, 0 }, size, 1, 0 },
        [ADDITIVE_OUT] = { "out", LAYER_OUTPUT, 3, { p->batch, p->rows, p->value_dim, 0 }, size, 1, 0 },
        [ADDITIVE_MASK] = { "mask", LAYER_INPUT, 4, { p->batch, 1, p->rows, p->keys },
                            1, (p->features & CLATTN_WITH_MASK) != 0, 0 },
        [ADDITIVE_KEY_LENGTHS] = { "key_lengths", LAYER_INPUT, 1, { p->batch, 0, 0, 0 },
                                   4, (p->features & CLATTN_WITH_KEY_LENGTHS) != 0, 0 },
        [ADDITIVE_WEIGHTS] = { "weights", LAYER_OUTPUT, 3, { p->batch, p->rows, p->keys, 0 },
                               4, p->weights != 0, 0 },
    };
    memcpy(problem->arrays, arrays, sizeof(arrays));
    return layer_describe(problem->arrays, ADDITIVE_ARRAYS);
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
    return status == CLATTN_OK ? layer_check_places(problem->arrays, call->places, ADDITIVE_ARRAYS) : status;
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
    layer_places_on_device(given, ADDITIVE_ARRAYS, call->places);
    call->workspace = a.workspace;
    return finish(problem, a.mask_stride, call);
}

static clattn_status check_host_values(const struct additive_problem *problem,
                                       const struct additive_call *call)
{
    clattn_status status =
        layer_check_weights(problem->arrays, call->places, ADDITIVE_ARRAYS, problem->p.type);
    const int32_t *lengths = call->places[ADDITIVE_KEY_LENGTHS].data;
    return status == CLATTN_OK
               ? layer_check_key_lengths(lengths, problem->p.batch, "keys", problem->p.keys)
               : status;
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
    layer_places_on_host(given, ADDITIVE_ARRAYS, call->places);
    status = finish(problem, a.mask_stride, call);
    return status == CLATTN_OK ? check_host_values(problem, call) : status;
}
