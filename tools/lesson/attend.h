/* One head's attention over dense float32 arrays, as lessons need it: the library's, on the lesson's device. */
#ifndef CLATTN_TOOLS_LESSON_ATTEND_H
#define CLATTN_TOOLS_LESSON_ATTEND_H

#include "clattn_code.h"
#include "lesson.h"

struct attend {
    int64_t batch, rows, keys, dim, dim_v;
    double scale;
    const float *query, *key; /* [batch, rows, dim], [batch, keys, dim] */
    const float *value;       /* [batch, keys, dim_v]; NULL: zeros, and out is not wanted */
    float *out;
    clattn_weights mode;
    float *weights; /* [batch, rows, keys]; NULL: not wanted */
    int causal;     /* top left */
    const int32_t *key_lengths;
    const clattn_user_code *code; /* a text that loads nothing, or NULL */
};

clattn_status attend(struct lesson_run *run, const struct attend *call);

#endif
