/* Problems of any operation: what the operation's row says of them is asked here. */
#include "operation/any_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "base/text.h"

clattn_status any_problem_init(struct any_problem *problem, const struct operation *operation, const void *given)
{
    char *own = (char *)problem;
    const char *strategy = NULL;
    memset(problem, 0, operation->problem_bytes);
    problem->operation = operation;
    clattn_status status = growth_copy(operation->given, given, own + operation->given_at);
    memcpy(&strategy, own + operation->strategy_at, sizeof(strategy));
    if (status == CLATTN_OK) {
        status = operation->resolve(problem);
    }
    if (status == CLATTN_OK) {
        status = problem_set_strategy(problem, strategy);
    }
    memset(own + operation->strategy_at, 0, sizeof(strategy)); /* the caller's memory; strategy_name has it */
    if (status != CLATTN_OK) {
        problem_release(problem);
    }
    return status;
}

clattn_status any_problem_new(const struct operation *operation, const void *given, struct any_problem **result)
{
    struct any_problem *problem = malloc(operation->problem_bytes);
    if (!problem) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a problem");
    }
    const clattn_status status = any_problem_init(problem, operation, given);
    if (status != CLATTN_OK) {
        problem_free(problem);
        return status;
    }
    *result = problem;
    return CLATTN_OK;
}

struct any_problem *problem_copy(const struct any_problem *problem)
{
    struct any_problem *copy = malloc(problem->operation->problem_bytes);
    if (copy) {
        memcpy(copy, problem, problem->operation->problem_bytes);
        user_code_keep(copy->code);
    }
    return copy;
}

void problem_release(struct any_problem *problem)
{
    user_code_free(problem->code);
    problem->code = NULL;
}

void problem_free(struct any_problem *problem)
{
    if (problem) {
        problem_release(problem);
    }
    free(problem);
}

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
    return a->operation == b->operation && strcmp(a->strategy_name, b->strategy_name) == 0 &&
           user_code_equal(a->code, b->code) && a->operation->equal(a, b);
}

uint32_t problem_flags(const struct any_problem *problem)
{
    return problem->operation->flags ? problem->operation->flags(problem) : 0;
}

void problem_describe(const struct any_problem *problem, char *line, size_t line_size)
{
    struct text text = TEXT_INIT;
    problem->operation->describe(problem, &text);
    snprintf(line, line_size, "%s", text.data ? text.data : "");
    text_free(&text);
}
