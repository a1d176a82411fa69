/* Packed sequences that are longer than the problem's maxima. Only calls by plan and enqueue take them, whose seams
 * nobody can check: rows and keys past the maxima are not computed, nor is what they have in outputs written. */
#ifndef CLATTN_TESTS_SUPPORT_LONG_SEQUENCES_H
#define CLATTN_TESTS_SUPPORT_LONG_SEQUENCES_H

#include "exact_call.h"

/* Makes some sequences of half the calls longer; cu_key NULL: of the queries alone. By draws of its own. */
void long_sequences_draw(uint64_t seed, uint64_t index, const clattn_problem *p, int32_t *cu_query, int32_t *cu_key);

/* Counts what lies past the maxima as not reached, in a tensor whose rows are those of the seams, at most `most` of
 * each sequence computed: it must keep what it had. */
void long_sequences_leave(const struct test_call *test, enum tensor_id seams, int64_t most,
                          const clattn_host_tensor *tensor, const int64_t shape[4], struct test_array *array);

/* 0, or -1 and e->what. A causal call of three sequences, of which two are longer in rows, in keys, in both. */
int long_sequences_are_cut(struct exact *e, int64_t query_len, int64_t key_len);

#endif
