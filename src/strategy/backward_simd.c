/* The gradients by cl/backward_simd/backward_simd.cl; terms of rows, and what is summed over rows alone, by the kernels
 * of plain. This file says how the kernel is built, and in which parts of the work it is launched so that the sums of
 * splits and rectangles stay below the limit: no bit depends on the parts. backward_simd_run.c launches them. */
#include "strategy/backward_simd.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "cl/backward/backward_plain_layout.h"
#include "plan/code_programs.h"
#include "plan/register_file.h"
#include "strategy/strategies.h"

_Static_assert(sizeof(clattn_sums) <= BACKWARD_OWN_BYTES && sizeof(clattn_rectangles) <= BACKWARD_OWN_BYTES &&
                   sizeof(clattn_bias_sums) <= BACKWARD_OWN_BYTES && sizeof(clattn_rests) <= BACKWARD_OWN_BYTES,
               "more than backward_is_served counts");

#define COLUMNS_MAX 1024 /* head_dim + head_dim_v: what a work-group has of them lives in private memory */

/* Registers: rows or columns at once, x vectors of 16 keys. As many as fit with a vector of each and an element. */
static const struct registers {
    int vectors, rows, columns;
} tiles[REGISTER_FILE_COUNT] = {
    [REGISTERS_16_OF_4] = { 1, 2, 2 },
    [REGISTERS_32_OF_4] = { 1, 6, 6 },
    [REGISTERS_16_OF_8] = { 1, 6, 6 },
    [REGISTERS_32_OF_16] = { 2, 8, 8 },
};

int backward_simd_applicable(struct ask *ask)
{
    return attention_fits_vectors(ask, COLUMNS_MAX) && backward_is_served(ask);
}

static int applicable(struct ask *ask)
{
    if (ask->context->device.device_class != DEVICE_CPU && !ask->by_name) {
        return ask_declines(ask, "for CPU devices, and others only when asked for by name");
    }
    return backward_simd_applicable(ask);
}

/* The three large gradients, whatever is asked for: the choice, and with it the bits, must not depend on that. */
struct work backward_simd_work(struct ask *ask, enum rate_id rate, double pair_columns)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double pairs = (double)p->batch * (double)p->query_heads * (double)(p->query_len + 32) *
                         (double)(p->key_len + 64);
    const double columns = 3.0 * (double)p->head_dim + 2.0 * (double)p->head_dim_v;
    return (struct work){ .rate = rate, .multiply_adds = pairs * (columns + pair_columns) };
}

static struct work work(struct ask *ask)
{
    return backward_simd_work(ask, RATE_GRADIENTS_SIMD, 40);
}

/* ---- parts ------------------------------------------------------------------------------------- */

/* Sizes of blocks decide bits of dquery, and so come from the head dims alone. */
static const struct blocks {
    int64_t columns; /* head_dim + head_dim_v, at most */
    int keys, rows;
} blocks_of[][4] = {
    [BACKWARD_FMA] = { { 128, 128, 64 }, { 256, 128, 32 }, { 512, 64, 32 }, { COLUMNS_MAX, 32, 16 } },
    [BACKWARD_TILES] = { { 128, 256, 64 }, { 256, 256, 64 }, { 512, 64, 64 }, { COLUMNS_MAX, 32, 32 } },
};

static struct blocks blocks_for(const clattn_problem *p, enum backward_product product)
{
    const struct blocks *blocks = blocks_of[product];
    while (blocks->columns < p->head_dim + p->head_dim_v && blocks->columns < COLUMNS_MAX) {
        ++blocks;
    }
    return *blocks;
}

unsigned backward_simd_sums(const struct backward_problem *b)
{
    return (backward_wants(b, CLATTN_GRADIENT_QUERY) ? 1u << SUM_DQUERY : 0) |
           (backward_wants(b, CLATTN_GRADIENT_KEY) ? 1u << SUM_DKEY : 0) |
           (backward_wants(b, CLATTN_GRADIENT_VALUE) ? 1u << SUM_DVALUE : 0) |
           (backward_wants(b, CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SCALE) ? 1u << SUM_ROWS : 0);
}

/* As the kernel is built. */
static unsigned rectangles_want(const struct backward_problem *b)
{
    return backward_simd_sums(b) | (backward_wants(b, CLATTN_GRADIENT_SLOPES) ? WANTED_SLOPES : 0) |
           (backward_wants(b, CLATTN_GRADIENT_SCALE) ? WANTED_SCALE : 0) |
           (backward_wants(b, CLATTN_GRADIENT_BIAS) ? WANTED_BIAS : 0);
}

/* Elements of one group's sums of a gradient, for so many rows: of dquery, and of rows' own sums, in each split of the
 * keys, of dkey and dvalue in each rectangle. */
static int64_t part_elements(const struct backward_problem *b, const struct backward_simd *state, int which,
                             int64_t rows, int64_t key_len)
{
    const clattn_problem *p = &b->attention.p;
    const int64_t of_keys = ceil_div(rows, RECTANGLE_ROWS) * key_len;
    if (!(backward_simd_sums(b) & 1u << which)) {
        return 0;
    }
    if (which == SUM_DQUERY || which == SUM_ROWS) {
        return ceil_div(key_len, SPLIT_KEYS) * rows * (which == SUM_DQUERY ? state->columns : BLOCK_SUMS);
    }
    return of_keys * (which == SUM_DKEY ? p->head_dim : p->head_dim_v);
}

/* Elements of the totals of dkey and dvalue and of their rests, where a launch is not all of a group's rows: as two
 * rectangles more. */
static int64_t total_elements(const struct backward_problem *b, const struct backward_simd *state, int which,
                              int64_t key_len)
{
    return which == SUM_DQUERY || which == SUM_ROWS ? 0 : 2 * part_elements(b, state, which, 1, key_len);
}

int64_t backward_simd_place(const struct backward_problem *b, const struct backward_simd *state, int64_t groups,
                            int64_t rows, int64_t all_rows, int64_t key_len, int64_t at[BACKWARD_SUMS],
                            int64_t total_at[BACKWARD_SUMS])
{
    int64_t next = 0;
    for (int which = 0; which < BACKWARD_SUMS; ++which) {
        at[which] = next;
        next += groups * part_elements(b, state, which, rows, key_len);
    }
    for (int which = 0; which < BACKWARD_SUMS; ++which) {
        total_at[which] = next;
        next += rows < all_rows ? groups * total_elements(b, state, which, key_len) : 0;
    }
    return next;
}

static int64_t launch_elements(const struct backward_problem *b, const struct backward_simd *state, int64_t groups,
                               int64_t rows)
{
    const clattn_problem *p = &b->attention.p;
    int64_t at[BACKWARD_SUMS], total_at[BACKWARD_SUMS];
    return backward_simd_place(b, state, groups, rows, p->query_len * state->group, p->key_len, at, total_at);
}

/* What is left of the limit. */
static int64_t elements_left(const struct clattn_plan *plan)
{
    const int64_t limit_bytes = (int64_t)plan->context->workspace_limit_bytes;
    return limit_bytes > (int64_t)plan->workspace_bytes
               ? (limit_bytes - (int64_t)plan->workspace_bytes) / (int64_t)sizeof(float)
               : 0;
}

/* For parts of dbias, which axes of it are summed only a call says: for as many work-groups as keep a device busy, or
 * all that there may be, as far as the limit allows, and for one part, its total and the total's rest at least. */
static int64_t bias_elements(const struct clattn_plan *plan, const struct backward_simd *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    const int64_t groups[] = { p->batch * p->query_heads, ceil_div(p->query_len, state->block_rows),
                               ceil_div(p->key_len, state->block_keys) };
    const int64_t of_part = (int64_t)state->block_rows * state->block_keys, left = elements_left(plan) / of_part;
    const int64_t all = product_of_extents(groups, 3), most = all >= 0 && all < 4 * BIAS_GROUPS ? all : 4 * BIAS_GROUPS;
    const int64_t parts = left < most ? left : most;
    return backward_wants(b, CLATTN_GRADIENT_BIAS) ? (parts > 3 ? parts : 3) * of_part : 0;
}

/* As many groups as fit the limit, or of one group as many rows: whole rectangles, else whole blocks of rows. */
static void choose_parts(const struct clattn_plan *plan, struct backward_simd *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    const int64_t all_rows = p->query_len * state->group, left = elements_left(plan);
    const int64_t of_group = launch_elements(b, state, 1, all_rows);
    state->rows = all_rows;
    state->groups = of_group > 0 ? left / of_group : p->batch * p->kv_heads;
    state->groups = state->groups < p->batch * p->kv_heads ? state->groups : p->batch * p->kv_heads;
    if (state->groups > 0 || all_rows == 0) {
        state->groups = state->groups > 0 ? state->groups : 1;
        return;
    }
    state->groups = 1;
    const int64_t step = RECTANGLE_ROWS, blocks = state->block_rows;
    state->rows = (all_rows - 1) / step * step;
    while (state->rows > step && launch_elements(b, state, 1, state->rows) > left) {
        state->rows -= step;
    }
    if (state->rows <= 0 || launch_elements(b, state, 1, state->rows) > left) {
        const int64_t most = all_rows - 1 < step - blocks ? all_rows - 1 : step - blocks;
        const int64_t of_row = part_elements(b, state, SUM_DQUERY, 1, p->key_len) +
                               part_elements(b, state, SUM_ROWS, 1, p->key_len);
        const int64_t kept = launch_elements(b, state, 1, 1) - of_row;
        const int64_t fits = of_row > 0 && left > kept ? (left - kept) / of_row : of_row > 0 ? 0 : most;
        state->rows = (fits < most ? fits : most) / blocks * blocks;
        for (; state->rows > blocks && step % state->rows != 0;) {
            state->rows -= blocks; /* a rectangle ends where a launch does */
        }
        state->rows = state->rows > blocks ? state->rows : blocks;
    }
}

static clattn_status measure(struct clattn_plan *plan, struct backward_simd *state)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    clattn_status status = backward_plain_measure(plan, 1);
    const int64_t factors[] = { p->batch * p->kv_heads, ceil_div(p->key_len, SPLIT_KEYS) + 3,
                                p->query_len * state->group + p->key_len, 2 * COLUMNS_MAX * 4 };
    if (status == CLATTN_OK && product_of_extents(factors, 4) < 0) {
        status = error_set(CLATTN_INVALID_SHAPE, "key_len %lld: sums of gradients do not fit 64 bits",
                           (long long)p->key_len);
    }
    if (status == CLATTN_OK) {
        plan->workspace_bytes = (size_t)round_up((int64_t)plan->workspace_bytes, 64);
        state->sums_at = (int64_t)(plan->workspace_bytes / sizeof(float));
        choose_parts(plan, state);
        state->bias_elements = bias_elements(plan, state);
        const int64_t elements = launch_elements(b, state, state->groups, state->rows);
        plan->workspace_bytes += (size_t)(elements > state->bias_elements ? elements : state->bias_elements) *
                                 sizeof(float);
    }
    return status;
}

/* ---- plan -------------------------------------------------------------------------------------- */

static clattn_status build(struct ask *ask, const struct registers *tile, enum backward_product product,
                           int weight_parts, struct backward_simd *state)
{
    const struct backward_problem *b = backward_problem(ask->problem);
    const unsigned wants = rectangles_want(b);
    /* Sums of dbias have no heads side by side. */
    const struct {
        const char *name;
        struct kernel **kernel;
        int is_wanted;
        int64_t group;
        unsigned wants;
    } kernels[] = { { "row_rests", &state->row_rests, 1, state->group, wants },
                    { "rectangles", &state->rectangles, wants != 0, state->group, wants },
                    { "add_sums", &state->add_sums, backward_simd_sums(b) != 0, state->group, wants },
                    { "bias_sums", &state->bias_sums, (wants & WANTED_BIAS) != 0, 1, WANTED_BIAS },
                    { "add_bias_sums", &state->add_bias_sums, (wants & WANTED_BIAS) != 0, 1, WANTED_BIAS } };
    clattn_status status = CLATTN_OK;
    struct text width = TEXT_INIT;
    append_code_width(ask, &width);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && status == CLATTN_OK; ++i) {
        struct text options = TEXT_INIT;
        append_type_options(&b->attention, &options);
        append_problem_options(&b->attention, &options);
        text_append(&options, " -D GROUP=%d -D VECTORS=%d -D PRODUCT_ROWS=%d -D PRODUCT_COLUMNS=%d",
                    (int)(kernels[i].group > 0 ? kernels[i].group : 1), tile->vectors, tile->rows, tile->columns);
        text_append(&options, " -D BLOCK_KEYS=%d -D BLOCK_ROWS=%d -D WANTS=%u -D PRODUCT=%d -D WEIGHT_PARTS=%d",
                    state->block_keys, state->block_rows, kernels[i].wants, (int)product, weight_parts);
        text_append(&options, "%s", width.data ? width.data : "");
        if (kernels[i].is_wanted) {
            status =
                ask_kernel(ask, "backward_simd/backward_simd.cl", &options, kernels[i].name, kernels[i].kernel, NULL);
        }
        text_free(&options);
    }
    text_free(&width);
    return status == CLATTN_OK ? backward_plain_build(ask, backward_head_sums_wanted(b), &state->plain) : status;
}

static void describe(const struct clattn_plan *plan, const struct registers *tile, const char *words,
                     struct text *explain)
{
    const struct backward_simd *state = plan->state;
    const clattn_problem *p = &backward_problem(plan->problem)->attention.p;
    text_append(explain, "  products: %s\n", words);
    text_append(explain, "  rectangles: %d keys x %d rows, in blocks of %d x %d; sums of each added in order\n",
                SPLIT_KEYS, RECTANGLE_ROWS, state->block_keys, state->block_rows);
    text_append(explain, "  registers: %d rows, or %d columns, x %d vectors of 16 keys\n", tile->rows, tile->columns,
                tile->vectors);
    text_append(explain,
                "  at once: %lld key/value heads, %lld rows of each; dquery in %lld parts, dkey and dvalue in "
                "%lld\n",
                (long long)state->groups, (long long)state->rows, (long long)ceil_div(p->key_len, SPLIT_KEYS),
                (long long)ceil_div(p->query_len * state->group, RECTANGLE_ROWS));
    if (backward_wants(backward_problem(plan->problem), CLATTN_GRADIENT_BIAS)) {
        text_append(explain, "  dbias: stored by the rectangles; axes of stride 0 summed by a kernel of its own, which "
                             "makes the pairs once more, in parts added in order\n");
    }
}

clattn_status backward_simd_plan(struct ask *ask, struct clattn_plan *plan, enum backward_product product,
                                 int weight_parts, const char *words)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    const struct registers *tile = &tiles[product == BACKWARD_TILES ? REGISTERS_32_OF_16 : register_file_of(ask)];
    struct backward_simd *state = plan->state;
    const struct blocks blocks = blocks_for(p, product);
    state->block_keys = blocks.keys;
    state->block_rows = blocks.rows;
    state->group = problem_group(p);
    state->columns = round_up(p->head_dim, tile->vectors * LANES);
    const clattn_status status = measure(plan, state);
    describe(plan, tile, words, ask->explain);
    return status == CLATTN_OK ? build(ask, tile, product, weight_parts, state) : status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    return backward_simd_plan(ask, plan, BACKWARD_FMA, 1, "float32 multiply-adds");
}

const struct strategy strategy_backward_simd = {
    .operation = &operation_backward,
    .name = "fused_simd",
    .summary = "keys along vector lanes, no matrix of scores, one pass over the pairs; CPU devices",
    .knows = CLATTN_FLAGS_OF_ALL,
    .takes = BACKWARD_TAKES,
    .types = STRATEGY_32_BITS,
    .sum_roundings = 144, /* 64 + 64 + 3; dquery 128 + 4 + 3 */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct backward_simd),
    .plan = plan,
    .enqueue = backward_simd_enqueue,
};
