/* The part of the lesson on the gradient that is about a real sentence. */
#ifndef CLATTN_TOOLS_LESSON_GRADIENT_SENTENCE_H
#define CLATTN_TOOLS_LESSON_GRADIENT_SENTENCE_H

#include "lesson.h"

/* Tells it and adds two panels to the chart; 0, or -1 with a failure. */
int gradient_sentence(struct lesson_run *run);

#endif
