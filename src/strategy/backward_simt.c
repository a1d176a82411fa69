/* The gradients of queries, keys and values by cl/backward_simt.cl, a kernel for those of keys and one for those of
 * rows; of what else is asked for, by the kernels of plain. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cl/backward_plain_layout.h"
#include "cl/backward_simt_layout.h"
#include "plan/simt_tile.h"
#include "plan/tuning.h"
#include "strategy/backward_plain.h"
#include "strategy/strategies.h"

#define NAME "fused_simt"
#define TILES NAME " gradients"

_Static_assert(sizeof(clattn_simt_part) <= ATTENTION_OWN_BYTES, "more arguments than every device takes");

/* What a work-group owns. */
enum owned { OWNED_ROWS, OWNED_KEYS, OWNERS };

struct simt_state {
    struct backward_plain plain;
    struct kernel *kernels[OWNERS];
    struct simt_shape shapes[OWNERS]; /* of one tile */
    double launch_work_most;          /* multiply-adds */
};

/* Of the gradients that a work-group of the kernel has. */
static int64_t columns_of(const clattn_problem *p, int owned)
{
    return owned == OWNED_KEYS && p->head_dim_v > p->head_dim ? p->head_dim_v : p->head_dim;
}

/* Whether what a work-item adds up, two sums for each element that it owns, takes less than half of its registers. A
 * thread of Intel's GPUs has 128 of eight numbers for each of eight work-items, those with matrix units, which are
 * younger, 256 (vendor_options); of others nothing is known that would be too few. */
static int registers_hold(const struct device *device, const struct tile *tile)
{
    const int rows = tile->rows / (tile->work_items / (tile->keys / tile->item_keys));
    const int registers = device->has_intel_matrix ? 256 : 128;
    return device->sub_group_size_least == 0 || 2 * rows * tile->item_columns < registers / 2;
}

/* The next tile from *rank on that the device has room for; 0: there is none. */
static int find_shapes(const struct device *device, const clattn_problem *p, int *rank,
                       struct simt_shape shapes[OWNERS])
{
    const struct tile *tile;
    for (; (tile = tuning_find(TILES, DEVICE_GPU, columns_of(p, OWNED_KEYS), *rank)) != NULL; ++*rank) {
        int fits = registers_hold(device, tile);
        for (int owned = 0; owned < OWNERS; ++owned) {
            shapes[owned] = simt_shape_of(tile, p->head_dim, columns_of(p, owned), sizeof(float));
            fits &= row_tile_fits(device, &shapes[owned].of);
        }
        if (fits) {
            return 1;
        }
    }
    return 0;
}

static int applicable(const clattn_context *context, const struct any_problem *any, struct text *why)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    const uint32_t takes = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    struct simt_shape shapes[OWNERS];
    int rank = 0;
    if (p->type == CLATTN_FLOAT64) {
        text_append(why, "computes in float32");
        return 0;
    }
    if (!backward_wants(b, takes)) {
        text_append(why, "has dquery, dkey and dvalue, of which none is asked for");
        return 0;
    }
    if (!find_shapes(&context->device, p, &rank, shapes)) {
        row_tile_none_fits(&context->device, why);
        return 0;
    }
    return backward_arguments_fit(&context->device, &b->attention, why);
}

/* Multiply-adds of a pair, in all slices of columns: both products that make it, in each, and the sums. */
static double pair_work(const clattn_problem *p, const struct simt_shape *shape, int owned)
{
    const int64_t columns = columns_of(p, owned);
    const double slices = (double)row_blocks_of(columns, shape->of.columns);
    return slices * ((double)(p->head_dim + p->head_dim_v) + (owned == OWNED_KEYS ? 2.0 : 1.0) * shape->of.columns);
}

/* Linear in batch and heads, so that the choice, and with it the bits, does not depend on them; multiply-adds a
 * millisecond and compute unit are fused_simt's. Of all three gradients, also where one is asked for. */
static double cost_ms(const clattn_context *context, const struct any_problem *any)
{
    const struct backward_problem *b = backward_problem(any);
    const clattn_problem *p = &b->attention.p;
    const double rate = context->device.device_class == DEVICE_GPU ? 6e7 : 5e4;
    struct simt_shape shapes[OWNERS];
    int rank = 0;
    if (!find_shapes(&context->device, p, &rank, shapes)) {
        return 1e30;
    }
    const int rows = shapes[OWNED_ROWS].of.tile.rows, keys = shapes[OWNED_ROWS].of.tile.keys;
    const double pairs = (double)p->batch * (double)p->query_heads *
                         (double)(row_blocks_of(p->query_len, rows) * rows) *
                         (double)(row_blocks_of(p->key_len, keys) * keys) * (p->causal ? 0.6 : 1);
    const double work = pair_work(p, &shapes[OWNED_ROWS], OWNED_ROWS) + pair_work(p, &shapes[OWNED_KEYS], OWNED_KEYS);
    return 0.05 + pairs * work / rate / (double)context->device.compute_units;
}

/* ---- plan -------------------------------------------------------------------------------------- */

/* Two sums for each element that is owned: Intel's need all the registers that a thread can have. NVIDIA's assembler is
 * told no number: at half of them, for two work-groups a core, it spills some. */
static void vendor_options(const struct device *device, struct text *options)
{
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least > 0) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
}

static clattn_status build_kernel(struct clattn_plan *plan, struct simt_state *state, int owned)
{
    static const char *const names[OWNERS] = { "row_gradients", "key_gradients" };
    const struct backward_problem *b = backward_problem(plan->problem);
    const struct problem *problem = &b->attention;
    struct text options = TEXT_INIT;
    simt_append_options(problem, &state->shapes[owned], &options);
    text_append(&options, " -D OWNS_KEYS=%d -D OWN_TYPE=%d -D DVALUE_TYPE=%d", owned == OWNED_KEYS,
                (int)(owned == OWNED_KEYS ? b->dkey_type : b->dquery_type), (int)b->dvalue_type);
    vendor_options(&plan->context->device, &options);
    clattn_status status = options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                                          : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = program_kernel(plan->context, "backward_simt.cl", options.data, names[owned], &state->kernels[owned]);
    }
    text_free(&options);
    return status;
}

/* *limit: work-items that the device runs of both kernels. */
static clattn_status build_kernels(struct clattn_plan *plan, struct simt_state *state, size_t *limit)
{
    clattn_status status = CLATTN_OK;
    *limit = SIZE_MAX;
    for (int owned = 0; owned < OWNERS && status == CLATTN_OK; ++owned) {
        size_t most = 0;
        status = build_kernel(plan, state, owned);
        status = status == CLATTN_OK ? kernel_work_group_limit(state->kernels[owned], &most) : status;
        *limit = most < *limit ? most : *limit;
    }
    return status;
}

static void describe(const clattn_problem *p, const struct simt_shape shapes[OWNERS], struct text *explain)
{
    for (int owned = 0; owned < OWNERS; ++owned) {
        const struct row_tile *tile = &shapes[owned].of;
        const int64_t columns = columns_of(p, owned);
        text_append(explain,
                    "  tile of %s: %d rows x %d keys, %d work-items, %lld of %lld columns a work-group, %zu bytes of "
                    "local memory\n",
                    owned == OWNED_KEYS ? "dkey and dvalue" : "dquery", tile->tile.rows, tile->tile.keys,
                    tile->tile.work_items, (long long)(tile->columns < columns ? tile->columns : columns),
                    (long long)columns, tile->local_bytes);
    }
}

static clattn_status plan(struct clattn_plan *plan, struct text *explain)
{
    const struct backward_problem *b = backward_problem(plan->problem);
    const clattn_problem *p = &b->attention.p;
    struct simt_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    state->launch_work_most = SIMT_LAUNCH_WORK_PER_UNIT * (double)plan->context->device.compute_units;
    size_t limit = 0;
    clattn_status status = backward_plain_measure(plan, BACKWARD_BLOCK);
    if (status == CLATTN_OK) {
        status = backward_plain_build(plan, backward_scalars_wanted(b), &state->plain);
    }
    for (int rank = 0; status == CLATTN_OK && find_shapes(&plan->context->device, p, &rank, state->shapes); ++rank) {
        status = build_kernels(plan, state, &limit);
        if (status == CLATTN_OK && limit >= (size_t)state->shapes[OWNED_KEYS].of.tile.work_items) {
            describe(p, state->shapes, explain);
            return CLATTN_OK;
        }
    }
    return status == CLATTN_OK ? row_tile_none_runs(NAME, limit) : status;
}

/* ---- launches ---------------------------------------------------------------------------------- */

static int is_wanted(const struct backward_run *r, enum gradient_id id)
{
    return operand_is_asked(r->call.operands, (int)id) && !operand_is_empty(r->call.operands, (int)id);
}

/* dvalue stands where the forward has its output, of which nothing is left but D. */
static void take_dvalue(struct backward_call_arguments *call, clattn_simt_part *part)
{
    const clattn_place place = backward_gradient_place(call->operands, GRADIENT_DVALUE);
    memcpy(call->params.out_stride, place.stride, sizeof(place.stride));
    call->params.out_offset = place.offset;
    part->dvalue_accumulate = place.accumulate;
    part->wants |= SIMT_WANTS_DVALUE;
}

/* One launch; `part` says which. */
static clattn_status run_part(const struct backward_run *r, const struct simt_state *state, int owned,
                              const clattn_simt_part *part, int64_t planes)
{
    const struct row_tile *tile = &state->shapes[owned].of;
    const int64_t slices = row_blocks_of(columns_of(r->call.problem, owned), tile->columns);
    const size_t local[3] = { (size_t)tile->tile.work_items, 1, 1 };
    const size_t global[3] = { (size_t)part->tiles * local[0], (size_t)slices, (size_t)planes };
    struct launch_argument arguments[BACKWARD_ARGUMENT_COUNT + 1];
    backward_arguments(&r->call, arguments);
    if (part->wants & SIMT_WANTS_DVALUE) {
        arguments[1 + TENSOR_OUT] = (struct launch_argument)ARGUMENT(r->call.operands->tensor[GRADIENT_DVALUE].buffer);
    }
    arguments[BACKWARD_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(*part);
    return launch(r->chain, state->kernels[owned], 3, global, local, BACKWARD_ARGUMENT_COUNT + 1, arguments);
}

/* `count` rows or keys of each plane, of which a tile meets `met`, in as many launches as the work asks for. */
static clattn_status run(const struct backward_run *r, const struct simt_state *state, int owned, clattn_simt_part part,
                         int64_t count, int64_t planes, int64_t met)
{
    const struct simt_shape *shape = &state->shapes[owned];
    const int64_t tiles = row_blocks_of(count, shape->of.tile.rows);
    const double work = pair_work(r->call.problem, shape, owned) * shape->of.tile.rows *
                        (double)(met + shape->of.tile.rows);
    const double at_once = state->launch_work_most / work;
    const int64_t tile_step = launch_share(tiles, at_once);
    const int64_t plane_step = launch_head_share(planes, at_once / (double)tiles);
    clattn_status status = CLATTN_OK;
    for (int64_t plane = 0; plane < planes && status == CLATTN_OK; plane += plane_step) {
        for (int64_t tile = 0; tile < tiles && status == CLATTN_OK; tile += tile_step) {
            part.first_tile = (int)tile;
            part.tiles = (int)(tiles - tile < tile_step ? tiles - tile : tile_step);
            part.first_plane = (int)plane;
            status = run_part(r, state, owned, &part, planes - plane < plane_step ? planes - plane : plane_step);
        }
    }
    return status;
}

static clattn_status run_rows(const struct backward_run *r, const struct simt_state *state)
{
    const clattn_params *p = &r->call.params;
    struct backward_run own = *r;
    if (!is_wanted(r, GRADIENT_DQUERY)) {
        return CLATTN_OK;
    }
    backward_call_take(&own.call, GRADIENT_DQUERY);
    return run(&own, state, OWNED_ROWS, (clattn_simt_part){ 0 }, p->query_len, (int64_t)p->batch * p->query_heads,
               p->key_len);
}

static clattn_status run_keys(const struct backward_run *r, const struct simt_state *state)
{
    const clattn_params *p = &r->call.params;
    struct backward_run own = *r;
    clattn_simt_part part = { 0 };
    if (is_wanted(r, GRADIENT_DKEY)) {
        backward_call_take(&own.call, GRADIENT_DKEY);
        part.wants |= SIMT_WANTS_DKEY;
    }
    if (is_wanted(r, GRADIENT_DVALUE)) {
        take_dvalue(&own.call, &part);
    }
    if (!part.wants) {
        return CLATTN_OK;
    }
    return run(&own, state, OWNED_KEYS, part, p->key_len, (int64_t)p->batch * p->kv_heads,
               p->query_len * problem_group(r->call.problem));
}

static clattn_status enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simt_state *state = plan->state;
    struct backward_run r = { .state = &state->plain, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = backward_run_row_terms(&r);
    status = status == CLATTN_OK ? run_rows(&r, state) : status;
    status = status == CLATTN_OK ? run_keys(&r, state) : status;
    return status == CLATTN_OK ? backward_run_scalars(&r) : status;
}

static void destroy(struct clattn_plan *plan)
{
    free(plan->state);
}

const struct strategy strategy_backward_simt = {
    .operation = &operation_backward,
    .name = NAME,
    .summary = "no score matrix in memory; a kernel for keys and one for rows, tiles through local memory, for GPUs",
    .knows = CLATTN_FLAGS_OF_ALL,
    .applicable = applicable,
    .cost_ms = cost_ms,
    .plan = plan,
    .enqueue = enqueue,
    .destroy = destroy,
};
