/* Exact properties of numbers at the ends of their range: biases, sinks, slopes, caps and scales that are finite, but
 * not times a constant, or beside one another. */
#ifndef CLATTN_TESTS_SUPPORT_EXACT_ENDS_H
#define CLATTN_TESTS_SUPPORT_EXACT_ENDS_H

#include "exact_call.h"

int low_biases_hide_nothing(struct exact *e);
int huge_biases_choose_their_key(struct exact *e);
int huge_biases_are_told_apart(struct exact *e);
int low_biases_keep_the_scores_of_other_rows(struct exact *e);
int huge_sinks_take_all(struct exact *e);
int low_sinks_take_nothing(struct exact *e);
int huge_slopes_choose_by_distance(struct exact *e);
int huge_caps_cap_nothing(struct exact *e);
int tiny_caps_make_logits_equal(struct exact *e);
int huge_scales_of_no_score_are_nothing(struct exact *e);

#endif
