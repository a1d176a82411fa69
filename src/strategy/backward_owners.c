/* Gradients by kernels whose work-groups own a tile of rows, or of keys. */
#include "strategy/backward_owners.h"

#include "base/checked_math.h"
#include "cl/common/column_runs.h"
#include "plan/tuning.h"

_Static_assert(sizeof(clattn_owner_part) <= BACKWARD_OWN_BYTES, "more than backward_is_served counts");

#define TILES "fused_simt gradients"

int backward_owners_wanted(struct ask *ask)
{
    return backward_wants(backward_problem(ask->problem),
                          CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE) ||
           ask_declines(ask, "has dquery, dkey and dvalue, of which none is asked for");
}

double backward_owner_pairs(const clattn_problem *p, int rows, int keys)
{
    return (double)p->batch * (double)p->query_heads * (double)round_up(p->query_len, rows) *
           (double)round_up(p->key_len, keys) * (p->causal ? 0.6 : 1);
}

/* ---- launches ---------------------------------------------------------------------------------- */

static int is_wanted(const struct backward_run *r, enum gradient_id id)
{
    return operand_is_asked(r->call.operands, (int)id) && !operand_is_empty(r->call.operands, (int)id);
}

/* One launch; `part` says which. */
static clattn_status run_part(const struct backward_run *r, const struct owner_kernel *kernel,
                              const clattn_owner_part *part, int64_t planes)
{
    const size_t local[3] = { (size_t)kernel->work_items, 1, 1 };
    const size_t global[3] = { (size_t)part->tiles * local[0], (size_t)kernel->slices, (size_t)planes };
    struct launch_argument arguments[BACKWARD_ARGUMENTS_MOST + 2];
    const size_t count = backward_arguments(&r->call, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(*part);
    arguments[count + 1] = (struct launch_argument)ARGUMENT(r->call.operands->tensor[GRADIENT_DVALUE].buffer);
    return launch(r->chain, kernel->kernel, 3, global, local, count + 2, arguments);
}

clattn_status backward_run_owner(const struct backward_run *r, const struct owner_kernel *kernel, enum owned owned,
                                 clattn_owner_part part)
{
    const clattn_params *p = &r->call.given.params;
    const int of_keys = owned == OWNED_KEYS;
    const int64_t planes = (int64_t)p->batch * (of_keys ? p->kv_heads : p->query_heads);
    const int64_t met = of_keys ? p->query_len * problem_group(r->call.problem) : p->key_len;
    const int64_t tiles = ceil_div(of_keys ? p->key_len : p->query_len, kernel->tile_rows);
    const double work = kernel->pair_work * kernel->tile_rows * (double)(met + kernel->tile_rows);
    struct launch_part grid = launch_parts(tiles, planes, kernel->launch_work_most / work);
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&grid)) {
        part.first_tile = (int)grid.first;
        part.tiles = (int)grid.count;
        part.first_plane = (int)grid.first_plane;
        status = run_part(r, kernel, &part, grid.planes);
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
        part.dvalue = backward_gradient_place(r->call.operands, GRADIENT_DVALUE);
        part.wants |= OWNER_WANTS_DVALUE;
    }
    return status == CLATTN_OK && part.wants ? kernels(&keys, state, OWNED_KEYS, &part) : status;
}

static clattn_status run_row_terms(const struct backward_run *r, const struct backward_simt *simt,
                                   clattn_owner_part part)
{
    const struct row_tile *tile = &simt->shapes[OWNED_ROWS].of;
    const struct owner_kernel kernel = {
        simt->row_rests,       tile->tile.rows, tile->tile.work_items, 1, (double)(tile->depth + tile->columns) + 20,
        simt->launch_work_most
    };
    return backward_run_owner(r, &kernel, OWNED_ROWS, part);
}

clattn_status backward_owners_enqueue(const struct clattn_plan *plan, const struct operands *operands,
                                      struct chain *chain, const struct backward_plain *plain,
                                      const struct backward_simt *simt, const void *state, owner_run *kernels,
                                      const clattn_owner_part parts[OWNERS])
{
    struct backward_run r = { .state = plain, .chain = chain };
    backward_call_arguments(plan, operands, &r.call);
    clattn_status status = run_row_terms(&r, simt, parts[OWNED_ROWS]);
    status = status == CLATTN_OK ? run_owners(&r, state, kernels, parts) : status;
    return status == CLATTN_OK ? backward_run_scalars(&r) : status;
}

/* ---- cl/backward_gpu/backward_simt.cl ----------------------------------------------------------------------- */

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

static const struct row_tile *find(struct ask *ask, void *of, int *rank)
{
    const struct device *device = &ask->context->device;
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct backward_simt *state = of;
    const struct tile *tile;
    for (; (tile = tuning_find(TILES, DEVICE_GPU, columns_of(p, OWNED_KEYS), *rank)) != NULL; ++*rank) {
        int fits = registers_hold(device, tile);
        for (int owned = 0; owned < OWNERS; ++owned) {
            state->shapes[owned] = simt_shape_of(tile, p->head_dim, columns_of(p, (enum owned)owned), sizeof(float));
            fits &= row_tile_fits(device, &state->shapes[owned].of);
        }
        if (fits) {
            return &state->shapes[OWNED_KEYS].of;
        }
    }
    return NULL;
}

int backward_simt_fits(struct ask *ask)
{
    struct backward_simt state;
    int rank = 0;
    return find(ask, &state, &rank) || row_tile_none_fits(ask);
}

static int64_t slices_of(const clattn_problem *p, const struct simt_shape *shape, enum owned owned)
{
    return ceil_div(columns_of(p, owned), shape->of.columns);
}

/* In all slices of columns: both products that make a pair, in each, and the sums. */
static double pair_work(const clattn_problem *p, const struct simt_shape *shape, enum owned owned)
{
    return (double)slices_of(p, shape, owned) *
           ((double)(p->head_dim + p->head_dim_v) + (owned == OWNED_KEYS ? 2.0 : 1.0) * shape->of.columns);
}

double backward_simt_work(struct ask *ask)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct backward_simt state;
    int rank = 0;
    if (!find(ask, &state, &rank)) {
        return 0;
    }
    const struct tile *tile = &state.shapes[OWNED_ROWS].of.tile;
    return backward_owner_pairs(p, tile->rows, tile->keys) *
           (pair_work(p, &state.shapes[OWNED_ROWS], OWNED_ROWS) + pair_work(p, &state.shapes[OWNED_KEYS], OWNED_KEYS));
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
    return (owned == OWNED_KEYS ? problem_head_rows(p) : p->key_len) > RUN_KEYS;
}

static clattn_status build_kernel(struct ask *ask, const struct backward_simt *state, enum owned owned,
                                  const char *name, struct kernel **kernel, size_t *limit)
{
    const struct backward_problem *b = backward_problem(ask->problem);
    const struct problem *problem = &b->attention;
    struct text options = TEXT_INIT;
    simt_append_options(problem, &state->shapes[owned], &options);
    text_append(&options, " -D OWNS_KEYS=%d -D RUNS=%d -D COLUMN_RUNS=%d -D OWN_TYPE=%d -D DVALUE_TYPE=%d",
                owned == OWNED_KEYS, backward_owner_has_runs(&problem->p, owned),
                HAS_COLUMN_RUNS(problem->p.head_dim) || HAS_COLUMN_RUNS(problem->p.head_dim_v),
                (int)(owned == OWNED_KEYS ? b->dkey_type : b->dquery_type), (int)b->dvalue_type);
    vendor_options(&ask->context->device, &options);
    const clattn_status status = ask_kernel(ask, "backward_gpu/backward_simt.cl", &options, name, kernel, limit);
    text_free(&options);
    return status;
}

static clattn_status build(struct ask *ask, void *of, size_t *limit)
{
    struct backward_simt *state = of;
    const struct {
        enum owned owned;
        const char *name;
        struct kernel **kernel;
    } kernels[] = { { OWNED_ROWS, "row_rests", &state->row_rests },
                    { OWNED_ROWS, "row_gradients", &state->kernels[OWNED_ROWS] },
                    { OWNED_KEYS, "key_gradients", &state->kernels[OWNED_KEYS] } };
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && status == CLATTN_OK; ++i) {
        status = build_kernel(ask, state, kernels[i].owned, kernels[i].name, kernels[i].kernel, limit);
    }
    return status;
}

clattn_status backward_simt_build(struct ask *ask, struct backward_simt *state)
{
    state->launch_work_most = SIMT_LAUNCH_WORK_PER_UNIT * (double)ask->context->device.compute_units;
    return row_tile_build(ask, "fused_simt", find, build, state);
}

void backward_simt_describe(struct ask *ask, const struct backward_simt *state)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    for (int owned = 0; owned < OWNERS; ++owned) {
        const struct row_tile *tile = &state->shapes[owned].of;
        const int64_t columns = columns_of(p, (enum owned)owned);
        text_append(ask->explain,
                    "  tile of %s: %d rows x %d keys, %d work-items, %lld of %lld columns a work-group, %zu bytes of "
                    "local memory\n",
                    owned == OWNED_KEYS ? "dkey and dvalue" : "dquery", tile->tile.rows, tile->tile.keys,
                    tile->tile.work_items, (long long)(tile->columns < columns ? tile->columns : columns),
                    (long long)columns, tile->local_bytes);
    }
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
