/* What fused_simt and fused_mma share on the host. */
#include "plan/row_blocks.h"

#include "base/error.h"
#include "plan/attention_arguments.h"

int64_t row_blocks_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

/* ---- tiles ---------------------------------------------------------------------------------- */

int row_tile_fits(const struct device *device, const struct row_tile *tile)
{
    const size_t items = (size_t)tile->tile.work_items;
    return items <= device->work_group_limit && items <= device->work_item_limit[0] &&
           tile->local_bytes <= device->local_bytes;
}

void row_tile_none_fits(const struct device *device, struct text *why)
{
    text_append(why, "no tile fits in %llu bytes of local memory and %zu work-items a work-group",
                (unsigned long long)device->local_bytes, device->work_group_limit);
}

clattn_status row_tile_none_runs(const char *strategy, size_t work_items_most)
{
    return error_set(CLATTN_UNSUPPORTED,
                     "%s: the device runs at most %zu work-items of its smallest tile; choose another strategy",
                     strategy, work_items_most);
}

void row_tile_describe(const struct row_tile *tile, const struct problem *problem, struct text *explain)
{
    const int64_t columns = problem->p.head_dim_v;
    text_append(explain,
                "  tile: %d queries x %d keys, %d work-items, %lld of %lld output columns a work-group, "
                "%zu bytes of local memory\n",
                tile->tile.rows, tile->tile.keys, tile->tile.work_items,
                (long long)(tile->columns < columns ? tile->columns : columns), (long long)columns, tile->local_bytes);
}

/* Multiply-adds of one block of rows of one head, all its column slices. */
static double block_work(const struct row_tile *tile, int64_t head_dim_v, int64_t key_len)
{
    const double slices = (double)row_blocks_of(head_dim_v, tile->columns);
    return slices * ((double)tile->depth + tile->columns) * (double)tile->tile.rows *
           (double)(key_len + tile->tile.keys);
}

double row_tile_cost_ms(const struct device *device, const struct problem *problem, const struct row_tile *tile,
                        double rate)
{
    const clattn_problem *p = &problem->p;
    const double blocks = (double)row_blocks_of(p->query_len, tile->tile.rows) * (double)p->batch *
                          (double)p->query_heads;
    const double work = blocks * block_work(tile, p->head_dim_v, p->key_len) * (p->causal ? 0.6 : 1);
    const double groups = blocks * (double)row_blocks_of(p->head_dim_v, tile->columns);
    const double units = (double)device->compute_units, busy = groups < 1 ? 1 : groups < units ? groups : units;
    return 0.02 + work / rate / busy;
}

/* ---- problems and launches ------------------------------------------------------------------ */

int row_blocks_applicable(const struct device *device, const struct problem *problem, struct text *why)
{
    const clattn_problem *p = &problem->p;
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        text_append(why, "it never has the attention weights in memory");
        return 0;
    }
    return device_computes(device, p->type, why) && attention_arguments_fit(device, why);
}

static clattn_status launch_part(const struct row_blocks *blocks, const struct operands *operands,
                                 const clattn_params *params, const clattn_pools *pools, cl_int first_row,
                                 cl_int first_head, cl_int block_count, size_t head_count, struct chain *chain)
{
    const size_t slices = (size_t)row_blocks_of(params->head_dim_v, blocks->tile->columns);
    const size_t local[3] = { (size_t)blocks->tile->tile.work_items, 1, 1 };
    const size_t global[3] = { (size_t)block_count * local[0], slices, head_count };
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 3];
    const size_t count = attention_arguments(params, pools, operands, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(first_row);
    arguments[count + 1] = (struct launch_argument)ARGUMENT(first_head);
    arguments[count + 2] = (struct launch_argument)ARGUMENT(block_count);
    return launch(chain, blocks->kernel, 3, global, local, count + 3, arguments);
}

clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct operands *operands, struct chain *chain)
{
    clattn_params params;
    clattn_pools several;
    attention_params(plan, operands, &params);
    const clattn_pools *pools = attention_pools(plan, operands, &several);
    const int rows = blocks->tile->tile.rows;
    const int64_t heads = (int64_t)params.batch * params.query_heads;
    const int64_t count = row_blocks_of(params.query_len, rows);
    const double work_most = blocks->unit_work_most * (double)plan->context->device.compute_units;
    const double at_once = work_most / block_work(blocks->tile, params.head_dim_v, params.key_len);
    const int64_t block_step = launch_share(count, at_once);
    const int64_t head_step = launch_head_share(heads, at_once / (double)count);
    clattn_status status = CLATTN_OK;
    for (int64_t head = 0; head < heads && status == CLATTN_OK; head += head_step) {
        for (int64_t block = 0; block < count && status == CLATTN_OK; block += block_step) {
            const int64_t block_count = count - block < block_step ? count - block : block_step;
            const int64_t head_count = heads - head < head_step ? heads - head : head_step;
            if (head + head_step >= heads && block + block_step >= count) {
                chain_final(chain);
            }
            status = launch_part(blocks, operands, &params, pools, (cl_int)(block * rows), (cl_int)head,
                                 (cl_int)block_count, (size_t)head_count, chain);
        }
    }
    return status;
}
