/* fused_mma: one kernel on a GPU's matrix unit, for 16-bit types, and for float32 where tf32 is allowed. Which unit, a
 * rung of the ladder says; the tile comes from the tuning table. */
#include "base/checked_math.h"
#include "cl/mma/mma_layout.h"
#include "plan/matrix_unit.h"
#include "plan/row_blocks.h"
#include "plan/tuning.h"
#include "strategy/strategies.h"

#define NAME "fused_mma"

/* Tiles of twice the rows read keys half as often. They are faster once each compute unit has this many of them
 * (measured on an H100: 19 to 22 % faster with four a unit, 4 to 15 % slower with one or with half of one).
 * Features that take more registers a row leave no room for such tiles. Windows, row ranges and masks of blocks make a
 * block's tiles of keys begin where its rows see: there the size of a block decides bits, and the number of blocks,
 * which chooses the size, must not. */
#define MANY_BLOCKS_PER_UNIT 3
#define NOT_IN_MANY                                                                                                    \
    (CLATTN_FLAG_WINDOW | CLATTN_FLAG_ROW_RANGES | CLATTN_FLAGS_HIDING_PAIRS | CLATTN_FLAGS_FINISHING |                \
     CLATTN_FLAG_DROPOUT | CLATTN_FLAG_PAGES | CLATTN_FLAG_BLOCK_MASK)

struct mma_state {
    struct kernel *kernel;
    const struct matrix_unit *unit;
    struct row_tile tile;
};

static int keeps_queries(const struct row_tile *of)
{
    return of->depth <= of->tile.register_depth;
}

static struct row_tile tile_of(const struct matrix_unit *unit, const struct tile *tile, const struct problem *problem)
{
    struct row_tile of = { .tile = *tile };
    of.depth = matrix_columns(problem->p.head_dim, MATRIX_HEAD_DIM_MOST);
    of.columns = matrix_columns(problem->p.head_dim_v, tile->group_columns);
    const int element_bytes = (int)clattn_type_size(problem->p.type), padding = MMA_PADDING_BYTES / element_bytes;
    const int depth = of.depth, columns = of.columns;
    const int parked = MMA_PARKS(problem->flags) ? MMA_PARKED(tile->rows, tile->keys, element_bytes) : 0;
    const int keys = MMA_LARGER(MMA_TILE(tile->keys, depth, padding), parked);
    /* The largest of the layouts that values may have. */
    const int values = MMA_LARGER(MMA_TILE(tile->keys, columns, padding), MMA_TILE(columns, tile->keys, padding));
    const int elements = MMA_LOCAL_SIZE(keys, values, keeps_queries(&of), MMA_TILE(tile->rows, depth, padding),
                                        MMA_TILE(tile->rows, columns, padding));
    of.local_bytes = (size_t)(elements * element_bytes) + 64;
    if (matrix_unit_is_emulated(unit)) {
        of.local_bytes += (size_t)(MMA_SCRATCH_BYTES * tile->work_items);
    }
    return of;
}

/* The tile for many rows begins the list where the problem has as many as it takes. */
static const struct tile *find_tile(const struct device *device, const struct matrix_unit *unit,
                                    const clattn_problem *p, uint32_t flags, int rank)
{
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    const int may_be_many = unit->many_tiles && !(flags & NOT_IN_MANY);
    const struct tile *many = may_be_many ? tuning_find(unit->many_tiles, DEVICE_GPU, head_dim, 0) : NULL;
    const double heads = (double)p->batch * (double)p->query_heads;
    if (many &&
        heads * (double)ceil_div(p->query_len, many->rows) >= MANY_BLOCKS_PER_UNIT * (double)device->compute_units) {
        return rank == 0 ? many : tuning_find(unit->tiles, DEVICE_GPU, head_dim, rank - 1);
    }
    return tuning_find(unit->tiles, DEVICE_GPU, head_dim, rank);
}

static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const struct problem *problem = attention_problem(ask->problem);
    struct mma_state *state = of;
    const struct tile *tile;
    for (; state->unit &&
           (tile = find_tile(&ask->context->device, state->unit, &problem->p, problem->flags, *rank)) != NULL;
         ++*rank) {
        state->tile = tile_of(state->unit, tile, problem);
        if (row_tile_fits(&ask->context->device, &state->tile)) {
            return &state->tile;
        }
    }
    return NULL;
}

static int applicable(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct mma_state state;
    int rank = 0;
    if (p->type == CLATTN_FLOAT32 && !p->allow_tf32) {
        return ask_declines(ask, "matrix units take float32 rounded to tf32, which the problem does not allow");
    }
    return matrix_rows_applicable(ask) && (state.unit = matrix_unit_find(ask)) != NULL &&
           (find(ask, &state, &rank) || row_tile_none_fits(ask));
}

static struct work work(struct ask *ask)
{
    struct mma_state state = { .unit = matrix_unit_find(ask) };
    int rank = 0;
    const struct row_tile *tile = find(ask, &state, &rank);
    const int is_tf32 = attention_problem(ask->problem)->p.type == CLATTN_FLOAT32;
    return tile ? row_tile_work(ask, tile,
                                matrix_unit_is_emulated(state.unit) ? RATE_MMA_EMULATED
                                : is_tf32                           ? RATE_MMA_TF32
                                                                    : RATE_MMA)
                : WORK_UNKNOWN;
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    struct mma_state *state = of;
    const struct row_tile *tile = &state->tile;
    struct text options = TEXT_INIT;
    matrix_append_options(state->unit, attention_problem(ask->problem), tile, &options);
    text_append(&options, " -D QUERIES_IN_REGISTERS=%d", keeps_queries(tile));
    const clattn_status status = ask_kernel(ask, "mma/fused_mma.cl", &options, NAME, &state->kernel, limit);
    text_free(&options);
    return status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct mma_state *state = plan->state;
    plan->weight_rounding = matrix_weight_rounding(&problem->p);
    plan->factor_rounding = problem->p.type == CLATTN_FLOAT32 ? TF32_ROUNDING : 0;
    state->unit = matrix_unit_find(ask);
    const clattn_status status = row_tile_build(ask, NAME, find, build, state);
    if (status == CLATTN_OK) {
        matrix_unit_describe(state->unit, problem->p.type, ask->explain);
        row_tile_describe(&state->tile, problem, ask->explain);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct mma_state *state = plan->state;
    const struct row_blocks blocks = { state->kernel, &state->tile, MATRIX_LAUNCH_WORK_PER_UNIT };
    return row_blocks_enqueue(plan, &blocks, operands, chain);
}

const struct strategy strategy_fused_mma = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "no score matrix in memory; 16-bit types and tf32 on a GPU's matrix unit",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .takes = ROW_BLOCKS_TAKE,
    .types = STRATEGY_16_BITS,
    .sum_roundings = 240, /* 2 (64 + 16) + 18, row sums 40 + 16, the end */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct mma_state),
    .plan = plan,
    .enqueue = enqueue,
};
