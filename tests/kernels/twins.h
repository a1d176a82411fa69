/* Host twins of the staged kernels: what goes into each, and what must come out, in float64. */
#ifndef CLATTN_TESTS_KERNELS_TWINS_H
#define CLATTN_TESTS_KERNELS_TWINS_H

#include "run.h"

/* What was there before the launch, of what a kernel changes in place. */
struct kernel_inputs {
    struct kernel_run before; /* only score_get and its like may use it */
    struct test_array out;
};
clattn_status kernel_inputs_copy(struct kernel_inputs *inputs, const struct kernel_run *run);
void kernel_inputs_free(struct kernel_inputs *inputs);

struct verdict_of_kernel {
    int64_t wrong;   /* elements beyond the bound */
    double needed;   /* largest part of the bound that was needed */
    char first[160]; /* the first wrong one, in words */
};

/* Fills the scores, and what else the kernel reads, before the launch. */
typedef void twin_prepare(struct kernel_run *run, struct random *random);
/* Holds what the kernel wrote against the twin. */
typedef void twin_judge(const struct kernel_run *run, const struct kernel_inputs *inputs,
                        struct verdict_of_kernel *verdict);

twin_prepare prepare_score, prepare_scale_mask, prepare_softmax, prepare_mix, prepare_repair;
twin_judge judge_score, judge_scale_mask, judge_softmax, judge_mix, judge_repair;

#endif
