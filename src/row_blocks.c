/* What fused_simt and fused_mma share on the host. */
#include "row_blocks.h"

#include "attention_arguments.h"

int64_t row_blocks_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

int row_blocks_applicable(const struct device *device, const struct problem *problem, struct text *why)
{
    const clattn_problem *p = &problem->p;
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        text_append(why, "it never has the attention weights in memory");
    } else if (p->type == CLATTN_FLOAT64 && !device->has_fp64) {
        text_append(why, "the device has no float64");
    } else if (!attention_arguments_fit(device, 0, why)) {
        return 0;
    } else if (p->query_len > ROW_BLOCKS_LENGTH_MAX || p->key_len > ROW_BLOCKS_LENGTH_MAX) {
        text_append(why, "query_len and key_len must be at most %d", ROW_BLOCKS_LENGTH_MAX);
    } else {
        return 1;
    }
    return 0;
}

/* The part of `count` that one launch takes, at least 1. */
static int64_t step_of(int64_t count, double at_once)
{
    return at_once >= (double)count ? count : at_once < 1 ? 1 : (int64_t)at_once;
}

static clattn_status launch_part(const struct row_blocks *blocks, const struct call *call,
                                 const clattn_params *params, cl_int first_row, cl_int first_head,
                                 cl_int block_count, size_t head_count, struct chain *chain)
{
    const size_t slices = (size_t)row_blocks_of(params->head_dim_v, blocks->columns);
    const size_t local[3] = { (size_t)blocks->work_items, 1, 1 };
    const size_t global[3] = { (size_t)block_count * local[0], slices, head_count };
    struct launch_argument arguments[ATTENTION_ARGUMENT_COUNT + 3];
    attention_arguments(params, call, arguments);
    arguments[ATTENTION_ARGUMENT_COUNT] = (struct launch_argument)ARGUMENT(first_row);
    arguments[ATTENTION_ARGUMENT_COUNT + 1] = (struct launch_argument)ARGUMENT(first_head);
    arguments[ATTENTION_ARGUMENT_COUNT + 2] = (struct launch_argument)ARGUMENT(block_count);
    return launch(chain, blocks->kernel, 3, global, local, ATTENTION_ARGUMENT_COUNT + 3, arguments);
}

clattn_status row_blocks_enqueue(const struct clattn_plan *plan, const struct row_blocks *blocks,
                                 const struct call *call, const clattn_params *params,
                                 struct chain *chain)
{
    const int64_t heads = (int64_t)params->batch * params->query_heads;
    const int64_t count = row_blocks_of(params->query_len, blocks->rows);
    const double work_most = blocks->unit_work_most * (double)plan->context->device.compute_units;
    const double at_once = work_most / blocks->block_work;
    const int64_t block_step = step_of(count, at_once), head_step = step_of(heads, at_once / (double)count);
    clattn_status status = CLATTN_OK;
    for (int64_t head = 0; head < heads && status == CLATTN_OK; head += head_step) {
        for (int64_t block = 0; block < count && status == CLATTN_OK; block += block_step) {
            const int64_t block_count = count - block < block_step ? count - block : block_step;
            const int64_t head_count = heads - head < head_step ? heads - head : head_step;
            if (head + head_step >= heads && block + block_step >= count) {
                chain_final(chain);
            }
            status = launch_part(blocks, call, params, (cl_int)(block * blocks->rows), (cl_int)head,
                                 (cl_int)block_count, (size_t)head_count, chain);
        }
    }
    return status;
}
