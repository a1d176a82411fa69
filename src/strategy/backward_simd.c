/* The gradients of queries, keys and values by cl/backward_simd.cl; of what else is asked for, by the kernels of plain.
 * This file says how the kernel is built, and in which parts of the work it is launched so that the sums of splits and
 * rectangles stay below the limit: no bit depends on the parts. */
#include <stdlib.h>

#include "base/error.h"
#include "cl/backward_plain_layout.h"
#include "cl/backward_simd_layout.h"
#include "cl/simd_layout.h"
#include "plan/register_file.h"
#include "plan/row_blocks.h"
#include "strategy/backward_plain.h"
#include "strategy/strategies.h"

_Static_assert(sizeof(clattn_sums) <= ATTENTION_OWN_BYTES && sizeof(clattn_rectangles) <= ATTENTION_OWN_BYTES,
               "more arguments than every device takes");

#define COLUMNS_MAX 1024 /* head_dim + head_dim_v: what a work-group has of them lives in private memory */
#define WANTED_ALWAYS (1u << ROW_TERMS_KERNEL)

enum { SUMS = SUM_DVALUE + 1 };

/* Registers: rows or columns at once, x vectors of 16 keys. As many as fit with a vector of each and an element. */
static const struct {
    int vectors, rows, columns;
} tiles[REGISTER_FILE_COUNT] = {
    [REGISTERS_16_OF_4] = { 1, 2, 2 },
    [REGISTERS_32_OF_4] = { 1, 6, 6 },
    [REGISTERS_16_OF_8] = { 1, 6, 6 },
    [REGISTERS_32_OF_16] = { 2, 8, 8 },
};

struct simd_state {
    struct backward_plain plain;
    struct kernel *rectangles, *add_sums;
    int64_t sums_at;      /* elements of the workspace before them */
    int64_t groups, rows; /* of a launch, at most: key/value heads, packed rows of each */
    int64_t columns;      /* of a row of dquery's sums */
    int64_t group;        /* query heads of a key/value head */
};

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    const uint32_t takes = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    if (context->device.device_class != DEVICE_CPU && !b->attention.any.strategy_name[0]) {
        text_append(why, "for CPU devices, and others only when asked for by name");
        return 0;
    }
    if (!attention_fits_vectors(context, p, COLUMNS_MAX, why)) {
        return 0;
    }
    if (!backward_wants(b, takes)) {
        text_append(why, "has dquery, dkey and dvalue, of which none is asked for");
        return 0;
    }
    return backward_arguments_fit(&context->device, &b->attention, why);
}

/* Linear in batch and heads, so that the choice, and with it the bits, does not depend on them. About 90 multiply-adds
 * a nanosecond and compute unit. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    const double pairs = (double)p->batch * (double)p->query_heads * (double)(p->query_len + 32) *
                         (double)(p->key_len + 64);
    const double columns = 3.0 * (double)p->head_dim + 2.0 * (double)p->head_dim_v + 40;
    return 0.05 + pairs * columns * 1.1e-8 / (double)context->device.compute_units + backward_scalars_ms(context, b);
}

/* ---- parts ------------------------------------------------------------------------------------- */

/* They decide bits of dquery, and so come from the head dims alone. */
static int block_keys(const clattn_problem *p)
{
    const int64_t columns = p->head_dim + p->head_dim_v;
    return columns <= 256 ? 128 : columns <= 512 ? 64 : 32;
}

static int block_rows(const clattn_problem *p)
{
    const int64_t columns = p->head_dim + p->head_dim_v;
    return columns <= 128 ? 64 : columns <= 512 ? 32 : 16;
}

static unsigned sums_wanted(const struct backward_problem *b)
{
    return (backward_wants(b, CLATTN_GRADIENT_QUERY) ? 1u << SUM_DQUERY : 0) |
           (backward_wants(b, CLATTN_GRADIENT_KEY) ? 1u << SUM_DKEY : 0) |
           (backward_wants(b, CLATTN_GRADIENT_VALUE) ? 1u << SUM_DVALUE : 0);
}

/* Elements of one group's sums of a gradient, for so many rows: of dquery in each split of the keys, of dkey and dvalue
 * in each rectangle. */
static int64_t part_elements(const struct backward_problem *b, const struct simd_state *state, int which, int64_t rows,
                             int64_t key_len)
{
    const clattn_problem *p = &b->attention.p;
    const int64_t of_keys = row_blocks_of(rows, RECTANGLE_ROWS) * key_len;
    if (!(sums_wanted(b) & 1u << which)) {
        return 0;
    }
    return which == SUM_DQUERY ? row_blocks_of(key_len, SPLIT_KEYS) * rows * state->columns
                               : of_keys * (which == SUM_DKEY ? p->head_dim : p->head_dim_v);
}

/* Of the totals of dkey and dvalue, where a launch is not all of a group's rows: as one rectangle more. */
static int64_t total_elements(const struct backward_problem *b, const struct simd_state *state, int which,
                              int64_t key_len)
{
    return which == SUM_DQUERY ? 0 : part_elements(b, state, which, 1, key_len);
}

/* Where the sums of a launch are behind one another, and its totals behind them; the elements of all. */
static int64_t place_launch(const struct backward_problem *b, const struct simd_state *state, int64_t groups,
                            int64_t rows, int64_t all_rows, int64_t key_len, int64_t at[SUMS], int64_t total_at[SUMS])
{
    int64_t next = 0;
    for (int which = 0; which < SUMS; ++which) {
        at[which] = next;
        next += groups * part_elements(b, state, which, rows, key_len);
    }
    for (int which = 0; which < SUMS; ++which) {
        total_at[which] = next;
        next += rows < all_rows ? groups * total_elements(b, state, which, key_len) : 0;
    }
    return next;
}

static int64_t launch_elements(const struct backward_problem *b, const struct simd_state *state, int64_t groups,
                               int64_t rows)
{
    const clattn_problem *p = &b->attention.p;
    int64_t at[SUMS], total_at[SUMS];
    return place_launch(b, state, groups, rows, p->query_len * state->group, p->key_len, at, total_at);
}

/* As many groups as fit the limit, or of one group as many rows: whole rectangles, else whole blocks of rows. */
static void choose_parts(const struct clattn_plan *plan, struct simd_state *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    const int64_t all_rows = p->query_len * state->group, limit_bytes = (int64_t)plan->context->workspace_limit_bytes;
    const int64_t left = limit_bytes > (int64_t)plan->workspace_bytes
                             ? (limit_bytes - (int64_t)plan->workspace_bytes) / (int64_t)sizeof(float)
                             : 0;
    const int64_t of_group = launch_elements(b, state, 1, all_rows);
    state->rows = all_rows;
    state->groups = of_group > 0 ? left / of_group : 1;
    state->groups = state->groups < p->batch * p->kv_heads ? state->groups : p->batch * p->kv_heads;
    if (state->groups > 0 || all_rows == 0) {
        state->groups = state->groups > 0 ? state->groups : 1;
        return;
    }
    state->groups = 1;
    const int64_t step = RECTANGLE_ROWS, blocks = block_rows(p);
    state->rows = (all_rows - 1) / step * step;
    while (state->rows > step && launch_elements(b, state, 1, state->rows) > left) {
        state->rows -= step;
    }
    if (state->rows <= 0 || launch_elements(b, state, 1, state->rows) > left) {
        const int64_t most = all_rows - 1 < step - blocks ? all_rows - 1 : step - blocks;
        const int64_t of_row = part_elements(b, state, SUM_DQUERY, 1, p->key_len);
        const int64_t kept = launch_elements(b, state, 1, 1) - of_row;
        const int64_t fits = of_row > 0 && left > kept ? (left - kept) / of_row : of_row > 0 ? 0 : most;
        state->rows = (fits < most ? fits : most) / blocks * blocks;
        for (; state->rows > blocks && step % state->rows != 0;) {
            state->rows -= blocks; /* a rectangle ends where a launch does */
        }
        state->rows = state->rows > blocks ? state->rows : blocks;
    }
}

static clattn_status measure(struct clattn_plan *plan, struct simd_state *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    clattn_status status = backward_plain_measure(plan);
    const int64_t factors[] = { p->batch * p->kv_heads, row_blocks_of(p->key_len, SPLIT_KEYS) + 2,
                                p->query_len * state->group + p->key_len, 2 * COLUMNS_MAX * 4 };
    if (status == CLATTN_OK && product_of_extents(factors, 4) < 0) {
        status = error_set(CLATTN_INVALID_SHAPE, "key_len %lld: sums of gradients do not fit 64 bits",
                           (long long)p->key_len);
    }
    if (status == CLATTN_OK) {
        plan->workspace_bytes = (plan->workspace_bytes + 63) / 64 * 64;
        state->sums_at = (int64_t)(plan->workspace_bytes / sizeof(float));
        choose_parts(plan, state);
        plan->workspace_bytes += (size_t)launch_elements(b, state, state->groups, state->rows) * sizeof(float);
    }
    return status;
}

/* ---- plan -------------------------------------------------------------------------------------- */

static unsigned plain_wanted(const struct backward_problem *b)
{
    const uint32_t sums = CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SCALE;
    return WANTED_ALWAYS | (backward_wants(b, CLATTN_GRADIENT_BIAS) ? 1u << DBIAS : 0) |
           (backward_wants(b, sums) ? 1u << ROW_SUMS : 0) |
           (backward_wants(b, sums | CLATTN_GRADIENT_SINKS) ? 1u << HEAD_SUMS : 0);
}

static clattn_status build(struct clattn_plan *plan, enum register_file registers, struct simd_state *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    struct text options = TEXT_INIT;
    append_type_options(&b->attention, &options);
    append_problem_options(&b->attention, &options);
    text_append(&options, " -D GROUP=%d -D VECTORS=%d -D PRODUCT_ROWS=%d -D PRODUCT_COLUMNS=%d", (int)state->group,
                tiles[registers].vectors, tiles[registers].rows, tiles[registers].columns);
    text_append(&options, " -D BLOCK_KEYS=%d -D BLOCK_ROWS=%d -D WANTS=%u", block_keys(p), block_rows(p),
                sums_wanted(b));
    clattn_status status = options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                                          : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = program_kernel(plan->context, "backward_simd.cl", options.data, "rectangles", &state->rectangles);
    }
    if (status == CLATTN_OK) {
        status = program_kernel(plan->context, "backward_simd.cl", options.data, "add_sums", &state->add_sums);
    }
    text_free(&options);
    return status == CLATTN_OK ? backward_plain_build(plan, plain_wanted(b), &state->plain) : status;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    const enum register_file registers = register_file_of(plan->context);
    struct simd_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    const int tile_keys = tiles[registers].vectors * LANES;
    state->group = problem_group(p) > 0 ? problem_group(p) : 1;
    state->columns = row_blocks_of(p->head_dim, tile_keys) * tile_keys;
    const clattn_status status = measure(plan, state);
    text_append(explain, "  rectangles: %d keys x %d rows, in blocks of %d x %d; sums of each added in order\n",
                SPLIT_KEYS, RECTANGLE_ROWS, block_keys(p), block_rows(p));
    text_append(explain, "  registers: %d rows, or %d columns, x %d vectors of 16 keys\n", tiles[registers].rows,
                tiles[registers].columns, tiles[registers].vectors);
    text_append(explain,
                "  at once: %lld key/value heads, %lld rows of each; dquery in %lld parts, dkey and dvalue in "
                "%lld\n",
                (long long)state->groups, (long long)state->rows, (long long)row_blocks_of(p->key_len, SPLIT_KEYS),
                (long long)row_blocks_of(p->query_len * state->group, RECTANGLE_ROWS));
    return status == CLATTN_OK ? build(plan, registers, state) : status;
}

/* ---- launches ---------------------------------------------------------------------------------- */

/* A part of the call: groups and packed rows; where its sums are. */
struct part {
    int64_t first_group, groups, first_row, rows, all_rows;
    int64_t at[SUMS], total_at[SUMS]; /* by SUM_* */
};

static void place_sums(const struct backward_run *r, const struct simd_state *state, const struct backward_problem *b,
                       struct part *part)
{
    place_launch(b, state, part->groups, part->rows, part->all_rows, r->call.params.key_len, part->at, part->total_at);
    for (int which = 0; which < SUMS; ++which) {
        part->at[which] += state->sums_at;
        part->total_at[which] += state->sums_at;
    }
}

static clattn_status run_rectangles(const struct backward_run *r, const struct simd_state *state,
                                    const struct part *part, int64_t rows)
{
    const clattn_rectangles work = {
        part->at[SUM_DQUERY], part->at[SUM_DKEY], part->at[SUM_DVALUE], (int)part->first_group, (int)part->groups,
        (int)part->first_row, (int)rows
    };
    const int64_t parts = row_blocks_of(part->first_row % RECTANGLE_ROWS + rows, RECTANGLE_ROWS);
    const size_t global[3] = { (size_t)row_blocks_of(r->call.params.key_len, SPLIT_KEYS), (size_t)parts,
                               (size_t)part->groups };
    const size_t local[3] = { 1, 1, 1 };
    struct launch_argument arguments[BACKWARD_ARGUMENT_COUNT + 1];
    backward_arguments(&r->call, arguments);
    arguments[BACKWARD_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(work);
    return launch(r->chain, state->rectangles, 3, global, local, BACKWARD_ARGUMENT_COUNT + 1, arguments);
}

/* The gradient of the part's rows, or of all keys by its rectangles. */
static clattn_status run_sums(const struct backward_run *r, const struct simd_state *state, const struct part *part,
                              int which, enum gradient_id id, clattn_sums sums, int64_t count)
{
    if (!operand_is_asked(r->call.operands, (int)id) || operand_is_empty(r->call.operands, (int)id)) {
        return CLATTN_OK;
    }
    struct backward_call_arguments own = r->call;
    const size_t local[2] = { 16, 1 }, global[2] = { (size_t)row_blocks_of(count, 16) * 16, (size_t)part->groups };
    struct launch_argument arguments[BACKWARD_ARGUMENT_COUNT + 1];
    sums.sums_at = part->at[which];
    sums.total_at = part->total_at[which];
    sums.first_group = (int)part->first_group;
    sums.groups = (int)part->groups;
    backward_call_take(&own, id);
    backward_arguments(&own, arguments);
    arguments[BACKWARD_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(sums);
    return launch(r->chain, state->add_sums, 2, global, local, BACKWARD_ARGUMENT_COUNT + 1, arguments);
}

/* dkey and dvalue are added where a rectangle, or all rows, end. */
static clattn_status run_part(const struct backward_run *r, const struct simd_state *state, const struct part *part)
{
    const int64_t rows = part->all_rows - part->first_row < part->rows ? part->all_rows - part->first_row : part->rows;
    const int64_t end = part->first_row + rows, from = part->first_row / RECTANGLE_ROWS * RECTANGLE_ROWS;
    const int is_last = end >= part->all_rows, goes_on = is_last ? 0 : SUM_GOES_ON;
    const clattn_sums of_rows = { .first_row = (int)part->first_row, .rows = (int)rows, .which = SUM_DQUERY };
    const clattn_sums of_keys = { .first_row = (int)from, .rows = (int)(end - from), .continues = from > 0 };
    clattn_sums dkey = of_keys, dvalue = of_keys;
    dkey.which = SUM_DKEY + goes_on;
    dvalue.which = SUM_DVALUE + goes_on;
    clattn_status status = run_rectangles(r, state, part, rows);
    if (status == CLATTN_OK) {
        status = run_sums(r, state, part, SUM_DQUERY, GRADIENT_DQUERY, of_rows, rows);
    }
    if (status == CLATTN_OK && (is_last || end % RECTANGLE_ROWS == 0)) {
        status = run_sums(r, state, part, SUM_DKEY, GRADIENT_DKEY, dkey, r->call.params.key_len);
        status = status == CLATTN_OK
                     ? run_sums(r, state, part, SUM_DVALUE, GRADIENT_DVALUE, dvalue, r->call.params.key_len)
                     : status;
    }
    return status;
}

static clattn_status run_parts(const struct backward_run *r, const struct simd_state *state,
                               const struct backward_problem *b)
{
    const int64_t groups = (int64_t)r->call.params.batch * r->call.params.kv_heads;
    struct part part = { .all_rows = r->call.params.query_len * state->group };
    clattn_status status = CLATTN_OK;
    for (; part.first_group < groups && status == CLATTN_OK; part.first_group += state->groups) {
        part.groups = groups - part.first_group < state->groups ? groups - part.first_group : state->groups;
        part.rows = state->rows < part.all_rows ? state->rows : part.all_rows;
        place_sums(r, state, b, &part);
        part.first_row = 0;
        do { /* once also without rows: keys have gradients then too */
            status = run_part(r, state, &part);
            part.first_row += part.rows;
        } while (part.first_row < part.all_rows && status == CLATTN_OK);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simd_state *state = plan->state;
    struct backward_run r = { .state = &state->plain, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = backward_run_row_terms(&r);
    status = status == CLATTN_OK ? run_parts(&r, state, backward_problem(plan->problem)) : status;
    return status == CLATTN_OK ? backward_run_scalars(&r) : status;
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_backward_simd = {
    .operation = &operation_backward,
    .name = "fused_simd",
    .summary = "keys along vector lanes, no matrix of scores, one pass over the pairs; CPU devices",
    .knows = PROBLEM_FLAGS_OF_ALL,
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
