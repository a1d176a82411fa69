#include "support/folder_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Appends a copy; 0 where there is no memory for it. */
static int append(char ***names, int count, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    char **longer = realloc(*names, ((size_t)count + 1) * sizeof(*longer)), *copy = malloc(bytes);
    *names = longer ? longer : *names;
    if (!longer || !copy) {
        free(copy);
        return 0;
    }
    longer[count] = memcpy(copy, name, bytes);
    return 1;
}

int folder_list(const char *folder, char ***names)
{
    DIR *stream = opendir(folder);
    int count = 0;
    if (!stream) {
        return -1;
    }
    *names = NULL;
    for (struct dirent *found; (found = readdir(stream)) != NULL;) {
        if (found->d_name[0] != '.') {
            count += append(names, count, found->d_name);
        }
    }
    closedir(stream);
    if (count > 0) {
        qsort(*names, (size_t)count, sizeof(**names), by_name);
    }
    return count;
}
