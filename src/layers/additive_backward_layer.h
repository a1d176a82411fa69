/* The gradients of additive attention on a device: scores and softmax once more, in float32; dvalue by any strategy's
 * gradients of attention; those of the scores out of a product, dout times values; sums over pairs of these, and
 * products around them. (The gradient of a bias is dS too, but its kernel forms each pair's product by itself: most of
 * a call's time.) */
#ifndef CLATTN_SRC_ADDITIVE_BACKWARD_LAYER_H
#define CLATTN_SRC_ADDITIVE_BACKWARD_LAYER_H

#include "layers/additive_scores.h"
#include "operation/additive_backward.h"
#include "plan/enqueue.h"
#include "plan/planner.h"
#include "program/rehearsal.h"

/* Sections of the workspace, all of float32. */
enum additive_backward_section {
    ADDITIVE_BACKWARD_ZERO,  /* one element: the queries and keys of the attention */
    ADDITIVE_BACKWARD_QUERY, /* these six only where they are not float32 */
    ADDITIVE_BACKWARD_KEY,
    ADDITIVE_BACKWARD_VALUE,
    ADDITIVE_BACKWARD_DOUT,
    ADDITIVE_BACKWARD_WQ,
    ADDITIVE_BACKWARD_WK,
    ADDITIVE_BACKWARD_SCORE,       /* always: padded */
    ADDITIVE_BACKWARD_QUERY_UNITS, /* [batch * rows][hidden_stride] */
    ADDITIVE_BACKWARD_KEY_UNITS,   /* [batch * keys][hidden_stride] */
    ADDITIVE_BACKWARD_TURNED_KEYS, /* [batch][hidden_dim][key_stride] */
    ADDITIVE_BACKWARD_SCORES,      /* [batch][rows][key_stride] */
    ADDITIVE_BACKWARD_OUT,
    ADDITIVE_BACKWARD_LSE,
    ADDITIVE_BACKWARD_D,
    ADDITIVE_BACKWARD_DVALUE,
    ADDITIVE_BACKWARD_DS, /* [batch][rows][keys]; dP before */
    ADDITIVE_BACKWARD_DQUERY_UNITS,
    ADDITIVE_BACKWARD_DKEY_UNITS,
    ADDITIVE_BACKWARD_PARTIALS, /* [batch * blocks of rows][hidden_stride]: dscore's */
    ADDITIVE_BACKWARD_WEIGHT,   /* turned round, of the product to come */
    ADDITIVE_BACKWARD_LEFT,     /* struct matrix_scratch */
    ADDITIVE_BACKWARD_RIGHT,
    ADDITIVE_BACKWARD_MARKS,
    ADDITIVE_BACKWARD_RESULT,
    ADDITIVE_BACKWARD_ATTENTION, /* both plans', after one another */
    ADDITIVE_BACKWARD_SECTIONS
};

/* Queries, or keys: what has hidden units. */
struct additive_side {
    int input, weight, dinput, dweight; /* numbers of the tensors */
    uint32_t input_bit, weight_bit;     /* CLATTN_ADDITIVE_GRADIENT_* */
    enum additive_backward_section wide_input, wide_weight, units, dunits;
    int64_t rows, dim; /* rows: of all batch entries */
    int needs_dunits;
};

enum { ADDITIVE_QUERY_SIDE, ADDITIVE_KEY_SIDE, ADDITIVE_SIDES };

struct clattn_additive_backward {
    clattn_context *context;
    struct additive_backward_problem problem;
    struct matrices matrices;
    struct additive_scores scores;
    struct kernel *row_terms, *ds, *sums;
    size_t ds_items, sum_items;             /* work-items of a work-group, along keys or rows, and hidden units */
    struct clattn_plan *forward, *backward; /* NULL: dvalue is not asked for */
    struct additive_side sides[ADDITIVE_SIDES];
    int64_t hidden_stride, partials; /* rows of the latter; 0: dscore is not asked for */
    size_t section_at[ADDITIVE_BACKWARD_SECTIONS];
    size_t workspace_bytes;
    char *explain;
};

clattn_status additive_backward_create(clattn_context *context, const struct additive_backward_problem *problem,
                                       struct clattn_additive_backward **backward);
void additive_backward_destroy(struct clattn_additive_backward *backward);

/* A rehearsed_call of the layer. */
clattn_status additive_backward_rehearsed(const void *layer, struct chain *chain);

clattn_status additive_backward_enqueue(const struct clattn_additive_backward *backward,
                                        const struct enqueue_target *target, const struct operands *operands);

#endif
