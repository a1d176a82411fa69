/* Where kernels of gradients find what is none of attention's (backward/arguments.clh). */
#ifndef CLATTN_BACKWARD_PARAMS_H
#define CLATTN_BACKWARD_PARAMS_H

#include "forward/forward_params.h"

/* Where dout is, or dlse. */
typedef struct clattn_input_place {
    clattn_i64 stride[4], offset;
} clattn_input_place;

/* Where a gradient is. */
typedef struct clattn_place {
    clattn_i64 stride[4], offset;
    int type;       /* CLATTN_CL_*: of its elements */
    int accumulate; /* what is there is added to */
} clattn_place;

typedef struct clattn_backward_places {
    clattn_input_place dout, dlse;
    clattn_place gradient; /* that the kernel writes */
} clattn_backward_places;

#endif
