/* The sentence "money bank grows" through the first attention layer of a sentence encoder, computed on the device. */
#ifndef CLATTN_TOOLS_LESSON_SENTENCE_DATA_H
#define CLATTN_TOOLS_LESSON_SENTENCE_DATA_H

#include "../layer_run.h"
#include "clattn_layers.h"
#include "lesson.h"

struct sentence {
    struct inputs inputs;
    struct layer_run layer;
    char tokens[CHART_HEAT_MAX][24];
    int count;
};

/* Whether --data names a file, or the layer that comes with clattn is there: not with its Python wheel. */
int sentence_is_there(const struct lesson_run *run);

/* NULL: a failure, which is the run's. The caller ends with sentence_free. */
struct sentence *sentence_compute(struct lesson_run *run);
void sentence_free(struct sentence *s); /* NULL is allowed */

double sentence_weight(const struct sentence *s, int64_t head, int query, int key);

/* A weight of one word on another: not on itself, not of or on the marks at both ends. */
struct look {
    int64_t head;
    int query, key;
    double weight;
};

/* The strongest look up to a weight of `most`; its weight is below 0 where a sentence has no two words. */
struct look sentence_strongest(const struct sentence *s, double most);

#endif
