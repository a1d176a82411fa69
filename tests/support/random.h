/* Random numbers for tests: the same on every machine, from a seed and an index. */
#ifndef CLATTN_TESTS_SUPPORT_RANDOM_H
#define CLATTN_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/* The sequence number `index` of a seed; sequences do not overlap in practice. */
struct random random_start(uint64_t seed, uint64_t index);

uint64_t random_bits(struct random *random);
double random_unit(struct random *random);                                /* in [0, 1) */
int64_t random_between(struct random *random, int64_t low, int64_t high); /* both included */
int random_chance(struct random *random, double probability);
double random_normal(struct random *random);

#endif
