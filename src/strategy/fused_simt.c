/* fused_simt: one kernel, tiles through local memory, for GPUs. The tile comes from the tuning table. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cl/simt_layout.h"
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
 * nothing can be loaded ahead (cl/simt_ahead.clh), nor on Intel's GPUs, whose work-items have fewer registers. What is
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

/* The next tile from *rank on that the device has room for; 0: there is none. */
static int find_shape(const struct device *device, const struct problem *problem, int *rank, struct simt_shape *shape)
{
    const char *tiles = tiles_for(device, problem);
    const struct tile *tile;
    for (; (tile = tuning_find(tiles, DEVICE_GPU, problem->p.head_dim_v, *rank)) != NULL; ++*rank) {
        *shape = shape_of(tile, problem);
        if (row_tile_fits(device, &shape->of)) {
            return 1;
        }
    }
    return 0;
}

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct problem *problem = attention_problem(any);
    const struct device *device = &context->device;
    struct simt_shape shape;
    int rank = 0;
    if (!row_blocks_applicable(device, problem, why)) {
        return 0;
    }
    if (!find_shape(device, problem, &rank, &shape)) {
        row_tile_none_fits(device, why);
        return 0;
    }
    return 1;
}

static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct problem *problem = attention_problem(any);
    struct simt_shape shape;
    int rank = 0;
    if (!find_shape(&context->device, problem, &rank, &shape)) {
        return 1e30;
    }
    /* Multiply-adds a millisecond and compute unit: 9e7 measured on cores of 128 lanes (H100), others have 64; where it
     * is no GPU the barriers cost more than the tiles save. */
    const double rate = context->device.device_class == DEVICE_GPU ? 6e7 : 5e4;
    return row_tile_cost_ms(&context->device, problem, &shape.of, rate);
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

static clattn_status build(clattn_context *context, const struct problem *problem, const struct simt_shape *shape,
                           struct kernel **kernel)
{
    struct text text = TEXT_INIT;
    simt_append_options(problem, shape, &text);
    append_kv_options(problem, &text);
    text_append(&text, " -D RUNS=%d", problem->p.key_len > RUN_KEYS);
    vendor_options(&context->device, problem, shape, &text);
    char *options;
    clattn_status status = text_give(&text, "build options", &options);
    if (status == CLATTN_OK) {
        status = program_kernel(context, "fused_simt.cl", options, NAME, kernel);
    }
    free(options);
    return status;
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    clattn_context *context = plan->context;
    const struct problem *problem = attention_problem(plan->problem);
    struct simt_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    struct simt_shape *shape = &state->shape;
    size_t limit = 0;
    for (int rank = 0; find_shape(&context->device, problem, &rank, shape); ++rank) {
        clattn_status status = build(context, problem, shape, &state->kernel);
        if (status == CLATTN_OK) {
            status = kernel_work_group_limit(state->kernel, &limit);
        }
        if (status != CLATTN_OK) {
            return status;
        }
        if (limit >= (size_t)shape->of.tile.work_items) {
            row_tile_describe(&shape->of, problem, explain);
            return CLATTN_OK;
        }
    }
    return row_tile_none_runs(NAME, limit);
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    const struct row_blocks blocks = { state->kernel, &state->shape.of, SIMT_LAUNCH_WORK_PER_UNIT };
    return row_blocks_enqueue(plan, &blocks, operands, chain);
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_fused_simt = {
    .operation = &operation_forward,
    .name = NAME,
    .summary = "no score matrix in memory; tiles through local memory, for GPUs",
    .knows = CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS,
    .sum_roundings = 680, /* 512 + 32 + 2, row sums 64 + 32 + 34 */
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
