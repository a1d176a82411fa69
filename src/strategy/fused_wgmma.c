/* fused_wgmma: fused_mma's attention by the products of NVIDIA's warpgroups, for 16-bit types. The tile comes from the
 * tuning table; as many places as local memory has room for make the ring (cl/wgmma/ring.clh): OpenCL's, or the larger
 * one of the second build where the ladder found it. */
#include "cl/mma/mma_layout.h"
#include "plan/matrix_unit.h"
#include "plan/row_blocks.h"
#include "plan/tuning.h"
#include "strategy/strategies.h"

#define NAME "fused_wgmma"

/* Keys and values have a place each at least; more than these bring nothing. */
#define PLACES_LEAST 2
#define PLACES_MOST 12

/* What OpenCL gives a work-group on the devices that have warpgroups; the emulated ones keep to it. */
#define LOCAL_BYTES_MOST (48 * 1024)

/* A place has its arrivals and its count of warps, a work-group says which values are not finite. */
#define PLACE_OWN_BYTES 16
#define GROUP_OWN_BYTES 64

/* Features that take more registers than most rows leave, or local memory for all scores; and where 256 rows leave
 * fewest. */
#define WIDE (CLATTN_FLAGS_CHANGING | CLATTN_FLAG_MASK_TEXT | CLATTN_FLAG_DROPOUT | CLATTN_FLAG_PAGES)
#define WIDE_TO_80 (WIDE | CLATTN_FLAGS_HIDING_PAIRS)

struct wgmma_state {
    struct kernel *kernel;
    const struct matrix_unit *unit;
    struct row_tile tile;
    int places;
    int is_large; /* the ring's memory is of the second build */
};

static size_t ring_bytes(const struct problem *problem, const struct row_tile *of, int places)
{
    const int parked = MMA_PARKS(problem->flags) ? MMA_PARKED(of->tile.rows, of->tile.keys, 2) : 0;
    const int place = WGMMA_PLACE(of->tile.keys, of->depth, of->columns);
    return (size_t)(2 * WGMMA_RING(places, place, parked, of->depth, of->columns));
}

static size_t own_bytes(int places)
{
    return (size_t)(PLACE_OWN_BYTES * places + GROUP_OWN_BYTES);
}

static void set_tile(struct wgmma_state *state, const struct tile *tile, const struct problem *problem)
{
    struct row_tile of = { .tile = *tile };
    of.depth = matrix_columns(problem->p.head_dim, MATRIX_HEAD_DIM_MOST);
    of.columns = matrix_columns(problem->p.head_dim_v, MATRIX_HEAD_DIM_MOST);
    const size_t most = state->is_large ? WGMMA_LARGE_BYTES : LOCAL_BYTES_MOST;
    state->places = PLACES_MOST;
    while (state->places > PLACES_LEAST && ring_bytes(problem, &of, state->places) + own_bytes(state->places) > most) {
        --state->places;
    }
    const size_t ring = ring_bytes(problem, &of, state->places);
    of.local_bytes = own_bytes(state->places) + (state->is_large ? 0 : ring);
    of.second_local_bytes = state->is_large ? ring : 0;
    if (matrix_unit_is_emulated(state->unit)) {
        of.local_bytes += (size_t)(MMA_SCRATCH_BYTES * tile->work_items);
    }
    state->tile = of;
}

/* The unit, and what its ring may have; 0: there is none, and ask->why says why. */
static int find_unit(struct ask *ask, struct wgmma_state *state)
{
    state->unit = warpgroup_unit_find(ask);
    state->is_large = state->unit && !matrix_unit_is_emulated(state->unit) &&
                      ladder_has(ask, RUNG_NVIDIA_90_LOCAL, NULL);
    return state->unit != NULL;
}

static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const struct problem *problem = attention_problem(ask->problem);
    const clattn_problem *p = &problem->p;
    struct wgmma_state *state = of;
    const int64_t head_dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
    const int is_wide = (problem->flags & (head_dim <= 80 ? WIDE_TO_80 : WIDE)) != 0;
    const char *tiles = is_wide && state->unit->many_tiles ? state->unit->many_tiles : state->unit->tiles;
    const struct tile *tile;
    for (; (tile = tuning_find(tiles, DEVICE_GPU, head_dim, *rank)) != NULL; ++*rank) {
        set_tile(state, tile, problem);
        if (row_tile_fits(&ask->context->device, &state->tile)) {
            return &state->tile;
        }
    }
    return NULL;
}

static int applicable(struct ask *ask)
{
    struct wgmma_state state = { 0 };
    int rank = 0;
    if (attention_problem(ask->problem)->p.type == CLATTN_FLOAT32) {
        return ask_declines(ask, "takes types of 16 bits");
    }
    if (!matrix_rows_applicable(ask) || !find_unit(ask, &state)) {
        return 0;
    }
    if (!matrix_unit_is_emulated(state.unit) && !ask->context->verdicts && !ask->by_name) {
        return ask_declines(ask,
                            "never ran on hardware: it is taken with the self-check (CLATTN_SELF_CHECK) or by name");
    }
    return find(ask, &state, &rank) != NULL || row_tile_none_fits(ask);
}

static struct work work(struct ask *ask)
{
    struct wgmma_state state = { 0 };
    int rank = 0;
    const struct row_tile *tile = find_unit(ask, &state) ? find(ask, &state, &rank) : NULL;
    return tile ? row_tile_work(ask, tile, matrix_unit_is_emulated(state.unit) ? RATE_MMA_EMULATED : RATE_WGMMA)
                : WORK_UNKNOWN;
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    struct wgmma_state *state = of;
    struct text options = TEXT_INIT;
    matrix_append_options(state->unit, attention_problem(ask->problem), &state->tile, &options);
    text_append(&options, " -D PLACES=%d", state->places);
    if (state->is_large) {
        text_append(&options, " -D LARGE_BYTES=%zu", state->tile.second_local_bytes);
    }
    const clattn_status status = ask_kernel(ask, "wgmma/fused_wgmma.cl", &options, NAME, &state->kernel, limit);
    text_free(&options);
    return status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    const struct problem *problem = attention_problem(plan->problem);
    struct wgmma_state *state = plan->state;
    plan->weight_rounding = matrix_weight_rounding(&problem->p);
    find_unit(ask, state);
    const clattn_status status = row_tile_build(ask, NAME, find, build, state);
    if (status == CLATTN_OK) {
        matrix_unit_describe(state->unit, problem->p.type, ask->explain);
        row_tile_describe(&state->tile, problem, ask->explain);
        text_append(ask->explain, "  ring: %d places of a tile of keys or values\n", state->places);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct wgmma_state *state = plan->state;
    const struct row_blocks blocks = { state->kernel, &state->tile, MATRIX_LAUNCH_WORK_PER_UNIT };
    return row_blocks_enqueue(plan, &blocks, operands, chain);
}

const struct strategy strategy_fused_wgmma = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "no score matrix in memory; 16-bit types by NVIDIA's warpgroups (Hopper)",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .takes = ROW_BLOCKS_TAKE,
    .types = STRATEGY_16_BITS,
    .sum_roundings = 240, /* those of fused_mma, whose sums it has */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct wgmma_state),
    .plan = plan,
    .enqueue = enqueue,
};
