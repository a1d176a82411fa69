#define _XOPEN_SOURCE 700
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "labels.h"
#include "program/context.h"

cJSON *document_begin(const char *command, const clattn_context *context)
{
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "clattn", clattn_version());
    cJSON_AddStringToObject(document, "command", command);
    if (context) {
        document_add_device(document, context->device.name, context->device.platform_name, context->device.driver);
    }
    return document;
}

void document_add_device(cJSON *document, const char *name, const char *platform, const char *driver)
{
    cJSON_AddStringToObject(document, "device", name);
    cJSON_AddStringToObject(document, "platform", platform);
    cJSON_AddStringToObject(document, "driver", driver);
}

void document_add_lines(cJSON *document, const char *key, const char *text)
{
    cJSON *lines = cJSON_AddArrayToObject(document, key);
    while (*text) {
        const size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);
        cJSON_AddItemToArray(lines, cJSON_CreateString(line ? line : ""));
        free(line);
        text += length + (text[length] == '\n');
    }
}

int document_print(cJSON *document, struct failure *failure)
{
    char *text = cJSON_Print(document);
    const int result = text ? 0 : failure_failed(failure, "out of memory for a JSON document");
    if (text) {
        utf8_clean_in_place(text, "\n\t"); /* names are a driver's */
        printf("%s\n", text);
    }
    cJSON_free(text);
    cJSON_Delete(document);
    return result;
}
