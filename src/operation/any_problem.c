/* Problems of any operation: what the operation's row says of them is asked here. */
#include "operation/any_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

clattn_status problem_set_strategy(struct any_problem *problem, const char *strategy)
{
    const size_t length = strategy ? strlen(strategy) : 0;
    if (strategy && (length == 0 || length >= STRATEGY_NAME_MAX)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "strategy \"%.64s\": is not the name of a strategy", strategy);
    }
    memset(problem->strategy_name, 0, sizeof(problem->strategy_name));
    if (strategy) {
        memcpy(problem->strategy_name, strategy, length);
    }
    return CLATTN_OK;
}

int problem_equal(const struct any_problem *a, const struct any_problem *b)
{
    return a->operation == b->operation && strcmp(a->strategy_name, b->strategy_name) == 0 && a->operation->equal(a, b);
}

uint32_t problem_flags(const struct any_problem *problem)
{
    return problem->operation->flags ? problem->operation->flags(problem) : 0;
}

struct any_problem *problem_copy(const struct any_problem *problem)
{
    struct any_problem *copy = malloc(problem->operation->problem_bytes);
    return copy ? memcpy(copy, problem, problem->operation->problem_bytes) : NULL;
}

void problem_describe(const struct any_problem *problem, char *line, size_t line_size)
{
    struct text text = TEXT_INIT;
    problem->operation->describe(problem, &text);
    snprintf(line, line_size, "%s", text.data ? text.data : "");
    text_free(&text);
}
