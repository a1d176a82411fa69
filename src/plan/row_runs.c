/* CPUs: long vectors, and a work-item that reads rows of a head one after the other. GPUs: vectors of 16 bytes, one to
 * a work-item, so that neighbours read neighbouring memory. */
#include "plan/row_runs.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"

#define LONGEST_RUN 16
#define SHORTEST_RUN 4 /* of vectors; below it columns go one by one */
#define CPU_TOKENS 8
#define CPU_ITEMS_A_UNIT 4 /* work-items for each core, so that none waits long for the last */
#define GPU_RUN_BYTES 16
#define GPU_GROUP_ITEMS 64

/* A vector divides all that is turned together, and all that is copied together. */
static int divides(int run, const struct row_shape *shape, const struct turning *turning)
{
    const int64_t together = turning->pairs == CLATTN_PAIRS_HALVES ? turning->columns / 2 : turning->columns;
    return shape->head_dim % run == 0 && shape->head_dim_v % run == 0 && turning->first_column % run == 0 &&
           together % run == 0 && shape->shared[0] % run == 0 && shape->shared[1] % run == 0;
}

static void choose(const struct device *device, const struct row_shape *shape, const struct turning *turning,
                   struct row_runs *runs)
{
    const int is_cpu = device->device_class == DEVICE_CPU;
    const int64_t columns = shape->head_dim > shape->head_dim_v ? shape->head_dim : shape->head_dim_v;
    runs->run = is_cpu || shape->has_blocks ? LONGEST_RUN : GPU_RUN_BYTES / (int)clattn_type_size(shape->type);
    while (runs->run >= SHORTEST_RUN && !divides(runs->run, shape, turning)) {
        runs->run /= 2;
    }
    if (runs->run < SHORTEST_RUN || shape->strided || shape->type == CLATTN_FLOAT64) {
        runs->run = 1;
    }
    const int64_t units = columns / (shape->has_blocks ? LONGEST_RUN : runs->run);
    runs->tokens = is_cpu ? CPU_TOKENS : 1;
    runs->unit_items = is_cpu ? 1 : (int)(units < GPU_GROUP_ITEMS ? units : GPU_GROUP_ITEMS);
    while (shape->has_norms && runs->unit_items & (runs->unit_items - 1)) { /* a power of two divides the group */
        runs->unit_items++;
    }
    runs->group_items = is_cpu ? 1 : GPU_GROUP_ITEMS;
}

static void append_options(const struct row_runs *runs, const struct device *device, const struct row_shape *shape,
                           const struct turning *turning, struct text *options)
{
    text_append(options, " -D TYPE=%d -D RUN=%d -D TOKENS=%d -D UNIT_ITEMS=%d -D FEATURES=0x%xu -D HEAD_DIM=%d",
                (int)shape->type, runs->run, runs->tokens, runs->unit_items, turning->features, (int)shape->head_dim);
    if (shape->has_norms) {
        text_append(options, " -D GROUP_ITEMS=%d", (int)runs->group_items);
    }
    text_append(options, " -D FIRST_COLUMN=%d -D ROTARY_COLUMNS=%d -D PAIRS=%d -D INVERSE=%d%s",
                (int)turning->first_column, (int)turning->columns, (int)turning->pairs, turning->inverse,
                device->device_class == DEVICE_CPU ? " -D ON_CPU -D EXACT_DIVISION -D FETCHES=1" : "");
}

clattn_status row_runs_plan(struct ask *ask, struct clattn_plan *plan, const char *file, const char *name,
                            const struct row_shape *shape, const struct turning *turning, struct text *own_options)
{
    const struct device *device = &ask->context->device;
    struct row_runs *runs = plan->state;
    size_t limit = SIZE_MAX;
    choose(device, shape, turning, runs);
    append_options(runs, device, shape, turning, own_options);
    text_append(ask->explain, "  columns at once: %d\n", runs->run);
    const clattn_status status = ask_kernel(ask, file, own_options, name, &runs->kernel, &limit);
    text_free(own_options);
    while (runs->group_items > limit) { /* as large as the kernel can be run with, and no larger */
        runs->group_items /= 2;
    }
    if (status == CLATTN_OK && shape->has_norms && runs->group_items < (size_t)runs->unit_items) {
        return error_set(CLATTN_UNSUPPORTED,
                         "%s: norms of %" PRId64 " columns need %d work-items in a work-group, the device runs %zu",
                         name, shape->head_dim, runs->unit_items, runs->group_items);
    }
    return status;
}

/* Global and local size. */
static void range_of(const struct row_runs *runs, const struct device *device, int64_t rows, int64_t heads,
                     size_t global[2], size_t local[2])
{
    const int64_t blocks = ceil_div(rows, runs->tokens) * runs->unit_items;
    local[0] = runs->group_items;
    local[1] = 1;
    global[0] = (size_t)round_up(blocks, (int64_t)local[0]);
    global[1] = (size_t)launch_planes(heads, (double)heads);
    if (device->device_class == DEVICE_CPU) {
        /* Heads of a row one after the other share its angles, where there is work for all cores without them. */
        const size_t wanted =
            (size_t)ceil_div((int64_t)device->compute_units * CPU_ITEMS_A_UNIT, blocks > 0 ? blocks : 1);
        global[1] = wanted < global[1] ? wanted : global[1];
    }
}

clattn_status row_runs_enqueue(const struct clattn_plan *plan, const struct operands *operands, int count,
                               struct launch_argument params, int64_t rows, int64_t heads, struct chain *chain)
{
    const struct row_runs *runs = plan->state;
    struct launch_argument arguments[1 + OPERANDS_MAX];
    size_t global[2], local[2];
    arguments[0] = params;
    for (int id = 0; id < count; ++id) {
        arguments[1 + id] = (struct launch_argument)ARGUMENT(operands->tensor[id].buffer);
    }
    range_of(runs, &plan->context->device, rows, heads, global, local);
    return launch(chain, runs->kernel, 2, global, local, 1 + (size_t)count, arguments);
}
