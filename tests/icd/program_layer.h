/* What program_layer.so and its driver share. */
#ifndef CLATTN_TESTS_ICD_PROGRAM_LAYER_H
#define CLATTN_TESTS_ICD_PROGRAM_LAYER_H

#include <stdatomic.h>

struct program_layer {
    atomic_int sources, binaries; /* programs made, or tried to, from each */
};

/* The layer's symbol of this type. */
#define PROGRAM_LAYER_SYMBOL "program_layer"

#endif
