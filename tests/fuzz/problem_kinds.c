#include <stddef.h>
#include <string.h>

#include "offline/null_driver.h"
#include "plan/strategy.h"
#include "problem_kinds.h"

const char *fuzz_strategy(unsigned number)
{
    const size_t n = number % (strategy_count + 2);
    return n < strategy_count ? strategy_table[n]->name : n == strategy_count ? NULL : "none";
}

/* ---- fields ---- */

#define IS_REAL(field) _Generic(((struct trial *)0)->field, double : 1, default : 0)
#define IS_NAME(field) _Generic(((struct trial *)0)->field, const char * : 1, default : 0)
#define BYTES_OF(field) sizeof(((struct trial *)0)->field)
#define FIELD(field)                                                                                                   \
    {                                                                                                                  \
        offsetof(struct trial, field), BYTES_OF(field), IS_REAL(field), IS_NAME(field)                                 \
    }
#define P(name) FIELD(problem.forward.name)
#define V(name) FIELD(values.name)
#define B(name) FIELD(problem.backward.name)
#define A(name) FIELD(problem.append.name)
#define R(name) FIELD(problem.rotary.name)
#define M(name) FIELD(problem.mha.name)
#define D(name) FIELD(problem.additive.name)

/* clang-format off */
#define FORWARD_FIELDS \
    P(type), P(batch), P(query_heads), P(kv_heads), P(query_len), P(key_len), P(head_dim), P(head_dim_v), P(features), \
    P(bias_type), P(weights), P(causal), P(alignment), P(window_left), P(window_right), P(always_visible_keys), \
    P(softcap), P(dropout), P(strided_columns), P(matmul), P(strategy), P(allow_tf32), P(key_type), P(value_type), \
    P(out_type), P(page_size), P(pages), P(key_scale_rows), P(key_scale_columns), P(value_scale_rows), \
    P(value_scale_columns), P(ring), P(allow_rounded_weights), P(pool_pages), V(query_len), V(key_len), \
    V(mask_key_len), V(bias_key_len), V(has_scale), V(scale), V(dropout_seed), V(dropout_offset), V(first_batch), \
    V(first_head), V(first_row), V(first_key), V(whole_heads), V(mask_first_key), P(mask_bits)
static const struct field forward_fields[] = { FORWARD_FIELDS };
static const struct field backward_fields[] = {
    FORWARD_FIELDS, B(gradients), B(accumulate), B(features), B(gradient_type), B(strategy) };
static const struct field append_fields[] = {
    A(type), A(pairs), A(key_type), A(value_type), A(batch), A(query_heads), A(kv_heads), A(query_len), A(head_dim),
    A(head_dim_v), A(capacity), A(page_size), A(pages), A(pool_pages), A(ring), A(pinned), A(first_column), A(columns),
    A(positions), A(key_scale_rows), A(key_scale_columns), A(value_scale_rows), A(value_scale_columns), A(features),
    A(inverse), A(strided_columns), A(strategy), FIELD(cache_values.query_len) };
static const struct field rotary_fields[] = {
    R(type), R(pairs), R(batch), R(heads), R(query_len), R(head_dim), R(first_column), R(columns), R(positions),
    R(features), R(inverse), R(strided_columns), R(strategy), FIELD(cache_values.query_len) };
static const struct field mha_fields[] = {
    M(type), M(batch), M(rows), M(context_rows), M(model_dim), M(context_dim), M(query_heads), M(kv_heads),
    M(head_dim), M(head_dim_v), M(out_dim), M(parts), M(features), M(causal), M(alignment), M(weights), M(has_scale),
    M(scale), M(projection), M(strategy), FIELD(problem.with_gradients), FIELD(problem.gradients) };
static const struct field additive_fields[] = {
    D(type), D(batch), D(rows), D(keys), D(query_dim), D(key_dim), D(hidden_dim), D(value_dim), D(features),
    D(causal), D(alignment), D(weights), D(strategy), FIELD(problem.with_gradients), FIELD(problem.gradients) };
/* clang-format on */

/* NULL where the call was refused before there were operands. */
static const struct operands *known(const struct operands *operands)
{
    return operands->operation ? operands : NULL;
}

/* ---- attention ---- */

static void start_forward(struct trial *trial)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.batch = problem.kv_heads = 2;
    problem.query_heads = 4;
    problem.query_len = problem.key_len = 5;
    problem.head_dim = 32;
    trial->problem.forward = problem;
    trial->values = (clattn_call)CLATTN_CALL_INIT;
    trial->device.forward = (clattn_tensors)CLATTN_TENSORS_INIT;
    trial->host.forward = (clattn_host_tensors)CLATTN_HOST_TENSORS_INIT;
}

static clattn_status plan_forward(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    return clattn_plan_create(context, &trial->problem.forward, plan);
}

static clattn_status look_forward(struct trial *trial, const struct operands **operands)
{
    struct problem problem;
    clattn_status status = problem_init(&problem, &trial->problem.forward);
    if (status == CLATTN_OK) {
        status = call_from_device(&problem, &trial->values, &trial->device.forward, &trial->checked.forward);
    }
    *operands = known(&trial->checked.forward.operands);
    return status;
}

static void set_workspace(struct trial *trial, const clattn_plan *plan)
{
    trial->device.forward.workspace = clattn_plan_workspace(plan) > 0 ? null_driver_buffer() : NULL;
}

static clattn_status enqueue_forward(struct trial *trial, const clattn_plan *plan, cl_command_queue queue)
{
    set_workspace(trial, plan);
    return clattn_enqueue_forward(plan, queue, &trial->values, &trial->device.forward, 0, NULL, NULL);
}

static clattn_status reference_forward_of(struct trial *trial)
{
    return clattn_reference_forward(&trial->problem.forward, &trial->values, &trial->host.forward);
}

/* ---- its gradients ---- */

static void start_backward(struct trial *trial)
{
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    start_forward(trial);
    problem.forward = &trial->problem.forward;
    problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    trial->problem.backward = problem;
    trial->device.gradients = (clattn_gradients)CLATTN_GRADIENTS_INIT;
    trial->host.gradients = (clattn_host_gradients)CLATTN_HOST_GRADIENTS_INIT;
}

static clattn_status plan_backward(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    return clattn_backward_plan_create(context, &trial->problem.backward, plan);
}

static clattn_status look_backward(struct trial *trial, const struct operands **operands)
{
    struct backward_problem problem;
    clattn_status status = backward_problem_init(&problem, &trial->problem.backward);
    if (status == CLATTN_OK) {
        status = backward_call_from_device(&problem, &trial->values, &trial->device.forward, &trial->device.gradients,
                                           &trial->checked.forward);
    }
    *operands = known(&trial->checked.forward.operands);
    return status;
}

static clattn_status enqueue_backward(struct trial *trial, const clattn_plan *plan, cl_command_queue queue)
{
    set_workspace(trial, plan);
    return clattn_enqueue_backward(plan, queue, &trial->values, &trial->device.forward, &trial->device.gradients, 0,
                                   NULL, NULL);
}

static clattn_status reference_backward_of(struct trial *trial)
{
    return clattn_reference_backward(&trial->problem.backward, &trial->values, &trial->host.forward,
                                     &trial->host.gradients);
}

/* ---- caches ---- */

static void start_append(struct trial *trial)
{
    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    problem.batch = problem.kv_heads = 2;
    problem.query_len = 3;
    problem.capacity = 7;
    problem.head_dim = 32;
    problem.features = CLATTN_WITH_STARTS;
    trial->problem.append = problem;
    trial->cache_values = (clattn_cache_call)CLATTN_CACHE_CALL_INIT;
    trial->device.append = (clattn_append_tensors)CLATTN_APPEND_TENSORS_INIT;
    trial->host.append = (clattn_append_host_tensors)CLATTN_APPEND_HOST_TENSORS_INIT;
}

static clattn_status plan_append(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    return clattn_append_plan_create(context, &trial->problem.append, plan);
}

static clattn_status look_append(struct trial *trial, const struct operands **operands)
{
    struct append_problem problem;
    clattn_status status = any_problem_init(&problem.any, &operation_append, &trial->problem.append);
    if (status == CLATTN_OK) {
        status = any_call_from_device(&problem.any, GIVEN(&trial->cache_values, &trial->device.append),
                                      &trial->checked.append.operands);
    }
    *operands = known(&trial->checked.append.operands);
    return status;
}

static clattn_status enqueue_append(struct trial *trial, const clattn_plan *plan, cl_command_queue queue)
{
    return clattn_enqueue_append(plan, queue, &trial->cache_values, &trial->device.append, 0, NULL, NULL);
}

static clattn_status reference_append_of(struct trial *trial)
{
    return clattn_reference_append(&trial->problem.append, &trial->cache_values, &trial->host.append);
}

static void start_rotary(struct trial *trial)
{
    clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    problem.pairs = CLATTN_PAIRS_HALVES;
    problem.batch = problem.heads = 2;
    problem.query_len = 5;
    problem.positions = 9;
    problem.head_dim = 8;
    problem.features = CLATTN_WITH_POSITIONS;
    trial->problem.rotary = problem;
    trial->cache_values = (clattn_cache_call)CLATTN_CACHE_CALL_INIT;
    trial->device.rotary = (clattn_rotary_tensors)CLATTN_ROTARY_TENSORS_INIT;
    trial->host.rotary = (clattn_rotary_host_tensors)CLATTN_ROTARY_HOST_TENSORS_INIT;
}

static clattn_status plan_rotary(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    return clattn_rotary_plan_create(context, &trial->problem.rotary, plan);
}

static clattn_status look_rotary(struct trial *trial, const struct operands **operands)
{
    struct rotary_problem problem;
    clattn_status status = any_problem_init(&problem.any, &operation_rotary, &trial->problem.rotary);
    if (status == CLATTN_OK) {
        status = any_call_from_device(&problem.any, GIVEN(&trial->cache_values, &trial->device.rotary),
                                      &trial->checked.rotary.operands);
    }
    *operands = known(&trial->checked.rotary.operands);
    return status;
}

static clattn_status enqueue_rotary(struct trial *trial, const clattn_plan *plan, cl_command_queue queue)
{
    return clattn_enqueue_rotary(plan, queue, &trial->cache_values, &trial->device.rotary, 0, NULL, NULL);
}

static clattn_status reference_rotary_of(struct trial *trial)
{
    return clattn_reference_rotary(&trial->problem.rotary, &trial->cache_values, &trial->host.rotary);
}

/* ---- layers: their memory and their plans ---- */

static void start_mha(struct trial *trial)
{
    trial->problem.mha = (clattn_mha_problem)CLATTN_MHA_PROBLEM_INIT;
    trial->problem.mha.rows = 5;
    trial->problem.mha.model_dim = 32;
    trial->problem.mha.query_heads = 2;
    trial->problem.gradients = CLATTN_MHA_GRADIENT_BO;
}

static clattn_status plan_mha(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    clattn_mha_backward_problem problem = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_backward *backward = NULL;
    clattn_mha *mha = NULL;
    clattn_status status;
    (void)plan;
    if (!trial->problem.with_gradients) {
        status = clattn_mha_create(context, &trial->problem.mha, &mha);
        clattn_mha_destroy(mha);
        return status;
    }
    problem.forward = &trial->problem.mha;
    problem.gradients = trial->problem.gradients;
    status = clattn_mha_backward_create(context, &problem, &backward);
    clattn_mha_backward_destroy(backward);
    return status;
}

static void start_additive(struct trial *trial)
{
    trial->problem.additive = (clattn_additive_problem)CLATTN_ADDITIVE_PROBLEM_INIT;
    trial->problem.additive.rows = trial->problem.additive.keys = 5;
    trial->problem.additive.query_dim = trial->problem.additive.hidden_dim = 8;
    trial->problem.additive.value_dim = 8;
    trial->problem.gradients = CLATTN_ADDITIVE_GRADIENT_QUERY;
}

static clattn_status plan_additive(clattn_context *context, struct trial *trial, clattn_plan **plan)
{
    clattn_additive_backward_problem problem = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_backward *backward = NULL;
    clattn_additive *additive = NULL;
    clattn_status status;
    (void)plan;
    if (!trial->problem.with_gradients) {
        status = clattn_additive_create(context, &trial->problem.additive, &additive);
        clattn_additive_destroy(additive);
        return status;
    }
    problem.forward = &trial->problem.additive;
    problem.gradients = trial->problem.gradients;
    status = clattn_additive_backward_create(context, &problem, &backward);
    clattn_additive_backward_destroy(backward);
    return status;
}

#define COUNT(fields) fields, sizeof(fields) / sizeof((fields)[0])
const struct kind kinds[] = {
    { COUNT(forward_fields), start_forward, plan_forward, look_forward, enqueue_forward, reference_forward_of },
    { COUNT(backward_fields), start_backward, plan_backward, look_backward, enqueue_backward, reference_backward_of },
    { COUNT(append_fields), start_append, plan_append, look_append, enqueue_append, reference_append_of },
    { COUNT(rotary_fields), start_rotary, plan_rotary, look_rotary, enqueue_rotary, reference_rotary_of },
    { COUNT(mha_fields), start_mha, plan_mha, NULL, NULL, NULL },
    { COUNT(additive_fields), start_additive, plan_additive, NULL, NULL, NULL },
};
const size_t kind_count = sizeof(kinds) / sizeof(kinds[0]);
