/* What a sum of many terms adds to the error bound of docs/numbers.md, whatever the terms are: its c. */
#ifndef CLATTN_SRC_SUM_BOUND_H
#define CLATTN_SRC_SUM_BOUND_H

/* Each of `terms` is rounded as often at most on its way to the result, and as often again in the sum that this is
 * divided by; where terms are many, `roundings` times in all (clattn_plan_sum_roundings). In units of 4 roundings, as
 * the bound is. */
static inline double sum_bound(double terms, double roundings)
{
    const double of_few = terms / 2 + 3;
    return of_few < roundings / 4 ? of_few : roundings / 4;
}

#endif
