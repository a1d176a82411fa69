/* What a call takes of a device, and how fast devices are: from both the guess of a call's time that strategies are
 * compared by. */
#ifndef CLATTN_SRC_RATES_H
#define CLATTN_SRC_RATES_H

#include "device/device.h"

/* Rows of the table of rates. */
enum rate_id {
    RATE_SCALAR,
    RATE_SPLIT,
    RATE_SPLIT_SIMT,
    RATE_SPLIT_SIMT_OFF_GPU,
    RATE_SIMD,
    RATE_SIMT,
    RATE_SIMT_OFF_GPU,
    RATE_WGMMA,
    RATE_MMA,
    RATE_MMA_TF32,
    RATE_MMA_EMULATED,
    RATE_STAGED_CPU,
    RATE_STAGED_CPU_CLBLAST,
    RATE_STAGED_GPU,
    RATE_STAGED_GPU_CLBLAST,
    RATE_ROWS,
    RATE_GRADIENTS_SCALAR,
    RATE_GRADIENTS_SIMD,
    RATE_GRADIENTS_AMX,
    RATE_GRADIENTS_AMX_HALF,
    RATE_GRADIENTS_SIMT,
    RATE_GRADIENTS_SIMT_OFF_GPU,
    RATE_GRADIENTS_MMA,
    RATE_GRADIENTS_WGMMA,
    RATE_GRADIENTS_MMA_EMULATED,
    RATE_COUNT
};

/* Linear in batch and heads, but for launches, alone_ms and units where a strategy says why: the choice, and with it
 * the bits of a result, must not depend on how many there are. */
struct work {
    enum rate_id rate;
    double multiply_adds, bytes;
    double groups;   /* work-groups, where each costs */
    double launches; /* 0: one */
    double alone_ms; /* what more compute units do not make shorter */
    double units;    /* compute units that are kept busy; 0: all */
};

/* A strategy that finds no tile after all is never taken where there is another one. */
#define WORK_UNKNOWN                                                                                                   \
    (struct work)                                                                                                      \
    {                                                                                                                  \
        .alone_ms = 1e30                                                                                               \
    }

double work_ms(const struct device *device, const struct work *work);

#endif
