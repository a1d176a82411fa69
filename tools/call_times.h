/* Times of a number of calls. */
#ifndef CLATTN_TOOLS_CALL_TIMES_H
#define CLATTN_TOOLS_CALL_TIMES_H

struct times {
    double min_ms, median_ms;
};

/* Sorts them; n > 0. */
struct times times_of(double *ms, int n);

#endif
