/* What all layers have: a plan of steps (plan/steps.h) and its explanation, made by the layer's kind. */
#ifndef CLATTN_SRC_LAYER_H
#define CLATTN_SRC_LAYER_H

#include "layers/matrices.h"

/* The struct of a layer begins with it. */
struct layer {
    const struct layer_kind *kind;
    clattn_context *context;
    struct any_problem *problem; /* owned */
    struct steps steps;
    char *explain;
};

struct layer_kind {
    const struct operation *operation;
    const char *argument; /* what the exported functions call the layer */
    size_t bytes;         /* of its struct */

    /* Begins the steps, plans the children, builds kernels and records. Appends lines. */
    clattn_status (*plan)(struct layer *layer, struct text *explain);

    /* What there is to say once the workspace is known. */
    void (*explain)(const struct layer *layer, struct text *explain);

    /* A call on host memory that another layer than the problem's own does faster. NULL: there is none. */
    clattn_status (*run_on_host)(clattn_context *context, const struct any_problem *problem, struct operands *operands);
};

/* `problem`, of the kind's operation, is copied. */
clattn_status layer_create(clattn_context *context, const struct layer_kind *kind, const struct any_problem *problem,
                           struct layer **layer);
void layer_destroy(struct layer *layer);

/* A layer for one call on host memory, as host_session_call. */
clattn_status layer_run(clattn_context *context, const struct layer_kind *kind, const struct any_problem *problem,
                        struct operands *operands);

clattn_status layer_enqueue(const struct layer *layer, const struct enqueue_target *target,
                            const struct operands *operands);

/* Places in the layer's steps: rows of `stride` elements from element `offset` on. */
static inline struct place layer_section(int section, int64_t offset, int64_t stride)
{
    const struct place place = { PLACE_OF_SECTION(section), offset, stride };
    return place;
}

static inline struct place layer_tensor(int id, int64_t offset, int64_t stride)
{
    const struct place place = { PLACE_OF_TENSOR(id), offset, stride };
    return place;
}

#define LAYER_NOWHERE ((struct place){ 0, 0, 0 })

/* For a child's call: [batch, heads, rows, head_dim] in rows of matrix.stride elements, heads side by side. */
clattn_tensor layer_heads(struct matrix matrix, int64_t rows, int64_t head_dim);

/* A tensor as the caller gave it. */
clattn_tensor layer_given(const struct operands *operands, int id);

#endif
