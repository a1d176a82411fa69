/* clattn devices: what there is, what each can do, which one would be taken and why. */
#include <stdio.h>

#include "commands.h"
#include "document.h"
#include "labels.h"
#include "library.h"

/* The library's own document, after the head that every command's has: of the device that would be taken. */
static cJSON *document_of(cJSON *listing)
{
    const cJSON *entry, *taken = NULL;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(listing, "devices"))
    {
        taken = !taken && cJSON_IsTrue(cJSON_GetObjectItem(entry, "chosen")) ? entry : taken;
    }
    cJSON *document = document_begin("devices", NULL);
    if (taken) {
        document_add_device(document, cJSON_GetStringValue(cJSON_GetObjectItem(taken, "name")),
                            cJSON_GetStringValue(cJSON_GetObjectItem(taken, "platform")),
                            cJSON_GetStringValue(cJSON_GetObjectItem(taken, "driver")));
    }
    while (listing->child) {
        cJSON *item = cJSON_DetachItemViaPointer(listing, listing->child);
        cJSON_AddItemToObject(document, item->string, item);
    }
    return document;
}

static int print_document(const char *text, struct failure *failure)
{
    cJSON *listing = cJSON_Parse(text);
    if (!listing) {
        return failure_failed(failure, "out of memory for a JSON document");
    }
    cJSON *document = document_of(listing);
    cJSON_Delete(listing);
    return document_print(document, failure);
}

static int run(const struct options *options, struct failure *failure)
{
    const int as_json = options->value[OPTION_JSON] != NULL;
    char *text = NULL;
    int result = 0;
    clattn_status status = clattn_describe_devices(as_json, &text);
    if (status != CLATTN_OK) {
        return library_failure(options, status, failure);
    }
    if (as_json) {
        result = print_document(text, failure);
    } else {
        utf8_clean_in_place(text, "\n"); /* names are a driver's, and what CLATTN_DEVICE says */
        fputs(text, stdout);
    }
    clattn_free(text);
    return result;
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
    "variable CLATTN_DEVICE; several, with + between them, compute together.\n",
    run,
};
