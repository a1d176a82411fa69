/* Seams that are farther apart than the problem says. */
#include "long_sequences.h"

#include <stdio.h>

static void lengthen(struct random *random, int64_t batch, int64_t most, int32_t *seams)
{
    int32_t added = 0;
    for (int64_t b = 0; b < batch; ++b) {
        /* Past the most, whatever length it had. */
        const int64_t length = (int64_t)seams[b + 1] + added - seams[b];
        const int64_t more = random_chance(random, 0.5) ? most - length + random_between(random, 1, most / 2 + 9) : 0;
        added += (int32_t)more;
        seams[b + 1] += added;
    }
}

void long_sequences_draw(uint64_t seed, uint64_t index, const clattn_problem *p, int32_t *cu_query, int32_t *cu_key)
{
    struct random random = random_start(seed ^ 0x6c6f6e67, index);
    if (random_chance(&random, 0.5)) {
        return;
    }
    lengthen(&random, p->batch, p->query_len, cu_query);
    if (cu_key) {
        lengthen(&random, p->batch, p->key_len, cu_key);
    }
}

void long_sequences_leave(const struct test_call *test, enum tensor_id seams, int64_t most,
                          const clattn_host_tensor *tensor, const int64_t shape[4], struct test_array *array)
{
    for (int64_t b = 0; b < test->problem.batch; ++b) {
        const int64_t first = (int64_t)test_call_get(test, seams, 0, 0, 0, b);
        const int64_t end = (int64_t)test_call_get(test, seams, 0, 0, 0, b + 1);
        for (int64_t i = first + most; i < end; ++i) {
            for (int64_t at = 0; at < shape[1] * shape[3]; ++at) {
                const int64_t h = at / shape[3], c = at % shape[3];
                array->reached[tensor->offset + h * tensor->stride[1] + i * tensor->stride[2] + c * tensor->stride[3]] =
                    0;
            }
        }
    }
}

/* ---- against the reference ------------------------------------------------------------------ */

#define SEQUENCES 3

static double seam(struct random *random, const int64_t index[4], const void *seams)
{
    (void)random;
    return ((const int32_t *)seams)[index[3]];
}

/* What lies past the maxima is as random as all else. */
static void build(const int32_t *cu_query, const int32_t *cu_key, const clattn_problem *p, struct test_call *test)
{
    struct random random = random_start(7, 0);
    const double none = 0;
    test_call_start(test, p);
    test->packed_queries = cu_query[SEQUENCES];
    test->packed_keys = cu_key[SEQUENCES];
    test_call_place_all(test);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        test_call_fill(test, (enum tensor_id)id, &random, value_normal, &none);
    }
    test_call_fill(test, TENSOR_CU_QUERY, NULL, seam, cu_query);
    test_call_fill(test, TENSOR_CU_KEY, NULL, seam, cu_key);
}

static void leave(struct test_call *test, enum tensor_id id)
{
    int64_t shape[4];
    test_call_shape(test, id, shape);
    long_sequences_leave(test, TENSOR_CU_QUERY, test->problem.query_len, test_call_tensor(test, id), shape,
                         &test->arrays[id]);
}

int long_sequences_are_cut(struct exact *e, int64_t query_len, int64_t key_len)
{
    const int32_t rows = (int32_t)query_len, keys = (int32_t)key_len;
    const int32_t cu_query[SEQUENCES + 1] = { 0, rows + 3, 2 * rows + 2, 3 * rows + 11 };
    const int32_t cu_key[SEQUENCES + 1] = { 0, keys - 1, 2 * keys + 8, 3 * keys + 20 };
    clattn_problem p = exact_problem(e, SEQUENCES, 4, 2, query_len, key_len, 40, 24);
    struct test_call test;
    p.features = CLATTN_WITH_VARLEN | CLATTN_WITH_LSE;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    build(cu_query, cu_key, &p, &test);
    leave(&test, TENSOR_OUT);
    leave(&test, TENSOR_LSE);
    int status = exact_enqueue(e, &test) || exact_within_bound(e, &test, &test) ? -1 : 0;
    if (status == 0 && test_call_touched(&test) > 0) {
        snprintf(e->what, sizeof(e->what), "wrote rows past the problem's query_len");
        status = -1;
    }
    test_call_free(&test);
    return status;
}
