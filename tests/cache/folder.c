/* A folder for one test, and counting. */
#include "folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char place[FOLDER_PATH_BYTES - 256];
static int passed, failed, skipped;

void folder_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(place, sizeof(place), "%s/clattn-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place) || chmod(place, 0755) != 0) { /* other users pass through */
        perror(place);
        exit(1);
    }
}

void folder_end(void)
{
    char command[FOLDER_PATH_BYTES];
    snprintf(command, sizeof(command), "rm -rf '%s'", place);
    EXPECT(system(command) == 0);
}

const char *folder_path(const char *name)
{
    static char paths[6][FOLDER_PATH_BYTES];
    static int next;
    next = (next + 1) % 6;
    snprintf(paths[next], sizeof(paths[next]), "%s/cache%s%s", place, name[0] ? "/" : "", name);
    return paths[next];
}

int count_files(const char *start)
{
    int count = 0;
    DIR *stream = opendir(folder_path(""));
    for (struct dirent *found; stream && (found = readdir(stream)) != NULL;) {
        count += strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0 &&
                 strncmp(found->d_name, start, strlen(start)) == 0;
    }
    if (stream) {
        closedir(stream);
    }
    return count;
}

void expect(int holds, const char *condition, const char *file, int line)
{
    passed += holds;
    failed += !holds;
    if (!holds) {
        printf("FAILED %s:%d: %s\n", file, line, condition);
    }
}

void skip(const char *why, int count)
{
    printf("skipped: %s\n", why);
    skipped += count;
}

int report(void)
{
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
