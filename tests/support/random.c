/* SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). */
#include "random.h"

#include <math.h>

uint64_t random_bits(struct random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct random random_start(uint64_t seed, uint64_t index)
{
    struct random of_seed = { seed }, random = { index ^ random_bits(&of_seed) };
    random.state = random_bits(&random);
    return random;
}

double random_unit(struct random *random)
{
    return (double)(random_bits(random) >> 11) * 0x1p-53;
}

int64_t random_between(struct random *random, int64_t low, int64_t high)
{
    return low + (int64_t)(random_bits(random) % (uint64_t)(high - low + 1));
}

int random_chance(struct random *random, double probability)
{
    return random_unit(random) < probability;
}

/* Box and Muller, one of the two. */
double random_normal(struct random *random)
{
    double radius = sqrt(-2 * log(1 - random_unit(random)));
    return radius * cos(6.283185307179586 * random_unit(random));
}
