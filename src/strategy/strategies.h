/* The strategies, one variable each; strategies.c lists them. */
#ifndef CLATTN_SRC_STRATEGIES_H
#define CLATTN_SRC_STRATEGIES_H

#include "plan/strategy.h"

extern const struct strategy strategy_plain;
extern const struct strategy strategy_split;
extern const struct strategy strategy_split_simt;
extern const struct strategy strategy_fused_mma;
extern const struct strategy strategy_fused_amx;
extern const struct strategy strategy_fused_simd;
extern const struct strategy strategy_fused_simt;
extern const struct strategy strategy_staged;
extern const struct strategy strategy_rotary;
extern const struct strategy strategy_append;
extern const struct strategy strategy_backward_plain;
extern const struct strategy strategy_backward_amx;
extern const struct strategy strategy_backward_simd;
extern const struct strategy strategy_backward_simt;
extern const struct strategy strategy_backward_mma;

#endif
