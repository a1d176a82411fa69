/* The multi-head layer on a device: projections around any strategy's attention. */
#ifndef CLATTN_SRC_MHA_LAYER_H
#define CLATTN_SRC_MHA_LAYER_H

#include "layers/projector.h"
#include "operation/mha.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "program/rehearsal.h"

/* Sections of the workspace. */
enum mha_section { MHA_SECTION_PROJECTED, MHA_SECTION_HEADS, MHA_SECTION_WEIGHTS, MHA_SECTION_ATTENTION, MHA_SECTIONS };

/* One multiply before the attention: the source's rows by rows [first_row, first_row + columns) of a weight. */
struct mha_step {
    enum mha_tensor source, weight, bias;
    int64_t rows, depth; /* of the source */
    int64_t first_row, columns;
    int64_t result_at, result_row; /* elements of MHA_SECTION_PROJECTED */
    int has_bias;
};

struct clattn_mha {
    clattn_context *context;
    struct mha_problem problem;
    struct projector projector;
    struct clattn_plan *attention;
    struct kernel *average; /* NULL unless weights are averaged */
    struct mha_step steps[3];
    int n_steps;
    int64_t part_at[3], part_row[3]; /* query, key, value: first element, elements from row to row */
    size_t section_at[MHA_SECTIONS];
    size_t workspace_bytes;
    char *explain;
};

clattn_status mha_create(clattn_context *context, const struct mha_problem *problem, struct clattn_mha **mha);
void mha_destroy(struct clattn_mha *mha);

/* A rehearsed_call of the layer. */
clattn_status mha_rehearsed(const void *mha, struct chain *chain);

clattn_status mha_enqueue(const struct clattn_mha *mha, const struct enqueue_target *target,
                          const struct operands *operands);

#endif
