/* Lengths and windows that end and begin within five keys of the end of a K/V split: of 512 keys, and so of blocks of
 * 32, 64 and 128 too. */
#ifndef CLATTN_TESTS_SUPPORT_SPLIT_EDGES_H
#define CLATTN_TESTS_SUPPORT_SPLIT_EDGES_H

#include "exact_call.h"

/* 0, or -1 and e->what. Few rows of sequences of many lengths against a mask that hides the same keys. The windows are
 * one key shorter than a split, so that those of all rows reach into one split more than any row's own; the first row's
 * first value is NaN, which the other rows must not see. */
int split_edges_are_a_mask(struct exact *e);

#endif
