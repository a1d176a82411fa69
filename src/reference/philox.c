/* Philox 4x32-10, from the paper's definition (its figure of the round function and its table of
 * constants). */
#include "reference/philox.h"

static void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
    uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

void philox_4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4])
{
    uint32_t c[4] = { counter[0], counter[1], counter[2], counter[3] };
    uint32_t k[2] = { key[0], key[1] };
    for (int round = 0; round < 10; ++round) {
        uint32_t high0, low0, high1, low1;
        multiply(0xD2511F53u, c[0], &high0, &low0);
        multiply(0xCD9E8D57u, c[2], &high1, &low1);
        c[0] = high1 ^ c[1] ^ k[0];
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k[1];
        c[3] = low0;
        k[0] += 0x9E3779B9u; /* the golden ratio */
        k[1] += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    for (int i = 0; i < 4; ++i) {
        result[i] = c[i];
    }
}
