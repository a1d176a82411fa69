#include "api/group_keys.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "operation/backward.h"
#include "operation/ring.h"

/* ---- whether ----------------------------------------------------------------------------------- */

static int is_backward(const struct group_call *whole)
{
    return whole->operation == &operation_backward;
}

static const int32_t *integers(const clattn_host_tensor *tensor)
{
    return tensor->data ? (const int32_t *)tensor->data + tensor->offset : NULL;
}

/* The whole as one rank has it, whose problem has the lengths of this call; a strategy is no affair of schedules. */
static clattn_status make_ring(const struct group_call *whole, clattn_ring **ring)
{
    clattn_problem problem = whole->problem;
    clattn_ring_options options = CLATTN_RING_OPTIONS_INIT;
    problem.query_len = group_rows(whole);
    problem.key_len = group_key_len(whole);
    problem.strategy = NULL;
    options.algorithm = is_backward(whole) ? CLATTN_RING_KEYS : CLATTN_RING_TREE;
    options.gradients = is_backward(whole);
    options.key_lengths = integers(&whole->tensors.key_lengths);
    options.query_offsets = integers(&whole->tensors.query_offsets);
    return ring_new(&problem, &options, ring);
}

/* A part's dquery is float32, and so are then its other gradients, which are written where the caller wants them. */
static int gradients_are_float32(const struct group_call *whole, const clattn_problem *p)
{
    const clattn_backward_problem *b = &whole->backward;
    const struct {
        uint32_t gradient;
        clattn_type type;
    } apart[] = { { CLATTN_GRADIENT_KEY, p->key_type },
                  { CLATTN_GRADIENT_VALUE, p->value_type },
                  { CLATTN_GRADIENT_BIAS, p->bias_type } };
    for (size_t n = 0; n < sizeof(apart) / sizeof(apart[0]) && b->gradient_type == CLATTN_TYPE_NONE; ++n) {
        if (b->gradients & apart[n].gradient && apart[n].type != CLATTN_FLOAT32) {
            return 0;
        }
    }
    return !(b->accumulate & CLATTN_GRADIENT_QUERY);
}

static int64_t longest(const clattn_ring *ring)
{
    int64_t most = 0;
    for (int64_t b = 0; b < ring->whole.batch; ++b) {
        most = ring->length[b] > most ? ring->length[b] : most;
    }
    return most;
}

int64_t group_keys(const struct group_call *whole)
{
    clattn_ring *ring = NULL;
    int64_t keys = 1;
    struct error_record before; /* what schedules refuse is no failure: other axes may divide */
    if (whole->call.mask_first_key != 0) {
        return 1;
    }
    error_save(&before);
    if (make_ring(whole, &ring) != CLATTN_OK) {
        error_restore(&before);
    } else if (!is_backward(whole)) {
        keys = longest(ring);
    } else if (gradients_are_float32(whole, &ring->whole)) {
        keys = ring->whole.key_len;
    }
    ring_free(ring);
    return keys;
}

/* ---- cutting ----------------------------------------------------------------------------------- */

/* Rows of a part's results, of all heads and batch entries. */
static int64_t rows_of(const clattn_problem *p)
{
    return p->batch * p->query_heads * p->query_len;
}

/* Memory for results that the caller gets the sum of. */
static clattn_status place_results(struct group_part *part, const clattn_problem *p)
{
    struct group_call *call = &part->call;
    const int64_t columns = is_backward(call) ? p->head_dim : p->head_dim_v;
    const size_t numbers = (size_t)(rows_of(p) * (columns + 1));
    part->results = malloc((numbers > 0 ? numbers : 1) * sizeof(float));
    if (!part->results) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for results of some of the keys");
    }
    const clattn_host_tensor results = clattn_host_tensor_bhsd(part->results, p->query_heads, p->query_len, columns);
    if (!is_backward(call)) {
        call->tensors.out = results;
        call->tensors.lse =
            clattn_host_tensor_bhsd(part->results + rows_of(p) * columns, p->query_heads, p->query_len, 1);
    } else if (call->backward.gradients & CLATTN_GRADIENT_QUERY) {
        call->gradients.dquery = results;
        call->backward.gradient_type = CLATTN_FLOAT32;
    }
    return CLATTN_OK;
}

/* At least the keys of a part, and less than twice as many: a plan is not much larger than its part, and serves the
 * next calls too, of caches that grow. */
static int64_t length_of_plan(int64_t whole, int64_t part)
{
    int64_t length = whole;
    while (length > 1 && (length + 1) / 2 >= part) {
        length = (length + 1) / 2;
    }
    return length;
}

static clattn_status fill(const struct group_call *whole, const clattn_ring *ring, const clattn_ring_task *task,
                          struct group_part *part)
{
    const clattn_host_tensor none = CLATTN_TENSOR_NONE;
    int32_t *lengths = part->offsets + (ring->whole.batch > 0 ? ring->whole.batch : 1);
    struct group_call *call = &part->call;
    call->call.query_len = call->call.key_len = -1;
    const clattn_problem empty = CLATTN_PROBLEM_INIT;
    call->problem = empty;
    const clattn_status status = ring_call(ring, task, &call->problem, &call->call, part->offsets, lengths);
    if (status != CLATTN_OK) {
        return status;
    }
    call->problem.strategy = whole->problem.strategy;
    call->problem.key_len = length_of_plan(whole->problem.key_len, task->keys.count);
    if (call->problem.features & CLATTN_WITH_KEY_LENGTHS) {
        call->tensors.key_lengths = (clattn_host_tensor){ lengths, 0, { 0, 0, 0, 1 } };
    }
    if (call->problem.alignment == CLATTN_ALIGN_OFFSETS) {
        call->tensors.query_offsets = (clattn_host_tensor){ part->offsets, 0, { 0, 0, 0, 1 } };
    }
    call->tensors.sinks = task->has_sinks ? call->tensors.sinks : none;
    return place_results(part, &call->problem);
}

clattn_status group_keys_cut(const struct group_call *whole, int64_t first, int64_t count, struct group_part *part)
{
    clattn_ring *ring = NULL;
    clattn_status status = make_ring(whole, &ring);
    if (status == CLATTN_OK) {
        const clattn_ring_task task = { .row_shard = -1,
                                        .key_shard = -1,
                                        .rows = { 0, 1, ring->whole.query_len, 0 },
                                        .keys = { first, 1, count, 0 },
                                        .kv_heads = ring->whole.kv_heads,
                                        .has_sinks = first == 0 && (ring->whole.features & CLATTN_WITH_SINKS) != 0 };
        status = fill(whole, ring, &task, part);
    }
    ring_free(ring);
    return status;
}

/* ---- summing ----------------------------------------------------------------------------------- */

/* Where a caller's row begins, in elements. */
static int64_t place_of(const clattn_host_tensor *tensor, const clattn_problem *p, int64_t row)
{
    const int64_t i = row % p->query_len, plane = row / p->query_len;
    return tensor->offset + plane / p->query_heads * tensor->stride[0] + plane % p->query_heads * tensor->stride[1] +
           i * tensor->stride[2];
}

static void give_row(const clattn_host_tensor *tensor, clattn_type type, int64_t at, const double *sum, int64_t columns)
{
    for (int64_t c = 0; c < columns; ++c) {
        type_store(type, tensor->data, at + c * tensor->stride[3], sum[c]);
    }
}

static void sum_row(const struct group_parts *parts, int64_t row, double *sum)
{
    const struct group_call *whole = parts->whole;
    const clattn_problem *p = &parts->part[0].call.problem; /* with its defaults, and float32 results */
    const clattn_type out_type = whole->problem.out_type ? whole->problem.out_type : p->type;
    double lse = (double)-INFINITY;
    for (int64_t c = 0; c < p->head_dim_v; ++c) {
        sum[c] = 0;
    }
    for (size_t n = 0; n < parts->count; ++n) {
        const float *results = parts->part[n].results;
        ring_merge(1, p->head_dim_v, results + row * p->head_dim_v, results + rows_of(p) * p->head_dim_v + row, sum,
                   &lse);
    }
    give_row(&whole->tensors.out, out_type, place_of(&whole->tensors.out, p, row), sum, p->head_dim_v);
    if (whole->problem.features & CLATTN_WITH_LSE) {
        give_row(&whole->tensors.lse, CLATTN_FLOAT32, place_of(&whole->tensors.lse, p, row), &lse, 1);
    }
}

static void sum_gradient_row(const struct group_parts *parts, int64_t row, double *sum)
{
    const struct group_call *whole = parts->whole;
    const clattn_problem *p = &parts->part[0].call.problem;
    const clattn_host_tensor *dquery = &whole->gradients.dquery;
    const clattn_type type = whole->backward.gradient_type ? whole->backward.gradient_type : p->type;
    for (int64_t c = 0; c < p->head_dim && dquery->data; ++c) {
        sum[c] = 0;
        for (size_t n = 0; n < parts->count; ++n) {
            sum[c] += (double)parts->part[n].results[row * p->head_dim + c];
        }
    }
    if (dquery->data) {
        give_row(dquery, type, place_of(dquery, p, row), sum, p->head_dim);
    }
}

clattn_status group_keys_sum(const struct group_parts *parts)
{
    const clattn_problem *p = &parts->part[0].call.problem;
    const int64_t columns = is_backward(parts->whole) ? p->head_dim : p->head_dim_v;
    double *sum = malloc((size_t)columns * sizeof(*sum));
    if (!sum) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a row");
    }
    for (int64_t row = 0; row < rows_of(p); ++row) {
        (is_backward(parts->whole) ? sum_gradient_row : sum_row)(parts, row, sum);
    }
    free(sum);
    return CLATTN_OK;
}
