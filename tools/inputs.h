/* The tensors that `clattn run` works on, by their roles, from a .safetensors file or from .npy
 * files that options name. Shapes are looked at in layout.c and attention.c, not here. */
#ifndef CLATTN_TOOLS_INPUTS_H
#define CLATTN_TOOLS_INPUTS_H

#include "failure.h"
#include "options.h"
#include "tensor.h"
#include "user_text.h"

enum role {
    ROLE_QUERY,
    ROLE_KEY,
    ROLE_VALUE,
    ROLE_PAST_KEY,
    ROLE_PAST_VALUE,
    ROLE_MASK, /* bool or uint8 */
    ROLE_BIAS, /* a float type */
    ROLE_KEY_LENGTHS,
    ROLE_QUERY_OFFSETS,
    ROLE_SLOPES,
    ROLE_SINKS,
    ROLE_CU_QUERY,
    ROLE_CU_KEY,
    /* Inputs of caches (attention_cache.h), and row ranges. */
    ROLE_PAGE_TABLE,
    ROLE_PAGE_STARTS,
    ROLE_KEY_SCALES,
    ROLE_VALUE_SCALES,
    ROLE_KEY_ZERO_POINTS,
    ROLE_VALUE_ZERO_POINTS,
    ROLE_KEY_TENSOR_SCALE,
    ROLE_VALUE_TENSOR_SCALE,
    ROLE_ROW_LOW,
    ROLE_ROW_HIGH,
    ROLE_KEY_LISTS,
    /* What an earlier computation gave, to compare with. */
    ROLE_OUT,
    ROLE_WEIGHTS,
    ROLE_LSE,
    /* A whole multi-head layer: x, the projections and their biases, and its result y. */
    ROLE_X,
    ROLE_CONTEXT, /* of cross-attention: keys and values are made of it */
    ROLE_WQ,
    ROLE_WK,
    ROLE_WV,
    ROLE_WO,
    ROLE_BQ,
    ROLE_BK,
    ROLE_BV,
    ROLE_BO,
    ROLE_Y,
    ROLES_FORWARD,
    /* What gradients are made of, and what an earlier computation made of it: clattn grad alone. */
    ROLE_DOUT = ROLES_FORWARD,
    ROLE_DLSE,
    ROLE_DQUERY,
    ROLE_DKEY,
    ROLE_DVALUE,
    ROLE_DBIAS,
    ROLE_DSLOPES,
    ROLE_DSINKS,
    ROLE_DSCALE,
    ROLES
};

struct inputs {
    struct tensor tensor[ROLES]; /* data NULL: not given */
    char *text;                  /* the file's metadata "text", or NULL */
    char *tokens;                /* its metadata "tokens", a JSON document, or NULL */
    char *unused;                /* names of the file's tensors that have no role, or NULL */
    struct user_text code;       /* a score and a mask of the user's own */
    int is_layer;                /* query, key and value were made of x by multihead.c */
};

const char *role_name(enum role role); /* "query" */

/* The roles before `end` (ROLES_FORWARD or ROLES); a file's other tensors are not used. The caller ends with
 * inputs_free, after failures too. */
int inputs_read(const struct options *options, enum role end, struct inputs *inputs, struct failure *failure);
void inputs_free(struct inputs *inputs);

#endif
