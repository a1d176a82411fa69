/* The scores of additive attention, for the layer and for its gradients: projections of queries and keys, then the
 * scores of all pairs, which an attention of any strategy takes as its bias. */
#ifndef CLATTN_SRC_ADDITIVE_SCORES_H
#define CLATTN_SRC_ADDITIVE_SCORES_H

#include "layers/layer.h"
#include "operation/additive.h"

struct additive_scores {
    const struct projector *projector; /* the layer's, for the type of queries, keys and weights */
    const clattn_additive_problem *problem;
    struct kernel *kernel;
    int lanes;          /* keys, or hidden units, of a work-item */
    size_t group_items; /* work-items of a work-group, along these */
    int64_t key_stride; /* keys, padded */

    /* What the layer fills in: the attention, whose masks say what need not be computed, its call (`of` is the layer),
     * and where all of it is; zero, queries, keys and scores in sections. */
    const struct problem *attention;
    step_call *call;
    const void *of;
    struct place query, key, wq, wk, score;
    struct place zero;    /* one element: the queries and keys of the attention */
    struct place queries; /* [batch * rows][hidden_dim] */
    struct place keys;    /* [batch][hidden_dim][key_stride] */
    struct place scores;  /* [batch][rows][key_stride], float32 */
};

/* Keys or hidden units, padded: an odd number of blocks, so that neighbours lie in different sets of a cache. */
int64_t additive_stride(int64_t count);

/* How many work-items a work-group of this kernel has on this device. */
clattn_status additive_group_items(const clattn_context *context, struct kernel *kernel, size_t *items);

/* Multiply-adds of the larger projection. */
double additive_projection_work(const clattn_additive_problem *problem);

/* `type`: of queries, keys and weights; scores are float32. Appends a line. */
clattn_status additive_scores_init(struct additive_scores *scores, clattn_context *context,
                                   const clattn_additive_problem *problem, clattn_type type,
                                   const struct projector *projector, struct text *explain);

void additive_scores_add(struct steps *steps, const struct additive_scores *scores);

/* The attention's tensors: query and key, whose products are 0, and the bias; and the mask and the key lengths that the
 * caller gave. */
void additive_fill_tensors(const struct additive_scores *scores, const struct run *run, clattn_tensors *tensors);

/* [batch][rows][columns] there. */
clattn_tensor additive_matrix(struct matrix matrix, int64_t rows, int64_t columns);

#endif
