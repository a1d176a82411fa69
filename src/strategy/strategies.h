/* The strategies: struct strategy strategy_NAME of each. A new one is a file in src/strategy/ and a line here. */
#ifndef CLATTN_SRC_STRATEGIES_H
#define CLATTN_SRC_STRATEGIES_H

#include "plan/strategy.h"

/* In the order in which they are asked; of the equally fast the first is taken. */
#define STRATEGIES(S)                                                                                                  \
    S(plain)                                                                                                           \
    S(split)                                                                                                           \
    S(split_simt)                                                                                                      \
    S(fused_amx)                                                                                                       \
    S(fused_simd)                                                                                                      \
    S(fused_simt)                                                                                                      \
    S(fused_mma)                                                                                                       \
    S(fused_wgmma)                                                                                                     \
    S(staged)                                                                                                          \
    S(rotary)                                                                                                          \
    S(append)                                                                                                          \
    S(block_mask)                                                                                                      \
    S(backward_plain)                                                                                                  \
    S(backward_amx)                                                                                                    \
    S(backward_simd)                                                                                                   \
    S(backward_simt)                                                                                                   \
    S(backward_mma)                                                                                                    \
    S(backward_wgmma)                                                                                                  \
    S(key_sums_plain)                                                                                                  \
    S(key_sums_simd)                                                                                                   \
    S(key_sums_simt)

#define STRATEGY_DECLARED(name) extern const struct strategy strategy_##name;
STRATEGIES(STRATEGY_DECLARED)

#endif
