/* Whole calls against the reference by the error bound (tolerance.h) and by R (ratio.h), and what a run of them
 * comes to: figures of each strategy and type. */
#ifndef CLATTN_TESTS_SUPPORT_JUDGE_H
#define CLATTN_TESTS_SUPPORT_JUDGE_H

#include <stdio.h>

#include "device_options.h"
#include "ratio.h"

#define JUDGE_TYPES (CLATTN_FLOAT64 + 1)

/* What one strategy has come to in one type. */
struct judge_figures {
    double c_out, c_lse, c_weights;
    char c_out_at[96], worst_at[96]; /* the calls of c_out and of the largest R */
    struct ratio_figures ratio;
    int64_t calls, offered, declined;
};

struct judge {
    const struct device_options *options; /* the strategies */
    clattn_context *context;
    struct judge_figures figures[OPTIONS_STRATEGIES_MAX][JUDGE_TYPES];
    int64_t passed, failed, skipped;
    int one_call;  /* was asked for: strategies may decline it */
    FILE *digests; /* NULL: none; a line a call and strategy: call, type, strategy, a hash of the outputs' bits */
};

struct judged_call {
    struct test_call *test;
    const char *name;  /* of the call */
    const char *again; /* the command that repeats it, but for --strategy and --type */
    int by_ratio;      /* R is judged too: values are finite, and fit the type with room */
    int blocks;        /* takes the blocking call */
};

/* Runs a call with every strategy; a failure prints the command that repeats it. */
void judge_call(struct judge *judge, const struct judged_call *call);

/* A strategy that declined every call of a type which it takes was not tested in it. judge_unserved finds the next such
 * after strategy *s and type *type (both start at 0; 0: there are no more), and judge_serve runs a call with that
 * strategy alone, if it takes it. Those that stay are failures, which judge_print prints. */
int judge_unserved(struct judge *judge, int *s, clattn_type *type);
int judge_serve(struct judge *judge, const struct judged_call *call, int s);

/* How many calls strategies declined. */
int64_t judge_declined(const struct judge *judge);

/* Digests go to this file; NULL: nowhere. Two versions of the library agree to the last bit where their files do.
 * 0, or -1 and a message. judge_end closes it. */
int judge_write_digests(struct judge *judge, const char *path);

/* Reports a call that failed before or beside it. */
void judge_report(struct judge *judge, const struct judged_call *call, const char *strategy, const char *what);

/* Prints the figures, and judges those that many calls make together. */
void judge_print(struct judge *judge);

/* Prints the counts; returns the exit status. */
int judge_end(const struct judge *judge);

#endif
