/* The plans of a session. Those of attention are made for lengths rounded up to powers of two, so that neither a longer
 * text nor the next token plans again; the layers of a model, which are alike, share them. */
#ifndef CLATTN_ORT_PLANS_H
#define CLATTN_ORT_PLANS_H

#include "ort.h"

#include <pthread.h>
#include <stdint.h>

/* More are kept while as many are in use. */
#define PLANS_KEPT 32

struct kept_plan;
struct plans {
    clattn_context *context; /* not owned */
    pthread_mutex_t lock;
    struct kept_plan *first;
    int count;
    uint64_t calls;
};

/* The power of two that is not below it, nor below `least`; at most what a problem may have. */
int64_t length_rounded_up(int64_t length, int64_t least);

void plans_init(struct plans *plans, clattn_context *context);
void plans_release(struct plans *plans);

/* The plan for a problem whose query_len and key_len are this call's, of the session until plans_give. */
OrtStatus *plans_take(struct plans *plans, const clattn_problem *problem, struct kept_plan **kept,
                      const clattn_plan **plan);
void plans_give(struct plans *plans, struct kept_plan *kept);

#endif
