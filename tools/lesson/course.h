/* The page of all lessons, one HTML file that needs no other: its head, and a section for each. */
#ifndef CLATTN_TOOLS_LESSON_COURSE_H
#define CLATTN_TOOLS_LESSON_COURSE_H

#include "lesson.h"

void course_begin(struct text *html, const char *device, uint64_t seed);

/* A lesson that ran, its picture within; the run's failure on -1. */
int course_add(struct text *html, const struct lesson *lesson, const struct page *page, const struct chart *chart,
               struct failure *failure);
void course_end(struct text *html);

#endif
