/* One head of the sentence's layer, with its queries, keys and values by themselves. */
#ifndef CLATTN_TOOLS_LESSON_SENTENCE_HEAD_H
#define CLATTN_TOOLS_LESSON_SENTENCE_HEAD_H

#include "sentence_data.h"

#define SENTENCE_DIM_MAX 128

struct sentence_head {
    const struct sentence *sentence;
    struct look look; /* the one that the lesson is about */
    int count, dim;
    float query[CHART_HEAT_MAX * SENTENCE_DIM_MAX], key[CHART_HEAT_MAX * SENTENCE_DIM_MAX];
    float value[CHART_HEAT_MAX * SENTENCE_DIM_MAX];
    float out[CHART_HEAT_MAX * SENTENCE_DIM_MAX], weights[CHART_HEAT_MAX * CHART_HEAT_MAX]; /* the device's */
};

/* The head of the sentence's strongest look; NULL: a failure, which is the run's. The caller frees. */
struct sentence_head *sentence_head_choose(struct lesson_run *run, const struct sentence *sentence, int least_dim);

clattn_status sentence_head_compute(struct lesson_run *run, struct sentence_head *head);

#endif
