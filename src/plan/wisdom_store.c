/* Wisdom on disk. */
#include "plan/wisdom_store.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/environment.h"
#include "program/folder_file.h"
#include "program/program_cache.h"

#define SUFFIX ".wisdom"
#define LOCK_SUFFIX ".locked" /* as long */

static void name_with(const clattn_context *context, const char *suffix, char name[PROGRAM_FILE_NAME_BYTES])
{
    struct program_key key;
    program_cache_device_key(&context->device, &key);
    program_file_name(&key, name);
    memcpy(name + 2 * SHA256_BYTES, suffix, sizeof(SUFFIX));
}

/* The name of the file in its folder. */
static void name_of(const clattn_context *context, char name[PROGRAM_FILE_NAME_BYTES])
{
    name_with(context, SUFFIX, name);
}

/* NULL: none. By the XDG rules names that are not absolute do not count. */
static char *folder_of_wisdom(void)
{
    const char *named = environment_wisdom_dir(), *state = environment_user_state_dir();
    const char *home = environment_home_dir();
    if (environment_is_foreign() || (named && !named[0])) {
        return NULL;
    }
    if (named) {
        return program_folder_path(named, "");
    }
    if (state && state[0] == '/') {
        return program_folder_path(state, "/clattn/wisdom");
    }
    return home && home[0] == '/' ? program_folder_path(home, "/.local/state/clattn/wisdom") : NULL;
}

char *wisdom_path(const clattn_context *context)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    char *folder = folder_of_wisdom();
    struct text path = TEXT_INIT;
    if (!folder) {
        return NULL;
    }
    name_of(context, name);
    text_append(&path, "%s/%s", folder, name);
    free(folder);
    return text_take(&path);
}

static void load_from(const clattn_context *context, const char *folder, struct wisdom *wisdom)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    size_t bytes = 0;
    const int directory = program_folder_open(folder, PROGRAM_FOLDER_INSTALLED);
    if (directory < 0) {
        return;
    }
    name_of(context, name);
    unsigned char *text = folder_file_read(directory, name, PROGRAM_FOLDER_INSTALLED, 1, WISDOM_BYTES_MAX, &bytes);
    program_folder_close(directory);
    if (text) {
        wisdom_read(wisdom, (const char *)text, bytes);
    }
    free(text);
}

void wisdom_load(const clattn_context *context, struct wisdom *wisdom)
{
    char *folder = folder_of_wisdom();
    if (folder) {
        load_from(context, folder, wisdom);
    }
    free(folder);
}

static int write_in(const clattn_context *context, int directory, const struct wisdom *wisdom)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    struct text text = TEXT_INIT;
    name_of(context, name);
    if (wisdom->count == 0) {
        return program_folder_remove(directory, name);
    }
    text_append(&text, "# clattn tune: %s, driver %s\n", context->device.name, context->device.driver);
    for (size_t i = 0; i < wisdom->count; ++i) {
        wisdom_write_line(&wisdom->facts[i], &text);
    }
    const struct folder_file_part part = { text.data, text.length };
    const int written = !text.failed && text.length <= WISDOM_BYTES_MAX && folder_file_write(directory, name, &part, 1);
    text_free(&text);
    return written;
}

int wisdom_store(const clattn_context *context, const struct wisdom *wisdom)
{
    char *folder = folder_of_wisdom();
    if (!folder) {
        return 0;
    }
    if (wisdom->count > 0) {
        program_folder_make(folder);
    }
    const int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    free(folder);
    if (directory < 0) {
        return wisdom->count == 0;
    }
    const int written = write_in(context, directory, wisdom);
    program_folder_trim(directory, SIZE_MAX); /* only what killed writers left: there are no programs */
    program_folder_close(directory);
    return written;
}

int wisdom_lock(const clattn_context *context, int *lock)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    char *folder = folder_of_wisdom();
    if (!folder) {
        return -1;
    }
    program_folder_make(folder);
    const int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    free(folder);
    if (directory < 0) {
        return -1;
    }
    name_with(context, LOCK_SUFFIX, name);
    const int found = folder_file_lock(directory, name, lock);
    program_folder_close(directory);
    return found;
}

void wisdom_unlock(int lock)
{
    folder_file_unlock(lock);
}

/* ---- of a context --------------------------------------------------------------------------- */

static void wisdom_end(clattn_context *context, int forked)
{
    (void)forked;
    free(context->wisdom);
}

clattn_status wisdom_create(clattn_context *context)
{
    context->wisdom = calloc(1, sizeof(*context->wisdom));
    if (!context->wisdom) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a context");
    }
    if (!environment_binary_dir() || !environment_binary_dir()[0]) {
        if (!environment_wisdom_dir()) {
            load_from(context, WISDOM_OF_ALL, context->wisdom);
        }
        wisdom_load(context, context->wisdom);
    }
    context_at_end(context, wisdom_end);
    return CLATTN_OK;
}
