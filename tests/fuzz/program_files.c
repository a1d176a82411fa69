/* Compiled programs and verdicts in files. The first byte says what is repaired, so that what stands behind a good
 * header is reached: bit 0 the key, bit 1 the length, bit 2 the digest. Bit 3: a verdict instead, by the key that it
 * has. */
#define _XOPEN_SOURCE 700
#include "program/program_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "program/verdict_file.h"

static const struct program_key key = { { 1, 2, 3, 250 } };

static void read_program(uint8_t *file, size_t size, unsigned repairs)
{
    unsigned char right[PROGRAM_FILE_HEADER_BYTES];
    if (size >= PROGRAM_FILE_HEADER_BYTES) {
        program_file_header(&key, file + PROGRAM_FILE_HEADER_BYTES, size - PROGRAM_FILE_HEADER_BYTES, right);
        memcpy(file + 16, right + 16, repairs & 1 ? 32 : 0);
        memcpy(file + 48, right + 48, repairs & 2 ? 8 : 0);
        memcpy(file + 56, right + 56, repairs & 4 ? 32 : 0);
    }
    if (program_file_valid(&key, file, size)) {
        fuzz_must(size > PROGRAM_FILE_HEADER_BYTES - 1 && memcmp(file, right, sizeof(right)) == 0,
                  "only what clattn would have written is valid");
    }
}

static void read_verdict(const uint8_t *data, size_t size)
{
    char text[VERDICT_FILE_BYTES];
    const char *why = NULL;
    const int file = open(fuzz_file(data, size), O_RDWR);
    fuzz_must(file >= 0, "the file can be opened");
    const char *word = verdict_file_read(file, &key, text, &why);
    if (word) {
        fuzz_must(word > text && word + strlen(word) < why && why + strlen(why) < text + sizeof(text),
                  "word and reason are in the text");
        for (const char *at = why; *at; ++at) {
            fuzz_must(*at >= ' ' && *at <= '~', "a reason can be shown");
        }
    }
    verdict_file_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[1 << 16];
    if (size < 1 || size > sizeof(file)) {
        return 0;
    }
    memcpy(file, data + 1, size - 1);
    if (data[0] & 8) {
        read_verdict(file, size - 1);
    } else {
        read_program(file, size - 1, data[0]);
    }
    return 0;
}
