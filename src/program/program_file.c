/* Files of compiled programs: the format. */
#include "program/program_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/folder_file.h"

#define FORMAT_VERSION 1

enum { AT_MAGIC = 0, AT_VERSION = 8, AT_KEY = 16, AT_LENGTH = 48, AT_DIGEST = 56 };

void program_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; ++i) {
        name[2 * i] = digits[key->bytes[i] >> 4];
        name[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    snprintf(name + 2 * SHA256_BYTES, PROGRAM_FILE_NAME_BYTES - 2 * SHA256_BYTES, PROGRAM_FILE_SUFFIX);
}

static void put_number(unsigned char *at, uint64_t number)
{
    for (int i = 0; i < 8; ++i) {
        at[i] = (unsigned char)(number >> (8 * i));
    }
}

void program_file_header(const struct program_key *key, const void *binary, size_t bytes,
                         unsigned char header[PROGRAM_FILE_HEADER_BYTES])
{
    struct sha256 sha256;
    memcpy(header + AT_MAGIC, "clattnpb", 8);
    put_number(header + AT_VERSION, FORMAT_VERSION);
    memcpy(header + AT_KEY, key->bytes, SHA256_BYTES);
    put_number(header + AT_LENGTH, bytes);
    sha256_begin(&sha256);
    sha256_add(&sha256, binary, bytes);
    sha256_end(&sha256, header + AT_DIGEST);
}

/* There is one right header for a key and the bytes that follow: no field is trusted to find another. */
int program_file_valid(const struct program_key *key, const unsigned char *file, size_t file_bytes)
{
    unsigned char expected[PROGRAM_FILE_HEADER_BYTES];
    if (file_bytes <= PROGRAM_FILE_HEADER_BYTES) {
        return 0;
    }
    program_file_header(key, file + PROGRAM_FILE_HEADER_BYTES, file_bytes - PROGRAM_FILE_HEADER_BYTES, expected);
    return memcmp(file, expected, sizeof(expected)) == 0;
}

/* ---- reading and writing -------------------------------------------------------------------- */

unsigned char *program_file_read(const char *folder, enum program_folder_trust trust, const struct program_key *key,
                                 size_t *file_bytes)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    int directory = program_folder_open(folder, trust);
    if (directory < 0) {
        return NULL;
    }
    program_file_name(key, name);
    unsigned char *bytes =
        folder_file_read(directory, name, trust, PROGRAM_FILE_HEADER_BYTES + 1, PROGRAM_FILE_BYTES_MAX, file_bytes);
    if (bytes && !program_file_valid(key, bytes, *file_bytes)) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes && trust == PROGRAM_FOLDER_OWN) {
        program_folder_touch(directory, name);
    }
    program_folder_close(directory);
    return bytes;
}

int program_file_write(const char *folder, const struct program_key *key, const void *binary, size_t bytes,
                       size_t limit_bytes)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    unsigned char header[PROGRAM_FILE_HEADER_BYTES];
    const struct folder_file_part parts[] = { { header, sizeof(header) }, { binary, bytes } };
    if (bytes == 0 || bytes > PROGRAM_FILE_BYTES_MAX - PROGRAM_FILE_HEADER_BYTES) {
        return 0;
    }
    program_folder_make(folder);
    int directory = program_folder_open(folder, PROGRAM_FOLDER_OWN);
    if (directory < 0) {
        return 0;
    }
    program_file_name(key, name);
    program_file_header(key, binary, bytes, header);
    int written = folder_file_write(directory, name, parts, 2);
    if (written && limit_bytes > 0) {
        program_folder_trim(directory, limit_bytes);
    }
    program_folder_close(directory);
    return written;
}
