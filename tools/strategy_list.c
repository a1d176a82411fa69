#include "strategy_list.h"

#include <string.h>

#include "insides.h"

#define STRATEGIES_MOST 32

const char *const *strategy_list_names(void)
{
    static const char *names[STRATEGIES_MOST + 1];
    size_t count = 0;
    for (size_t i = 0; i < strategy_count && count < STRATEGIES_MOST; i++) {
        if (strategy_table[i]->operation == &operation_forward) {
            names[count++] = strategy_table[i]->name;
        }
    }
    names[count] = NULL;
    return names;
}

int strategy_list_computes(const char *name, clattn_type type, int gradients)
{
    const struct operation *operation = gradients ? &operation_backward : &operation_forward;
    for (size_t i = 0; i < strategy_count; i++) {
        if (strategy_table[i]->operation == operation && strcmp(strategy_table[i]->name, name) == 0) {
            return (strategy_table[i]->types & STRATEGY_TYPE(type)) != 0;
        }
    }
    return 0;
}
