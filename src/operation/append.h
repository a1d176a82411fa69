/* Append as an operation: its tensors, its problem and its calls, validated, and where each row goes. No device needed.
 */
#ifndef CLATTN_SRC_APPEND_H
#define CLATTN_SRC_APPEND_H

#include "cl/cache/append_params.h"
#include "operation/any_call.h"
#include "operation/norms.h"
#include "operation/pools.h"
#include "operation/turning.h"

/* APPEND_COSINE, ... APPEND_KEY_CACHE, APPEND_VALUE_CACHE */
enum append_tensor {
#define ID_OF_ROW(id, field, axes, element, access, place, asked_by) APPEND_##id,
    CLATTN_APPEND_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        APPEND_ARGUMENTS, /* of those that the kernel takes */
    APPEND_BEFORE_POOLS = APPEND_ARGUMENTS - 1,
#define ID_OF_ROW(id, field, axes, element, pool) APPEND_##id,
    CLATTN_APPEND_POOLS(ID_OF_ROW)
#undef ID_OF_ROW
        APPEND_TENSOR_COUNT
};

extern const struct operation operation_append;
clattn_status reference_append(const struct any_problem *problem, const struct operands *call);

struct append_problem {
    struct any_problem any;  /* first: see append_problem_of */
    clattn_append_problem p; /* every default resolved; p.strategy is NULL */
    struct turning turning;
    struct norms norms;
};

static inline const struct append_problem *append_problem_of(const struct any_problem *any)
{
    return (const struct append_problem *)any;
}

struct append_call {
    struct operands operands; /* first: see append_call_of */
    int64_t query_len;
};

static inline const struct append_call *append_call_of(const struct operands *operands)
{
    return (const struct append_call *)operands;
}

/* What operation_append.resolve is. */
clattn_status append_resolve(struct any_problem *problem);

/* Where row i of sequence b goes, of a call in host memory that was checked: the sequence or page, and its row there.
 */
struct append_target {
    int is_written;
    int64_t pack, row;
};
struct append_target append_target(const struct append_problem *problem, const struct append_call *call, int64_t b,
                                   int64_t i);

/* The tensor of buffer `pool` of a pool: APPEND_KEY_CACHE, or one further on; likewise of values. */
static inline int append_pool(enum append_tensor first, int pool)
{
    return pool == 0 ? (int)first
                     : (int)(first == APPEND_KEY_CACHE ? APPEND_KEY_POOL_1 : APPEND_VALUE_POOL_1) + pool - 1;
}

static inline int append_pools(const clattn_append_problem *p)
{
    return pools_count(p->pages, p->pool_pages);
}

#endif
