/* The folder of program files. */
#include "program/program_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define ABANDONED_SECONDS 3600

const char *program_folder_refusal(void)
{
    return NULL;
}

int program_folder_trusts(enum program_folder_trust trust, const struct stat *state)
{
    int owner_trusted = state->st_uid == geteuid() || (trust == PROGRAM_FOLDER_INSTALLED && state->st_uid == 0);
    return owner_trusted && (state->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int program_folder_open(const char *folder, enum program_folder_trust trust)
{
    struct stat state;
    int directory = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0 && (fstat(directory, &state) != 0 || !program_folder_trusts(trust, &state))) {
        close(directory);
        return -1;
    }
    return directory;
}

void program_folder_close(int directory)
{
    close(directory);
}

void program_folder_touch(int directory, const char *name)
{
    utimensat(directory, name, NULL, AT_SYMLINK_NOFOLLOW);
}

int program_folder_remove(int directory, const char *name)
{
    return unlinkat(directory, name, 0) == 0 || errno == ENOENT;
}

char *program_folder_path(const char *folder, const char *below)
{
    struct text text = TEXT_INIT;
    char *current = folder[0] == '/' ? NULL : getcwd(NULL, 0);
    if (folder[0] != '/' && !current) {
        return NULL;
    }
    text_append(&text, "%s%s%s%s", current ? current : "", current ? "/" : "", folder, below);
    while (text.length > 1 && !text.failed && text.data[text.length - 1] == '/') {
        text.data[--text.length] = 0;
    }
    free(current);
    return text_take(&text);
}

void program_folder_make(const char *folder)
{
    char *path = strdup(folder);
    for (char *end = path; end && *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = 0;
        int made = mkdir(path, 0700) == 0 || errno == EEXIST || errno == EISDIR;
        *end = kept;
        if (!made && errno != EACCES && errno != EROFS) {
            break; /* a parent that may not be written may still hold the rest */
        }
    }
    free(path);
}

/* ---- trimming ------------------------------------------------------------------------------- */

struct entry {
    char name[PROGRAM_FILE_NAME_BYTES];
    struct timespec used;
    size_t bytes;
};

struct entries {
    struct entry *items;
    size_t count, capacity;
};

static int is_program_file(const char *name)
{
    return strspn(name, "0123456789abcdef") == 2 * SHA256_BYTES &&
           (strcmp(name + 2 * SHA256_BYTES, PROGRAM_FILE_SUFFIX) == 0 ||
            strcmp(name + 2 * SHA256_BYTES, PROGRAM_VERDICT_SUFFIX) == 0);
}

static int is_abandoned(const char *name, const struct stat *state)
{
    return strncmp(name, PROGRAM_TEMPORARY_PREFIX, sizeof(PROGRAM_TEMPORARY_PREFIX) - 1) == 0 &&
           state->st_mtim.tv_sec < time(NULL) - ABANDONED_SECONDS;
}

static void add(struct entries *entries, const char *name, const struct stat *state)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity ? 2 * entries->capacity : 64;
        struct entry *items = realloc(entries->items, capacity * sizeof(*items));
        if (!items) {
            return; /* trimmed by another call, then */
        }
        entries->items = items;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->items[entries->count++];
    memcpy(entry->name, name, strlen(name) + 1);
    entry->used = state->st_mtim;
    entry->bytes = (size_t)state->st_size;
}

/* Lists the program files; removes abandoned ones on the way. */
static void list(int directory, struct entries *entries)
{
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = own < 0 ? NULL : fdopendir(own);
    if (!stream) {
        if (own >= 0) {
            close(own);
        }
        return;
    }
    for (struct dirent *found; (found = readdir(stream)) != NULL;) {
        struct stat state;
        if (fstatat(directory, found->d_name, &state, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(state.st_mode)) {
            continue;
        }
        if (is_program_file(found->d_name)) {
            add(entries, found->d_name, &state);
        } else if (is_abandoned(found->d_name, &state)) {
            unlinkat(directory, found->d_name, 0);
        }
    }
    closedir(stream);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->used, *y = &((const struct entry *)b)->used;
    if (x->tv_sec != y->tv_sec) {
        return x->tv_sec < y->tv_sec ? -1 : 1;
    }
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

void program_folder_trim(int directory, size_t limit_bytes)
{
    struct entries entries = { NULL, 0, 0 };
    size_t total = 0;
    list(directory, &entries);
    for (size_t i = 0; i < entries.count; ++i) {
        total += entries.items[i].bytes;
    }
    if (total > limit_bytes) {
        qsort(entries.items, entries.count, sizeof(*entries.items), by_use);
    }
    for (size_t i = 0; i < entries.count && total > limit_bytes; ++i) {
        unlinkat(directory, entries.items[i].name, 0);
        total -= entries.items[i].bytes;
    }
    free(entries.items);
}
