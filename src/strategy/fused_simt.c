/* fused_simt: one kernel, tiles through local memory, for GPUs. The tile comes from the tuning table. */
#include <string.h>

#include "cl/simt/simt_layout.h"
#include "plan/simt_tile.h"
#include "plan/tuning.h"
#include "strategy/strategies.h"

#define NAME "fused_simt"

struct simt_state {
    struct kernel *kernel;
    struct simt_shape shape;
};

static struct simt_shape shape_of(const struct tile *tile, const struct problem *problem)
{
    const size_t real_bytes = problem->p.type == CLATTN_FLOAT64 ? 8 : 4;
    struct simt_shape shape = simt_shape_of(tile, problem->p.head_dim, problem->p.head_dim_v, real_bytes);
    const int maxima = SIMT_MAXIMA(tile->rows, tile->keys / tile->item_keys, tile->work_items);
    shape.of.local_bytes += real_bytes * (size_t)(maxima * SIMT_PITCH(tile->rows));
    return shape;
}

/* The rows of the tuning table. NVIDIA's and AMD's have a larger share of a tile a work-item, which does not pay where
 * nothing can be loaded ahead (cl/simt/ahead.clh), nor on Intel's GPUs, whose work-items have fewer registers. What is
 * no GPU takes both, AMD's for 16 bits, so that tests on CPUs test them. */
static const char *tiles_for(const struct device *device, const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    const int goes_ahead = !p->strided_columns && p->head_dim % 8 == 0 && p->head_dim_v % 4 == 0 &&
                           !problem_has_codes(problem) && !(problem->flags & CLATTN_FLAG_POOLS);
    if (p->type == CLATTN_FLOAT64) {
        return NAME " double";
    }
    if (!goes_ahead) {
        return NAME;
    }
    const char *platform = device->platform_name;
    const int is_gpu = device->device_class == DEVICE_GPU;
    const int is_amd = is_gpu ? strcmp(platform, "AMD Accelerated Parallel Processing") == 0
                              : p->type != CLATTN_FLOAT32;
    const int is_nvidia = is_gpu ? strcmp(platform, "NVIDIA CUDA") == 0 : !is_amd;
    return is_amd ? NAME " ahead amd" : is_nvidia ? NAME " ahead" : NAME;
}

static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const struct device *device = &ask->context->device;
    const struct problem *problem = attention_problem(ask->problem);
    struct simt_state *state = of;
    const char *tiles = tiles_for(device, problem);
    const struct tile *tile;
    for (; (tile = tuning_find(tiles, DEVICE_GPU, problem->p.head_dim_v, *rank)) != NULL; ++*rank) {
        state->shape = shape_of(tile, problem);
        if (row_tile_fits(device, &state->shape.of)) {
            return &state->shape.of;
        }
    }
    return NULL;
}

static int applicable(struct ask *ask)
{
    struct simt_state state;
    int rank = 0;
    return row_blocks_applicable(ask) && (find(ask, &state, &rank) || row_tile_none_fits(ask));
}

static struct work work(struct ask *ask)
{
    struct simt_state state;
    int rank = 0;
    const struct row_tile *tile = find(ask, &state, &rank);
    return tile ? row_tile_work(ask, tile,
                                ask->context->device.device_class == DEVICE_GPU ? RATE_SIMT : RATE_SIMT_OFF_GPU)
                : WORK_UNKNOWN;
}

/* What makes a vendor's compiler give each work-item the registers that the tile needs, and, but for float64, no
 * more than lets two work-groups share a core; make check-offline shows the outcome. */
static void vendor_options(const struct device *device, const struct problem *problem, const struct simt_shape *shape,
                           struct text *options)
{
    const uint32_t wants_large = CLATTN_FLAGS_FINISHING | CLATTN_FLAG_DROPOUT | CLATTN_FLAG_POOLS;
    const int is_wide = problem->p.head_dim_v > 64, is_masked = problem->flags & CLATTN_FLAGS_HIDING_PAIRS && is_wide;
    const int is_double = problem->p.type == CLATTN_FLOAT64, is_small = shape->of.tile.work_items < 256;
    if (device->device_class != DEVICE_GPU) {
        return;
    }
    const int is_large = device->sub_group_size_least >= 16
                             ? is_double || is_small || is_masked || problem->flags & wants_large
                             : device->sub_group_size_least > 0 && is_wide && problem->flags & wants_large;
    if (is_large) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
    if (strcmp(device->platform_name, "NVIDIA CUDA") == 0 && !is_small && !is_double &&
        !(problem->flags & CLATTN_FLAG_DROPOUT)) {
        text_append(options, " -cl-nv-maxrregcount=%d", 32768 / shape->of.tile.work_items);
    }
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    const struct problem *problem = attention_problem(ask->problem);
    struct simt_state *state = of;
    struct text options = TEXT_INIT;
    simt_append_options(problem, &state->shape, &options);
    append_kv_options(problem, &options);
    text_append(&options, " -D RUNS=%d -D COLUMN_RUNS=%d", problem->p.key_len > RUN_KEYS,
                HAS_COLUMN_RUNS(problem->p.head_dim));
    vendor_options(&ask->context->device, problem, &state->shape, &options);
    const clattn_status status = ask_kernel(ask, "simt/fused_simt.cl", &options, NAME, &state->kernel, limit);
    text_free(&options);
    return status;
}

static clattn_status plan(struct ask *ask, struct clattn_plan *plan)
{
    struct simt_state *state = plan->state;
    const clattn_status status = row_tile_build(ask, NAME, find, build, state);
    if (status == CLATTN_OK) {
        row_tile_describe(&state->shape.of, attention_problem(plan->problem), ask->explain);
    }
    return status;
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    const struct row_blocks blocks = { state->kernel, &state->shape.of, SIMT_LAUNCH_WORK_PER_UNIT };
    return row_blocks_enqueue(plan, &blocks, operands, chain);
}

const struct strategy strategy_fused_simt = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "no score matrix in memory; tiles through local memory, for GPUs",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .takes = ROW_BLOCKS_TAKE,
    .types = STRATEGY_64_BITS,
    .sum_roundings = 680, /* 512 + 32 + 2, row sums 64 + 32 + 34 */
    .applicable = applicable,
    .work = work,
    .state_bytes = sizeof(struct simt_state),
    .plan = plan,
    .enqueue = enqueue,
};
