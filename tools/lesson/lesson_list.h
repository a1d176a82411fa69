/* The lessons' functions, a file each. Included by lessons.c and by those files. */
#ifndef CLATTN_TOOLS_LESSON_LESSON_LIST_H
#define CLATTN_TOOLS_LESSON_LESSON_LIST_H

#include "lesson.h"

int lesson_row(struct lesson_run *run);
int lesson_variance(struct lesson_run *run);
int lesson_saturation(struct lesson_run *run);
int lesson_gradient(struct lesson_run *run);
int lesson_training(struct lesson_run *run);
int lesson_mask(struct lesson_run *run);
int lesson_score(struct lesson_run *run);
int lesson_stability(struct lesson_run *run);
int lesson_complexity(struct lesson_run *run);
int lesson_additive(struct lesson_run *run);
int lesson_sentence(struct lesson_run *run);

#endif
