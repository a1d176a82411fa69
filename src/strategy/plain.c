/* plain: one work-item for a few columns of an output row; takes every problem on every device. */
#include "base/checked_math.h"
#include "cl/plain/plain_layout.h"
#include "plan/attention_arguments.h"
#include "strategy/strategies.h"

#define ROWS_PER_GROUP 16

/* Multiply-adds that one launch may do: some seconds on a slow device, so that a watchdog does not
 * strike. Longer calls are cut along heads and rows, which changes no bit of the result. */
#define LAUNCH_WORK_MAX 2e10

struct plain_state {
    struct kernel *kernel;
    size_t rows_per_group;
};

static int applicable(struct ask *ask)
{
    return attention_is_served(ask, 0);
}

static int64_t column_blocks(int64_t head_dim_v)
{
    return ceil_div(head_dim_v, PLAIN_COLUMNS);
}

static double row_work(const struct problem *problem, int64_t key_len)
{
    const clattn_problem *p = &problem->p;
    return (double)column_blocks(p->head_dim_v) * (double)key_len * (2.0 * (double)p->head_dim + PLAIN_COLUMNS + 40);
}

static struct work work(struct ask *ask)
{
    const struct problem *problem = attention_problem(ask->problem);
    const clattn_problem *p = &problem->p;
    const double rows = (double)p->batch * (double)p->query_heads * (double)p->query_len;
    return (struct work){ .rate = RATE_SCALAR, .multiply_adds = rows * row_work(problem, p->key_len) };
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    const struct device *device = &ask->context->device;
    struct plain_state *state = plan->state;
    const int wants_registers = (problem->p.type == CLATTN_FLOAT64 || problem_has_codes(problem)) &&
                                device->device_class == DEVICE_GPU && device->sub_group_size_least > 0;
    struct text options = TEXT_INIT;
    size_t limit = ROWS_PER_GROUP;
    append_type_options(problem, &options);
    text_append(&options, " -D PAGED=%d", problem->p.page_size > 0);
    append_storage_options(problem, &options);
    text_append(&options, "%s", wants_registers ? " -cl-intel-256-GRF-per-thread" : "");
    const clattn_status status = ask_kernel(ask, "plain/plain.cl", &options, "plain", &state->kernel, &limit);
    text_free(&options);
    state->rows_per_group = ROWS_PER_GROUP;
    while (state->rows_per_group > limit || state->rows_per_group > device->work_item_limit[0]) {
        state->rows_per_group /= 2;
    }
    text_append(ask->explain, "  tile: %zu rows a work-group, %d columns a work-item\n", state->rows_per_group,
                PLAIN_COLUMNS);
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct plain_state *state = plan->state;
    struct attention_given given;
    attention_give(plan, operands, &given);
    const clattn_params *p = &given.params;
    const double work = row_work(attention_problem(plan->problem), p->key_len + (int64_t)1);
    struct launch_part part = launch_parts(p->query_len, (int64_t)p->batch * p->query_heads, LAUNCH_WORK_MAX / work);
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&part)) {
        const cl_int first_row = (cl_int)part.first, first_head = (cl_int)part.first_plane;
        const size_t local[3] = { state->rows_per_group, 1, 1 };
        const size_t global[3] = { (size_t)round_up(part.count, (int64_t)local[0]),
                                   (size_t)column_blocks(p->head_dim_v), (size_t)part.planes };
        struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 2];
        const size_t count = attention_arguments(&given, arguments);
        arguments[count] = (struct launch_argument)ARGUMENT(first_row);
        arguments[count + 1] = (struct launch_argument)ARGUMENT(first_head);
        if (part.is_last) {
            chain_final(chain);
        }
        status = launch(chain, state->kernel, 3, global, local, count + 2, arguments);
    }
    return status;
}

const struct strategy strategy_plain = {
    .operation = &operation_forward,
    .name = "plain",
    .summary = "one work-item a few output columns; takes everything, any device",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS | CLATTN_FLAG_KEY_LISTS,
    .takes = CLATTN_TAKES_LSE | CLATTN_TAKES_PAIRS | CLATTN_TAKES_ROWS,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 144, /* 64 + 3, row sums 64 + 3, rescales */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct plain_state),
    .plan = plan,
    .enqueue = enqueue,
};
