/* From a problem to a plan: each strategy of the table is asked, one is taken, the rest is explained. */
#include "plan/planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/error.h"
#include "operation/forward.h"
#include "operation/problem.h"
#include "plan/attention_arguments.h"
#include "plan/code_programs.h"
#include "plan/estimates.h"
#include "plan/ladder.h"
#include "plan/rehearse_plan.h"
#include "plan/self_check.h"

struct choice {
    const struct estimate *taken;   /* NULL: none takes the problem */
    const struct wisdom_fact *fact; /* that told which; NULL: none */
};

/* One way through the table; when its plan may not be used, the next attempt knows. */
struct attempt {
    struct ask ask; /* its failure: of all questions so far */
    int without_wisdom;
    int took_wisdom;      /* the plan would be another one without it, whether there is one in the end or not */
    struct text *refused; /* of each strategy of the table: why the self-check does not let it; "": it does */
    struct text *refused_now;
    struct estimates estimates; /* of the last walk */
};

/* What was asked for must not be ignored, also by kernels that are older than it. */
static int knows_all(struct ask *ask, const struct strategy *strategy)
{
    const uint32_t unknown = problem_flags(ask->problem) & ~strategy->knows;
    if (unknown) {
        ask_declines(ask, "does not know of: ");
        ask->problem->operation->describe_flags(unknown, ask->why);
    }
    return unknown == 0;
}

/* Whether a strategy may be taken: the self-check has not refused it, and it takes the problem. */
static int is_open(struct attempt *attempt, size_t i, int by_name, struct text *why)
{
    struct ask *ask = &attempt->ask;
    ask->by_name = by_name;
    ask->why = why;
    ask->groups = attention_groups(ask->problem, strategy_table[i]);
    const int takes = attempt->refused[i].length > 0
                          ? ask_declines(ask, "self-check: %s", attempt->refused[i].data)
                          : knows_all(ask, strategy_table[i]) && strategy_table[i]->applicable(ask);
    ask->why = NULL;
    return takes;
}

/* Walks the table, and has the cheapest that takes the problem; NULL: of all, else of those that are called `wanted`.
 * `others` gets a line for each strategy that was not taken. */
static struct choice walk(struct attempt *attempt, const char *wanted, struct text *others)
{
    struct choice best = { NULL, NULL };
    if (estimates_begin(&attempt->estimates) != 0) {
        others->failed = 1;
        return best;
    }
    for (size_t i = 0; i < strategy_count; ++i) {
        const struct strategy *s = strategy_table[i];
        if (s->operation != attempt->ask.problem->operation) {
            continue;
        }
        struct estimate *estimate = estimates_add(&attempt->estimates, s);
        estimate->was_asked = !wanted || strcmp(wanted, s->name) == 0; /* else not even asked: that may run a probe */
        if (!estimate->was_asked) {
            continue;
        }
        estimate->takes = is_open(attempt, i, wanted != NULL, &estimate->declined);
        others->failed |= estimate->declined.failed;
        if (estimate->takes) {
            text_free(&estimate->declined); /* why it would not by one way, where it does by another */
            const struct work work = s->work(&attempt->ask);
            estimate->cost_ms = work_ms(&attempt->ask.context->device, &work);
            best.taken = best.taken && best.taken->cost_ms <= estimate->cost_ms ? best.taken : estimate;
        }
    }
    estimates_describe(&attempt->estimates, best.taken, others);
    return best;
}

/* Where the strategy that the problem asks for is, of its operation's; strategy_count: there is none. */
static size_t strategy_wanted(const struct any_problem *problem)
{
    size_t i = 0;
    while (i < strategy_count && (strategy_table[i]->operation != problem->operation ||
                                  strcmp(strategy_table[i]->name, problem->strategy_name) != 0)) {
        ++i;
    }
    return i;
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
static clattn_status nothing_takes(struct attempt *attempt, const struct text *others)
{
    const struct any_problem *problem = attempt->ask.problem;
    const char *device = attempt->ask.context->device.name;
    struct text why = TEXT_INIT;
    clattn_status status;
    if (problem->strategy_name[0]) {
        is_open(attempt, strategy_wanted(problem), 1, &why);
        status = error_set(CLATTN_UNSUPPORTED, "strategy \"%s\" cannot take this problem on device \"%s\": %s",
                           problem->strategy_name, device, why.data ? why.data : "");
    } else {
        status = error_set(CLATTN_UNSUPPORTED, "no strategy takes this problem on device \"%s\":\n%.*s", device,
                           others->length ? (int)others->length - 1 : 0, others->data ? others->data : "");
    }
    text_free(&why);
    return status;
}

/* What wisdom has to say of strategies: a fact of `clattn tune --bits`. It counts as if that strategy was asked for,
 * where it takes the problem; `best` is left alone else. */
static void ask_wisdom(struct attempt *attempt, struct text *others, struct choice *best)
{
    const struct any_problem *problem = attempt->ask.problem;
    if (problem->operation != &operation_forward || problem->strategy_name[0]) {
        return;
    }
    const struct wisdom_class of = wisdom_strategy_class_of("", &attention_problem(problem)->p);
    const struct wisdom_fact *fact = wisdom_find(attempt->ask.context->wisdom, &of);
    if (fact) {
        *best = walk(attempt, fact->of.name, others);
        best->fact = fact;
    }
}

/* A strategy for the problem. What memory lacked for a probe must not decide: the next plan would be another. */
static clattn_status choose(struct attempt *attempt, struct text *others, struct choice *best)
{
    const struct any_problem *problem = attempt->ask.problem;
    if (!attempt->without_wisdom) {
        ask_wisdom(attempt, others, best);
    }
    if (!best->taken) {
        text_free(others);
        *best = walk(attempt, problem->strategy_name[0] ? problem->strategy_name : NULL, others);
    }
    if (attempt->ask.failure == CLATTN_OK && others->failed) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    return attempt->ask.failure == CLATTN_OK && !best->taken ? nothing_takes(attempt, others) : attempt->ask.failure;
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
    code_explain(plan->problem, text);
    text_append(text, "strategy: %s (%s)\n", plan->strategy->name, plan->strategy->summary);
    if (fact) {
        text_append(text,
                    "  strategy from: wisdom, measured %s times as fast as the one that is expected to be the "
                    "fastest; bits may differ from that one's\n",
                    DECIMAL_FIXED(2, (double)fact->table_ns / (double)fact->tuned_ns));
    }
}

/* What calls on host memory do with it. */
static void explain_host_memory(struct text *text, const clattn_context *context)
{
    if (context->sharing_alignment > 0) {
        text_append(text, "host memory: used where it lies, the device shares it (buffers at multiples of %zu bytes)\n",
                    context->sharing_alignment);
    } else {
        text_append(text, "host memory: copied, the device does not share it\n");
    }
}

static void refuse(struct attempt *attempt, const struct clattn_plan *plan, struct text *bad)
{
    for (size_t i = 0; i < strategy_count; ++i) {
        if (strategy_table[i] == plan->strategy) {
            attempt->refused_now = &attempt->refused[i];
            *attempt->refused_now = *bad;
            *bad = (struct text)TEXT_INIT;
        }
    }
}

/* Fills the plan by its strategy, and has it checked. That the self-check refuses it is in `attempt`. What the runtime
 * would compile in the first call comes after the self-check, which marks on disk what it tries. */
static clattn_status fill(struct attempt *attempt, struct clattn_plan *plan, struct text *explain)
{
    struct ask *ask = &attempt->ask;
    struct text bad = TEXT_INIT;
    ask->explain = explain;
    ask->groups = plan->groups = attention_groups(ask->problem, plan->strategy);
    ask->uses = (struct program_uses){ .kernels = TEXT_INIT };
    plan->sum_roundings = plan->strategy->sum_roundings;
    clattn_status status = plan->strategy->plan(ask, plan);
    plan->compile_ms = ask->uses.compile_ms;
    plan->programs = ask->uses.programs;
    if (status == CLATTN_OK) {
        status = ask->failure; /* tiles may rest on a probe too */
    }
    if (status == CLATTN_OK) {
        status = self_check(plan, &ask->uses, explain, &bad);
    } else if (ask->uses.refused) {
        text_append(&bad, "%s", error_text());
    }
    if (bad.length > 0) {
        status = error_set(CLATTN_UNSUPPORTED, "%s: %s", plan->strategy->name, bad.data);
        refuse(attempt, plan, &bad);
    }
    text_free(&bad);
    text_free(&ask->uses.kernels);
    return status == CLATTN_OK ? rehearse_plan(plan) : status;
}

/* An empty plan of the strategy, which fill() fills. NULL: out of memory. */
static struct clattn_plan *plan_new(const struct attempt *attempt, const struct strategy *strategy)
{
    struct clattn_plan *plan = calloc(1, sizeof(*plan));
    if (plan) {
        plan->context = attempt->ask.context;
        plan->strategy = strategy;
        plan->without_wisdom = attempt->without_wisdom;
        plan->problem = problem_copy(attempt->ask.problem);
        plan->state = calloc(1, strategy->state_bytes);
    }
    return plan;
}

static clattn_status plan_once(struct attempt *attempt, struct clattn_plan **result)
{
    struct text others = TEXT_INIT, explain = TEXT_INIT;
    struct clattn_plan *plan = NULL;
    struct choice best = { NULL, NULL };
    attempt->ask.failure = CLATTN_OK;
    clattn_status status = choose(attempt, &others, &best);
    attempt->took_wisdom = best.fact != NULL;
    if (status == CLATTN_OK) {
        plan = plan_new(attempt, best.taken->strategy);
        if (!plan || !plan->problem || !plan->state) {
            status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
        }
    }
    if (status == CLATTN_OK) {
        explain_begin(&explain, plan, best.fact);
        status = fill(attempt, plan, &explain);
        attempt->took_wisdom |= plan->took_wisdom;
    }
    if (status == CLATTN_OK) {
        status = check_memory(plan);
    }
    if (status == CLATTN_OK) {
        explain_host_memory(&explain, attempt->ask.context);
        text_append(&explain, "workspace: %zu bytes\nother strategies:\n%s", plan->workspace_bytes,
                    others.data ? others.data : "  none\n");
        status = text_give(&explain, "a plan's explanation", &plan->explain);
    }
    text_free(&others);
    text_free(&explain);
    if (status != CLATTN_OK) {
        planner_destroy(plan);
        return status;
    }
    plan->estimates = attempt->estimates;
    attempt->estimates = (struct estimates){ NULL, 0 };
    *result = plan;
    return CLATTN_OK;
}

/* Whether what failed leaves another way: without wisdom, which may cost time, never a result (what it proposed was
 * refused by the compiler, for one); without the strategy that the self-check refused. */
static int may_go_on(struct attempt *attempt)
{
    if (attempt->took_wisdom && !attempt->without_wisdom) {
        attempt->without_wisdom = 1;
        if (attempt->refused_now) {
            text_free(attempt->refused_now); /* it was refused with wisdom's tile */
        }
        return 1;
    }
    return attempt->refused_now != NULL;
}

clattn_status planner_plan(clattn_context *context, const struct any_problem *problem, struct clattn_plan **result)
{
    struct attempt attempt = { .ask = { .context = context, .problem = problem } };
    struct error_record before;
    clattn_status status;
    const double start_ms = clock_ms();
    if (problem->strategy_name[0] && strategy_wanted(problem) == strategy_count) {
        return unknown_strategy(problem);
    }
    attempt.refused = calloc(strategy_count, sizeof(*attempt.refused));
    if (!attempt.refused) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    error_save(&before);
    status = code_check(&attempt.ask);
    for (int goes_on = status == CLATTN_OK; goes_on; goes_on = status != CLATTN_OK && may_go_on(&attempt)) {
        attempt.refused_now = NULL;
        status = plan_once(&attempt, result);
    }
    if (status == CLATTN_OK) {
        error_restore(&before);
        (*result)->create_ms = clock_ms() - start_ms;
    }
    for (size_t i = 0; i < strategy_count; ++i) {
        text_free(&attempt.refused[i]);
    }
    estimates_free(&attempt.estimates);
    free(attempt.refused);
    return status;
}

struct ask plan_ask(const struct clattn_plan *plan)
{
    return (struct ask){ .context = plan->context,
                         .problem = plan->problem,
                         .groups = plan->groups,
                         .by_name = plan->problem->strategy_name[0] != 0 };
}

void planner_destroy(struct clattn_plan *plan)
{
    if (!plan) {
        return;
    }
    free(plan->state);
    problem_free(plan->problem);
    free(plan->explain);
    estimates_free(&plan->estimates);
    free(plan);
}
