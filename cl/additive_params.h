/* The values of one call of additive scores; C and OpenCL C both include this. All but `score` lie in the
 * workspace; places count elements of their own type. */
#ifndef CLATTN_ADDITIVE_PARAMS_H
#define CLATTN_ADDITIVE_PARAMS_H

#include "forward_params.h"

#define ADDITIVE_ROWS 8       /* query rows of a work-item */
#define ADDITIVE_ALIGNMENT 16 /* rows of keys and scores are padded to a multiple of it */

typedef struct clattn_additive_values {
    clattn_i64 zero_at;                    /* one element, storage type */
    clattn_i64 queries_at, keys_at;        /* storage type */
    clattn_i64 score_at, scores_at;        /* storage type; float */
    clattn_i64 key_stride;                 /* keys, padded */
    int hidden_dim;
    int padding;
} clattn_additive_values;

#endif
