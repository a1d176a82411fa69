/* The search for what is the fastest for one problem, for `clattn tune`.
 *
 * Tiles: coordinate descent from the tuning table's tile, then those that are left, in a shuffled order. A candidate is
 * one that the strategy declares legal. It counts when its result has the bits of the table's tile, whose result is
 * checked against the float64 reference, and when it is 3 % faster than the best one so far in both halves of a run in
 * turns. Strategies (--bits): each that takes the problem, checked against the float64 reference, by the same rule of
 * 3 %. */
#ifndef CLATTN_TOOLS_TUNE_H
#define CLATTN_TOOLS_TUNE_H

#include <signal.h>

#include "failure.h"
#include "insides.h"
#include "options.h"

#define TUNE_GAIN_LEAST 1.03 /* less is noise */

/* Ends the search when it is set, by a signal handler for one: what was found so far stands. */
extern volatile sig_atomic_t tune_stopped;

/* A choice of one kind, a tile or a strategy, and what came of it. */
struct tuned_choice {
    int was_made;            /* 0: there is nothing to choose, and nothing below is set */
    int is_learned;          /* 0: none was faster than what is taken without wisdom */
    struct wisdom_fact fact; /* the class, and, where it is learned, the choice and both times */
};

struct tuned {
    char strategy[64]; /* that is to be taken; that is taken without what was learned */
    char other_strategy[64];
    struct tuned_choice tile, of_strategy;
    struct wisdom_tile table; /* the tuning table's tile */
    double gain;              /* of both choices, against none; only tune_verify sets it */
    int tried, possible;      /* tiles that ran, of those that are legal */
    int strategies_tried;
    int rejected; /* of all that ran: were wrong, or gave other bits */
};

/* How far a search goes. */
struct tune_extent {
    int bits;        /* strategies too */
    int of_all;      /* after the descent, the tiles that are left */
    double deadline; /* of clock_seconds() */
};

/* `name` is the problem's, for messages. What the context knew of the problem's tile, and with extent->bits of its
 * strategy, is left out of it. */
int tune_problem(const struct options *options, const clattn_problem *problem, clattn_context *context,
                 const struct tune_extent *extent, const char *name, struct tuned *tuned, struct failure *failure);

/* No search: what the context knows, in turns with what is taken without wisdom. was_made is 0 where it knows
 * nothing. */
int tune_verify(const struct options *options, const clattn_problem *problem, clattn_context *context,
                struct tuned *tuned, struct failure *failure);

#endif
