/* Which kernels make the scores, and their steps. */
#include "layers/additive_scores.h"

#include <stdio.h>

#include "base/checked_math.h"
#include "cl/layers/additive_params.h"
#include "operation/fill_params.h"

#define GROUP_ITEMS 64
#define CPU_LANES 16 /* keys at once: a vector is several registers where these are narrow */

int64_t additive_stride(int64_t count)
{
    return (ceil_div(count, ADDITIVE_ALIGNMENT) | 1) * ADDITIVE_ALIGNMENT;
}

clattn_status additive_group_items(const clattn_context *context, struct kernel *kernel, size_t *items)
{
    size_t limit = 1;
    const clattn_status status = kernel_work_group_limit(kernel, &limit);
    for (*items = staged_row_items(&context->device, GROUP_ITEMS); *items > limit;) {
        *items /= 2;
    }
    return status;
}

double additive_projection_work(const clattn_additive_problem *p)
{
    const double of_queries = (double)(p->batch * p->rows) * (double)p->query_dim;
    const double of_keys = (double)p->keys * (double)p->key_dim;
    return (of_queries > of_keys ? of_queries : of_keys) * (double)p->hidden_dim;
}

clattn_status additive_scores_init(struct additive_scores *scores, clattn_context *context,
                                   const clattn_additive_problem *p, clattn_type type,
                                   const struct projector *projector, struct text *explain)
{
    char options[48];
    scores->projector = projector;
    scores->problem = p;
    scores->key_stride = additive_stride(p->keys);
    scores->lanes = context->device.device_class == DEVICE_CPU ? CPU_LANES : 1;
    snprintf(options, sizeof(options), "-D TYPE=%d -D VEC=%d", (int)type, scores->lanes);
    const clattn_status status =
        program_kernel(context, "layers/additive_score.cl", options, "additive_score", &scores->kernel);
    text_append(explain, "scores: %d keys x %d rows a work-item\n", scores->lanes, ADDITIVE_ROWS);
    return status == CLATTN_OK ? additive_group_items(context, scores->kernel, &scores->group_items) : status;
}

static clattn_status enqueue_scores(const struct step *step, const struct run *run)
{
    const struct additive_scores *scores = step->of;
    const clattn_additive_problem *p = scores->problem;
    const size_t items = scores->group_items;
    const size_t global[3] = { (size_t)round_up(scores->key_stride / scores->lanes, (int64_t)items),
                               (size_t)ceil_div(p->rows, ADDITIVE_ROWS), (size_t)p->batch };
    const size_t local[3] = { items, 1, 1 };
    const struct matrix score = steps_matrix(run, scores->score), queries = steps_matrix(run, scores->queries);
    const cl_mem workspace = run->operands->workspace;
    struct call call;
    clattn_params params;
    const clattn_additive_values values = {
        .zero_at = steps_matrix(run, scores->zero).offset,
        .queries_at = queries.offset,
        .keys_at = steps_matrix(run, scores->keys).offset,
        .score_at = score.offset,
        .scores_at = steps_matrix(run, scores->scores).offset,
        .key_stride = scores->key_stride,
        .hidden_dim = (int)p->hidden_dim,
        .hidden_stride = (int)queries.stride,
    };
    const clattn_status status = scores->call(scores->of, run, NULL, &call);
    const struct launch_argument arguments[] = {
        ARGUMENT(params),       ARGUMENT(values),    ARGUMENT(workspace),
        ARGUMENT(score.buffer), ARGUMENT(workspace), ARGUMENT(call.operands.tensor[TENSOR_KEY_LENGTHS].buffer),
    };
    if (status != CLATTN_OK) {
        return status;
    }
    params_fill(scores->attention, &call, CLATTN_TAKES_ALL, &params);
    return launch(run->chain, scores->kernel, 3, global, local, 6, arguments);
}

void additive_scores_add(struct steps *steps, const struct additive_scores *scores)
{
    const clattn_additive_problem *p = scores->problem;
    const int64_t stride = scores->key_stride, of_scores[2] = { p->batch, p->rows };
    const struct product_batch of_batch = { p->batch, 0, p->keys * p->key_dim, p->hidden_dim * stride };
    const struct step step = { .enqueue = enqueue_scores, .of = scores };
    matrices_multiply(steps, scores->projector, scores->query, scores->wq, LAYER_NOWHERE, scores->queries,
                      p->batch * p->rows, p->hidden_dim, p->query_dim); /* queries = query wq^T */
    matrices_multiply_batch(steps, scores->projector, scores->wk, scores->key, scores->keys, p->hidden_dim, p->keys,
                            p->key_dim, of_batch); /* keys = wk key^T */
    steps_need(steps, scores->scores, product_of_extents(of_scores, 2), stride);
    steps_add(steps, &step);
}

clattn_tensor additive_matrix(struct matrix matrix, int64_t rows, int64_t columns)
{
    clattn_tensor tensor = { matrix.buffer, matrix.offset, { 0, 0, 0, 0 } };
    clattn_strides_bhsd(1, at_least_1(rows), at_least_1(columns), tensor.stride);
    return tensor;
}

void additive_fill_tensors(const struct additive_scores *scores, const struct run *run, clattn_tensors *tensors)
{
    const struct tensor_place *lengths = &run->operands->tensor[ADDITIVE_KEY_LENGTHS];
    const struct matrix zero = steps_matrix(run, scores->zero);
    const clattn_tensor at_zero = { zero.buffer, zero.offset, { 0, 0, 0, 1 } };
    tensors->query = tensors->key = at_zero;
    tensors->bias = additive_matrix(steps_matrix(run, scores->scores), scores->problem->rows, scores->key_stride);
    tensors->mask = layer_given(run->operands, ADDITIVE_MASK);
    tensors->key_lengths.buffer = lengths->buffer;
    tensors->key_lengths.offset = lengths->offset;
}
