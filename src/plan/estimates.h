/* What the planner thought of each strategy of a problem's operation: it lives on in the plan. */
#ifndef CLATTN_SRC_ESTIMATES_H
#define CLATTN_SRC_ESTIMATES_H

#include "base/text.h"

struct strategy;

struct estimate {
    const struct strategy *strategy;
    int was_asked; /* 0: another one was asked for by name */
    int takes;     /* the problem, at this cost: */
    double cost_ms;
    struct text declined; /* else why */
};

struct estimates {
    struct estimate *list; /* in the table's order */
    size_t count;
};

/* Room for all strategies; those that were there are gone. -1: out of memory. */
int estimates_begin(struct estimates *estimates);

/* One more, which was not asked yet. */
struct estimate *estimates_add(struct estimates *estimates, const struct strategy *strategy);

/* A line for each but the one that is taken: those that were not asked or declined, then by how much slower. */
void estimates_describe(const struct estimates *estimates, const struct estimate *taken, struct text *text);

void estimates_free(struct estimates *estimates);

#endif
