#include "program/verdict_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/program_folder.h"

#define FIRST_LINE "clattn verdict 1\n"
#define WHY_BYTES (VERDICT_FILE_BYTES - 150) /* what the other lines leave */

void verdict_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES])
{
    program_file_name(key, name);
    memcpy(name + 2 * SHA256_BYTES, PROGRAM_VERDICT_SUFFIX, sizeof(PROGRAM_VERDICT_SUFFIX));
}

/* Written over what was there: the lock is on the file, so it must stay the same one. */
void verdict_file_write(int file, const struct program_key *key, const char *word, const char *why)
{
    char name[PROGRAM_FILE_NAME_BYTES], text[VERDICT_FILE_BYTES];
    verdict_file_name(key, name);
    const int length =
        snprintf(text, sizeof(text), FIRST_LINE "%.*s\n%s\n%.*s\n", 2 * SHA256_BYTES, name, word, WHY_BYTES, why);
    if (ftruncate(file, 0) != 0 || length < 0 || length >= (int)sizeof(text) ||
        pwrite(file, text, (size_t)length, 0) != length) {
        (void)!ftruncate(file, 0); /* half a verdict is none */
    }
}

const char *verdict_file_read(int file, const struct program_key *key, char text[VERDICT_FILE_BYTES], const char **why)
{
    char name[PROGRAM_FILE_NAME_BYTES], *rest = NULL;
    const ssize_t length = pread(file, text, VERDICT_FILE_BYTES - 1, 0);
    if (length <= 0) {
        return NULL;
    }
    text[length] = 0;
    for (char *at = text; *at; ++at) { /* it is shown to people */
        *at = (*at < ' ' || *at > '~') && *at != '\n' ? '?' : *at;
    }
    verdict_file_name(key, name);
    name[2 * SHA256_BYTES] = 0;
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0) {
        return NULL;
    }
    const char *key_line = strtok_r(text + strlen(FIRST_LINE), "\n", &rest), *word = strtok_r(NULL, "\n", &rest);
    *why = strtok_r(NULL, "\n", &rest);
    return key_line && word && *why && strcmp(key_line, name) == 0 ? word : NULL;
}

/* Trusted, not removed by whom held the lock, and locked. */
static int can_be_had(int file)
{
    struct stat state;
    return fstat(file, &state) == 0 && S_ISREG(state.st_mode) && program_folder_trusts(PROGRAM_FOLDER_OWN, &state) &&
           flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &state) == 0 && state.st_nlink > 0;
}

int verdict_file_open(const char *folder, const struct program_key *key)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    if (!folder) {
        return -1;
    }
    program_folder_make(folder);
    const int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    if (directory < 0) {
        return -1;
    }
    verdict_file_name(key, name);
    const int file = openat(directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    program_folder_close(directory);
    if (file >= 0 && !can_be_had(file)) {
        close(file);
        return -1;
    }
    return file;
}

void verdict_file_remove(const char *folder, const struct program_key *key, int file)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    const int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    (void)!ftruncate(file, 0);
    verdict_file_name(key, name);
    if (directory >= 0) {
        program_folder_remove(directory, name);
        program_folder_close(directory);
    }
}

void verdict_file_close(int file)
{
    close(file);
}
