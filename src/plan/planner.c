/* From a problem to a plan: each strategy of the table is asked, one is taken, the rest is explained. */
#include "plan/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "operation/forward.h"
#include "operation/problem.h"
#include "plan/ladder.h"

struct choice {
    const struct strategy *strategy;
    double cost_ms;
    const struct wisdom_fact *fact; /* that told which; NULL: none */
};

static const char *time_text(double ms, char *text, size_t size)
{
    snprintf(text, size, ms < 1000 ? "%.3g ms" : "%.3g s", ms < 1000 ? ms : ms / 1000);
    return text;
}

/* Walks the table. `others` gets a line for each strategy that was not taken. */
static struct choice walk(const clattn_context *context, const struct any_problem *problem, struct text *others)
{
    struct choice best = { NULL, 0, NULL };
    const char *wanted = problem->strategy_name[0] ? problem->strategy_name : NULL;
    double *costs = calloc(strategy_count, sizeof(*costs));
    for (size_t i = 0; costs && i < strategy_count; ++i) {
        const struct strategy *s = strategy_table[i];
        struct text why = TEXT_INIT;
        costs[i] = -1;
        if (s->operation != problem->operation) {
            continue;
        }
        if (wanted && strcmp(wanted, s->name) != 0) { /* not even asked: that may run a probe */
            text_append(others, "  %s: not asked for\n", s->name);
        } else if (!s->applicable(context, problem, &why)) {
            text_append(others, "  %s: declined: %s\n", s->name, why.data ? why.data : "no reason given");
        } else {
            costs[i] = s->cost_ms(context, problem);
            if (!best.strategy || costs[i] < best.cost_ms) {
                best = (struct choice){ s, costs[i], NULL };
            }
        }
        text_free(&why);
    }
    for (size_t i = 0; costs && i < strategy_count; ++i) {
        if (costs[i] >= 0 && strategy_table[i] != best.strategy) {
            char time[32], best_time[32];
            text_append(others, "  %s: expected to be slower (%s, against %s)\n", strategy_table[i]->name,
                        time_text(costs[i], time, sizeof(time)), time_text(best.cost_ms, best_time, sizeof(best_time)));
        }
    }
    others->failed |= costs == NULL;
    free(costs);
    return best;
}

/* The strategy that the problem asks for, of its operation's. */
static const struct strategy *strategy_wanted(const struct any_problem *problem)
{
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strategy_table[i]->operation == problem->operation &&
            strcmp(strategy_table[i]->name, problem->strategy_name) == 0) {
            return strategy_table[i];
        }
    }
    return NULL;
}

static clattn_status unknown_strategy(const struct any_problem *problem)
{
    struct text names = TEXT_INIT;
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strategy_table[i]->operation == problem->operation) {
            text_append(&names, "%s%s", names.length ? ", " : "", strategy_table[i]->name);
        }
    }
    clattn_status status = error_set(CLATTN_INVALID_ARGUMENT, "strategy \"%s\": there is none; there are: %s",
                                     problem->strategy_name, names.data ? names.data : "none");
    text_free(&names);
    return status;
}

/* The reason of the one that was asked for, or of all; without the end of the last line. */
static clattn_status nothing_takes(const clattn_context *context, const struct any_problem *problem,
                                   const struct text *others)
{
    struct text why = TEXT_INIT;
    clattn_status status;
    if (problem->strategy_name[0]) {
        strategy_wanted(problem)->applicable(context, problem, &why);
        status = error_set(CLATTN_UNSUPPORTED, "strategy \"%s\" cannot take this problem on device \"%s\": %s",
                           problem->strategy_name, context->device.name, why.data ? why.data : "");
    } else {
        status = error_set(CLATTN_UNSUPPORTED, "no strategy takes this problem on device \"%s\":\n%.*s",
                           context->device.name, others->length ? (int)others->length - 1 : 0,
                           others->data ? others->data : "");
    }
    text_free(&why);
    return status;
}

/* What wisdom has to say of strategies: a fact of `clattn tune --bits`. It counts as if that strategy was asked for,
 * where it takes the problem; `best` is left alone else. */
static clattn_status ask_wisdom(const clattn_context *context, const struct any_problem *problem, struct text *others,
                                struct choice *best)
{
    if (problem->operation != &operation_forward || problem->strategy_name[0]) {
        return CLATTN_OK;
    }
    const struct wisdom_class of = wisdom_strategy_class_of("", &attention_problem(problem)->p);
    const struct wisdom_fact *fact = wisdom_find(context->wisdom, &of);
    struct any_problem *asked = fact ? problem_copy(problem) : NULL;
    if (!asked) {
        return fact ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan") : CLATTN_OK;
    }
    if (strlen(fact->of.name) < sizeof(asked->strategy_name)) {
        memcpy(asked->strategy_name, fact->of.name, strlen(fact->of.name) + 1);
        *best = walk(context, asked, others);
        best->fact = fact;
    }
    free(asked);
    return CLATTN_OK;
}

/* A strategy for the problem. What memory lacked for a probe must not decide: the next plan would be another. */
static clattn_status choose(const clattn_context *context, const struct any_problem *problem, int without_wisdom,
                            struct text *others, struct choice *best)
{
    ladder_answered(); /* what was asked before is not asked here */
    clattn_status status = without_wisdom ? CLATTN_OK : ask_wisdom(context, problem, others, best);
    if (status == CLATTN_OK && !best->strategy) {
        text_free(others);
        *best = walk(context, problem, others);
    }
    const clattn_status answered = ladder_answered();
    status = status == CLATTN_OK ? answered : status;
    if (status == CLATTN_OK && others->failed) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    return status == CLATTN_OK && !best->strategy ? nothing_takes(context, problem, others) : status;
}

static clattn_status check_memory(const struct clattn_plan *plan)
{
    const struct device *device = &plan->context->device;
    if (plan->workspace_bytes > device->allocation_bytes || plan->workspace_bytes > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "workspace of %zu bytes: the device allows %llu bytes in one buffer and has %llu "
                         "in all; lower workspace_limit_bytes or choose another strategy",
                         plan->workspace_bytes, (unsigned long long)device->allocation_bytes,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

/* The text of clattn_plan_explain. `fact`: what told the strategy, or NULL. */
static void explain_begin(struct text *text, const struct clattn_plan *plan, const struct wisdom_fact *fact)
{
    char line[512];
    problem_describe(plan->problem, line, sizeof(line));
    text_append(text, "problem: %s\n", line);
    text_append(text, "device: %s (%s)\n", plan->context->device.name, plan->context->device.platform_name);
    text_append(text, "strategy: %s (%s)\n", plan->strategy->name, plan->strategy->summary);
    if (fact) {
        text_append(text,
                    "  strategy from: wisdom, measured %.2f times as fast as the one that is expected to be the "
                    "fastest; bits may differ from that one's\n",
                    (double)fact->table_ns / (double)fact->tuned_ns);
    }
}

/* *took_wisdom: the plan would be another one without it, whether there is one in the end or not. */
static clattn_status plan_once(clattn_context *context, const struct any_problem *problem, int without_wisdom,
                               int *took_wisdom, struct clattn_plan **result)
{
    struct text others = TEXT_INIT, explain = TEXT_INIT;
    struct clattn_plan *plan = NULL;
    struct choice best = { NULL, 0, NULL };
    clattn_status status = choose(context, problem, without_wisdom, &others, &best);
    *took_wisdom = best.fact != NULL;
    if (status == CLATTN_OK && (!(plan = calloc(1, sizeof(*plan))) || !(plan->problem = problem_copy(problem)))) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    if (status == CLATTN_OK) {
        plan->context = context;
        plan->strategy = best.strategy;
        plan->without_wisdom = without_wisdom;
        explain_begin(&explain, plan, best.fact);
        problem_set_strategy(plan->problem, best.strategy->name); /* as if it was asked for, which some look at */
        status = plan->strategy->plan(plan, &explain);
        memcpy(plan->problem->strategy_name, problem->strategy_name, sizeof(problem->strategy_name));
        *took_wisdom |= plan->took_wisdom;
    }
    if (status == CLATTN_OK) {
        status = ladder_answered(); /* tiles may rest on a probe too */
    }
    if (status == CLATTN_OK) {
        status = check_memory(plan);
    }
    if (status == CLATTN_OK) {
        text_append(&explain, "workspace: %zu bytes\nother strategies:\n%s", plan->workspace_bytes,
                    others.data ? others.data : "  none\n");
        plan->explain = text_take(&explain);
        if (!plan->explain) {
            status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan's explanation");
        }
    }
    text_free(&others);
    text_free(&explain);
    if (status != CLATTN_OK) {
        planner_destroy(plan);
        return status;
    }
    *result = plan;
    return CLATTN_OK;
}

clattn_status planner_plan(clattn_context *context, const struct any_problem *problem, struct clattn_plan **result)
{
    int took_wisdom;
    if (problem->strategy_name[0] && !strategy_wanted(problem)) {
        return unknown_strategy(problem);
    }
    const clattn_status status = plan_once(context, problem, 0, &took_wisdom, result);
    /* Wisdom may cost time, never a result: what it proposed was refused by the compiler, for one. */
    return status != CLATTN_OK && took_wisdom ? plan_once(context, problem, 1, &took_wisdom, result) : status;
}

void planner_destroy(struct clattn_plan *plan)
{
    if (!plan) {
        return;
    }
    if (plan->strategy) {
        plan->strategy->destroy(plan);
    }
    free(plan->problem);
    free(plan->explain);
    free(plan);
}
