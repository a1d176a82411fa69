/* The JSON documents that commands print with --json:
 *
 *     { "clattn": "0.1.0", "command": "bench", "device": "...", "platform": "...", "driver": "...", ... }
 *
 * What follows is the command's, by cJSON. Numbers that JSON has not (infinities, NaN) are null. */
#ifndef CLATTN_TOOLS_DOCUMENT_H
#define CLATTN_TOOLS_DOCUMENT_H

#include <cjson/cJSON.h>

#include "clattn.h"
#include "failure.h"

/* Never NULL but where memory ran out, which cJSON's calls allow and document_print tells. */
cJSON *document_begin(const char *command, const clattn_context *context);

/* The rest of the head, where it was begun without a context. */
void document_add_device(cJSON *document, const char *name, const char *platform, const char *driver);

/* A text of lines, as an array of them. */
void document_add_lines(cJSON *document, const char *key, const char *text);

/* On standard output; deletes the document. */
int document_print(cJSON *document, struct failure *failure);

#endif
