/* Plans that compete for one problem, for `clattn tune`: made with facts of wisdom, called on the same tensors, checked
 * and measured. tune.c says which there are. */
#ifndef CLATTN_TOOLS_TUNE_RUN_H
#define CLATTN_TOOLS_TUNE_RUN_H

#include "bench_data.h"
#include "insides.h"
#include "options.h"

struct tune_run {
    const struct options *options;
    const clattn_problem *problem;
    clattn_context *context;
    struct bench_data data;
    unsigned char *expected; /* the outputs that tune_keep_outputs kept */
};

struct candidate {
    clattn_plan *plan; /* NULL: none */
    cl_mem workspace;
    double best_ms; /* of the calls that were timed; 0: none was */
};

/* The class of a problem as users give it, whose defaults may still be open. */
struct wisdom_class tune_strategy_class(const char *strategy, const clattn_problem *problem);

/* The caller ends with tune_run_free, after failures too. */
int tune_run_make(struct tune_run *run, struct failure *failure);
void tune_run_free(struct tune_run *run);

/* A plan that is made while the context's wisdom has these facts too, `count` of them; it forgets them again. It is
 * called once, on outputs that hold NaN, and they are read. The caller ends with candidate_free, after failures too. */
int candidate_make(struct tune_run *run, const struct wisdom_fact *facts, int count, struct candidate *candidate,
                   struct failure *failure);
void candidate_free(struct candidate *candidate);

/* The outputs that were read last: whether they are within the tolerance of the float64 reference (check.h); whether
 * they have the bits of those that were kept. */
int tune_outputs_right(struct tune_run *run, const struct candidate *candidate, int *are_right,
                       struct failure *failure);
int tune_keep_outputs(struct tune_run *run, struct failure *failure);
int tune_outputs_equal(const struct tune_run *run);

/* *ms: the best of two calls. */
int candidate_time(struct tune_run *run, struct candidate *candidate, double *ms, struct failure *failure);

/* The best call's, for a fact. */
int64_t candidate_ns(const struct candidate *candidate);

/* *gain: how many times as fast the second is, called in turns with the first; the lesser one of two halves, of which
 * the second is left out where the first is below `least`. */
int candidate_gain(struct tune_run *run, struct candidate *first, struct candidate *second, double least, double *gain,
                   struct failure *failure);

#endif
