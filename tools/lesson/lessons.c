#include "lesson.h"

#include <string.h>

#include "../library.h"
#include "lesson_list.h"

const struct lesson lessons[] = {
    { "row", "Row: queries, keys and values, and one row by hand", lesson_row },
    { "variance", "Variance: why scores are divided by the square root of the dimension", lesson_variance },
    { "saturation", "Saturation: what large scores do to softmax", lesson_saturation },
    { "gradient", "Gradient: where learning stops", lesson_gradient },
    { "training", "Training: a layer learns to write backwards, with and without the square root", lesson_training },
    { "mask", "Mask: what may not be seen", lesson_mask },
    { "score", "Score: a function of your own, and who attends to whom", lesson_score },
    { "stability", "Stability: three ways to compute softmax, and where each breaks", lesson_stability },
    { "complexity", "Complexity: time and memory against length", lesson_complexity },
    { "additive", "Additive attention: what the dot product replaced", lesson_additive },
    { "money-bank-grows", "Money bank grows: a sentence through a real layer", lesson_sentence },
};
const size_t lesson_count = sizeof(lessons) / sizeof(lessons[0]);

const struct lesson *lesson_find(const char *name)
{
    for (size_t i = 0; i < lesson_count; ++i) {
        if (strcmp(lessons[i].name, name) == 0) {
            return &lessons[i];
        }
    }
    return NULL;
}

int lesson_failed(struct lesson_run *run, clattn_status status)
{
    if (status == CLATTN_OUT_OF_HOST_MEMORY) { /* it may be the lesson's own */
        return failure_failed(run->failure, "out of memory");
    }
    return library_failure(run->options, status, run->failure);
}
