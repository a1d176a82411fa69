#include "api/ring_direct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

/* What ranks that pass keys on must have, to the last bit: their tasks in order, without messages, of whole tensors in
 * the order of the layout. */
static void direct_rank(const struct setting *setting, const struct test_call *test, const struct permuted *list,
                        int64_t rank, float *out)
{
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    const clattn_problem *p = &test->problem;
    clattn_ring *ring;
    clattn_ring_step step;
    o.rank = rank;
    o.ranks = setting->ranks;
    o.layout = setting->layout;
    o.algorithm = setting->algorithm;
    o.key_lengths = test->tensors.key_lengths.data;
    EXPECT_OK(clattn_ring_create(p, &o, &ring));
    const int64_t rows = clattn_ring_rows(ring, rank), planes = p->batch * p->query_heads;
    double *sum = calloc((size_t)(planes * rows * DIM) + 1, sizeof(double));
    double *lse = malloc((size_t)(planes * rows + 1) * sizeof(double));
    float *part = malloc((size_t)(planes * rows + 1) * (DIM + 1) * sizeof(float));
    for (int64_t n = 0; n < planes * rows; ++n) {
        lse[n] = (double)-INFINITY;
    }
    for (int64_t index = 0; index < clattn_ring_steps(ring); ++index) {
        EXPECT_OK(clattn_ring_step_at(ring, index, &step));
        for (int64_t n = 0; n < step.tasks; ++n) {
            const clattn_ring_task *task = &step.task[n];
            clattn_problem problem = CLATTN_PROBLEM_INIT;
            clattn_call call = test->values;
            int32_t offsets[2], lengths[2];
            clattn_host_tensors t = test->tensors;
            EXPECT_OK(clattn_ring_call(ring, task, &problem, &call, offsets, lengths));
            const int64_t row = shard_begin(setting, rank, p->query_len) + task->rows.place;
            const int64_t key = shard_begin(setting, task->key_shard, p->key_len) + task->keys.place;
            t.query = (clattn_host_tensor){ list[0].data, row * DIM, { 0 } };
            memcpy(t.query.stride, test->tensors.query.stride, sizeof(t.query.stride));
            t.key.data = list[BY_ROW].data;
            t.value.data = list[BY_ROW + 1].data;
            t.key.offset = t.value.offset = key * DIM;
            t.mask.data = list[3].data;
            t.bias.data = list[4].data;
            t.mask.offset = t.bias.offset = row * p->key_len + task->keys.first;
            t.mask.stride[3] = t.bias.stride[3] = task->keys.step;
            t.sinks.data = task->has_sinks ? t.sinks.data : NULL;
            if (problem.features & CLATTN_WITH_KEY_LENGTHS) {
                t.key_lengths.data = lengths;
            }
            if (problem.alignment == CLATTN_ALIGN_OFFSETS) {
                t.query_offsets = (clattn_host_tensor){ offsets, 0, { 0, 0, 0, 1 } };
            }
            t.out = clattn_host_tensor_bhsd(part, p->query_heads, task->rows.count, DIM);
            t.lse =
                clattn_host_tensor_bhsd(part + planes * task->rows.count * DIM, p->query_heads, task->rows.count, 1);
            EXPECT_OK(clattn_forward_host(context, &problem, &call, &t));
            for (int64_t plane = 0; plane < planes; ++plane) {
                const int64_t at = plane * rows + task->rows.place;
                clattn_ring_merge(task->rows.count, DIM, part + plane * task->rows.count * DIM,
                                  (float *)t.lse.data + plane * task->rows.count, sum + at * DIM, lse + at);
            }
        }
    }
    for (int64_t plane = 0; plane < planes; ++plane) {
        for (int64_t n = 0; n < rows * DIM; ++n) {
            out[(plane * p->query_len + shard_begin(setting, rank, p->query_len)) * DIM + n] =
                (float)sum[plane * rows * DIM + n];
        }
    }
    free(part);
    free(lse);
    free(sum);
    clattn_ring_destroy(ring);
}

void check_bits(const struct setting *setting, const struct test_call *test, const struct permuted *list)
{
    const size_t bytes = (size_t)(list[1].outer * list[1].rows) * list[1].row_bytes;
    float *direct = malloc(bytes);
    for (int64_t rank = 0; rank < setting->ranks; ++rank) {
        direct_rank(setting, test, list, rank, direct);
    }
    ck_assert_mem_eq(direct, list[1].data, bytes);
    free(direct);
}
