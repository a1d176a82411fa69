/* The scores of additive attention, for the layer and for its gradients: projections of queries and keys, then the
 * scores of all pairs, which an attention of any strategy takes as its bias. */
#ifndef CLATTN_SRC_ADDITIVE_SCORES_H
#define CLATTN_SRC_ADDITIVE_SCORES_H

#include "layers/matrices.h"
#include "operation/additive.h"
#include "operation/call.h"

struct additive_scores {
    const struct projector *projector; /* the layer's */
    struct kernel *kernel;
    int lanes;          /* keys, or hidden units, of a work-item */
    size_t group_items; /* work-items of a work-group, along these */
    int64_t key_stride; /* keys, padded */
};

/* Keys or hidden units, padded: an odd number of blocks, so that neighbours lie in different sets of a cache. */
int64_t additive_stride(int64_t count);

/* How many work-items a work-group of this kernel has on this device. */
clattn_status additive_group_items(const clattn_context *context, struct kernel *kernel, size_t *items);

/* Multiply-adds of the larger projection. */
double additive_projection_work(const clattn_additive_problem *problem);

/* The projector is for `type`, which queries, keys and weights are of, and stays the caller's; scores are float32.
 * Appends a line. */
clattn_status additive_scores_init(struct additive_scores *scores, clattn_context *context,
                                   const clattn_additive_problem *problem, clattn_type type,
                                   const struct projector *projector, struct text *explain);

/* Where all of it is, in elements of its own type; zero, queries, keys and scores in the workspace. */
struct additive_places {
    struct matrix query, key, wq, wk, score;
    cl_mem workspace;
    int64_t zero_at;       /* one element: the queries and keys of the attention */
    struct matrix queries; /* [batch * rows][hidden_dim] */
    int64_t keys_at;       /* [batch][hidden_dim][key_stride] */
    int64_t scores_at;     /* [batch][rows][key_stride], float32 */
};

/* The chain's next commands. `call`: of `attention`, whose masks say what need not be computed. */
clattn_status additive_scores_enqueue(const struct additive_scores *scores, const clattn_additive_problem *problem,
                                      const struct additive_places *places, const struct problem *attention,
                                      const struct call *call, struct chain *chain);

/* The attention's tensors, given the places: query and key, whose products are 0, and the bias; and the mask and the
 * key lengths of the operands. */
void additive_fill_tensors(const struct additive_scores *scores, const clattn_additive_problem *problem,
                           const struct additive_places *places, const struct operands *operands,
                           clattn_tensors *tensors);

#endif
