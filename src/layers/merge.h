/* Merging two partial attentions over disjoint keys. */
#ifndef CLATTN_SRC_MERGE_H
#define CLATTN_SRC_MERGE_H

#include "program/context.h"

clattn_status merge_enqueue(clattn_context *context, cl_command_queue queue, clattn_type type,
                            const int64_t shape[4], const clattn_partial *const partials[3],
                            cl_uint n_wait, const cl_event *wait, cl_event *done);

#endif
