/* Calls with fixed values, and comparisons to the last bit. */
#include "exact_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "device_call.h"
#include "device_options.h"
#include "tolerance.h"

clattn_problem exact_problem(const struct exact *e, int64_t batch, int64_t query_heads, int64_t kv_heads,
                             int64_t query_len, int64_t key_len, int64_t head_dim, int64_t head_dim_v)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = e->type;
    p.batch = batch;
    p.query_heads = query_heads;
    p.kv_heads = kv_heads;
    p.query_len = query_len;
    p.key_len = key_len;
    p.head_dim = head_dim;
    p.head_dim_v = head_dim_v;
    p.strategy = e->strategy;
    return p;
}

double value_normal(struct random *random, const int64_t index[4], const void *context)
{
    const double *shift = context;
    (void)index;
    return *shift + random_normal(random);
}

double value_integer(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    return (double)random_between(random, -*(const int64_t *)context, *(const int64_t *)context);
}

double value_zero(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index, (void)context;
    return 0;
}

void exact_build(struct test_call *test, const clattn_problem *problem, double shift)
{
    struct random random = random_start(7, 0);
    const double none = 0;
    test_call_start(test, problem);
    test_call_place_all(test);
    test_call_fill(test, TENSOR_QUERY, &random, value_normal, &none);
    test_call_fill(test, TENSOR_KEY, &random, value_normal, &none);
    test_call_fill(test, TENSOR_VALUE, &random, value_normal, &shift);
    test->values.has_scale = 1;
    test->values.scale = 0.75;
}

static int ran(struct exact *e, clattn_status status)
{
    e->declined |= status == CLATTN_UNSUPPORTED && e->strategy;
    if (status != CLATTN_OK) {
        snprintf(e->what, sizeof(e->what), "%s: %.200s", clattn_status_name(status), clattn_last_error());
        e->what[strcspn(e->what, "\n")] = 0;
    }
    return status == CLATTN_OK ? 0 : -1;
}

int exact_run(struct exact *e, struct test_call *test)
{
    return ran(e, clattn_forward_host(e->context, &test->problem, &test->values, &test->tensors));
}

int exact_enqueue(struct exact *e, struct test_call *test)
{
    return ran(e, device_call_run(e->context, test, NULL));
}

int exact_same_value(struct exact *e, const struct exact_row *row, int64_t column, double want)
{
    double got = test_call_get(row->test, TENSOR_OUT, row->b, row->h, row->i, column);
    if (memcmp(&got, &want, sizeof(got)) == 0) {
        return 0;
    }
    snprintf(e->what, sizeof(e->what), "out[%d, %d, %d, %d] is %.17g, not %.17g", (int)row->b, (int)row->h, (int)row->i,
             (int)column, got, want);
    return -1;
}

int exact_same_entry(struct exact *e, const struct test_call *one, int64_t b, const struct test_call *other,
                     int64_t other_b)
{
    int64_t n[4];
    int status = 0;
    test_call_shape(one, TENSOR_OUT, n);
    struct exact_row row = { one, b, 0, 0 };
    for (row.h = 0; row.h < n[1]; ++row.h) {
        for (row.i = 0; row.i < n[2]; ++row.i) {
            for (int64_t c = 0; c < n[3] && status == 0; ++c) {
                status = exact_same_value(e, &row, c, test_call_get(other, TENSOR_OUT, other_b, row.h, row.i, c));
            }
        }
    }
    return status;
}

int exact_within_bound(struct exact *e, struct test_call *test, struct test_call *of)
{
    struct expected expected = { { 0 } };
    struct verdict verdict = { 0 };
    const int are_valid = test_call_validate(test) == CLATTN_OK && test_call_validate(of) == CLATTN_OK;
    int status = are_valid && expected_create(&expected, of) == CLATTN_OK ? 0 : -1;
    if (status == 0) {
        tolerance_check(test, &expected, &verdict);
        status = verdict.wrong == 0 ? 0 : -1;
        snprintf(e->what, sizeof(e->what), "%s", verdict.first);
    }
    expected_free(&expected);
    return status;
}

void exact_copy_entry(struct test_call *to, int64_t to_b, const struct test_call *from, int64_t from_b,
                      enum tensor_id id)
{
    int64_t n[4];
    test_call_shape(from, id, n);
    for (int64_t h = 0; h < n[1]; ++h) {
        for (int64_t i = 0; i < n[2]; ++i) {
            for (int64_t c = 0; c < n[3]; ++c) {
                test_call_set(to, id, to_b, h, i, c, test_call_get(from, id, from_b, h, i, c));
            }
        }
    }
}

double exact_rounded(const struct exact *e, double value)
{
    double memory;
    type_store(e->type, &memory, 0, value);
    return type_load(e->type, &memory, 0);
}

void exact_begin(struct exact *e, const char *strategy, clattn_type type)
{
    e->strategy = strategy;
    e->type = type;
    e->declined = 0;
}

void exact_end(struct exact *e, int holds, const char *property, const char *where)
{
    e->passed += holds;
    e->skipped += !holds && e->declined;
    e->failed += !holds && !e->declined;
    if (!holds && !e->declined) {
        printf("FAIL %s, %s, %s: %s\n", property, where, strategy_label(e->strategy), e->what);
    }
}

int exact_count(const struct exact *e)
{
    return e->passed + e->failed;
}

int exact_by_turns(const char *strategy)
{
    const char *wanted = getenv("CLATTN_TEST_LONG");
    return !(wanted && *wanted) && strategy && strcmp(strategy, "plain") != 0 &&
           strncmp(strategy, "staged", strlen("staged")) != 0;
}

void exact_tested(struct exact *e, const char *strategy, clattn_type type, int count)
{
    if (count == 0 && strategy && strategy_takes(e->context, strategy, type)) {
        printf("FAIL %s takes %s, but declined every call: it was not tested\n", strategy_label(strategy),
               clattn_type_name(type));
        ++e->failed;
    }
}

int exact_close(struct exact *e)
{
    clattn_context_destroy(e->context);
    printf("%d passed, %d failed, %d skipped\n", e->passed, e->failed, e->skipped);
    return e->failed || !e->passed;
}
