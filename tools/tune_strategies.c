/* Which strategy is the fastest for one problem. */
#include "tune_strategies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "insides.h"
#include "progress.h"

#define STRATEGIES_MOST 16
#define FEW_ROWS 64 /* query rows of the trial of one head */
#define HOPELESS 8  /* times as slow as the best one of the trials */

static struct wisdom_fact fact_of(const char *strategy, const clattn_problem *problem)
{
    return (struct wisdom_fact){ .of = tune_strategy_class(strategy, problem), .table_ns = 1, .tuned_ns = 1 };
}

/* A plan by this strategy, called and timed; candidate->plan is NULL where the strategy does not take the problem, or
 * gives a wrong result, which is counted. */
static int make_by(struct tune_run *run, const struct strategy *strategy, struct candidate *candidate,
                   struct tuned *tuned, struct failure *failure)
{
    const struct wisdom_fact fact = fact_of(strategy->name, run->problem);
    int is_right = 0;
    double ms;
    if (candidate_make(run, &fact, 1, candidate, failure) != 0 || candidate->plan->strategy != strategy ||
        tune_outputs_right(run, candidate, &is_right, failure) != 0 || !is_right) {
        tuned->rejected += candidate->plan != NULL && candidate->plan->strategy == strategy;
        candidate_free(candidate);
        return 0;
    }
    return candidate_time(run, candidate, &ms, failure);
}

/* One head and few rows tell which strategies are hopeless, where all would take minutes. A time stays 0
 * where one does not take the problem. */
static int try_few(const struct tune_run *run, double trial_ms[STRATEGIES_MOST], struct tuned *tuned,
                   struct failure *failure)
{
    clattn_problem few = *run->problem;
    struct tune_run trial = { .options = run->options, .problem = &few, .context = run->context };
    few.query_heads = few.kv_heads > 0 ? few.query_heads / few.kv_heads : 1;
    few.kv_heads = few.batch = 1;
    few.query_len = few.query_len < FEW_ROWS ? few.query_len : FEW_ROWS;
    int result = tune_run_make(&trial, failure);
    for (size_t i = 0; i < strategy_count && i < STRATEGIES_MOST && result == 0 && !tune_stopped; i++) {
        struct candidate candidate = { 0 };
        if (strategy_table[i]->operation != &operation_forward) {
            continue;
        }
        progress_line("tune", strategy_table[i]->name);
        result = make_by(&trial, strategy_table[i], &candidate, tuned, failure);
        trial_ms[i] = candidate.best_ms;
        candidate_free(&candidate);
    }
    tune_run_free(&trial);
    return result;
}

/* Takes the place of the best where it is faster. */
static int try_strategy(struct tune_run *run, const struct strategy *strategy, struct candidate *best,
                        struct tuned *tuned, struct failure *failure)
{
    struct candidate candidate = { 0 };
    double gain = 0;
    int result = make_by(run, strategy, &candidate, tuned, failure);
    tuned->strategies_tried++;
    if (result == 0 && candidate.plan) {
        result = candidate_gain(run, best, &candidate, TUNE_GAIN_LEAST, &gain, failure);
    }
    if (result == 0 && gain >= TUNE_GAIN_LEAST) {
        candidate_free(best);
        *best = candidate;
        return 0;
    }
    candidate_free(&candidate);
    return result;
}

static int try_all(struct tune_run *run, const double trial_ms[STRATEGIES_MOST], double deadline,
                   struct candidate *best, struct tuned *tuned, struct failure *failure)
{
    double least_ms = INFINITY;
    int result = 0;
    for (int i = 0; i < STRATEGIES_MOST; i++) {
        least_ms = trial_ms[i] > 0 ? fmin(least_ms, trial_ms[i]) : least_ms;
    }
    for (size_t i = 0; i < strategy_count && i < STRATEGIES_MOST && result == 0; i++) {
        if (!(trial_ms[i] > 0) || trial_ms[i] > HOPELESS * least_ms || strategy_table[i] == best->plan->strategy ||
            tune_stopped || clock_seconds() >= deadline) {
            continue;
        }
        progress_line("tune", strategy_table[i]->name);
        result = try_strategy(run, strategy_table[i], best, tuned, failure);
    }
    return result;
}

int tune_strategies(struct tune_run *run, double deadline, struct tuned *tuned, struct failure *failure)
{
    struct candidate expected = { 0 }, best = { 0 };
    double trial_ms[STRATEGIES_MOST] = { 0 }, ms;
    struct wisdom_fact fact = fact_of("", run->problem);
    wisdom_forget(run->context->wisdom, &fact.of);
    int result = try_few(run, trial_ms, tuned, failure);
    if (result == 0 && (result = candidate_make(run, NULL, 0, &expected, failure)) == 0 &&
        (result = candidate_make(run, NULL, 0, &best, failure)) == 0 &&
        (result = candidate_time(run, &expected, &ms, failure)) == 0) {
        result = try_all(run, trial_ms, deadline, &best, tuned, failure);
    }
    if (result == 0) {
        snprintf(tuned->other_strategy, sizeof tuned->other_strategy, "%s", expected.plan->strategy->name);
        tuned->of_strategy.was_made = 1;
        tuned->of_strategy.is_learned = best.plan->strategy != expected.plan->strategy;
        tuned->of_strategy.fact = fact_of(best.plan->strategy->name, run->problem);
        tuned->of_strategy.fact.table_ns = candidate_ns(&expected);
        tuned->of_strategy.fact.tuned_ns = candidate_ns(&best);
    }
    candidate_free(&expected);
    candidate_free(&best);
    return result;
}
