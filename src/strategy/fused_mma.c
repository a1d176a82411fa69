/* fused_mma: one kernel on a GPU's matrix unit, for 16-bit types, and for float32 where tf32 is allowed. Which unit, a
 * rung of the ladder says; the tile comes from the tuning table. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cl/mma_layout.h"
#include "plan/matrix_unit.h"
#include "plan/row_blocks.h"
#include "plan/tuning.h"
#include "strategy/strategies.h"

#define NAME "fused_mma"

/* Tiles of twice the rows read keys half as often. They are faster once each compute unit has this many of them
 * (measured on an H100: 19 to 22 % faster with four a unit, 4 to 15 % slower with one or with half of one).
 * Features that take more registers a row leave no room for such tiles. Windows and row ranges make a block's tiles of
 * keys begin where the block's first row sees: there the size of a block decides bits, and the number of blocks, which
 * chooses the size, must not. */
#define MANY_BLOCKS_PER_UNIT 3
#define NOT_IN_MANY                                                                                                    \
    (CLATTN_FLAG_WINDOW | CLATTN_FLAG_ROW_RANGES | CLATTN_FLAGS_HIDING_PAIRS | CLATTN_FLAGS_FINISHING |                \
     CLATTN_FLAG_DROPOUT | CLATTN_FLAG_PAGES)

struct shape {
    const struct matrix_unit *unit;
    struct row_tile of;
};

struct mma_state {
    struct kernel *kernel;
    struct shape shape;
};

static int keeps_queries(const struct shape *shape)
{
    return shape->of.depth <= shape->of.tile.register_depth;
}

static struct shape shape_of(const struct matrix_unit *unit, const struct tile *tile, const struct problem *problem)
{
    struct shape shape = { .unit = unit, .of.tile = *tile };
    shape.of.depth = matrix_columns(problem->p.head_dim, MATRIX_HEAD_DIM_MOST);
    shape.of.columns = matrix_columns(problem->p.head_dim_v, tile->group_columns);
    const int element_bytes = (int)clattn_type_size(problem->p.type), padding = MMA_PADDING_BYTES / element_bytes;
    const int depth = shape.of.depth, columns = shape.of.columns;
    const int parked = MMA_PARKS(problem->flags) ? MMA_PARKED(tile->rows, tile->keys, element_bytes) : 0;
    const int keys = MMA_LARGER(MMA_TILE(tile->keys, depth, padding), parked);
    /* The largest of the layouts that values may have. */
    const int values = MMA_LARGER(MMA_TILE(tile->keys, columns, padding), MMA_TILE(columns, tile->keys, padding));
    const int elements = MMA_LOCAL_SIZE(keys, values, keeps_queries(&shape), MMA_TILE(tile->rows, depth, padding),
                                        MMA_TILE(tile->rows, columns, padding));
    shape.of.local_bytes = (size_t)(elements * element_bytes) + 64;
    if (matrix_unit_is_emulated(unit)) {
        shape.of.local_bytes += (size_t)(MMA_SCRATCH_BYTES * tile->work_items);
    }
    return shape;
}

/* The tile for many rows begins the list where the problem has as many as it takes. */
static const struct tile *find_tile(const struct device *device, const struct matrix_unit *unit,
                                    const clattn_problem *p, uint32_t flags, int rank)
{
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    const int may_be_many = unit->many_tiles && !(flags & NOT_IN_MANY);
    const struct tile *many = may_be_many ? tuning_find(unit->many_tiles, DEVICE_GPU, head_dim, 0) : NULL;
    const double heads = (double)p->batch * (double)p->query_heads;
    if (many && heads * (double)row_blocks_of(p->query_len, many->rows) >=
                    MANY_BLOCKS_PER_UNIT * (double)device->compute_units) {
        return rank == 0 ? many : tuning_find(unit->tiles, DEVICE_GPU, head_dim, rank - 1);
    }
    return tuning_find(unit->tiles, DEVICE_GPU, head_dim, rank);
}

/* The next tile from *rank on that the device has room for; 0: there is none. */
static int find_shape(const struct device *device, const struct matrix_unit *unit, const struct problem *problem,
                      int *rank, struct shape *shape)
{
    const struct tile *tile;
    for (; (tile = find_tile(device, unit, &problem->p, problem->flags, *rank)) != NULL; ++*rank) {
        *shape = shape_of(unit, tile, problem);
        if (row_tile_fits(device, &shape->of)) {
            return 1;
        }
    }
    return 0;
}

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    const struct device *device = &context->device;
    const struct matrix_unit *unit;
    struct shape shape;
    int rank = 0;
    if (p->type == CLATTN_FLOAT64) {
        text_append(why, "matrix units do not multiply float64");
    } else if (p->type == CLATTN_FLOAT32 && !p->allow_tf32) {
        text_append(why, "matrix units take float32 rounded to tf32, which the problem does not allow");
    } else if (problem_mixes_types(problem)) {
        text_append(why, "takes queries, keys, values and outputs of one type");
    } else if (p->head_dim > MATRIX_HEAD_DIM_MOST) {
        text_append(why, "head_dim %lld: at most %d", (long long)p->head_dim, MATRIX_HEAD_DIM_MOST);
    } else if (!attention_reads_rows(problem, why) || !row_blocks_applicable(device, problem, why)) {
        return 0;
    } else if ((unit = matrix_unit_find(context, problem, why)) == NULL) {
        return 0;
    } else if (!find_shape(device, unit, problem, &rank, &shape)) {
        row_tile_none_fits(device, why);
    } else {
        return 1;
    }
    return 0;
}

static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    const struct matrix_unit *unit = matrix_unit_find(context, problem, NULL);
    struct shape shape;
    int rank = 0;
    if (!unit || !find_shape(&context->device, unit, problem, &rank, &shape)) {
        return 1e30;
    }
    /* Multiply-adds a millisecond and compute unit: 6e8 measured on an H100, half as many guessed for what most have,
     * of tf32 half of that. */
    const double rate = matrix_unit_is_emulated(unit) ? 1e4 : problem->p.type == CLATTN_FLOAT32 ? 1.5e8 : 3e8;
    return row_tile_cost_ms(&context->device, problem, &shape.of, rate);
}

static clattn_status build(clattn_context *context, const struct problem *problem, const struct shape *shape,
                           struct kernel **kernel)
{
    struct text text = TEXT_INIT;
    matrix_unit_append_options(shape->unit, &text);
    text_append(&text,
                " -D TYPE=%d -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d "
                "-D TILE_ROWS=%d -D TILE_KEYS=%d -D WORK_ITEMS=%d -D DEPTH=%d -D COLUMNS=%d "
                "-D QUERIES_IN_REGISTERS=%d",
                (int)problem->p.type, problem->flags & ~ROW_BLOCK_RUN_TIME_FEATURES, problem->p.strided_columns != 0,
                shape->of.tile.rows, shape->of.tile.keys, shape->of.tile.work_items, shape->of.depth, shape->of.columns,
                keeps_queries(shape));
    if (problem->p.allow_rounded_weights) {
        text_append(&text, " -D WEIGHT_PARTS=1");
    }
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(&text, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
    append_kv_options(problem, &text);
    text_append(&text, " -D RUNS=%d", problem->p.key_len > RUN_KEYS);
    char *options;
    clattn_status status = text_give(&text, "build options", &options);
    if (status == CLATTN_OK) {
        status = program_kernel(context, "fused_mma.cl", options, NAME, kernel);
    }
    free(options);
    return status;
}

static void describe(const struct shape *shape, const struct problem *problem, struct text *explain)
{
    matrix_unit_describe(shape->unit, problem->p.type, explain);
    row_tile_describe(&shape->of, problem, explain);
}

static void set_rounding(struct clattn_plan *plan)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    plan->weight_rounding = matrix_weight_rounding(p);
    plan->factor_rounding = p->type == CLATTN_FLOAT32 ? TF32_ROUNDING : 0;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    const struct problem *problem = attention_problem(plan->problem);
    struct mma_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    set_rounding(plan);
    struct shape *shape = &state->shape;
    const struct matrix_unit *unit = matrix_unit_find(context, problem, NULL);
    size_t limit = 0;
    for (int rank = 0; unit && find_shape(&context->device, unit, problem, &rank, shape); ++rank) {
        clattn_status status = build(context, problem, shape, &state->kernel);
        if (status == CLATTN_OK) {
            status = kernel_work_group_limit(state->kernel, &limit);
        }
        if (status != CLATTN_OK) {
            return status;
        }
        if (limit >= (size_t)shape->of.tile.work_items) {
            describe(shape, problem, explain);
            return CLATTN_OK;
        }
    }
    return row_tile_none_runs(NAME, limit);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct mma_state *state = plan->state;
    const struct row_blocks blocks = { state->kernel, &state->shape.of, MATRIX_LAUNCH_WORK_PER_UNIT };
    return row_blocks_enqueue(plan, &blocks, operands, chain);
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_fused_mma = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "no score matrix in memory; 16-bit types and tf32 on a GPU's matrix unit",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .sum_roundings = 240, /* 2 (64 + 16) + 18, row sums 40 + 16, the end */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
