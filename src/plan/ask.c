/* What strategies do with what they are asked. */
#include "plan/ask.h"

#include <stdarg.h>

#include "base/error.h"
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
    const struct program_source source = { file, options, NULL };
    return ask->problem && ask->problem->code ? code_kernel(ask, file, options, name, kernel)
                                              : program_kernel_of(ask->context, &ask->uses, &source, name, kernel);
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
