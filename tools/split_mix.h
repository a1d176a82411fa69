/* SplitMix64's mixing of a number (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): of
 * neighbouring multiples of SPLIT_MIX_STEP numbers that look random. */
#ifndef CLATTN_TOOLS_SPLIT_MIX_H
#define CLATTN_TOOLS_SPLIT_MIX_H

#include <stdint.h>

#define SPLIT_MIX_STEP 0x9e3779b97f4a7c15u

static inline uint64_t split_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
