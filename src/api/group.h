/* A group of contexts, and how the problems that it was called with are divided. */
#ifndef CLATTN_SRC_GROUP_H
#define CLATTN_SRC_GROUP_H

#include <pthread.h>

#include "api/group_cut.h"
#include "clattn_group.h"
#include "operation/any_problem.h"

/* How a problem is divided: fixed when it was first called. */
struct group_division {
    struct any_problem *problem;
    int is_divided; /* 0: the fastest context computes all of it */
    size_t fastest; /* alone */
    enum group_axis axis;
    int64_t pieces;                       /* of the axis in the call that was measured */
    int64_t first[CLATTN_GROUP_MOST + 1]; /* context n has pieces [first[n], first[n + 1]) of these */
    double together_ms;                   /* the least that that call took; 0: was not measured */
    double alone_ms[CLATTN_GROUP_MOST];   /* on each context */
};

struct clattn_group {
    size_t count;
    clattn_context *context[CLATTN_GROUP_MOST];
    int owns; /* the contexts */
    pthread_mutex_t lock;
    size_t divisions; /* the last one first */
    struct group_division *division[CLATTN_GROUP_KEPT];
};

/* A checked call, by the division that is kept or is made now. */
clattn_status group_run(clattn_group *group, const struct any_problem *problem, const struct group_call *whole);

/* By all contexts at once, as it is divided; a call that has not the axis's pieces apart, by the fastest. */
clattn_status group_run_divided(const clattn_group *group, const struct group_division *division,
                                const struct group_call *whole);

/* Measures, and divides. */
clattn_status group_divide(clattn_group *group, const struct group_call *whole, struct group_division *division);

#endif
