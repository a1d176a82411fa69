/* plain: one work-item for a few columns of an output row; takes every problem on every device. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cl/plain_layout.h"
#include "plan/attention_arguments.h"
#include "strategy/strategies.h"

#define ROWS_PER_GROUP 16

/* Multiply-adds that one launch may do: some seconds on a slow device, so that a watchdog does not
 * strike. Longer calls are cut along heads and rows, which changes no bit of the result. */
#define LAUNCH_WORK_MAX 2e10

/* What a program is built with or without; the others are asked at run time. */
#define RARE_FEATURES CLATTN_FLAG_ROW_RANGES

struct plain_state {
    struct kernel *kernel;
    size_t rows_per_group;
};

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    return device_computes(&context->device, problem->p.type, why) && attention_arguments_fit(&context->device, why);
}

static double row_work(const struct problem *problem, int64_t key_len)
{
    const clattn_problem *p = &problem->p;
    double blocks = (double)((p->head_dim_v + PLAIN_COLUMNS - 1) / PLAIN_COLUMNS);
    return blocks * (double)key_len * (2.0 * (double)p->head_dim + PLAIN_COLUMNS + 40);
}

static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    double work = row_work(problem, p->key_len) * (double)p->batch * (double)p->query_heads * (double)p->query_len;
    /* About 0.5 multiply-adds a nanosecond and compute unit: scalar code. */
    return 0.02 + work * 2e-6 / (double)context->device.compute_units;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    const struct problem *problem = attention_problem(plan->problem);
    struct plain_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    const struct device *device = &context->device;
    const int wants_registers = (problem->p.type == CLATTN_FLOAT64 || problem_has_codes(problem)) &&
                                device->device_class == DEVICE_GPU && device->sub_group_size_least > 0;
    struct text options = TEXT_INIT;
    append_type_options(problem, &options);
    text_append(&options, " -D PAGED=%d -D ABSENT=0x%xu", problem->p.page_size > 0, ~problem->flags & RARE_FEATURES);
    append_storage_options(problem, &options);
    text_append(&options, "%s", wants_registers ? " -cl-intel-256-GRF-per-thread" : "");
    clattn_status status = options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                                          : program_kernel(context, "plain.cl", options.data, "plain", &state->kernel);
    text_free(&options);
    size_t limit = 1;
    if (status == CLATTN_OK) {
        status = kernel_work_group_limit(state->kernel, &limit);
    }
    state->rows_per_group = ROWS_PER_GROUP;
    while (state->rows_per_group > limit || state->rows_per_group > context->device.work_item_limit[0]) {
        state->rows_per_group /= 2;
    }
    text_append(explain, "  tile: %zu rows a work-group, %d columns a work-item\n", state->rows_per_group,
                PLAIN_COLUMNS);
    return status;
}

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct plain_state *state = plan->state;
    clattn_params params;
    clattn_pools several;
    attention_params(plan, operands, &params);
    const clattn_pools *pools = attention_pools(plan, operands, &several);
    const int64_t heads = (int64_t)params.batch * params.query_heads, rows = params.query_len;
    const double work = row_work(attention_problem(plan->problem), params.key_len + (int64_t)1);
    const double rows_at_once = LAUNCH_WORK_MAX / work;
    const int64_t row_step = launch_share(rows, rows_at_once);
    const int64_t head_step = launch_head_share(heads, rows_at_once / (double)rows);
    const size_t blocks = ((size_t)params.head_dim_v + PLAIN_COLUMNS - 1) / PLAIN_COLUMNS;
    clattn_status status = CLATTN_OK;
    for (int64_t head = 0; head < heads && status == CLATTN_OK; head += head_step) {
        for (int64_t row = 0; row < rows && status == CLATTN_OK; row += row_step) {
            cl_int first_row = (cl_int)row, first_head = (cl_int)head;
            size_t row_count = (size_t)(rows - row < row_step ? rows - row : row_step);
            size_t head_count = (size_t)(heads - head < head_step ? heads - head : head_step);
            size_t global[3] = { round_up(row_count, state->rows_per_group), blocks, head_count };
            size_t local[3] = { state->rows_per_group, 1, 1 };
            struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 2];
            const size_t count = attention_arguments(&params, pools, operands, arguments);
            arguments[count] = (struct launch_argument)ARGUMENT(first_row);
            arguments[count + 1] = (struct launch_argument)ARGUMENT(first_head);
            if (head + head_step >= heads && row + row_step >= rows) {
                chain_final(chain);
            }
            status = launch(chain, state->kernel, 3, global, local, count + 2, arguments);
        }
    }
    return status;
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_plain = {
    .operation = &operation_forward,
    .name = "plain",
    .summary = "one work-item a few output columns; takes everything, any device",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .sum_roundings = 144, /* 64 + 3, row sums 64 + 3, rescales */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
