/* The life of a call, whatever its operation: from the public structs, of any version, to checked operands, with which
 * the call of every operation begins. */
#ifndef CLATTN_SRC_ANY_CALL_H
#define CLATTN_SRC_ANY_CALL_H

#include "operation/any_problem.h"
#include "operation/operands.h"

/* A call as the caller wrote it down. */
struct given {
    const void *values; /* clattn_call or clattn_cache_call; NULL: the defaults, or the operation's calls have none */
    const void *tensors[PUBLIC_TENSORS]; /* the structs of operation.tensors */
};
#define GIVEN(values, ...) (&(const struct given){ values, { __VA_ARGS__ } })

/* Room for the call of any operation. */
struct any_call {
    struct operands operands;
    int64_t own[16];
};
#define CALL_HAS_ROOM(type) _Static_assert(sizeof(type) <= sizeof(struct any_call), "any_call must have room")

clattn_status any_call_from_device(const struct any_problem *problem, const struct given *given, struct operands *call);
clattn_status any_call_from_host(const struct any_problem *problem, const struct given *given, struct operands *call);

/* What values in host memory tell, which shapes and places hang on, is as it must be. */
clattn_status any_call_check_values(const struct any_problem *problem, const struct operands *call);

/* A call with all that the problem has and allows, which has no tensors yet. */
clattn_status any_call_largest(const struct any_problem *problem, struct operands *call);

#endif
