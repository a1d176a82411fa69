/* The table of strategies. */
#include "strategy/strategies.h"

#define STRATEGY_LISTED(name) &strategy_##name,

const struct strategy *const strategy_table[] = { STRATEGIES(STRATEGY_LISTED) };

const size_t strategy_count = sizeof(strategy_table) / sizeof(strategy_table[0]);
