/* Backward calls of the tests beside this file: dense, of one kind of problem, with values that are the same each time.
 */
#ifndef CLATTN_TESTS_GRADIENTS_KINDS_H
#define CLATTN_TESTS_GRADIENTS_KINDS_H

#include "support/gradient_call.h"

#define ALL_THREE (CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE)
#define ALL_THREE_AND_SCALE (ALL_THREE | CLATTN_GRADIENT_SCALE)

struct kind {
    const char *name;
    int64_t batch, query_heads, kv_heads, query_len, key_len, head_dim, head_dim_v;
    int causal; /* from the top left */
    uint32_t features;
};

/* The context of the calls, in a check that kind_main calls. */
extern clattn_context *kind_context;

/* Counts a property, and names it where it does not hold. */
void kind_report(const char *strategy, const char *what, int good);

/* Counts a property as skipped, and says why. */
void kind_skip(const char *strategy, const char *what, const char *why);

/* A program's main: `check` for each strategy that has gradients but fused_mma, or that --strategy names; prints the
 * counts. Those that do not take float32 on this device are checked in bfloat16, with float32 gradients, where the
 * program says that its properties hold in that too, and else are skipped. */
int kind_main(int argc, char **argv, int in_bfloat16_too, void (*check)(const char *strategy));

int kind_in_bfloat16(void);

/* Elements of arrays of float32 or bfloat16. */
double kind_get(const struct test_array *array, int64_t at);
void kind_set(struct test_array *array, int64_t at, double value);
void kind_scale(struct test_array *array, double by);

double kind_normal(struct random *random, const int64_t index[4], const void *context);
double kind_integer(struct random *random, const int64_t index[4], const void *context); /* -4 to 4 */

/* The forward's problem, in float32 or, see kind_main, bfloat16. Other fields may be changed before kind_begin. */
clattn_problem kind_problem(const struct kind *kind);

/* Forward inputs by `value`, masks open, key lengths all keys and 9 less in turns; nothing is computed yet, and what is
 * in memory may be changed. Gradients: of query, key, value and scale. */
void kind_begin(struct gradient_call *g, const clattn_problem *problem, const char *strategy, test_value *value);

/* out and lse by the reference; dout, and dlse, by `value`. 0 after a failure. */
int kind_finish(struct gradient_call *g, test_value *value);

/* Whether the last run left what the reference makes of the call. */
int kind_check(struct gradient_call *g, struct gradient_verdict *verdict);
void kind_check_forget(void); /* by kind_main */

int kind_same_bits(const struct gradient_call *a, const struct gradient_call *b, int id);

/* Sums that should be the same: within 2e-5 of the magnitudes that were added up and of 1, for float32. */
struct sum {
    double sum, size;
};
void sum_add(struct sum *sum, double term);
int sum_near(struct sum a, struct sum b);
extern double sums_worst; /* the largest difference of those that are near, as a share of the tolerance */

/* All elements of dquery, dkey and dvalue of two calls are near. */
int kind_same(const struct gradient_call *a, const struct gradient_call *b);

#endif
