/* What kernels of gradients are told beside the forward's params; C and OpenCL C both include this. A kernel is told
 * the places that it needs: every device takes 1,024 bytes of arguments, and no more for sure. */
#ifndef CLATTN_BACKWARD_PARAMS_H
#define CLATTN_BACKWARD_PARAMS_H

#include "forward_params.h"

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

#endif
