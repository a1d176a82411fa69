/* What strategies do with what they are asked. */
#include "plan/ask.h"

#include <stdarg.h>

#include "base/error.h"
#include "operation/problem.h"
#include "plan/code_programs.h"

int ask_declines(struct ask *ask, const char *format, ...)
{
    va_list arguments;
    if (ask->why) {
        va_start(arguments, format);
        text_append_list(ask->why, format, arguments);
        va_end(arguments);
    }
    return 0;
}

clattn_status ask_program(struct ask *ask, const char *file, const char *options, const char *name,
                          struct kernel **kernel)
{
    struct text all = TEXT_INIT;
    clattn_status status;
    text_append(&all, "%s", options);
    if (ask->problem && is_attention(ask->problem)) {
        text_append(&all, " -D CLATTN_TAKES=%u", (unsigned)ask->groups);
    }
    const struct program_source source = { file, all.data, NULL };
    if (all.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    } else if (ask->problem && ask->problem->code) {
        status = code_kernel(ask, file, all.data, name, kernel);
    } else {
        status = program_kernel_of(ask->context, &ask->uses, &source, name, kernel);
    }
    text_free(&all);
    return status;
}

clattn_status ask_kernel(struct ask *ask, const char *file, const struct text *options, const char *name,
                         struct kernel **kernel, size_t *limit)
{
    size_t most = 0;
    if (options->failed) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for build options");
    }
    clattn_status status = ask_program(ask, file, options->data, name, kernel);
    if (status == CLATTN_OK && limit) {
        status = kernel_work_group_limit(*kernel, &most);
        *limit = status == CLATTN_OK && most < *limit ? most : *limit;
    }
    return status;
}
