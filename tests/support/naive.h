/* Attention written a second time, without a line in common with src/reference: four loops straight from
 * the formula. In double it is held against the reference; in the storage type it is the plain pipeline
 * (scores and weights rounded to the type, sums in float32) whose error is the yardstick R. */
#ifndef CLATTN_TESTS_SUPPORT_NAIVE_H
#define CLATTN_TESTS_SUPPORT_NAIVE_H

#include "test_call.h"

enum naive_precision { NAIVE_DOUBLE, NAIVE_STORAGE };

/* out: dense [batch, query_heads, query_len of the call, head_dim_v]; lse (may be NULL): dense
 * [batch, query_heads, query_len]. Rows past a packed sequence's end are left alone. */
void naive_forward(const struct test_call *test, enum naive_precision precision, double *out, double *lse);

#endif
