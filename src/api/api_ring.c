/* The exported functions of clattn_ring.h. */
#include "base/error.h"
#include "base/growth.h"
#include "base/uncancelled.h"
#include "operation/ring.h"

void clattn_ring_options_init(clattn_ring_options *to, size_t size)
{
    GROWTH_INIT(clattn_ring_options, CLATTN_RING_OPTIONS_INIT);
}

clattn_status clattn_ring_create(const clattn_problem *whole, const clattn_ring_options *options, clattn_ring **ring)
{
    UNCANCELLED;
    REQUIRE(ring);
    *ring = NULL;
    REQUIRE(whole);
    REQUIRE(options);
    return ring_new(whole, options, ring);
}

void clattn_ring_destroy(clattn_ring *ring)
{
    UNCANCELLED;
    ring_free(ring);
}

clattn_status clattn_ring_pieces(clattn_ring_layout layout, int64_t ranks, int64_t rank, int64_t length,
                                 clattn_ring_piece pieces[2], int *count)
{
    UNCANCELLED;
    clattn_ring_piece all[RING_PIECES];
    REQUIRE(pieces);
    REQUIRE(count);
    *count = 0;
    const clattn_status status = ring_check_layout(layout, ranks, rank);
    if (status != CLATTN_OK) {
        return status;
    }
    if (length < 0 || length > INT32_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "length %lld: must be 0 to %d", (long long)length, INT32_MAX);
    }
    const int made = ring_pieces(layout, ranks, rank, length, all);
    for (int n = 0; n < made; ++n) {
        if (all[n].count > 0) {
            pieces[(*count)++] = all[n];
        }
    }
    return CLATTN_OK;
}

static int64_t shard_of(const clattn_ring *ring, int64_t rank, int64_t length)
{
    return rank >= 0 && rank < ring->options.ranks ? ring_shard(ring->options.layout, ring->options.ranks, rank, length)
                                                   : 0;
}

int64_t clattn_ring_rows(const clattn_ring *ring, int64_t rank)
{
    if (!ring) {
        return 0;
    }
    return ring->options.algorithm == CLATTN_RING_TREE ? ring->whole.query_len
                                                       : shard_of(ring, rank, ring->whole.query_len);
}

int64_t clattn_ring_keys(const clattn_ring *ring, int64_t rank)
{
    return ring ? shard_of(ring, rank, ring->whole.key_len) : 0;
}

clattn_ring_algorithm clattn_ring_chosen(const clattn_ring *ring)
{
    return ring ? ring->options.algorithm : CLATTN_RING_AUTO;
}

const char *clattn_ring_explain(const clattn_ring *ring)
{
    return ring ? ring->explain : "";
}

int64_t clattn_ring_steps(const clattn_ring *ring)
{
    return ring ? ring->list.steps : 0;
}

clattn_status clattn_ring_step_at(const clattn_ring *ring, int64_t index, clattn_ring_step *step)
{
    UNCANCELLED;
    REQUIRE(ring);
    REQUIRE(step);
    if (index < 0 || index >= ring->list.steps) {
        return error_set(CLATTN_INVALID_ARGUMENT, "index %lld: must be below clattn_ring_steps, %lld", (long long)index,
                         (long long)ring->list.steps);
    }
    const struct ring_range *range = &ring->list.step[index];
    step->messages = range->messages;
    step->tasks = range->tasks;
    step->message = range->messages > 0 ? &ring->list.message[range->first_message] : NULL;
    step->task = range->tasks > 0 ? &ring->list.task[range->first_task] : NULL;
    return CLATTN_OK;
}

clattn_status clattn_ring_call(const clattn_ring *ring, const clattn_ring_task *task, clattn_problem *problem,
                               clattn_call *call, int32_t *offsets, int32_t *lengths)
{
    UNCANCELLED;
    REQUIRE(ring);
    REQUIRE(task);
    REQUIRE(problem);
    REQUIRE(call);
    REQUIRE(offsets);
    REQUIRE(lengths);
    return ring_call(ring, task, problem, call, offsets, lengths);
}

void clattn_ring_merge(int64_t rows, int64_t columns, const float *out, const float *lse, double *sum_out,
                       double *sum_lse)
{
    UNCANCELLED;
    ring_merge(rows, columns, out, lse, sum_out, sum_lse);
}

void clattn_ring_merge_sums(int64_t rows, int64_t columns, const double *out, const double *lse, double *sum_out,
                            double *sum_lse)
{
    UNCANCELLED;
    ring_merge_sums(rows, columns, out, lse, sum_out, sum_lse);
}

clattn_status clattn_ring_permute(clattn_ring_layout layout, int64_t ranks, int64_t outer, int64_t rows,
                                  size_t row_bytes, int back, const void *from, void *to)
{
    UNCANCELLED;
    if (outer > 0 && rows > 0 && row_bytes > 0) {
        REQUIRE(from);
        REQUIRE(to);
    }
    return ring_permute(layout, ranks, outer, rows, row_bytes, back, from, to);
}
