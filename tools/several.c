#include "several.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "labels.h"

/* NULL: they name one device, or none. */
static const char *list_of(const struct options *options)
{
    const char *names = options->value[OPTION_DEVICE] ? options->value[OPTION_DEVICE] : getenv("CLATTN_DEVICE");
    return names && strchr(names, '+') ? names : NULL;
}

int several_open(const struct options *options, const enum option_id *alone, struct several *several,
                 struct failure *failure)
{
    const char *names = list_of(options);
    several->group = NULL;
    several->context = NULL;
    if (!names) {
        return library_open(options, &several->context, failure);
    }
    for (; *alone != OPTION_NONE; alone++) {
        if (options->value[*alone]) {
            return failure_misuse(failure, "--%s: is of one device, and \"%s\" are several; name one",
                                  option_name(*alone), names);
        }
    }
    const clattn_status status = clattn_group_open(names, NULL, &several->group);
    several->context = clattn_group_context(several->group, 0);
    return status == CLATTN_OK ? 0 : library_failure(options, status, failure);
}

void several_close(struct several *several)
{
    if (several->group) {
        clattn_group_destroy(several->group);
    } else {
        clattn_context_destroy(several->context);
    }
}

size_t several_count(const struct several *several)
{
    return several->group ? clattn_group_count(several->group) : 1;
}

clattn_context *several_context(const struct several *several, size_t n)
{
    return several->group ? clattn_group_context(several->group, n) : several->context;
}

clattn_status several_forward(const struct several *several, const clattn_problem *problem, const clattn_call *call,
                              const clattn_host_tensors *tensors)
{
    return several->group ? clattn_group_forward_host(several->group, problem, call, tensors)
                          : clattn_forward_host(several->context, problem, call, tensors);
}

void several_tell(const struct several *several)
{
    char *text = NULL;
    if (several->group && clattn_group_explain(several->group, &text) == CLATTN_OK) {
        utf8_clean_in_place(text, "\n"); /* names are a driver's */
        fputs(text, stdout);
        clattn_free(text);
    }
}
