/* The gradients of attention by cl/backward/backward_plain.cl: a kernel each, one work-item for some columns of a row;
 * takes every problem on every device. */
#include "strategy/backward_plain.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "cl/backward/backward_plain_layout.h"
#include "strategy/strategies.h"

#define ITEMS_PER_GROUP 16

/* Multiply-adds that one launch may do, as in plain.c. */
#define LAUNCH_WORK_MAX 2e10

static const char *const kernel_names[BACKWARD_KERNELS] = { "row_terms", "dquery",   "dkey_dvalue",
                                                            "dbias",     "row_sums", "head_sums" };

static int applicable(struct ask *ask)
{
    return backward_is_served(ask);
}

/* Multiply-adds of a pair. */
static double pair_work(const clattn_problem *p)
{
    return 2.0 * (double)p->head_dim + 2.0 * (double)p->head_dim_v + 60;
}

static double column_blocks(int64_t columns)
{
    return (double)ceil_div(columns, BACKWARD_COLUMNS);
}

static struct work work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double pairs = (double)p->batch * (double)p->query_heads * (double)p->query_len * (double)p->key_len;
    /* All three gradients, whatever is asked for: bits, and so the choice, do not depend on that. */
    const double visits = 2 * column_blocks(p->head_dim) + column_blocks(p->head_dim_v);
    return (struct work){ .rate = RATE_GRADIENTS_SCALAR, .multiply_adds = pairs * visits * pair_work(p) };
}

/* ---- workspace ----------------------------------------------------------------------------------- */

/* Elements: of the rows of all planes, then of their blocks. */
static int64_t row_elements(const clattn_problem *p, int64_t rows)
{
    return ROW_TERMS * p->batch * p->query_heads * rows;
}

static int64_t block_elements(const struct backward_problem *b, int64_t rows, int64_t rows_of_sum)
{
    return backward_wants(b, CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SCALE)
               ? BLOCK_SUMS * b->attention.p.batch * b->attention.p.query_heads * ceil_div(rows, rows_of_sum)
               : 0;
}

clattn_status backward_plain_measure(struct clattn_plan *plan, int64_t rows_of_sum)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    const int64_t factors[] = { p->batch * p->query_heads, p->query_len, 2 * ROW_TERMS * 8 };
    if (product_of_extents(factors, 3) < 0) {
        return error_set(CLATTN_INVALID_SHAPE, "query_len %lld: the workspace does not fit 64 bits",
                         (long long)p->query_len);
    }
    plan->workspace_bytes = (size_t)(row_elements(p, p->query_len) + block_elements(b, p->query_len, rows_of_sum)) *
                            clattn_type_size(backward_real_type(p));
    return CLATTN_OK;
}

/* ---- plan ---------------------------------------------------------------------------------------- */

clattn_status backward_plain_build(struct ask *ask, unsigned wanted, struct backward_plain *state)
{
    struct text options = TEXT_INIT;
    append_type_options(attention_problem(ask->problem), &options);
    clattn_status status = CLATTN_OK;
    size_t limit = ITEMS_PER_GROUP;
    for (int k = 0; k < BACKWARD_KERNELS && status == CLATTN_OK; ++k) {
        if (wanted >> k & 1) {
            status =
                ask_kernel(ask, "backward/backward_plain.cl", &options, kernel_names[k], &state->kernels[k], &limit);
        }
    }
    text_free(&options);
    for (state->items_per_group = ITEMS_PER_GROUP;
         state->items_per_group > limit || state->items_per_group > ask->context->device.work_item_limit[0];) {
        state->items_per_group /= 2;
    }
    return status;
}

unsigned backward_head_sums_wanted(const struct backward_problem *b)
{
    const uint32_t sums = CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SCALE | CLATTN_GRADIENT_SINKS;
    return backward_wants(b, sums) ? 1u << HEAD_SUMS : 0;
}

unsigned backward_scalars_wanted(const struct backward_problem *b)
{
    return backward_head_sums_wanted(b) | (backward_wants(b, CLATTN_GRADIENT_BIAS) ? 1u << DBIAS : 0) |
           (backward_wants(b, CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SCALE) ? 1u << ROW_SUMS : 0);
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    struct backward_plain *state = plan->state;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        status = backward_plain_build(ask, (1u << BACKWARD_KERNELS) - 1, state);
    }
    text_append(ask->explain, "  tile: %zu rows or keys a work-group, %d columns a work-item\n", state->items_per_group,
                BACKWARD_COLUMNS);
    return status;
}

/* ---- launches ------------------------------------------------------------------------------------ */

/* A grid of items along rows (or keys), column blocks and planes, and the multiply-adds of one of them. */
struct grid {
    int64_t items, blocks, planes;
    double work;
};

/* In as many launches as the work asks for. `more`: an argument of the kernel's own, or NULL; the first item and plane
 * follow. */
static clattn_status run(const struct backward_run *r, enum backward_kernel which, const struct grid *grid,
                         const struct launch_argument *more)
{
    const size_t local[3] = { r->state->items_per_group, 1, 1 };
    struct launch_part part =
        launch_parts(grid->items, grid->planes, LAUNCH_WORK_MAX / (grid->work * (double)grid->blocks));
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&part)) {
        const cl_int first_item = (cl_int)part.first, first_plane = (cl_int)part.first_plane;
        const size_t global[3] = { (size_t)round_up(part.count, (int64_t)local[0]), (size_t)grid->blocks,
                                   (size_t)part.planes };
        struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 3];
        size_t n = backward_arguments(&r->call, arguments);
        if (more) {
            arguments[n++] = *more;
        }
        arguments[n++] = (struct launch_argument)ARGUMENT(first_item);
        arguments[n++] = (struct launch_argument)ARGUMENT(first_plane);
        status = launch(r->chain, r->state->kernels[which], 3, global, local, n, arguments);
    }
    return status;
}

float backward_rests_from(const struct backward_problem *b)
{
    const clattn_type kept[] = { b->dquery_type, b->dkey_type, b->dvalue_type };
    float from = RESTS_FROM_OF_16_BITS;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); ++i) {
        from = kept[i] == CLATTN_FLOAT32 ? LSE_RESTS_FROM : from;
    }
    return b->attention.p.type == CLATTN_FLOAT64 ? 0 : from;
}

/* lse and D of all rows, to the workspace: every gradient comes after it. */
static clattn_status run_row_terms(const struct backward_run *r, float rests_from)
{
    const clattn_params *p = &r->call.given.params;
    const struct grid grid = { p->query_len, 1, (int64_t)p->batch * p->query_heads,
                               pair_work(r->call.problem) * (double)(p->key_len + 1) };
    const cl_float from = rests_from;
    const struct launch_argument argument = ARGUMENT(from);
    return run(r, ROW_TERMS_KERNEL, &grid, &argument);
}

/* A kernel that writes one gradient, where it is asked for; `more` may be NULL. */
static clattn_status run_gradient(const struct backward_run *r, enum gradient_id id, enum backward_kernel which,
                                  const struct grid *grid, const struct launch_argument *more)
{
    if (!operand_is_asked(r->call.operands, (int)id) || operand_is_empty(r->call.operands, (int)id)) {
        return CLATTN_OK;
    }
    struct backward_run own = *r;
    backward_call_take(&own.call, id);
    return run(&own, which, grid, more);
}

static clattn_status run_dquery(const struct backward_run *r)
{
    const clattn_params *p = &r->call.given.params;
    const struct grid grid = { p->query_len, (int64_t)column_blocks(p->head_dim), (int64_t)p->batch * p->query_heads,
                               pair_work(r->call.problem) * (double)(p->key_len + 1) };
    return run_gradient(r, GRADIENT_DQUERY, DQUERY, &grid, NULL);
}

static clattn_status run_dkey_dvalue(const struct backward_run *r, int of_value)
{
    const clattn_params *p = &r->call.given.params;
    const cl_int number = of_value;
    const struct launch_argument argument = ARGUMENT(number);
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 0;
    const struct grid grid = { p->key_len, (int64_t)column_blocks(of_value ? p->head_dim_v : p->head_dim),
                               (int64_t)p->batch * p->kv_heads,
                               pair_work(r->call.problem) * ((double)p->query_len * (double)group + 1) };
    return run_gradient(r, of_value ? GRADIENT_DVALUE : GRADIENT_DKEY, DKEY_DVALUE, &grid, &argument);
}

/* Axes whose stride is 0 are walked by one work-item. */
static clattn_status run_dbias(const struct backward_run *r)
{
    int64_t shape[4], whole[4];
    double walked = 1;
    operand_shape(r->call.operands, GRADIENT_DBIAS, whole);
    operand_stored_shape(r->call.operands, GRADIENT_DBIAS, shape);
    for (int axis = 0; axis < 4; ++axis) {
        walked *= shape[axis] < whole[axis] ? (double)whole[axis] : 1;
    }
    const struct grid grid = { shape[3], shape[2], shape[0] * shape[1], pair_work(r->call.problem) * walked };
    return run_gradient(r, GRADIENT_DBIAS, DBIAS, &grid, NULL);
}

static clattn_status run_row_sums(const struct backward_run *r)
{
    const clattn_params *p = &r->call.given.params;
    const struct grid grid = { ceil_div(p->query_len, BACKWARD_BLOCK), 1, (int64_t)p->batch * p->query_heads,
                               pair_work(r->call.problem) * BACKWARD_BLOCK * (double)(p->key_len + 1) };
    return run(r, ROW_SUMS, &grid, NULL);
}

static clattn_status run_head_sums(const struct backward_run *r, enum gradient_id id, cl_int kind)
{
    const clattn_params *p = &r->call.given.params;
    const int64_t *stride = r->call.operands->tensor[id].stride;
    const struct grid grid = { id == GRADIENT_DSCALE || stride[1] == 0 ? 1 : p->query_heads, 1,
                               id == GRADIENT_DSLOPES && stride[0] != 0 ? p->batch : 1,
                               ((double)p->query_len * p->batch + 1) * 20 };
    const struct launch_argument argument = ARGUMENT(kind);
    return run_gradient(r, id, HEAD_SUMS, &grid, &argument);
}

clattn_status backward_run_head_sums(const struct backward_run *r, int of_rows)
{
    clattn_status status = run_head_sums(r, GRADIENT_DSLOPES, SUMS_SLOPES + of_rows);
    status = status == CLATTN_OK ? run_head_sums(r, GRADIENT_DSCALE, SUMS_SCALE + of_rows) : status;
    return status == CLATTN_OK ? run_head_sums(r, GRADIENT_DSINKS, SUMS_SINKS) : status;
}

clattn_status backward_run_scalars(const struct backward_run *r)
{
    clattn_status status = run_dbias(r);
    if (status == CLATTN_OK &&
        (operand_is_asked(r->call.operands, GRADIENT_DSLOPES) || operand_is_asked(r->call.operands, GRADIENT_DSCALE))) {
        status = run_row_sums(r);
    }
    return status == CLATTN_OK ? backward_run_head_sums(r, 0) : status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    struct backward_run r = { .state = plan->state, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = run_row_terms(&r, backward_rests_from(backward_problem(plan->problem)));
    status = status == CLATTN_OK ? run_dquery(&r) : status;
    status = status == CLATTN_OK ? run_dkey_dvalue(&r, 0) : status;
    status = status == CLATTN_OK ? run_dkey_dvalue(&r, 1) : status;
    return status == CLATTN_OK ? backward_run_scalars(&r) : status;
}

const struct strategy strategy_backward_plain = {
    .operation = &operation_backward,
    .name = "plain",
    .summary = "a kernel a gradient, one work-item some columns of a row; takes everything, any device",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_KEY_LISTS,
    .takes = BACKWARD_TAKES,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 72, /* 64 + 3 */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct backward_plain),
    .plan = plan,
    .enqueue = enqueue,
};
