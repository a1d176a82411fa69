/* How programs of the fused kernels for GPUs are told what a problem asks for; C and OpenCL C both include this. */
#ifndef CLATTN_ROW_BLOCK_LAYOUT_H
#define CLATTN_ROW_BLOCK_LAYOUT_H

#include "forward/forward_params.h"

/* What the inner loops ask for is known when the program is built (-D FEATURES); what is asked once a work-group
 * makes no program of its own, and is asked at run time. */
#define ROW_BLOCK_RUN_TIME_FEATURES                                                                    \
    ((clattn_u32)(CLATTN_FLAG_KEY_LENGTHS | CLATTN_FLAG_VARLEN | CLATTN_FLAG_SINKS | CLATTN_FLAG_LSE))

/* Groups of tensors that the programs take always: those that are asked at run time have tensors in these. */
#define ROW_BLOCKS_TAKE (CLATTN_TAKES_LSE | CLATTN_TAKES_ROWS)

/* Keys (or, of gradients of keys and values, rows) that a work-item sums one after the other; longer sums are made of
 * such runs (simt/total.clh, mma/total.clh). -D RUNS: whether a problem may have more. */
#define RUN_KEYS 512

#endif
