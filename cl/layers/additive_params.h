/* What kernels of additive attention are told; C and OpenCL C both include this. All but `score` of the scores lies in
 * the workspace; places count elements of their own type. */
#ifndef CLATTN_ADDITIVE_PARAMS_H
#define CLATTN_ADDITIVE_PARAMS_H

#include "forward/forward_params.h"

#define ADDITIVE_ROWS 8       /* query rows of a work-item */
#define ADDITIVE_SUM_ROWS 4   /* own rows of a work-item that sums over pairs */
#define ADDITIVE_TERMS 2      /* of a row: D, and what float32 does not hold of its lse */
#define ADDITIVE_ALIGNMENT 16 /* rows of keys, scores and hidden units are padded to a multiple of it */

typedef struct clattn_additive_values {
    clattn_i64 zero_at;                    /* one element, storage type */
    clattn_i64 queries_at, keys_at;        /* storage type */
    clattn_i64 score_at, scores_at;        /* storage type; float */
    clattn_i64 key_stride;                 /* keys, padded */
    int hidden_dim;
    int hidden_stride; /* from a row of queries to the next */
} clattn_additive_values;

/* Places of the derivatives at the scores, all in float; dout where it is given, the rest in the workspace. */
typedef struct clattn_additive_ds {
    clattn_i64 dout_at, out_at, lse_at;
    clattn_i64 terms_at; /* ADDITIVE_TERMS of each row */
    clattn_i64 scores_at, ds_at;
    clattn_i64 score_stride; /* from a row of scores to the next */
    int value_dim, all_rows;
} clattn_additive_ds;

/* Places of the sums over pairs of own rows and others, all in float. */
typedef struct clattn_additive_sums {
    clattn_i64 own_at, other_at; /* hidden units of both */
    clattn_i64 score_at, ds_at;
    clattn_i64 sums_at, partials_at;
    clattn_i64 ds_batch, ds_own, ds_other; /* strides of dS */
    int own_len, other_len;
    int hidden_dim, hidden_stride;
    int has_partials;
    int padding;
} clattn_additive_sums;

#endif
