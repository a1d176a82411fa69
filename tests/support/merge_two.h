/* The merge of two partial results in double on the host: what clattn_merge is held against. */
#ifndef CLATTN_TESTS_SUPPORT_MERGE_TWO_H
#define CLATTN_TESTS_SUPPORT_MERGE_TWO_H

#include <stdint.h>

#include "clattn.h"

/* clattn_merge of a and b, all of one type and of shape batch, heads, rows, columns. */
clattn_status merge_two(clattn_context *context, cl_command_queue queue, clattn_type type, const int64_t shape[4],
                        const clattn_partial *a, const clattn_partial *b, const clattn_partial *merged, cl_uint n_wait,
                        const cl_event *wait, cl_event *done);

/* One row of `columns`: out and lse of a and b into *merged_lse and merged_out, which may be a's or b's. */
void merge_row(int64_t columns, const double *out_a, double lse_a, const double *out_b, double lse_b,
               double *merged_out, double *merged_lse);

#endif
