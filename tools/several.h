/* The device of a command, or the devices: those that a list in --device or CLATTN_DEVICE names, "0:0+1:0". */
#ifndef CLATTN_TOOLS_SEVERAL_H
#define CLATTN_TOOLS_SEVERAL_H

#include "clattn_group.h"
#include "library.h"

struct several {
    clattn_group *group;     /* NULL: there is one device */
    clattn_context *context; /* of several the first one's */
};

/* With a list, options of `alone`, up to OPTION_NONE, are a misuse: they are of one device. */
int several_open(const struct options *options, const enum option_id *alone, struct several *several,
                 struct failure *failure);
void several_close(struct several *several); /* all zero: nothing */

size_t several_count(const struct several *several);
clattn_context *several_context(const struct several *several, size_t n);

/* clattn_forward_host, by all of them. */
clattn_status several_forward(const struct several *several, const clattn_problem *problem, const clattn_call *call,
                              const clattn_host_tensors *tensors);

/* Lines that tell how calls were divided; of one device none. */
void several_tell(const struct several *several);

#endif
