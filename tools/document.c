#define _XOPEN_SOURCE 700
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "insides.h"
#include "labels.h"

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
        struct text line = TEXT_INIT;
        text_append_bytes(&line, text, length);
        cJSON_AddItemToArray(lines, cJSON_CreateString(line.data ? line.data : ""));
        text_free(&line);
        text += length + (text[length] == '\n');
    }
}

/* Control characters beyond ASCII, which JSON has escapes for but need not escape. */
static void escape_controls(const char *text, struct text *escaped)
{
    for (const char *at = text; *at; at++) {
        const unsigned char lead = (unsigned char)at[0], next = (unsigned char)at[1];
        if (lead == 0xc2 && next >= 0x80 && next < 0xa0) {
            text_append(escaped, "\\u%04x", next);
            at++;
        } else {
            text_append_bytes(escaped, at, 1);
        }
    }
}

int document_print(cJSON *document, struct failure *failure)
{
    char *text = cJSON_Print(document);
    struct text escaped = TEXT_INIT;
    if (text) {
        escape_controls(text, &escaped);
    }
    const int is_whole = text && !escaped.failed;
    if (is_whole) {
        utf8_clean_in_place(escaped.data, "\n\t"); /* names are a driver's */
        printf("%s\n", escaped.data);
    }
    text_free(&escaped);
    cJSON_free(text);
    cJSON_Delete(document);
    return is_whole ? 0 : failure_failed(failure, "out of memory for a JSON document");
}
