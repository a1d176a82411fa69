/* One row after the other, as the formula in clattn_key_sums.h has it; the logits are those of reference.c. */
#include "reference/reference_key_sums.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/pair_logit.h"
#include "reference/stored_rows.h"

struct work {
    const struct key_sums_problem *problem;
    const struct call *call;
    struct sequence sequence;
    int64_t b, h, i;
    double *query, *keys;       /* a row; all of a key/value head */
    long double *sums, largest; /* of a head */
    double *sum_units, largest_units;
};

static void *allocate(int64_t count, size_t element_bytes)
{
    return calloc((size_t)count + 1, element_bytes);
}

static clattn_status work_allocate(struct work *w)
{
    const int64_t columns = w->problem->attention.p.head_dim, keys = w->call->key_len;
    w->query = allocate(columns, sizeof(double));
    w->keys = allocate(keys, (size_t)columns * sizeof(double));
    w->sums = allocate(keys, sizeof(long double));
    w->sum_units = allocate(keys, sizeof(double));
    return w->query && w->keys && w->sums && w->sum_units
               ? CLATTN_OK
               : error_set(CLATTN_OUT_OF_HOST_MEMORY, "reference: no memory for the keys of a head");
}

static void work_free(struct work *w)
{
    free(w->query);
    free(w->keys);
    free(w->sums);
    free(w->sum_units);
}

/* Tensors of rows, packed ones too. */
static int64_t pack_of(const struct work *w)
{
    return w->problem->attention.flags & CLATTN_FLAG_VARLEN ? 0 : w->b;
}

static void add_row(struct work *w)
{
    const struct problem *problem = &w->problem->attention;
    const struct any_problem *any = &problem->any;
    const struct tensor_place *lse_place = &w->call->operands.tensor[TENSOR_LSE];
    const int64_t row = w->sequence.query_row + w->i;
    const int is_summed = key_sums_wants(any, CLATTN_KEY_SUMS) &&
                          w->i >= key_sums_first_row(any, w->sequence.query_len);
    const double lse =
        is_summed ? type_load(CLATTN_FLOAT32, lse_place->data, place_index(lse_place, pack_of(w), w->h, row, 0))
                  : -INFINITY;
    const double root = sqrt((double)problem->p.head_dim);
    load_row(w->call, TENSOR_QUERY, pack_of(w), w->h, row, problem->p.head_dim, w->query);
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        const struct user_pair at = { problem, w->call, &w->sequence, w->b, w->h, w->i, j };
        struct pair_logit pair;
        find_pair_logit(&at, w->query, w->keys + j * problem->p.head_dim, 0, &pair);
        if (!pair.allowed) {
            continue;
        }
        if (pair.logit > w->largest || isnan(pair.logit)) {
            w->largest = pair.logit;
            w->largest_units = root * (double)(1 + pair.magnitude) + (double)fabsl(pair.logit);
        }
        if (lse > -INFINITY || isnan(lse)) {
            const long double weight = expl(pair.logit - lse);
            w->sums[j] += weight;
            w->sum_units[j] += (double)weight * (root * (double)(1 + pair.magnitude) + fabs(lse) + 8);
        }
    }
}

static void store(const struct work *w, int id, int64_t j, long double value)
{
    const struct operands *operands = &w->call->operands;
    const clattn_type type = w->problem->attention.p.type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    const struct tensor_place *place = &operands->tensor[id];
    type_store(type, place->data, place_index(place, w->b, w->h, 0, j), (double)value);
}

static void give_head(const struct work *w, const struct key_sums_detail *detail)
{
    const int64_t keys = w->call->key_len, plane = w->b * w->problem->attention.p.query_heads + w->h;
    for (int64_t j = 0; j < keys && key_sums_wants(&w->problem->attention.any, CLATTN_KEY_SUMS); ++j) {
        if (detail) {
            detail->sums[plane * keys + j] = (double)w->sums[j];
            detail->sum_units[plane * keys + j] = w->sum_units[j];
        } else {
            store(w, SUMS_KEY_SUMS, j, w->sums[j]);
        }
    }
    if (key_sums_wants(&w->problem->attention.any, CLATTN_MAX_LOGIT)) {
        if (detail) {
            detail->largest[plane] = (double)w->largest;
            detail->largest_units[plane] = w->largest_units;
        } else {
            store(w, SUMS_MAX_LOGIT, 0, w->largest);
        }
    }
}

static void take_head(struct work *w, const struct key_sums_detail *detail)
{
    for (int64_t j = 0; j < w->call->key_len; ++j) {
        w->sums[j] = w->sum_units[j] = 0;
    }
    w->largest = -(long double)INFINITY;
    w->largest_units = 0;
    for (w->i = 0; w->i < w->sequence.query_len; ++w->i) {
        add_row(w);
    }
    give_head(w, detail);
}

static void load_keys(const struct work *w)
{
    const struct problem *problem = &w->problem->attention;
    for (int64_t j = 0; j < w->sequence.stored_keys; ++j) {
        const int64_t kv_head = w->h / problem_group(&problem->p);
        const struct stored_place place = { problem, w->call, &w->sequence, w->b, kv_head, j };
        load_stored_row(&place, TENSOR_KEY, problem->p.head_dim, w->keys + j * problem->p.head_dim);
    }
}

clattn_status reference_key_sums_detail(const struct key_sums_problem *problem, const struct call *call,
                                        const struct key_sums_detail *detail)
{
    const clattn_problem *p = &problem->attention.p;
    struct work w = { .problem = problem, .call = call };
    clattn_status status = user_pairs_check(&problem->attention, 0);
    status = status == CLATTN_OK ? work_allocate(&w) : status;
    for (w.b = 0; w.b < p->batch && p->query_heads > 0 && status == CLATTN_OK; ++w.b) {
        w.sequence = sequence_of(&problem->attention, call, w.b);
        for (w.h = 0; w.h < p->query_heads; ++w.h) {
            if (w.h % problem_group(p) == 0) {
                load_keys(&w);
            }
            take_head(&w, detail);
        }
    }
    work_free(&w);
    return status;
}

clattn_status reference_key_sums(const struct any_problem *problem, const struct operands *operands)
{
    return reference_key_sums_detail(key_sums_problem(problem), attention_call(operands), NULL);
}
