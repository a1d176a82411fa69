/* append: one launch for queries, keys and values, rows by vectors of columns (cl/cache/append.cl). */
#include "operation/append.h"

#include <string.h>

#include "base/stored_types.h"
#include "operation/fill_params.h"
#include "operation/overlap.h"
#include "plan/row_runs.h"
#include "strategy/strategies.h"

static int applicable(struct ask *ask)
{
    return device_computes(&ask->context->device, append_problem_of(ask->problem)->p.type, ask->why);
}

static struct work work(struct ask *ask)
{
    const clattn_append_problem *p = &append_problem_of(ask->problem)->p;
    const double heads = (double)(p->query_heads + 2 * p->kv_heads);
    return (struct work){ .rate = RATE_ROWS,
                          .alone_ms = 1e-6 * (double)(p->batch * p->query_len) * heads * (double)p->head_dim };
}

static void append_options(const struct device *device, const struct append_problem *problem, struct text *options)
{
    const clattn_append_problem *p = &problem->p;
    const int pool = p->page_size == 0 ? 0 : append_pools(p) == 1 ? 1 : 2;
    text_append(options, " -D KEY_TYPE=%d -D VALUE_TYPE=%d -D HEAD_DIM_V=%d -D POOL=%d -D RING=%d", (int)p->key_type,
                (int)p->value_type, (int)p->head_dim_v, pool, p->ring > 0);
    text_append(options, " -D KEY_SCALE_COLUMNS=%d -D VALUE_SCALE_COLUMNS=%d", scale_share(p->key_scale_columns),
                scale_share(p->value_scale_columns));
    /* A block of codes fills the registers of Intel's larger GPUs. */
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least >= 16) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct append_problem *problem = append_problem_of(plan->problem);
    const clattn_append_problem *p = &problem->p;
    const int has_blocks = type_is_blocks(p->key_type) || type_is_blocks(p->value_type);
    const struct row_shape shape = { p->type,
                                     p->head_dim,
                                     p->head_dim_v,
                                     has_blocks,
                                     p->strided_columns,
                                     norms_are_there(&problem->norms),
                                     { type_makes_scales(p->key_type) ? p->key_scale_columns : 0,
                                       type_makes_scales(p->value_type) ? p->value_scale_columns : 0 } };
    struct text options = TEXT_INIT;
    append_options(&ask->context->device, problem, &options);
    return row_runs_plan(ask, plan, "cache/append.cl", "append", &shape, &problem->turning, &options);
}

static void fill(const struct append_problem *problem, const struct operands *operands, int64_t query_len,
                 clattn_append_params *params)
{
    const clattn_append_problem *p = &problem->p;
    memset(params, 0, sizeof(*params));
    operands_fill(operands, params);
    turning_fill(&problem->turning, p->batch, query_len, (clattn_turn_params *)params);
    params->norm_epsilon_real = real_bits(p->type, problem->norms.epsilon);
    params->query_heads = (int)p->query_heads;
    params->kv_heads = (int)p->kv_heads;
    params->capacity = (int)p->capacity;
    params->page_size = (int)p->page_size;
    params->pages = (int)p->pages;
    params->ring = (int)p->ring;
    params->pinned = (int)p->pinned;
    params->key_scale_rows = scale_share(p->key_scale_rows);
    params->value_scale_rows = scale_share(p->value_scale_rows);
    params->in_place = p->query_heads > 0 && operands_are_one_place(operands, APPEND_QUERY, APPEND_QUERY_OUT);
}

/* A pool of several buffers: a launch for each, to which the pages of the others are none, and of which the first turns
 * the queries. */
static clattn_status enqueue_pool(const struct clattn_plan *plan, const struct append_call *call, int pool,
                                  struct chain *chain)
{
    const clattn_append_problem *p = &append_problem_of(plan->problem)->p;
    struct operands here = call->operands;
    clattn_append_params params;
    here.tensor[APPEND_KEY_CACHE] = call->operands.tensor[append_pool(APPEND_KEY_CACHE, pool)];
    here.tensor[APPEND_VALUE_CACHE] = call->operands.tensor[append_pool(APPEND_VALUE_CACHE, pool)];
    fill(append_problem_of(plan->problem), &here, call->query_len, &params);
    if (p->pool_pages > 0) {
        params.first_page = (int)(pool * p->pool_pages);
        params.pages = (int)pools_pages(p->pages, p->pool_pages, pool);
        params.query_heads = pool == 0 ? params.query_heads : 0;
        params.key_scales_offset += params.first_page * params.key_scales_stride[0];
        params.value_scales_offset += params.first_page * params.value_scales_stride[0];
        params.key_scales_out_offset += params.first_page * params.key_scales_out_stride[0];
        params.value_scales_out_offset += params.first_page * params.value_scales_out_stride[0];
        params.key_zero_points_offset += params.first_page * params.key_zero_points_stride[0];
        params.value_zero_points_offset += params.first_page * params.value_zero_points_stride[0];
    }
    return row_runs_enqueue(plan, &here, APPEND_ARGUMENTS, (struct launch_argument)ARGUMENT(params),
                            p->batch * call->query_len, params.query_heads + p->kv_heads, chain);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const clattn_append_problem *p = &append_problem_of(plan->problem)->p;
    const int pools = p->kv_heads > 0 ? append_pools(p) : 1;
    clattn_status status = CLATTN_OK;
    for (int pool = 0; pool < pools && status == CLATTN_OK; ++pool) {
        if (pool + 1 == pools) {
            chain_final(chain);
        }
        status = enqueue_pool(plan, append_call_of(operands), pool, chain);
    }
    return status;
}

const struct strategy strategy_append = {
    .operation = &operation_append,
    .name = "rows",
    .summary = "each row by vectors of columns, any device",
    .types = STRATEGY_64_BITS,
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct row_runs),
    .plan = plan,
    .enqueue = enqueue,
};
