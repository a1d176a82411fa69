/* What every fuzz target is made of. A target is one function, of bytes that mean nothing good. It is linked twice: to
 * libFuzzer, which looks for bytes that reach new code (tests/fuzz/run), and to drive.c, which changes the kept corpus
 * at random from a fixed seed, for make check. */
#ifndef CLATTN_TESTS_FUZZ_H
#define CLATTN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program, with the sentence, where it does not hold. */
void fuzz_must(int holds, const char *sentence);

/* The path of a file of these bytes, which it has until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);

/* Bytes that are taken from the front; behind the end all are 0. */
struct fuzz_bytes {
    const uint8_t *at, *end;
};
unsigned fuzz_byte(struct fuzz_bytes *bytes);

/* Small numbers mostly, and those around which arithmetic breaks. */
int64_t fuzz_number(struct fuzz_bytes *bytes);
double fuzz_real(struct fuzz_bytes *bytes);

#endif
