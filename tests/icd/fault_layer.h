/* What fault_layer.so and its driver share. The layer sits between a program and its OpenCL driver
 * (OPENCL_LAYERS, CL/cl_layer.h), counts what lives, and fails one call on request. */
#ifndef CLATTN_TESTS_ICD_FAULT_LAYER_H
#define CLATTN_TESTS_ICD_FAULT_LAYER_H

#include <stdatomic.h>

enum fault_kind { FAULT_CONTEXT, FAULT_QUEUE, FAULT_MEMORY, FAULT_PROGRAM, FAULT_KERNEL, FAULT_EVENT, FAULT_KINDS };

struct fault_layer {
    atomic_long calls;             /* since the driver set it to 0: calls that can fail */
    atomic_long fail_at;           /* the number of the call that fails; 0: none */
    atomic_long fail_also_at;      /* of another one */
    const char *_Atomic failed;    /* name of the call that was failed, NULL: none yet */
    atomic_long live[FAULT_KINDS]; /* references held by the program */
    atomic_long launched;          /* commands since the program last waited for some */
    atomic_long released_early;    /* buffers let go while commands may use them */
    atomic_long skips_measured;    /* kernels that are only measured do not run: the measured one took a tenth of the
                                    * time of its rival */
};

/* The layer's symbol of this type. */
#define FAULT_LAYER_SYMBOL "fault_layer"

#endif
