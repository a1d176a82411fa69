/* Additive attention on a device: the scores of all pairs, and any strategy's attention with them as its bias. */
#ifndef CLATTN_SRC_ADDITIVE_LAYER_H
#define CLATTN_SRC_ADDITIVE_LAYER_H

#include "layers/additive_scores.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "program/rehearsal.h"

/* Sections of the workspace. */
enum additive_section {
    ADDITIVE_SECTION_ZERO, /* one element: the queries and keys of the attention */
    ADDITIVE_SECTION_QUERIES,
    ADDITIVE_SECTION_KEYS,
    ADDITIVE_SECTION_SCORES,
    ADDITIVE_SECTION_ATTENTION,
    ADDITIVE_SECTIONS
};

struct clattn_additive {
    clattn_context *context;
    struct additive_problem problem;
    struct projector projector;
    struct additive_scores scores;
    struct clattn_plan *attention;
    size_t section_at[ADDITIVE_SECTIONS];
    size_t workspace_bytes;
    char *explain;
};

clattn_status additive_create(clattn_context *context, const struct additive_problem *problem,
                              struct clattn_additive **additive);
void additive_destroy(struct clattn_additive *additive);
/* A rehearsed_call of the layer. */
clattn_status additive_rehearsed(const void *additive, struct chain *chain);

clattn_status additive_enqueue(const struct clattn_additive *additive, const struct enqueue_target *target,
                               const struct operands *operands);

#endif
