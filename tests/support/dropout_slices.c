/* Slices of calls with dropout, put back into the whole. */
#include "dropout_slices.h"

#include <math.h>
#include <stdio.h>

#include "merge_two.h"

#define BATCH 3
#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 40
#define HEAD_DIM_V 24

/* Where a slice begins in the whole. */
struct corner {
    int64_t batch, head, row, key;
};

static void build_whole(const struct exact *e, int64_t query_len, int64_t key_len, struct test_call *whole)
{
    clattn_problem p = exact_problem(e, BATCH, HEADS, KV_HEADS, query_len, key_len, HEAD_DIM, HEAD_DIM_V);
    p.features = CLATTN_WITH_LSE;
    p.dropout = 0.4;
    exact_build(whole, &p, 0);
    whole->values.dropout_seed = 0x123456789abcdefu;
    whole->values.dropout_offset = 77;
}

/* A call on the part from `corner` on that has the problem's dimensions `p`. */
static void cut(const struct test_call *whole, const struct corner *corner, const clattn_problem *p,
                struct test_call *part)
{
    exact_build(part, p, 0);
    part->values = whole->values;
    part->values.first_batch = corner->batch;
    part->values.first_head = corner->head;
    part->values.first_row = corner->row;
    part->values.first_key = corner->key;
    part->values.whole_heads = HEADS;
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        const int64_t head = id == TENSOR_QUERY ? corner->head : corner->head / (HEADS / KV_HEADS);
        const int64_t row = id == TENSOR_QUERY ? corner->row : corner->key;
        int64_t n[4];
        test_call_shape(part, (enum tensor_id)id, n);
        for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
            const int64_t c = at % n[3], i = at / n[3] % n[2], h = at / n[3] / n[2] % n[1], b = at / n[3] / n[2] / n[1];
            test_call_set(part, (enum tensor_id)id, b, h, i, c,
                          test_call_get(whole, (enum tensor_id)id, corner->batch + b, head + h, row + i, c));
        }
    }
}

static void put_back(struct test_call *whole, const struct corner *corner, const struct test_call *part)
{
    int64_t n[4];
    test_call_shape(part, TENSOR_OUT, n);
    for (int64_t at = 0; at < n[0] * n[1] * n[2]; ++at) {
        const int64_t i = at % n[2], h = at / n[2] % n[1], b = at / n[2] / n[1];
        for (int64_t c = 0; c < n[3]; ++c) {
            test_call_set(whole, TENSOR_OUT, corner->batch + b, corner->head + h, corner->row + i, c,
                          test_call_get(part, TENSOR_OUT, b, h, i, c));
        }
    }
}

int dropout_of_a_slice(struct exact *e, int64_t query_len, int64_t key_len)
{
    const struct corner corner = { 1, 2, query_len / 3, 0 };
    struct test_call whole, part;
    build_whole(e, query_len, key_len, &whole);
    clattn_problem p = whole.problem;
    p.batch = 1;
    p.query_heads -= corner.head;
    p.kv_heads -= corner.head / (HEADS / KV_HEADS);
    p.query_len -= corner.row;
    cut(&whole, &corner, &p, &part);
    int status = exact_run(e, &whole) || exact_run(e, &part) ? -1 : 0;
    if (status == 0) {
        put_back(&whole, &corner, &part);
        status = exact_within_bound(e, &whole, &whole);
    }
    test_call_free(&whole);
    test_call_free(&part);
    return status;
}

/* Row by row of the whole: both parts by their lse, which dropout does not change. */
static void merge_parts(struct test_call *whole, const struct test_call *first, const struct test_call *second)
{
    const int64_t rows = whole->problem.query_len;
    for (int64_t at = 0; at < BATCH * HEADS * rows; ++at) {
        const int64_t b = at / rows / HEADS, h = at / rows % HEADS, i = at % rows;
        double from[2][HEAD_DIM_V], lse;
        for (int64_t c = 0; c < HEAD_DIM_V; ++c) {
            from[0][c] = test_call_get(first, TENSOR_OUT, b, h, i, c);
            from[1][c] = test_call_get(second, TENSOR_OUT, b, h, i, c);
        }
        merge_row(HEAD_DIM_V, from[0], test_call_get(first, TENSOR_LSE, b, h, i, 0), from[1],
                  test_call_get(second, TENSOR_LSE, b, h, i, 0), from[0], &lse);
        for (int64_t c = 0; c < HEAD_DIM_V; ++c) {
            test_call_set(whole, TENSOR_OUT, b, h, i, c, from[0][c]);
        }
        test_call_set(whole, TENSOR_LSE, b, h, i, 0, lse);
    }
}

int dropout_of_cut_keys(struct exact *e, int64_t query_len, int64_t key_len)
{
    const int64_t cuts[] = { 1, 6, key_len / 2 + 1 };
    struct test_call whole, first, second;
    int status = 0;
    build_whole(e, query_len, key_len, &whole);
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]) && status == 0; ++k) {
        const struct corner begin = { 0, 0, 0, 0 }, later = { 0, 0, 0, cuts[k] };
        clattn_problem p = whole.problem;
        p.key_len = cuts[k];
        cut(&whole, &begin, &p, &first);
        p.key_len = key_len - cuts[k];
        cut(&whole, &later, &p, &second);
        status = exact_run(e, &first) || exact_run(e, &second) ? -1 : 0;
        if (status == 0) {
            merge_parts(&whole, &first, &second);
            status = exact_within_bound(e, &whole, &whole);
        }
        test_call_free(&first);
        test_call_free(&second);
    }
    test_call_free(&whole);
    return status;
}
