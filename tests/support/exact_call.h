/* What the exact tests share: calls of fixed values, and comparisons of outputs to the last bit. */
#ifndef CLATTN_TESTS_SUPPORT_EXACT_CALL_H
#define CLATTN_TESTS_SUPPORT_EXACT_CALL_H

#include "test_call.h"

/* Columns of most properties, with one query head a key head: most strategies compile for these. */
#define EXACT_HEAD_DIM 24
#define EXACT_HEAD_DIM_V 40

struct exact {
    clattn_context *context;
    const char *strategy; /* NULL: the best */
    clattn_type type;
    char what[256]; /* why the test failed */
    int declined;
    int passed, failed, skipped;
};

/* Begins a property: what it finds goes to e->what. */
void exact_begin(struct exact *e, const char *strategy, clattn_type type);

/* Counts how it ended. A strategy that was named may decline: skipped. What failed is printed. */
void exact_end(struct exact *e, int holds, const char *property, const char *where);

/* Whether properties hold is asked in several ways: types, or shapes. In each way of auto, plain and staged; of the
 * strategies that compile for each call in one way, by turns, so that all properties and all ways are tested. With
 * CLATTN_TEST_LONG in the environment in each way of all. */
int exact_by_turns(const char *strategy);

/* After all properties of a strategy and type, of which `count` more than before were tested: one that takes the type
 * and declined every call was not tested, and that is a failure. */
int exact_count(const struct exact *e);
void exact_tested(struct exact *e, const char *strategy, clattn_type type, int count);

/* Prints the counts; the exit status. */
int exact_close(struct exact *e);

clattn_problem exact_problem(const struct exact *e, int64_t batch, int64_t query_heads, int64_t kv_heads,
                             int64_t query_len, int64_t key_len, int64_t head_dim, int64_t head_dim_v);

/* Values for test_call_fill. Contexts: the mean (double); the largest integer (int64_t); none. */
test_value value_normal, value_integer, value_zero;

/* Allocates all tensors; query and key are sharp normals, values normal around `shift`. */
void exact_build(struct test_call *test, const clattn_problem *problem, double shift);

/* Blocking call, or by plan and enqueue; 0 when it ran. */
int exact_run(struct exact *e, struct test_call *test);
int exact_enqueue(struct exact *e, struct test_call *test);

/* Which row of which test is compared with which: the same bits are asked for. */
struct exact_row {
    const struct test_call *test;
    int64_t b, h, i;
};
int exact_same_value(struct exact *e, const struct exact_row *row, int64_t column, double want);

/* All rows of b of `one` equal those of other_b of `other`. */
int exact_same_entry(struct exact *e, const struct test_call *one, int64_t b, const struct test_call *other,
                     int64_t other_b);

/* The outputs of `test` against what the reference makes of `of`. */
int exact_within_bound(struct exact *e, struct test_call *test, struct test_call *of);

void exact_copy_entry(struct test_call *to, int64_t to_b, const struct test_call *from, int64_t from_b,
                      enum tensor_id id);

/* A value as the type stores it. */
double exact_rounded(const struct exact *e, double value);

#endif
