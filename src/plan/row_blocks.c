/* What fused_simt and fused_mma share on the host. */
#include "plan/row_blocks.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/attention_arguments.h"

/* ---- tiles ---------------------------------------------------------------------------------- */

int row_tile_fits(const struct device *device, const struct row_tile *tile)
{
    const size_t items = (size_t)tile->tile.work_items;
    return items <= device->work_group_limit && items <= device->work_item_limit[0] &&
           tile->local_bytes <= device->local_bytes;
}

int row_tile_none_fits(struct ask *ask)
{
    const struct device *device = &ask->context->device;
    return ask_declines(ask, "no tile fits in %llu bytes of local memory and %zu work-items a work-group",
                        (unsigned long long)device->local_bytes, device->work_group_limit);
}

clattn_status row_tile_build(struct ask *ask, const char *strategy, row_tile_find *find, row_tile_build_one *build,
                             void *state)
{
    const struct row_tile *tile;
    size_t limit = 0;
    for (int rank = 0; (tile = find(ask, state, &rank)) != NULL; ++rank) {
        limit = SIZE_MAX;
        const clattn_status status = build(ask, state, &limit);
        if (status != CLATTN_OK || limit >= (size_t)tile->tile.work_items) {
            return status;
        }
    }
    return error_set(CLATTN_UNSUPPORTED,
                     "%s: the device runs at most %zu work-items of its smallest tile; choose another strategy",
                     strategy, limit);
}

void row_tile_describe(const struct row_tile *tile, const struct problem *problem, struct text *explain)
{
    const int64_t columns = problem->p.head_dim_v;
    text_append(explain,
                "  tile: %d queries x %d keys, %d work-items, %lld of %lld output columns a work-group, "
                "%zu bytes of local memory\n",
                tile->tile.rows, tile->tile.keys, tile->tile.work_items,
                (long long)(tile->columns < columns ? tile->columns : columns), (long long)columns,
                tile->local_bytes + tile->second_local_bytes);
}

/* Multiply-adds of one block of rows of one head, all its column slices. */
static double block_work(const struct row_tile *tile, int64_t head_dim_v, int64_t key_len)
{
    const double slices = (double)ceil_div(head_dim_v, tile->columns);
    return slices * ((double)tile->depth + tile->columns) * (double)tile->tile.rows *
           (double)(key_len + tile->tile.keys);
}

struct work row_tile_work(struct ask *ask, const struct row_tile *tile, enum rate_id rate)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double blocks = (double)ceil_div(p->query_len, tile->tile.rows) * (double)p->batch * (double)p->query_heads;
    const double groups = blocks * (double)ceil_div(p->head_dim_v, tile->columns);
    const double units = (double)ask->context->device.compute_units;
    return (struct work){ .rate = rate,
                          .multiply_adds = blocks * block_work(tile, p->head_dim_v, p->key_len) * (p->causal ? 0.6 : 1),
                          .units = groups < 1       ? 1
                                   : groups < units ? groups
                                                    : units };
}

/* ---- problems and launches ------------------------------------------------------------------ */

int row_blocks_applicable(struct ask *ask)
{
    if (attention_problem(ask->problem)->p.weights != CLATTN_WEIGHTS_NONE) {
        return ask_declines(ask, "it never has the attention weights in memory");
    }
    return attention_is_served(ask, 0);
}

static clattn_status launch_blocks(const struct row_blocks *blocks, const struct attention_given *given,
                                   const struct launch_part *part, struct chain *chain)
{
    const cl_int first_row = (cl_int)(part->first * blocks->tile->tile.rows), first_head = (cl_int)part->first_plane;
    const cl_int block_count = (cl_int)part->count;
    const size_t slices = (size_t)ceil_div(given->params.head_dim_v, blocks->tile->columns);
    const size_t local[3] = { (size_t)blocks->tile->tile.work_items, 1, 1 };
    const size_t global[3] = { (size_t)block_count * local[0], slices, (size_t)part->planes };
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 3];
    const size_t count = attention_arguments(given, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(first_row);
    arguments[count + 1] = (struct launch_argument)ARGUMENT(first_head);
    arguments[count + 2] = (struct launch_argument)ARGUMENT(block_count);
    if (part->is_last) {
        chain_final(chain);
    }
    return launch(chain, blocks->kernel, 3, global, local, count + 3, arguments);
}

clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct operands *operands, struct chain *chain)
{
    struct attention_given given;
    attention_give(plan, operands, &given);
    const clattn_params *p = &given.params;
    const int64_t heads = (int64_t)p->batch * p->query_heads;
    const double work_most = blocks->unit_work_most * (double)plan->context->device.compute_units;
    struct launch_part part = launch_parts(ceil_div(p->query_len, blocks->tile->tile.rows), heads,
                                           work_most / block_work(blocks->tile, p->head_dim_v, p->key_len));
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&part)) {
        status = launch_blocks(blocks, &given, &part, chain);
    }
    return status;
}
