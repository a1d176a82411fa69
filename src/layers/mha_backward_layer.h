/* The gradients of a multi-head layer on a device: the layer once more up to its heads' results, attention's gradients,
 * and products around them. */
#ifndef CLATTN_SRC_MHA_BACKWARD_LAYER_H
#define CLATTN_SRC_MHA_BACKWARD_LAYER_H

#include "layers/matrices.h"
#include "operation/mha_backward.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "program/rehearsal.h"

/* Sections of the workspace. */
enum mha_backward_section {
    MHA_BACKWARD_X, /* these three only where they are not in the type that is computed in */
    MHA_BACKWARD_CONTEXT,
    MHA_BACKWARD_DY,
    MHA_BACKWARD_PROJECTED, /* a block for each source: [rows][its parts side by side] */
    MHA_BACKWARD_HEADS,
    MHA_BACKWARD_LSE,
    MHA_BACKWARD_DHEADS,
    MHA_BACKWARD_DPROJECTED, /* as MHA_BACKWARD_PROJECTED */
    MHA_BACKWARD_WEIGHT,     /* of the product to come */
    MHA_BACKWARD_BIAS,
    MHA_BACKWARD_LEFT, /* struct matrix_scratch */
    MHA_BACKWARD_RIGHT,
    MHA_BACKWARD_MARKS,
    MHA_BACKWARD_RESULT,
    MHA_BACKWARD_ATTENTION, /* both plans', after one another */
    MHA_BACKWARD_SECTIONS
};

/* What parts [first_part, end_part) are made of: x, or the context. */
struct mha_source {
    int input, gradient; /* numbers of the tensors */
    uint32_t bit;        /* CLATTN_MHA_GRADIENT_* */
    int first_part, end_part;
    int64_t rows, depth, columns; /* of the input; of its parts side by side */
};

/* Query, key or value. */
struct mha_part {
    int weight, bias, dweight, dbias; /* numbers of the tensors */
    uint32_t weight_bit, bias_bit;    /* CLATTN_MHA_GRADIENT_* */
    int has_bias;
    int64_t first_row, dim; /* of the weight's rows; packed weights have three parts */
    int64_t at;             /* element of MHA_BACKWARD_PROJECTED */
    const struct mha_source *source;
};

struct clattn_mha_backward {
    clattn_context *context;
    struct mha_backward_problem problem;
    struct matrices matrices;
    struct clattn_plan *forward, *backward; /* NULL where no gradient needs it */
    struct mha_source sources[2];
    struct mha_part parts[MHA_PARTS];
    int n_sources;
    size_t section_at[MHA_BACKWARD_SECTIONS];
    size_t workspace_bytes;
    char *explain;
};

clattn_status mha_backward_create(clattn_context *context, const struct mha_backward_problem *problem,
                                  struct clattn_mha_backward **backward);
void mha_backward_destroy(struct clattn_mha_backward *backward);

/* A rehearsed_call of the layer. */
clattn_status mha_backward_rehearsed(const void *layer, struct chain *chain);

clattn_status mha_backward_enqueue(const struct clattn_mha_backward *backward, const struct enqueue_target *target,
                                   const struct operands *operands);

#endif
