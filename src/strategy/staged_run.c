/* staged: one call. Chunk after chunk: scores, scale_mask, softmax, mix, each product by CLBlast or by tiles
 * as the call's strides and queue allow. Called through staged.c's row of the table. */
#include "base/checked_math.h"
#include "plan/attention_arguments.h"
#include "program/gemm.h"
#include "strategy/staged.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What the steps of one call share. */
struct run {
    const struct clattn_plan *plan;
    const struct staged_state *state;
    const struct call *call;
    const struct attention_given *given;
    struct chain *chain;
    int use_clblast;
    staged_chunk chunk;
};

static clattn_status launch_step(const struct run *run, struct kernel *kernel, const size_t global[3],
                                 const size_t local[3])
{
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 2];
    const size_t count = attention_arguments(run->given, arguments);
    arguments[count] = (struct launch_argument)ARGUMENT(run->chunk);
    arguments[count + 1] = (struct launch_argument)ARGUMENT(run->call->operands.workspace);
    return launch(run->chain, kernel, 3, global, local, count + 2, arguments);
}

static clattn_status launch_tiles(const struct run *run, const struct tile_kernel *tile, int64_t columns)
{
    const size_t rows = (size_t)ceil_div(run->chunk.rows, tile->group_rows);
    const size_t blocks = (size_t)ceil_div(columns, tile->group_columns);
    const size_t global[3] = { blocks * tile->local[0], rows * tile->local[1], (size_t)run->chunk.planes };
    const size_t local[3] = { tile->local[0], tile->local[1], 1 };
    return launch_step(run, tile->kernel, global, local);
}

static clattn_status launch_rows(const struct run *run, struct kernel *kernel)
{
    const size_t global[3] = { (size_t)run->chunk.rows * run->state->row_items, (size_t)run->chunk.planes, 1 };
    const size_t local[3] = { run->state->row_items, 1, 1 };
    return launch_step(run, kernel, global, local);
}

/* Rows from `row` on of a tensor's (plane, head): as CLBlast takes it. */
static struct gemm_matrix head_matrix(const struct run *run, enum tensor_id id, int64_t b, int64_t head, int64_t row)
{
    const struct tensor_place *place = &run->call->operands.tensor[id];
    return (struct gemm_matrix){
        place->buffer,
        place->offset + b * place->stride[0] + head * place->stride[1] + row * place->stride[2],
        place->stride[2],
    };
}

static struct gemm_matrix score_matrix(const struct run *run, int64_t plane)
{
    return (struct gemm_matrix){ run->call->operands.workspace,
                                 (plane - run->chunk.first_plane) * run->chunk.plane_stride, run->chunk.row_stride };
}

static struct gemm_product score_product(const struct run *run, int64_t plane)
{
    const clattn_problem *p = &attention_problem(run->plan->problem)->p;
    const int64_t b = plane / p->query_heads, h = plane % p->query_heads;
    const int64_t kv_head = h / (p->query_heads / p->kv_heads);
    return (struct gemm_product){
        .type = p->type,
        .rows = run->chunk.rows,
        .columns = run->call->key_len,
        .depth = p->head_dim,
        .alpha = run->call->scale,
        .right_is_transposed = 1,
        .left = head_matrix(run, TENSOR_QUERY, b, h, run->chunk.first_row),
        .right = head_matrix(run, TENSOR_KEY, b, kv_head, 0),
        .result = score_matrix(run, plane),
    };
}

static struct gemm_product mix_product(const struct run *run, int64_t plane)
{
    const clattn_problem *p = &attention_problem(run->plan->problem)->p;
    const int64_t b = plane / p->query_heads, h = plane % p->query_heads;
    const int64_t kv_head = h / (p->query_heads / p->kv_heads);
    return (struct gemm_product){
        .type = p->type,
        .rows = run->chunk.rows,
        .columns = p->head_dim_v,
        .depth = run->call->key_len,
        .alpha = 1,
        .left = score_matrix(run, plane),
        .right = head_matrix(run, TENSOR_VALUE, b, kv_head, 0),
        .result = head_matrix(run, TENSOR_OUT, b, h, run->chunk.first_row),
    };
}

typedef struct gemm_product product_of_plane(const struct run *run, int64_t plane);

/* CLBlast for all planes of the chunk when it takes every one of them, else the tiles. */
static int clblast_takes(const struct run *run, product_of_plane *product_of)
{
    for (int64_t n = 0; run->use_clblast && n < run->chunk.planes; ++n) {
        const struct gemm_product product = product_of(run, run->chunk.first_plane + n);
        if (gemm_declines(run->chain, &product)) {
            return 0;
        }
    }
    return run->use_clblast;
}

static clattn_status multiply_planes(const struct run *run, product_of_plane *product_of)
{
    clattn_status status = CLATTN_OK;
    for (int64_t n = 0; n < run->chunk.planes && status == CLATTN_OK; ++n) {
        const struct gemm_product product = product_of(run, run->chunk.first_plane + n);
        status = gemm_enqueue(run->chain, &product);
    }
    return status;
}

static clattn_status enqueue_scores(const struct run *run)
{
    return clblast_takes(run, score_product) ? multiply_planes(run, score_product)
                                             : launch_tiles(run, &run->state->score, run->call->key_len);
}

static clattn_status enqueue_repair(const struct run *run)
{
    const size_t global[3] = { run->state->repair_items, (size_t)run->chunk.rows, (size_t)run->chunk.planes };
    const size_t local[3] = { run->state->repair_items, 1, 1 };
    return launch_step(run, run->state->repair, global, local);
}

static clattn_status enqueue_mix(const struct run *run, int is_last)
{
    const int by_clblast = clblast_takes(run, mix_product);
    const int repairs = problem_hides_keys(attention_problem(run->plan->problem));
    if (is_last && !by_clblast) {
        chain_final(run->chain);
    }
    if (!by_clblast) {
        return launch_tiles(run, &run->state->mix, run->given->params.head_dim_v);
    }
    clattn_status status = multiply_planes(run, mix_product);
    if (status == CLATTN_OK && repairs) {
        if (is_last) {
            chain_final(run->chain);
        }
        status = enqueue_repair(run);
    }
    return status;
}

static clattn_status enqueue_chunk(const struct run *run, int is_last)
{
    clattn_status status = enqueue_scores(run);
    if (status == CLATTN_OK && run->state->masks_scores) {
        status = launch_rows(run, run->state->scale_mask);
    }
    if (status == CLATTN_OK) {
        status = launch_rows(run, run->state->softmax);
    }
    return status == CLATTN_OK ? enqueue_mix(run, is_last) : status;
}

clattn_status staged_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct staged_state *state = plan->state;
    const struct call *call = attention_call(operands);
    struct attention_given given;
    attention_give(plan, operands, &given);
    const int64_t planes = (int64_t)given.params.batch * given.params.query_heads, rows = given.params.query_len;
    struct run run = {
        .plan = plan,
        .state = state,
        .call = call,
        .given = &given,
        .chain = chain,
        .use_clblast = !state->tiles_reason && call->key_len > 0 &&
                       staged_is_worth_clblast(plan->context, attention_problem(plan->problem), rows, call->key_len),
    };
    run.chunk.row_stride = state->row_stride;
    run.chunk.plane_stride = state->row_stride * state->chunk_rows;
    run.chunk.has_logits = state->masks_scores;
    clattn_status status = CLATTN_OK;
    for (int64_t plane = 0; plane < planes && status == CLATTN_OK; plane += state->chunk_planes) {
        run.chunk.first_plane = (int)plane;
        run.chunk.planes = (int)min64(state->chunk_planes, planes - plane);
        for (int64_t row = 0; row < rows && status == CLATTN_OK; row += state->chunk_rows) {
            run.chunk.first_row = (int)row;
            run.chunk.rows = (int)min64(state->chunk_rows, rows - row);
            const int is_last = plane + state->chunk_planes >= planes && row + state->chunk_rows >= rows;
            status = enqueue_chunk(&run, is_last);
        }
    }
    return status;
}
