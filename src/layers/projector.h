/* Projections: result = left right^T + bias by one of three ways, chosen when a plan is made. */
#ifndef CLATTN_SRC_PROJECTOR_H
#define CLATTN_SRC_PROJECTOR_H

#include "base/text.h"
#include "cl/layers/project_params.h"
#include "clattn_layers.h"
#include "program/launch.h"
#include "strategy/staged_tiles.h"

struct projector {
    clattn_context *context;
    clattn_type type;
    clattn_projection chosen;
    const char *clblast_declines; /* on this device; NULL: it does not, or was not asked */
    struct kernel *lanes;         /* NULL unless chosen */
    struct tile_kernel tiles;     /* for queues and matrices that CLBlast declines too */
    struct kernel *add_bias;
};

/* Chooses and compiles. `work` is the multiply-adds of the largest product to come. Appends a line. */
clattn_status projector_init(struct projector *projector, clattn_context *context, clattn_type type,
                             clattn_projection wanted, double work, struct text *explain);

struct projection {
    clattn_project params; /* but the group sizes */
    int64_t batch;
    cl_mem left, right, bias, result;
};

/* The chain's next command, or commands. Nothing where the result has no element. */
clattn_status projector_enqueue(const struct projector *projector, const struct projection *projection,
                                struct chain *chain);

#endif
