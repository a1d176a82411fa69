/* The steps of the gradients of additive attention. */
#ifndef CLATTN_SRC_ADDITIVE_BACKWARD_STEPS_H
#define CLATTN_SRC_ADDITIVE_BACKWARD_STEPS_H

#include "layers/additive_backward_layer.h"

/* Children of the plan. */
enum { ADDITIVE_BACKWARD_FORWARD, ADDITIVE_BACKWARD_BACKWARD };

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
    ADDITIVE_BACKWARD_TERMS, /* [batch * rows][ADDITIVE_TERMS] */
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
    ADDITIVE_BACKWARD_ATTENTION /* both children's, after one another */
};

/* Once sides are known, and kernels are built. */
void additive_backward_add_steps(struct clattn_additive_backward *backward);

#endif
