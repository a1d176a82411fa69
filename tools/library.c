#include "library.h"

#include <stdio.h>
#include <stdlib.h>

static int is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

/* Whether the user's choice, rather than the machine, is the reason. */
static int is_misuse(const struct options *options, clattn_status status)
{
    int device_named = options->value[OPTION_DEVICE] || is_set("CLATTN_DEVICE");
    switch (status) {
    case CLATTN_INVALID_ARGUMENT:
    case CLATTN_INVALID_SHAPE:
        return 1;
    case CLATTN_NO_DEVICE:
        return device_named;
    case CLATTN_UNSUPPORTED:
        return device_named || options->value[OPTION_STRATEGY] || options->value[OPTION_MATMUL];
    case CLATTN_BUILD_FAILED:
        return is_set("CLATTN_CL_DIR");
    default:
        return 0;
    }
}

int library_failure(const struct options *options, clattn_status status, struct failure *failure)
{
    return failure_of_library(failure, is_misuse(options, status) ? EXIT_MISUSE : EXIT_FAILED, clattn_last_error());
}

int library_open(const struct options *options, clattn_context **context, struct failure *failure)
{
    clattn_status status = clattn_context_open(options->value[OPTION_DEVICE], NULL, context);
    return status == CLATTN_OK ? 0 : library_failure(options, status, failure);
}

void library_device_name(const clattn_context *context, char *name, size_t capacity)
{
    if (clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_NAME, capacity, name, NULL) != CL_SUCCESS) {
        snprintf(name, capacity, "(its name is too long)");
    }
}
