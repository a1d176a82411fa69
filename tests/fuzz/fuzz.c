#define _GNU_SOURCE
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_must(int holds, const char *sentence)
{
    if (!holds) {
        fprintf(stderr, "fuzz: does not hold: %s\n", sentence);
        abort();
    }
}

/* ---- files ---- */

/* In memory where the system has such files: a disk would take most of the time. */
static int make_file(void)
{
#ifdef __linux__
    return memfd_create("fuzz", MFD_CLOEXEC);
#else
    char path[] = "/tmp/clattn-fuzz-XXXXXX";
    const int file = mkstemp(path);
    unlink(path);
    return file;
#endif
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[32];
    if (file < 0) {
        file = make_file();
        snprintf(path, sizeof(path), "/dev/fd/%d", file);
    }
    fuzz_must(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
              "the file can be written");
    return path;
}

/* ---- values ---- */

unsigned fuzz_byte(struct fuzz_bytes *bytes)
{
    return bytes->at < bytes->end ? *bytes->at++ : 0;
}

static uint64_t raw(struct fuzz_bytes *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
        value = value << 8 | fuzz_byte(bytes);
    }
    return value;
}

/* 0 to 127 as they are; then 2^n, 2^n - 1, -2^n and 2^n + 1, from 2^7 and by every second n; 255: the next eight
 * bytes. */
int64_t fuzz_number(struct fuzz_bytes *bytes)
{
    const unsigned code = fuzz_byte(bytes);
    if (code < 128) {
        return code;
    }
    if (code == 255) {
        return (int64_t)raw(bytes);
    }
    const uint64_t power = (uint64_t)1 << (7 + (code - 128) / 4 * 2) % 64;
    const uint64_t around[4] = { power, power - 1, ~power + 1, power + 1 };
    return (int64_t)around[code % 4];
}

double fuzz_real(struct fuzz_bytes *bytes)
{
    static const double values[] = { 0, 1, -1, 0.5, 1e-300, 1e300, 3e38, 4e38, 1e-39, (double)INFINITY, (double)NAN };
    const unsigned code = fuzz_byte(bytes);
    double value;
    if (code < 128) {
        return values[code % (sizeof(values) / sizeof(values[0]))];
    }
    const uint64_t bits = raw(bytes);
    memcpy(&value, &bits, sizeof(value));
    return value;
}
