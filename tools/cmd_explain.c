/* clattn explain: which strategy a problem would take, and why each other one declined. */
#include <stdio.h>

#include "commands.h"
#include "library.h"
#include "problem_options.h"
#include "progress.h"

static int run(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_context *context;
    clattn_plan *plan;
    clattn_status status;
    if (problem_without_data_read(options, &problem, failure) != 0) {
        return -1;
    }
    if (library_open(options, &context, failure) != 0) {
        return -1;
    }
    progress_begin("explain", "compiling kernels");
    status = clattn_plan_create(context, &problem, &plan);
    progress_end();
    if (status == CLATTN_OK) {
        fputs(clattn_plan_explain(plan), stdout);
        clattn_plan_destroy(plan);
    } else {
        library_failure(options, status, failure);
    }
    clattn_context_destroy(context);
    return status == CLATTN_OK ? 0 : -1;
}

static const struct option_group groups[] = {
    { "The problem",
      { OPTION_SHAPE, OPTION_TYPE, OPTION_CAUSAL, OPTION_ALIGN, OPTION_WINDOW, OPTION_ALWAYS, OPTION_MASK_KIND,
        OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_KEY_LENGTHS, OPTION_PAGE_SIZE, OPTION_WITH_SINKS,
        OPTION_WITH_VARLEN, OPTION_WITH_LSE, OPTION_WITH_WEIGHTS } },
    { "How", { OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_explain = {
    "explain",
    "Tells which strategy a problem takes on a device, its tiles and its workspace, and why each "
    "other "
    "strategy was not taken.",
    "--shape B,HQ,HKV,LQ,LK,D[,DV] [OPTION]...",
    NULL,
    groups,
    "Example:\n  clattn explain --shape 1,32,8,1024,1024,128 --causal top-left --dtype f16\n",
    run,
};
