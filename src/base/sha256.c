/* SHA-256 as FIPS 180-4 defines it; its names: a to h, the schedule w, the constants k. */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned bits)
{
    return x >> bits | x << (32 - bits);
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (int t = 0; t < 16; ++t) {
        const unsigned char *at = block + 4 * t;
        w[t] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (int t = 16; t < 64; ++t) {
        uint32_t s0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; ++t) {
        uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + k[t] + w[t];
        uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t sum[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; ++i) {
        state[i] += sum[i];
    }
}

void sha256_begin(struct sha256 *sha256)
{
    /* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    memcpy(sha256->state, start, sizeof(start));
    sha256->length_bytes = 0;
}

void sha256_add(struct sha256 *sha256, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    size_t filled = sha256->length_bytes % 64;
    sha256->length_bytes += size;
    if (filled > 0) {
        size_t taken = size < 64 - filled ? size : 64 - filled;
        memcpy(sha256->block + filled, bytes, taken);
        bytes += taken, size -= taken;
        if (filled + taken < 64) {
            return;
        }
        add_block(sha256->state, sha256->block);
    }
    for (; size >= 64; bytes += 64, size -= 64) {
        add_block(sha256->state, bytes);
    }
    if (size > 0) {
        memcpy(sha256->block, bytes, size);
    }
}

void sha256_end(struct sha256 *sha256, unsigned char digest[SHA256_BYTES])
{
    static const unsigned char padding[64] = { 0x80 };
    unsigned char bits[8];
    for (int i = 0; i < 8; ++i) {
        bits[i] = (unsigned char)(sha256->length_bytes * 8 >> (56 - 8 * i));
    }
    sha256_add(sha256, padding, 1 + (119 - sha256->length_bytes % 64) % 64);
    sha256_add(sha256, bits, sizeof(bits));
    for (int i = 0; i < SHA256_BYTES; ++i) {
        digest[i] = (unsigned char)(sha256->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}
