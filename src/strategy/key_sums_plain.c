/* key_sums_plain: one work-item a key of a head; takes every problem on every device. */
#include "base/checked_math.h"
#include "strategy/key_sums_run.h"
#include "strategy/strategies.h"

#define KEYS_PER_GROUP 16

/* Multiply-adds that one launch may do, as in plain.c. */
#define LAUNCH_WORK_MAX 2e10

struct key_sums_plain {
    struct kernel *kernel, *largest;
    size_t keys_per_group;
};

static int applicable(struct ask *ask)
{
    return key_sums_is_served(ask);
}

static double pair_work(const clattn_problem *p)
{
    return 2.0 * (double)p->head_dim + 60;
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double pairs = (double)p->batch * (double)p->query_heads * key_sums_rows(ask) * (double)p->key_len;
    return (struct work){ .rate = RATE_SCALAR, .multiply_adds = pairs * pair_work(p) };
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct key_sums_plain *state = plan->state;
    struct text options = TEXT_INIT;
    size_t limit = KEYS_PER_GROUP;
    append_type_options(problem, &options);
    text_append(&options, " -D PAGED=%d", problem->p.page_size > 0);
    append_storage_options(problem, &options);
    key_sums_append_wants(plan->problem, &options);
    clattn_status status = key_sums_measure(plan, problem->p.key_len);
    if (status == CLATTN_OK) {
        status = ask_kernel(ask, "key_sums/key_sums_plain.cl", &options, "key_sums_plain", &state->kernel, &limit);
    }
    text_free(&options);
    for (state->keys_per_group = KEYS_PER_GROUP;
         state->keys_per_group > limit || state->keys_per_group > ask->context->device.work_item_limit[0];) {
        state->keys_per_group /= 2;
    }
    text_append(ask->explain, "  tile: %zu keys a work-group, one a work-item\n", state->keys_per_group);
    return status == CLATTN_OK ? key_sums_build_largest(ask, &state->largest) : status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct key_sums_plain *state = plan->state;
    struct key_sums_call call;
    key_sums_call_of(plan, operands, &call);
    const clattn_params *p = &call.given.params;
    const double key_work = pair_work(&attention_problem(plan->problem)->p) * ((double)p->query_len + 1);
    const clattn_status status =
        key_sums_launch(&call, state->kernel, (int)state->keys_per_group, state->keys_per_group,
                        LAUNCH_WORK_MAX / key_work / (double)state->keys_per_group, !state->largest, chain);
    return status == CLATTN_OK ? key_sums_largest(&call, state->largest, p->key_len, chain) : status;
}

const struct strategy strategy_key_sums_plain = {
    .operation = &operation_key_sums,
    .name = "plain",
    .summary = "one work-item a key of a head; takes everything, any device",
    .knows = KEY_SUMS_KNOW | CLATTN_FLAG_KEY_LISTS,
    .takes = CLATTN_TAKES_LSE | CLATTN_TAKES_PAIRS | CLATTN_TAKES_ROWS,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 68, /* a block of rows, its total and rest */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct key_sums_plain),
    .plan = plan,
    .enqueue = enqueue,
};
