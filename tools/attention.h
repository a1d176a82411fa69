/* From inputs and options to one call of clattn: the problem, where its tensors are, room for its
 * outputs. Checks every shape against the others. */
#ifndef CLATTN_TOOLS_ATTENTION_H
#define CLATTN_TOOLS_ATTENTION_H

#include "inputs.h"
#include "layout.h"
#include "options.h"

struct attention {
    clattn_problem problem;
    clattn_call values;
    clattn_host_tensors host; /* points into the inputs and the tensors below */
    enum layout layout;
    struct axes query, key, value;
    struct tensor out, weights, lse;   /* weights, lse: data NULL unless asked for */
    struct tensor key_sums, max_logit; /* the same; run_key_sums.h makes them */
    int64_t sequences;                 /* varlen: how many; else 0 */
};

/* Converts and completes the inputs in place (types, past keys, lists), and allocates the outputs.
 * The inputs must outlive it. The caller ends with attention_free, after failures too. */
int attention_prepare(const struct options *options, struct inputs *inputs, clattn_weights weights, int with_lse,
                      struct attention *attention, struct failure *failure);
void attention_free(struct attention *attention);

#endif
