/* The reference of a problem with a text of the user's own: no host compiles it, so strategy plain computes it on the
 * device in float64, and what a logit's error may be comes from logits at two scales. */
#ifndef CLATTN_TOOLS_CHECK_TEXT_H
#define CLATTN_TOOLS_CHECK_TEXT_H

#include "clattn.h"
#include "failure.h"

/* One batch entry in float64, whose weights are softmax; outputs as host has them. `magnitude`, one for each weight,
 * has A_j = sum_d |scale q_d k_jd| of check.h and gets |z'| A_j + |z| + |z - z' s|, where z is the logit, s = scale
 * q.k and z' the logit's derivative by s. */
int check_text_forward(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                       const clattn_host_tensors *host, double *magnitude, struct failure *failure);

#endif
