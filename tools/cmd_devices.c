/* clattn devices: what there is, what each can do, which one would be taken and why. */
#include <stdio.h>

#include "commands.h"
#include "labels.h"
#include "library.h"

static int run(const struct options *options, struct failure *failure)
{
    char *text = NULL;
    clattn_status status = clattn_describe_devices(options->value[OPTION_JSON] != NULL, &text);
    if (status != CLATTN_OK) {
        return library_failure(options, status, failure);
    }
    utf8_clean_in_place(text, "\n"); /* names are a driver's, and what CLATTN_DEVICE says */
    fputs(text, stdout);
    clattn_free(text);
    return 0;
}

static const struct option_group groups[] = {
    { "Options", { OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_devices = {
    "devices",
    "Lists the OpenCL devices of this machine, what each can do, and which one is taken when none "
    "is named.",
    "[--json]",
    NULL,
    groups,
    "A device is named by --device of the other commands or by the environment\n"
    "variable CLATTN_DEVICE.\n",
    run,
};
