/* append: one launch for queries, keys and values, rows by vectors of columns (cl/append.cl). */
#include "operation/append.h"

#include <string.h>

#include "base/stored_types.h"
#include "operation/fill_params.h"
#include "operation/overlap.h"
#include "plan/row_runs.h"
#include "strategy/strategies.h"

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    return device_computes(&context->device, append_problem_of(any)->p.type, why);
}

static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const clattn_append_problem *p = &append_problem_of(any)->p;
    (void)context;
    return 0.02 +
           1e-6 * (double)(p->batch * p->query_len) * (double)(p->query_heads + 2 * p->kv_heads) * (double)p->head_dim;
}

static void append_options(const struct device *device, const struct append_problem *problem, struct text *options)
{
    const clattn_append_problem *p = &problem->p;
    text_append(options, " -D KEY_TYPE=%d -D VALUE_TYPE=%d -D HEAD_DIM_V=%d -D POOL=%d -D RING=%d", (int)p->key_type,
                (int)p->value_type, (int)p->head_dim_v, p->page_size > 0, p->ring > 0);
    text_append(options, " -D KEY_SCALE_COLUMNS=%d -D VALUE_SCALE_COLUMNS=%d", scale_share(p->key_scale_columns),
                scale_share(p->value_scale_columns));
    /* A block of codes fills the registers of Intel's larger GPUs. */
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least >= 16) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const struct append_problem *problem = append_problem_of(plan->problem);
    const clattn_append_problem *p = &problem->p;
    const struct row_shape shape = { p->type, p->head_dim, p->head_dim_v,
                                     type_is_blocks(p->key_type) || type_is_blocks(p->value_type), p->strided_columns };
    struct text options = TEXT_INIT;
    append_options(&plan->context->device, problem, &options);
    return row_runs_plan(plan, "append.cl", "append", &shape, &problem->turning, &options, explain);
}

static void fill(const struct append_problem *problem, const struct append_call *call, clattn_append_params *params)
{
    const clattn_append_problem *p = &problem->p;
    memset(params, 0, sizeof(*params));
    operands_fill(&call->operands, params);
    turning_fill(&problem->turning, p->batch, call->query_len, (clattn_turn_params *)params);
    params->query_heads = (int)p->query_heads;
    params->kv_heads = (int)p->kv_heads;
    params->capacity = (int)p->capacity;
    params->page_size = (int)p->page_size;
    params->pages = (int)p->pages;
    params->ring = (int)p->ring;
    params->pinned = (int)p->pinned;
    params->key_scale_rows = scale_share(p->key_scale_rows);
    params->value_scale_rows = scale_share(p->value_scale_rows);
    params->in_place = p->query_heads > 0 && operands_are_one_place(&call->operands, APPEND_QUERY, APPEND_QUERY_OUT);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct append_problem *problem = append_problem_of(plan->problem);
    const struct append_call *call = append_call_of(operands);
    clattn_append_params params;
    fill(problem, call, &params);
    return row_runs_enqueue(plan, operands, (struct launch_argument)ARGUMENT(params),
                            problem->p.batch * call->query_len, problem->p.query_heads + problem->p.kv_heads, chain);
}

const struct strategy strategy_append = {
    .operation = &operation_append,
    .name = "rows",
    .summary = "each row by vectors of columns, any device",
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = row_runs_destroy,
};
