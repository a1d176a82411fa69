/* The life of a problem, whatever its operation: what it begins with, which is all that the planner knows of it. */
#ifndef CLATTN_SRC_ANY_PROBLEM_H
#define CLATTN_SRC_ANY_PROBLEM_H

#include "operation/operation.h"
#include "operation/user_code.h"

#define STRATEGY_NAME_MAX 32

/* Immutable once it is validated. */
struct any_problem {
    const struct operation *operation;
    char strategy_name[STRATEGY_NAME_MAX]; /* "": the best */
    struct user_code *code;                /* a text that its kernels are compiled with, shared; NULL: none */
};

/* A problem, of operation->problem_bytes, out of the operation's public struct of any version. It may have a share in a
 * code: problem_release gives that back. After a failure there is nothing to release. */
clattn_status any_problem_init(struct any_problem *problem, const struct operation *operation, const void *given);

/* A problem in memory of its own, which problem_free gives back. */
clattn_status any_problem_new(const struct operation *operation, const void *given, struct any_problem **problem);

/* What a problem has beside its own bytes. */
void problem_release(struct any_problem *problem);

/* The whole of it, the operation's own fields too; NULL: out of memory. */
struct any_problem *problem_copy(const struct any_problem *problem);
void problem_free(struct any_problem *problem);

/* Keeps a copy of the name, which is the caller's memory; NULL: the best. */
clattn_status problem_set_strategy(struct any_problem *problem, const char *strategy);

/* Two problems that are equal have the same plan on the same context. */
int problem_equal(const struct any_problem *a, const struct any_problem *b);

/* What it asks for, of which a strategy may know nothing. */
uint32_t problem_flags(const struct any_problem *problem);

/* "batch 1, heads 8 on 2, 128 queries x 1024 keys, head_dim 64, float32, causal bottom-right, mask" into `line`. */
void problem_describe(const struct any_problem *problem, char *line, size_t line_size);

#endif
