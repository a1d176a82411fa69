/* A validated problem of attention. Every rule on its fields needs no device. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "operation/operation.h"

#define STRATEGY_NAME_MAX 32

/* Immutable after problem_init: every default is resolved (head_dim_v, types). */
struct problem {
    const struct operation *operation;
    clattn_problem p; /* p.strategy is NULL: strategy_name has it */
    char strategy_name[STRATEGY_NAME_MAX]; /* "": the best */
    uint32_t flags; /* CLATTN_FLAG_* of cl/forward_params.h */
};

clattn_status problem_init(struct problem *problem, const clattn_problem *given);

/* Two problems with the same key have the same plan on the same context. */
int problem_equal(const struct problem *a, const struct problem *b);

/* Whether query, key, value and out are not all of one type. */
int problem_mixes_types(const struct problem *problem);

/* Whether keys may be hidden from rows in any way. */
int problem_hides_keys(const struct problem *problem);

/* "1 x 8(2) heads x 128 x 1024, head_dim 64, float32, causal bottom-right, mask" into `line`. */
void problem_describe(const struct problem *problem, char *line, size_t line_size);

/* What scores are multiplied by must be finite in float32 where it is given, and 0 where it is not. */
clattn_status problem_check_scale(int has_scale, double scale);

#endif
