/* What is asked of a strategy, and of what strategies share, as one argument: all that an answer may rest on, and where
 * failures and reasons go. */
#ifndef CLATTN_SRC_ASK_H
#define CLATTN_SRC_ASK_H

#include "base/text.h"
#include "operation/any_problem.h"
#include "program/program.h"
#include "program/program_uses.h"

struct ask {
    clattn_context *context;
    const struct any_problem *problem; /* NULL: only the device is asked about */
    uint32_t groups;          /* of tensors, that programs take (attention_groups); 0: none, or none of attention */
    int by_name;              /* the strategy was asked for by its name: it may then serve what it is not made for */
    struct text *why;         /* gets one sentence where the problem is declined; NULL: not wanted */
    struct text *explain;     /* gets lines of clattn explain while a plan is made */
    clattn_status failure;    /* of the first probe without an answer, for want of memory or of a program: also the last
                               * error. No choice may rest on these answers: the next one may be another. */
    struct program_uses uses; /* kernels that were taken */
};

/* Appends one sentence to ask->why. Returns 0, as `applicable` then does. */
int ask_declines(struct ask *ask, const char *format, ...) CLATTN_PRINTF(2, 3);

/* Gets a kernel, as program_kernel does, of a program that takes the groups of tensors and has the problem's text. */
clattn_status ask_program(struct ask *ask, const char *file, const char *options, const char *name,
                          struct kernel **kernel);

/* Gets a kernel as ask_program does, and lowers *limit (NULL: not wanted) to the work-items of a work-group that the
 * device runs it with. */
clattn_status ask_kernel(struct ask *ask, const char *file, const struct text *options, const char *name,
                         struct kernel **kernel, size_t *limit);

#endif
