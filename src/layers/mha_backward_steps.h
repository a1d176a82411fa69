/* The steps of a multi-head layer's gradients. */
#ifndef CLATTN_SRC_MHA_BACKWARD_STEPS_H
#define CLATTN_SRC_MHA_BACKWARD_STEPS_H

#include "layers/mha_backward_layer.h"

/* Children of the plan. */
enum { MHA_BACKWARD_FORWARD, MHA_BACKWARD_BACKWARD };

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
    MHA_BACKWARD_ATTENTION, /* both children's, after one another */
};

/* Once sources and parts are known, and kernels are built. */
void mha_backward_add_steps(struct clattn_mha_backward *backward);

#endif
