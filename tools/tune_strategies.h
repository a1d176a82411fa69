/* Which strategy is the fastest for one problem (--bits), for tune.c. */
#ifndef CLATTN_TOOLS_TUNE_STRATEGIES_H
#define CLATTN_TOOLS_TUNE_STRATEGIES_H

#include "tune.h"
#include "tune_run.h"

/* Sets tuned->of_strategy and tuned->other_strategy, and adds to the counts. What the context knew of the problem's
 * strategy is left out of it. */
int tune_strategies(struct tune_run *run, double deadline, struct tuned *tuned, struct failure *failure);

#endif
