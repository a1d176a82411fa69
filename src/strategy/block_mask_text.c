/* block_mask: a work-item a block of the mask (cl/pair/block_mask.cl). */
#include "operation/block_mask.h"

#include "plan/attention_arguments.h"
#include "plan/code_programs.h"
#include "strategy/strategies.h"

#define GROUP_ITEMS 16 /* of a GPU */

/* Pairs that one launch may ask about, so that no watchdog strikes. */
#define LAUNCH_PAIRS_MOST 2e9

struct block_mask_state {
    struct kernel *kernel;
    size_t items;
};

static int applicable(struct ask *ask)
{
    return attention_is_served(ask, 24);
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double rows = (double)p->batch * (double)p->query_heads * (double)p->query_len;
    return (struct work){ .rate = RATE_ROWS, .alone_ms = 1e-6 * rows * (double)p->key_len };
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct block_mask_state *state = plan->state;
    struct text options = TEXT_INIT;
    const int is_cpu = ask->context->device.device_class == DEVICE_CPU;
    size_t limit = GROUP_ITEMS;
    text_append(&options, "-D TYPE=%d -D PAGED=%d", (int)problem->p.type, problem->p.page_size > 0);
    append_block_mask_options(problem, &options);
    if (is_cpu && !(ask->context->device.quirks & QUIRK_NO_LARGE_VECTORS) && problem->p.type != CLATTN_FLOAT64) {
        append_code_width(ask, &options);
    }
    const clattn_status status = ask->failure != CLATTN_OK ? ask->failure
                                                           : ask_kernel(ask, "pair/block_mask.cl", &options,
                                                                        "block_mask_of_text", &state->kernel, &limit);
    text_free(&options);
    state->items = is_cpu ? 1 : limit;
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct block_mask_state *state = plan->state;
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct attention_given given;
    int64_t shape[4];
    operand_shape(operands, TENSOR_BLOCK_MASK, shape);
    attention_give(plan, operands, &given);
    struct launch_part part =
        launch_parts(shape[2] * shape[3], shape[0] * shape[1],
                     LAUNCH_PAIRS_MOST / ((double)p->block_mask_rows * (double)p->block_mask_keys));
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&part)) {
        const cl_long first = part.first;
        const cl_int first_head = (cl_int)part.first_plane;
        const size_t local[3] = { state->items, 1, 1 };
        const size_t global[3] = { (size_t)(part.count + (int64_t)local[0] - 1) / local[0] * local[0], 1,
                                   (size_t)part.planes };
        struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 3];
        const size_t count = attention_arguments(&given, arguments);
        arguments[count] = (struct launch_argument)ARGUMENT(operands->tensor[TENSOR_BLOCK_MASK].buffer);
        arguments[count + 1] = (struct launch_argument)ARGUMENT(first);
        arguments[count + 2] = (struct launch_argument)ARGUMENT(first_head);
        if (part.is_last) {
            chain_final(chain);
        }
        status = launch(chain, state->kernel, 3, global, local, count + 3, arguments);
    }
    return status;
}

const struct strategy strategy_block_mask = {
    .operation = &operation_block_mask,
    .name = "block_mask",
    .summary = "a text, asked about each block's pairs; any device",
    .knows = (1u << CLATTN_FLAG_BITS) - 1,
    .types = STRATEGY_64_BITS,
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct block_mask_state),
    .plan = plan,
    .enqueue = enqueue,
};
