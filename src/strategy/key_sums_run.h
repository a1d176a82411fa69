/* What strategies of sums of weights share: their kernels' arguments, and how maxima that a kernel leaves in the
 * workspace, some of each plane (batch * head), become max_logit. */
#ifndef CLATTN_SRC_KEY_SUMS_RUN_H
#define CLATTN_SRC_KEY_SUMS_RUN_H

#include "cl/key_sums/key_sums_params.h"
#include "operation/key_sums.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

/* Flags that all kernels read; lists of keys only those do whose rows come one by one. */
#define KEY_SUMS_KNOW (CLATTN_FLAGS_OF_ALL | CLATTN_FLAG_POOLS)

struct key_sums_call {
    const struct clattn_plan *plan;
    const struct operands *operands;
    struct attention_given given;
    clattn_key_sums_places places;
};

void key_sums_call_of(const struct clattn_plan *plan, const struct operands *operands, struct key_sums_call *call);

/* Behind those a kernel has two of its own at most. */
#define KEY_SUMS_ARGUMENTS_MOST (ATTENTION_ARGUMENTS_MOST + 5)
size_t key_sums_arguments(const struct key_sums_call *call, struct launch_argument *arguments);

/* 0: the device does not take the arguments. */
int key_sums_is_served(struct ask *ask);

/* Rows of a head whose logits are asked for, of the problem. */
double key_sums_rows(const struct ask *ask);

/* Sets plan->workspace_bytes, of `parts` maxima of each plane. */
clattn_status key_sums_measure(struct clattn_plan *plan, int64_t parts);

/* Appends which outputs the kernel makes. */
void key_sums_append_wants(const struct any_problem *problem, struct text *options);

/* The kernel of maxima; NULL where max_logit is not asked for. */
clattn_status key_sums_build_largest(struct ask *ask, struct kernel **kernel);

/* Launches a kernel each of whose work-groups has `keys` keys of a plane, in parts of at most groups_most work-groups.
 * The kernel takes its first key and its first plane behind the arguments. `is_last`: nothing follows in the chain. */
clattn_status key_sums_launch(const struct key_sums_call *call, struct kernel *kernel, int keys, size_t work_items,
                              double groups_most, int is_last, struct chain *chain);

/* `parts` maxima of each plane become max_logit; nothing where it is not asked for. Ends the chain. */
clattn_status key_sums_largest(const struct key_sums_call *call, struct kernel *kernel, int64_t parts,
                               struct chain *chain);

#endif
