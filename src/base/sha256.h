/* SHA-256 (FIPS 180-4), for the names and contents of program files. */
#ifndef CLATTN_SRC_SHA256_H
#define CLATTN_SRC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    uint32_t state[8];
    uint64_t length_bytes;
    unsigned char block[64]; /* the last length_bytes % 64 bytes */
};

void sha256_begin(struct sha256 *sha256);
void sha256_add(struct sha256 *sha256, const void *data, size_t size);
void sha256_end(struct sha256 *sha256, unsigned char digest[SHA256_BYTES]);

#endif
