/* The cases of attention in a folder. */
#include "support/case_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_meta.h"
#include "support/folder_list.h"

#define PATH_BYTES 4096

static int is_case(const char *name)
{
    return !strchr(name, '.'); /* README.md, check.py */
}

static int is_attention(const char *cases, const char *name)
{
    char folder[PATH_BYTES];
    struct failure failure;
    cJSON *meta;
    snprintf(folder, sizeof(folder), "%s/%s", cases, name);
    if (case_meta_read(folder, &meta, &failure) != 0) {
        return 1;
    }
    const char *op = meta_text(meta_field(meta, NULL, "op"));
    const int found = !*op || strcmp(op, "attention") == 0;
    cJSON_Delete(meta);
    return found;
}

int case_list_attention(const char *cases, const char *only, char ***names)
{
    char **list;
    const int found = folder_list(cases, &list);
    int n = 0;
    if (found < 0) {
        return -1;
    }
    for (int i = 0; i < found; ++i) {
        if (is_case(list[i]) && (!only || strcmp(only, list[i]) == 0) && is_attention(cases, list[i])) {
            list[n++] = list[i];
        } else {
            free(list[i]);
        }
    }
    *names = list;
    return n;
}
