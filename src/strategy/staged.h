/* What the two files of the staged strategy share. */
#ifndef CLATTN_SRC_STAGED_H
#define CLATTN_SRC_STAGED_H

#include "cl/staged/staged_params.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"
#include "strategy/staged_tiles.h"

struct staged_state {
    struct tile_kernel score, mix;
    struct kernel *scale_mask, *softmax, *repair; /* repair NULL: never needed */
    size_t row_items, repair_items;
    int64_t row_stride, chunk_rows, chunk_planes; /* at most; the layout of the workspace */
    const char *tiles_reason; /* why CLBlast never multiplies; NULL: it does where a call allows it */
    int masks_scores;         /* scale_mask runs */
};

/* Whether matrices of this size are worth a call of CLBlast, or it was asked for. Judged by one head's
 * matrices alone, so that a batch entry gets the same bits by itself. */
int staged_is_worth_clblast(const clattn_context *context, const struct problem *problem, int64_t rows, int64_t keys);

clattn_status staged_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain);

#endif
