/* Gradients by kernels whose work-groups own a tile of rows, or of keys. */
#include "strategy/backward_owners.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/tuning.h"

#define TILES "fused_simt gradients"

_Static_assert(sizeof(clattn_owner_part) <= ATTENTION_OWN_BYTES, "more arguments than every device takes");

int backward_owners_wanted(const struct backward_problem *problem, struct text *why)
{
    const int wanted = backward_wants(problem, CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE);
    if (!wanted) {
        text_append(why, "has dquery, dkey and dvalue, of which none is asked for");
    }
    return wanted;
}

double backward_owner_pairs(const clattn_problem *p, int rows, int keys)
{
    return (double)p->batch * (double)p->query_heads * (double)(row_blocks_of(p->query_len, rows) * rows) *
           (double)(row_blocks_of(p->key_len, keys) * keys) * (p->causal ? 0.6 : 1);
}

/* ---- launches ---------------------------------------------------------------------------------- */

static int is_wanted(const struct backward_run *r, enum gradient_id id)
{
    return operand_is_asked(r->call.operands, (int)id) && !operand_is_empty(r->call.operands, (int)id);
}

/* dvalue stands where the forward has its output, of which nothing is left but D. */
static void take_dvalue(struct backward_call_arguments *call, clattn_owner_part *part)
{
    const clattn_place place = backward_gradient_place(call->operands, GRADIENT_DVALUE);
    memcpy(call->params.out_stride, place.stride, sizeof(place.stride));
    call->params.out_offset = place.offset;
    part->dvalue_accumulate = place.accumulate;
    part->wants |= OWNER_WANTS_DVALUE;
}

/* One launch; `part` says which. */
static clattn_status run_part(const struct backward_run *r, const struct owner_kernel *kernel,
                              const clattn_owner_part *part, int64_t planes)
{
    const size_t local[3] = { (size_t)kernel->work_items, 1, 1 };
    const size_t global[3] = { (size_t)part->tiles * local[0], (size_t)kernel->slices, (size_t)planes };
    struct launch_argument arguments[BACKWARD_ARGUMENT_COUNT + 1];
    backward_arguments(&r->call, arguments);
    if (part->wants & OWNER_WANTS_DVALUE) {
        arguments[1 + TENSOR_OUT] = (struct launch_argument)ARGUMENT(r->call.operands->tensor[GRADIENT_DVALUE].buffer);
    }
    arguments[BACKWARD_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(*part);
    return launch(r->chain, kernel->kernel, 3, global, local, BACKWARD_ARGUMENT_COUNT + 1, arguments);
}

clattn_status backward_run_owner(const struct backward_run *r, const struct owner_kernel *kernel, enum owned owned,
                                 clattn_owner_part part)
{
    const clattn_params *p = &r->call.params;
    const int of_keys = owned == OWNED_KEYS;
    const int64_t planes = (int64_t)p->batch * (of_keys ? p->kv_heads : p->query_heads);
    const int64_t met = of_keys ? p->query_len * problem_group(r->call.problem) : p->key_len;
    const int64_t tiles = row_blocks_of(of_keys ? p->key_len : p->query_len, kernel->tile_rows);
    const double work = kernel->pair_work * kernel->tile_rows * (double)(met + kernel->tile_rows);
    const double at_once = kernel->launch_work_most / work;
    const int64_t tile_step = launch_share(tiles, at_once);
    const int64_t plane_step = launch_head_share(planes, at_once / (double)tiles);
    clattn_status status = CLATTN_OK;
    for (int64_t plane = 0; plane < planes && status == CLATTN_OK; plane += plane_step) {
        for (int64_t tile = 0; tile < tiles && status == CLATTN_OK; tile += tile_step) {
            part.first_tile = (int)tile;
            part.tiles = (int)(tiles - tile < tile_step ? tiles - tile : tile_step);
            part.first_plane = (int)plane;
            status = run_part(r, kernel, &part, planes - plane < plane_step ? planes - plane : plane_step);
        }
    }
    return status;
}

static clattn_status run_owners(const struct backward_run *r, const void *state, owner_run *kernels,
                                const clattn_owner_part parts[OWNERS])
{
    struct backward_run rows = *r, keys = *r;
    clattn_owner_part part = parts[OWNED_ROWS];
    clattn_status status = CLATTN_OK;
    if (is_wanted(r, GRADIENT_DQUERY)) {
        backward_call_take(&rows.call, GRADIENT_DQUERY);
        part.wants = OWNER_WANTS_FIRST;
        status = kernels(&rows, state, OWNED_ROWS, &part);
    }
    part = parts[OWNED_KEYS];
    part.wants = 0;
    if (is_wanted(r, GRADIENT_DKEY)) {
        backward_call_take(&keys.call, GRADIENT_DKEY);
        part.wants |= OWNER_WANTS_FIRST;
    }
    if (is_wanted(r, GRADIENT_DVALUE)) {
        take_dvalue(&keys.call, &part);
    }
    return status == CLATTN_OK && part.wants ? kernels(&keys, state, OWNED_KEYS, &part) : status;
}

clattn_status backward_owners_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                      struct chain *chain, const struct backward_plain *plain, const void *state,
                                      owner_run *kernels, const clattn_owner_part parts[OWNERS])
{
    struct backward_run r = { .state = plain, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = backward_run_row_terms(&r);
    status = status == CLATTN_OK ? run_owners(&r, state, kernels, parts) : status;
    return status == CLATTN_OK ? backward_run_scalars(&r) : status;
}

/* ---- cl/backward_simt.cl ----------------------------------------------------------------------- */

/* Columns of the gradients that a work-group of the kernel has. */
static int64_t columns_of(const clattn_problem *p, enum owned owned)
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
            shapes[owned] = simt_shape_of(tile, p->head_dim, columns_of(p, (enum owned)owned), sizeof(float));
            fits &= row_tile_fits(device, &shapes[owned].of);
        }
        if (fits) {
            return 1;
        }
    }
    return 0;
}

int backward_simt_fits(const struct device *device, const clattn_problem *p, struct text *why)
{
    struct simt_shape shapes[OWNERS];
    int rank = 0;
    if (!find_shapes(device, p, &rank, shapes)) {
        row_tile_none_fits(device, why);
        return 0;
    }
    return 1;
}

static int64_t slices_of(const clattn_problem *p, const struct simt_shape *shape, enum owned owned)
{
    return row_blocks_of(columns_of(p, owned), shape->of.columns);
}

/* In all slices of columns: both products that make a pair, in each, and the sums. */
static double pair_work(const clattn_problem *p, const struct simt_shape *shape, enum owned owned)
{
    return (double)slices_of(p, shape, owned) *
           ((double)(p->head_dim + p->head_dim_v) + (owned == OWNED_KEYS ? 2.0 : 1.0) * shape->of.columns);
}

double backward_simt_work(const struct device *device, const clattn_problem *p)
{
    struct simt_shape shapes[OWNERS];
    int rank = 0;
    if (!find_shapes(device, p, &rank, shapes)) {
        return 0;
    }
    const struct tile *tile = &shapes[OWNED_ROWS].of.tile;
    return backward_owner_pairs(p, tile->rows, tile->keys) *
           (pair_work(p, &shapes[OWNED_ROWS], OWNED_ROWS) + pair_work(p, &shapes[OWNED_KEYS], OWNED_KEYS));
}

/* Two sums for each element that is owned: Intel's need all the registers that a thread can have. NVIDIA's assembler is
 * told no number: at half of them, for two work-groups a core, it spills some. */
static void vendor_options(const struct device *device, struct text *options)
{
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least > 0) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
}

int backward_owner_has_runs(const clattn_problem *p, enum owned owned)
{
    return (owned == OWNED_KEYS ? p->query_len * problem_group(p) : p->key_len) > RUN_KEYS;
}

static clattn_status build_kernel(struct clattn_plan *plan, struct backward_simt *state, enum owned owned)
{
    static const char *const names[OWNERS] = { "row_gradients", "key_gradients" };
    const struct backward_problem *b = backward_problem(plan->problem);
    const struct problem *problem = &b->attention;
    struct text options = TEXT_INIT;
    simt_append_options(problem, &state->shapes[owned], &options);
    text_append(&options, " -D OWNS_KEYS=%d -D RUNS=%d -D OWN_TYPE=%d -D DVALUE_TYPE=%d", owned == OWNED_KEYS,
                backward_owner_has_runs(&problem->p, owned), (int)(owned == OWNED_KEYS ? b->dkey_type : b->dquery_type),
                (int)b->dvalue_type);
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
static clattn_status build_kernels(struct clattn_plan *plan, struct backward_simt *state, size_t *limit)
{
    clattn_status status = CLATTN_OK;
    *limit = SIZE_MAX;
    for (int owned = 0; owned < OWNERS && status == CLATTN_OK; ++owned) {
        size_t most = 0;
        status = build_kernel(plan, state, (enum owned)owned);
        status = status == CLATTN_OK ? kernel_work_group_limit(state->kernels[owned], &most) : status;
        *limit = most < *limit ? most : *limit;
    }
    return status;
}

static void describe(const clattn_problem *p, const struct simt_shape shapes[OWNERS], struct text *explain)
{
    for (int owned = 0; owned < OWNERS; ++owned) {
        const struct row_tile *tile = &shapes[owned].of;
        const int64_t columns = columns_of(p, (enum owned)owned);
        text_append(explain,
                    "  tile of %s: %d rows x %d keys, %d work-items, %lld of %lld columns a work-group, %zu bytes of "
                    "local memory\n",
                    owned == OWNED_KEYS ? "dkey and dvalue" : "dquery", tile->tile.rows, tile->tile.keys,
                    tile->tile.work_items, (long long)(tile->columns < columns ? tile->columns : columns),
                    (long long)columns, tile->local_bytes);
    }
}

clattn_status backward_simt_build(struct clattn_plan *plan, struct backward_simt *state, struct text *explain)
{
    const struct device *device = &plan->context->device;
    const clattn_problem *p = &backward_problem(plan->problem)->attention.p;
    size_t limit = 0;
    state->launch_work_most = SIMT_LAUNCH_WORK_PER_UNIT * (double)device->compute_units;
    for (int rank = 0; find_shapes(device, p, &rank, state->shapes); ++rank) {
        clattn_status status = build_kernels(plan, state, &limit);
        if (status != CLATTN_OK) {
            return status;
        }
        if (limit >= (size_t)state->shapes[OWNED_KEYS].of.tile.work_items) {
            if (explain) {
                describe(p, state->shapes, explain);
            }
            return CLATTN_OK;
        }
    }
    return row_tile_none_runs(plan->strategy->name, limit);
}

clattn_status backward_simt_run(const struct backward_run *r, const void *of, enum owned owned,
                                const clattn_owner_part *part)
{
    const struct backward_simt *state = of;
    const struct simt_shape *shape = &state->shapes[owned];
    const struct owner_kernel kernel = { state->kernels[owned],
                                         shape->of.tile.rows,
                                         shape->of.tile.work_items,
                                         slices_of(r->call.problem, shape, owned),
                                         pair_work(r->call.problem, shape, owned),
                                         state->launch_work_most };
    return backward_run_owner(r, &kernel, owned, *part);
}
