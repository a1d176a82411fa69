/* The table of strategies. A new one is a file in src/strategy/, a line in its header, a line here. */
#include "strategy/strategies.h"

const struct strategy *const strategy_table[] = {
    &strategy_plain,         &strategy_split,         &strategy_split_simt,     &strategy_fused_amx,
    &strategy_fused_simd,    &strategy_fused_simt,    &strategy_fused_mma,      &strategy_staged,
    &strategy_rotary,        &strategy_append,        &strategy_backward_plain, &strategy_backward_amx,
    &strategy_backward_simd, &strategy_backward_simt, &strategy_backward_mma,
};

const size_t strategy_count = sizeof(strategy_table) / sizeof(strategy_table[0]);
