/* The tensors that the backward operation has beside those of the forward (cl/forward/forward_tensors.h, whose columns
 * these rows have), a row each.
 *
 *     T(ID, field, axes, element, access, place, asked for by)
 *
 * access      IN; UPDATED: written, and read where the problem accumulates; SUMMED: the same, and a stride of 0 stands
 *             for the sum over its axis
 * asked for by  ALWAYS, FEATURE(X): CLATTN_WITH_X; GRADIENT(X): CLATTN_GRADIENT_X; GRADIENT_OF(X, asked for by): the
 *             same, and the forward must have CLATTN_FLAG_X, which is asked for by a field or feature of that name */
#ifndef CLATTN_SRC_GRADIENT_TENSORS_H
#define CLATTN_SRC_GRADIENT_TENSORS_H

#define CLATTN_GRADIENT_TENSORS(T)                                                                                     \
    T(DOUT, dout, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM_V), OUT, IN, STRIDED, ALWAYS)                              \
    T(DLSE, dlse, (PACKS, QUERY_HEADS, QUERY_ROWS, ONE), FLOAT, IN, STRIDED, FEATURE(DLSE))                            \
    T(DQUERY, dquery, (PACKS, QUERY_HEADS, QUERY_ROWS, HEAD_DIM), DQUERY, UPDATED, COLUMNS, GRADIENT(QUERY))           \
    T(DKEY, dkey, (KEY_PACKS, KV_HEADS, KEY_ROWS, HEAD_DIM), DKEY, UPDATED, COLUMNS, GRADIENT(KEY))                    \
    T(DVALUE, dvalue, (KEY_PACKS, KV_HEADS, KEY_ROWS, HEAD_DIM_V), DVALUE, UPDATED, COLUMNS, GRADIENT(VALUE))          \
    T(DBIAS, dbias, (BATCH, QUERY_HEADS, QUERY_LEN, BIAS_KEYS), DBIAS, SUMMED, STRIDED,                                \
      GRADIENT_OF(BIAS, "bias_type"))                                                                                  \
    T(DSLOPES, dslopes, (BATCH, QUERY_HEADS, ONE, ONE), WEIGHTS, SUMMED, STRIDED,                                      \
      GRADIENT_OF(SLOPES, "CLATTN_WITH_SLOPES"))                                                                       \
    T(DSINKS, dsinks, (ONE, QUERY_HEADS, ONE, ONE), WEIGHTS, SUMMED, STRIDED, GRADIENT_OF(SINKS, "CLATTN_WITH_SINKS")) \
    T(DSCALE, dscale, (ONE, ONE, ONE, ONE), WEIGHTS, SUMMED, STRIDED, GRADIENT(SCALE))

#endif
