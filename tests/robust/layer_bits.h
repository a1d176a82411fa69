/* What layers, gradients and caches leave in memory, to the bit, for tests of threads. */
#ifndef CLATTN_TESTS_ROBUST_LAYER_BITS_H
#define CLATTN_TESTS_ROBUST_LAYER_BITS_H

#include "clattn.h"

#define LAYER_STEPS 7
#define LAYER_FLOATS 64

struct layer_bits {
    float after[LAYER_STEPS][LAYER_FLOATS]; /* each call */
};

/* Makes their plans, runs each once on small numbers, destroys all. 0: something failed, see clattn_last_error. */
int layer_bits_compute(clattn_context *context, cl_command_queue queue, struct layer_bits *bits);

#endif
