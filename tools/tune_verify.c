/* What is known of one problem, measured again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "insides.h"
#include "tune.h"
#include "tune_run.h"

/* Results of another strategy must be right by the reference, all others the bits that are there without wisdom. */
static int check_known(struct tune_run *run, const struct candidate *known, int has_strategy, int *is_right,
                       struct failure *failure)
{
    *is_right = tune_outputs_equal(run);
    return has_strategy ? tune_outputs_right(run, known, is_right, failure) : 0;
}

/* A plan with what is known; *is_known is 0 where that makes no difference to it. */
static int make_known(struct tune_run *run, const struct wisdom *known, struct candidate *with, struct tuned *tuned,
                      int *is_known, struct failure *failure)
{
    const struct wisdom_class of = tune_strategy_class("", run->problem);
    *run->context->wisdom = *known;
    if (candidate_make(run, NULL, 0, with, failure) != 0) {
        return -1;
    }
    tuned->tile.was_made = with->plan->took_wisdom;
    tuned->of_strategy.was_made = !run->problem->strategy && wisdom_find(known, &of) != NULL;
    *is_known = tuned->tile.was_made || tuned->of_strategy.was_made;
    snprintf(tuned->strategy, sizeof tuned->strategy, "%s", with->plan->strategy->name);
    return 0;
}

static int verify(struct tune_run *run, const struct wisdom *known, struct tuned *tuned, struct failure *failure)
{
    struct candidate without = { 0 }, with = { 0 };
    int is_known = 0, is_right = 0, result;
    run->context->wisdom->count = 0;
    result = candidate_make(run, NULL, 0, &without, failure);
    if (result == 0 && (result = tune_keep_outputs(run, failure)) == 0) {
        result = make_known(run, known, &with, tuned, &is_known, failure);
    }
    if (result == 0 && is_known) {
        snprintf(tuned->other_strategy, sizeof tuned->other_strategy, "%s", without.plan->strategy->name);
        result = check_known(run, &with, tuned->of_strategy.was_made, &is_right, failure);
        tuned->rejected = !is_right;
        result = result == 0 ? candidate_gain(run, &without, &with, 0, &tuned->gain, failure) : result;
    }
    candidate_free(&without);
    candidate_free(&with);
    return result;
}

int tune_verify(const struct options *options, const clattn_problem *problem, clattn_context *context,
                struct tuned *tuned, struct failure *failure)
{
    struct tune_run run = { .options = options, .problem = problem, .context = context };
    struct wisdom *known = malloc(sizeof *known);
    memset(tuned, 0, sizeof *tuned);
    if (!known) {
        return failure_failed(failure, "out of memory");
    }
    *known = *context->wisdom;
    int result = tune_run_make(&run, failure);
    if (result == 0) {
        result = verify(&run, known, tuned, failure);
    }
    *context->wisdom = *known;
    free(known);
    tune_run_free(&run);
    return result;
}
