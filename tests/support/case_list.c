/* The cases of attention in a folder. */
#include "support/case_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_meta.h"

#define PATH_BYTES 4096

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.'); /* README.md, check.py */
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

int case_list_attention(const char *cases, const char *only, struct dirent ***entries)
{
    struct dirent **list;
    const int found = scandir(cases, &list, is_case, alphasort);
    int n = 0;
    if (found < 0) {
        return -1;
    }
    for (int i = 0; i < found; ++i) {
        if ((!only || strcmp(only, list[i]->d_name) == 0) && is_attention(cases, list[i]->d_name)) {
            list[n++] = list[i];
        } else {
            free(list[i]);
        }
    }
    *entries = list;
    return n;
}
