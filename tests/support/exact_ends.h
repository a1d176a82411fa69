/* Exact properties of numbers at the ends of their range: biases, sinks, slopes, caps and scales that are finite, but
 * not times a constant, or beside one another. */
#ifndef CLATTN_TESTS_SUPPORT_EXACT_ENDS_H
#define CLATTN_TESTS_SUPPORT_EXACT_ENDS_H

#include "exact_call.h"

int low_biases_hide_nothing(struct exact *e);
int huge_biases_choose_their_key(struct exact *e);
int sinks_at_their_ends_take_all_or_nothing(struct exact *e);
int huge_slopes_choose_by_distance(struct exact *e);
int softcaps_at_their_ends_cap_nothing_or_all(struct exact *e);
int huge_scales_of_no_score_are_nothing(struct exact *e);

#endif
