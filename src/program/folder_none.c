/* No folders of programs, for Windows: what is kept on disk rests on owners, modes and links as POSIX has them, and is
 * left out where they are not. No cache, no wisdom, and CLATTN_BINARY_DIR is refused as a folder that cannot be
 * trusted. */
#include "base/text.h"
#include "program/folder_file.h"
#include "program/program_folder.h"
#include "program/verdict_file.h"

const char *program_folder_refusal(void)
{
    return "on Windows neither compiled programs nor wisdom are kept in folders: owners and modes of files, as POSIX "
           "has them, say which of them can be trusted";
}

int program_folder_trusts(enum program_folder_trust trust, const struct stat *state)
{
    (void)trust;
    (void)state;
    return 0;
}

int program_folder_open(const char *folder, enum program_folder_trust trust)
{
    (void)folder;
    (void)trust;
    return -1;
}

void program_folder_close(int directory)
{
    (void)directory;
}

void program_folder_touch(int directory, const char *name)
{
    (void)directory;
    (void)name;
}

int program_folder_remove(int directory, const char *name)
{
    (void)directory;
    (void)name;
    return 0;
}

char *program_folder_path(const char *folder, const char *below)
{
    struct text text = TEXT_INIT;
    text_append(&text, "%s%s", folder, below);
    return text_take(&text);
}

void program_folder_make(const char *folder)
{
    (void)folder;
}

void program_folder_trim(int directory, size_t limit_bytes)
{
    (void)directory;
    (void)limit_bytes;
}

unsigned char *folder_file_read(int directory, const char *name, enum program_folder_trust trust, size_t bytes_least,
                                size_t bytes_most, size_t *bytes)
{
    (void)directory;
    (void)name;
    (void)trust;
    (void)bytes_least;
    (void)bytes_most;
    (void)bytes;
    return NULL;
}

int folder_file_write(int directory, const char *name, const struct folder_file_part *parts, size_t count)
{
    (void)directory;
    (void)name;
    (void)parts;
    (void)count;
    return 0;
}

void verdict_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES])
{
    program_file_name(key, name);
}

int verdict_file_open(const char *folder, const struct program_key *key)
{
    (void)folder;
    (void)key;
    return -1;
}

void verdict_file_write(int file, const struct program_key *key, const char *word, const char *why)
{
    (void)file;
    (void)key;
    (void)word;
    (void)why;
}

const char *verdict_file_read(int file, const struct program_key *key, char text[VERDICT_FILE_BYTES], const char **why)
{
    (void)file;
    (void)key;
    (void)text;
    (void)why;
    return NULL;
}

void verdict_file_remove(const char *folder, const struct program_key *key, int file)
{
    (void)folder;
    (void)key;
    (void)file;
}

void verdict_file_close(int file)
{
    (void)file;
}

int folder_file_lock(int directory, const char *name, int *lock)
{
    (void)directory;
    (void)name;
    (void)lock;
    return -1;
}

void folder_file_unlock(int lock)
{
    (void)lock;
}
