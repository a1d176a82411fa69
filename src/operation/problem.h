/* A validated problem of attention. Every rule on its fields needs no device. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "cl/forward/forward_params.h"
#include "operation/any_problem.h"
#include "operation/forward.h"

/* Every default is resolved (head_dim_v, types). */
struct problem {
    struct any_problem any; /* first: see attention_problem */
    clattn_problem p;       /* p.strategy and p.code are NULL: any.strategy_name and any.code have them */
    uint32_t flags;         /* CLATTN_FLAG_* of cl/forward/forward_flags.h */
};

/* What operation_forward.resolve is. */
clattn_status problem_resolve(struct any_problem *problem);

static inline clattn_status problem_init(struct problem *problem, const clattn_problem *given)
{
    return any_problem_init(&problem->any, &operation_forward, given);
}

/* The problem as attention's, for operations whose problems are those of attention. */
static inline const struct problem *attention_problem(const struct any_problem *any)
{
    return (const struct problem *)any;
}

/* Whether it is one. */
int is_attention(const struct any_problem *any);

/* For the row of such an operation. */
int attention_problem_equal(const struct any_problem *a, const struct any_problem *b);
void attention_problem_describe(const struct any_problem *problem, struct text *text);
uint32_t attention_problem_flags(const struct any_problem *problem);

/* Query heads of a key/value head. */
static inline int64_t problem_group(const clattn_problem *p)
{
    return p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
}

/* Rows of all query heads that share a key/value head. */
static inline int64_t problem_head_rows(const clattn_problem *p)
{
    return p->query_len * problem_group(p);
}

/* Rows that share a list of keys: no more than there are. */
static inline int64_t problem_list_rows(const clattn_problem *p)
{
    const int64_t rows = p->query_len > 0 ? p->query_len : 1;
    return p->key_list_rows < rows ? p->key_list_rows : rows;
}

/* Whether a call of so many rows has any. Without, its other axes may be of any length, and are not walked along. */
static inline int problem_has_rows(const clattn_problem *p, int64_t query_len)
{
    return p->batch > 0 && p->query_heads > 0 && query_len > 0;
}

/* Whether query, key, value and out are not all of one type. */
int problem_mixes_types(const struct problem *problem);

/* Whether keys or values are codes: of 8-bit or block types. */
int problem_has_codes(const struct problem *problem);

/* Whether keys may be hidden from rows in any way. */
int problem_hides_keys(const struct problem *problem);

/* What scores are multiplied by must be finite in float32 where it is given, and 0 where it is not. */
clattn_status problem_check_scale(int has_scale, double scale);

#endif
