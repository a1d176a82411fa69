/* rotary: one launch, rows by vectors of columns (cl/cache/rotary.cl). */
#include <string.h>

#include "operation/fill_params.h"
#include "operation/overlap.h"
#include "operation/rotary.h"
#include "plan/row_runs.h"
#include "strategy/strategies.h"

static int applicable(struct ask *ask)
{
    return device_computes(&ask->context->device, rotary_problem_of(ask->problem)->p.type, ask->why);
}

static struct work work(struct ask *ask)
{
    const clattn_rotary_problem *p = &rotary_problem_of(ask->problem)->p;
    const double elements = (double)(p->batch * p->query_len) * (double)p->heads * (double)p->head_dim;
    return (struct work){ .rate = RATE_ROWS, .alone_ms = 1e-6 * elements };
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct rotary_problem *problem = rotary_problem_of(plan->problem);
    const clattn_rotary_problem *p = &problem->p;
    const int has_norms = norms_are_there(&problem->norms);
    const struct row_shape shape = { p->type, p->head_dim, 0, 0, p->strided_columns, has_norms, { 0, 0 } };
    struct text none = TEXT_INIT;
    return row_runs_plan(ask, plan, "cache/rotary.cl", "rotary", &shape, &problem->turning, &none);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct rotary_problem *problem = rotary_problem_of(plan->problem);
    const int64_t query_len = rotary_call_of(operands)->query_len;
    clattn_rotary_params params;
    memset(&params, 0, sizeof(params));
    operands_fill(operands, &params);
    turning_fill(&problem->turning, problem->p.batch, query_len, (clattn_turn_params *)&params);
    params.norm_epsilon_real = real_bits(problem->p.type, problem->norms.epsilon);
    params.heads = (int)problem->p.heads;
    params.in_place = operands_are_one_place(operands, ROTARY_X, ROTARY_OUT);
    chain_final(chain);
    return row_runs_enqueue(plan, operands, operands->operation->count, (struct launch_argument)ARGUMENT(params),
                            problem->p.batch * query_len, problem->p.heads, chain);
}

const struct strategy strategy_rotary = {
    .operation = &operation_rotary,
    .name = "rows",
    .summary = "each row by vectors of columns, any device",
    .types = STRATEGY_64_BITS,
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct row_runs),
    .plan = plan,
    .enqueue = enqueue,
};
