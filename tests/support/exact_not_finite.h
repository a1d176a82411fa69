/* Properties of tests/exact about what is not finite: where it goes, as what, and where it does not; and about weights
 * that are nearly 0. Each returns 0 where it holds; e->what says why it does not. */
#ifndef CLATTN_TESTS_SUPPORT_EXACT_NOT_FINITE_H
#define CLATTN_TESTS_SUPPORT_EXACT_NOT_FINITE_H

#include "exact_call.h"

/* A row all of whose weights are dropped is 0, whatever its scores; a dropped value still counts, 0 times. */
int dropped_rows_are_zero(struct exact *e);
int dropped_values_count_0_times(struct exact *e);

/* What dropout leaves of a row is as exact as ever, however small beside what it takes. */
int dropped_weights_leave_others_exact(struct exact *e);

/* Weights below float32's smallest normal number are not lost where a sink has all the rest. */
int keys_beside_large_sinks_count(struct exact *e);

/* However weights are split into parts, an infinite value that is seen makes an infinite output, and no NaN; a row
 * that does not see it stays finite. */
int infinite_values_stay(struct exact *e);
int infinite_values_stay_where_seen(struct exact *e);

/* Logits of -infinity count nothing beside others or a sink, wherever they stand; a row of nothing else is NaN. */
int infinite_logits_count_nothing(struct exact *e);
int infinite_logits_count_nothing_beside_sinks(struct exact *e);

/* An infinite query makes NaN of its row, and nothing of the other rows, however many are computed together. */
int infinite_query_spoils_its_row_alone(struct exact *e);

/* A number of a list that is of no key, as large as there is, brings no other key to the row. */
int listed_numbers_of_no_key_are_hidden(struct exact *e);

#endif
