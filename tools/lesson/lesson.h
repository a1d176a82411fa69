/* What a lesson is: a name, a title, and a function that measures on the device, fills a page and draws a
 * chart. One file each; the table is in lessons.c. */
#ifndef CLATTN_TOOLS_LESSON_LESSON_H
#define CLATTN_TOOLS_LESSON_LESSON_H

#include "../failure.h"
#include "../options.h"
#include "chart.h"
#include "clattn.h"
#include "page.h"

struct lesson_run {
    const struct options *options;
    clattn_context *context;
    uint64_t seed;
    const char *data; /* --data, or NULL */
    struct page *page;
    struct chart *chart; /* the lesson sets its title and adds panels */
    struct failure *failure;
};

struct lesson {
    const char *name;
    const char *title;
    int (*run)(struct lesson_run *run); /* 0, or -1 with a failure */
};

extern const struct lesson lessons[];
extern const size_t lesson_count;

const struct lesson *lesson_find(const char *name); /* NULL: there is none */

/* Turns the library's last failure into the lesson's; returns -1. */
int lesson_failed(struct lesson_run *run, clattn_status status);

#endif
