/* One call, every strategy; counts and figures. */
#include "judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device_call.h"

/* One call as it is judged. */
struct trial {
    struct judge *judge;
    const struct judged_call *call;
    struct expected expected;
    double plain_largest; /* error of the plain pipeline */
    uint64_t inputs;      /* their hash */
};

static void print_call(const struct judged_call *call, const char *strategy, const char *verdict, const char *what)
{
    char line[256];
    problem_describe(&call->test->checked.any, line, sizeof(line));
    printf("%s %s\n     %s\n     again: %s --strategy %s --type %s\n", verdict, what, line, call->again, strategy,
           clattn_type_name(call->test->problem.type));
}

void judge_report(struct judge *judge, const struct judged_call *call, const char *strategy, const char *what)
{
    print_call(call, strategy, "FAIL", what);
    ++judge->failed;
}

static void count(struct trial *t, int s, const struct verdict *verdict, const struct ratio *ratio)
{
    struct judge_figures *f = &t->judge->figures[s][t->call->test->problem.type];
    ++t->judge->passed;
    ++f->calls;
    if (verdict->c_out > f->c_out) {
        f->c_out = verdict->c_out;
        snprintf(f->c_out_at, sizeof(f->c_out_at), "%s", t->call->name);
    }
    f->c_lse = fmax(f->c_lse, verdict->c_lse);
    f->c_weights = fmax(f->c_weights, verdict->c_weights);
    if (ratio->largest > f->ratio.worst) {
        snprintf(f->worst_at, sizeof(f->worst_at), "%s", t->call->name);
    }
    ratio_count(&f->ratio, ratio);
}

static void compare(struct trial *t, int s)
{
    const struct test_call *test = t->call->test;
    struct verdict verdict;
    struct ratio ratio = { 0 };
    char text[400] = "";
    tolerance_check(test, &t->expected, &verdict);
    if (t->call->by_ratio) {
        ratio_check(test, &t->expected, t->plain_largest, &ratio);
    }
    if (verdict.wrong) {
        snprintf(text, sizeof(text), "%" PRId64 " elements; %s", verdict.wrong, verdict.first);
    } else if (*ratio.wrong) {
        snprintf(text, sizeof(text), "%s", ratio.wrong);
    } else if (test_call_touched(test)) {
        snprintf(text, sizeof(text), "wrote between the elements of an output");
    } else if (test_call_input_hash(test) != t->inputs) {
        snprintf(text, sizeof(text), "changed an input");
    }
    if (*text) {
        judge_report(t->judge, t->call, strategy_label(t->judge->options->strategies[s]), text);
    } else {
        count(t, s, &verdict, &ratio);
    }
}

/* Every byte of the outputs' memory, poison between the elements included. */
static void write_digest(const struct trial *t, const char *strategy)
{
    fprintf(t->judge->digests, "%s %s %s %016" PRIx64 "\n", t->call->name,
            clattn_type_name(t->call->test->problem.type), strategy_label(strategy),
            test_call_output_hash(t->call->test));
}

static void run_strategy(struct trial *t, int s)
{
    struct test_call *test = t->call->test;
    const char *strategy = t->judge->options->strategies[s];
    char text[600];
    strategy_set(&test->problem, strategy);
    test_call_reset_outputs(test);
    const clattn_status status = t->call->blocks ? device_call_run_blocking(t->judge->context, test)
                                                 : device_call_run(t->judge->context, test, NULL);
    struct judge_figures *f = &t->judge->figures[s][test->problem.type];
    ++f->offered;
    if (status == CLATTN_UNSUPPORTED && test->problem.strategy) {
        ++f->declined;
        if (strstr(clattn_last_error(), "self-check: ")) {
            print_call(t->call, strategy_label(strategy), "refused:", clattn_last_error());
        }
    } else if (status != CLATTN_OK) {
        snprintf(text, sizeof(text), "%s: %s", clattn_status_name(status), clattn_last_error());
        judge_report(t->judge, t->call, strategy_label(strategy), text);
    } else {
        compare(t, s);
        if (t->judge->digests) {
            write_digest(t, strategy);
        }
    }
}

/* With strategies [first, end). */
static void judge_call_with(struct judge *judge, const struct judged_call *call, int first, int end)
{
    struct trial t = { .judge = judge, .call = call, .inputs = test_call_input_hash(call->test) };
    if (expected_create(&t.expected, call->test) != CLATTN_OK) {
        judge_report(judge, call, "reference", "out of memory");
    } else {
        if (call->by_ratio) {
            t.plain_largest = plain_largest_error(call->test, &t.expected);
        }
        for (int s = first; s < end; ++s) {
            run_strategy(&t, s);
        }
    }
    expected_free(&t.expected);
}

void judge_call(struct judge *judge, const struct judged_call *call)
{
    judge_call_with(judge, call, 0, judge->options->n_strategies);
}

/* ---- strategies that were not tested ---------------------------------------------------------- */

int judge_unserved(struct judge *judge, int *s, clattn_type *type)
{
    for (++*type; *s < judge->options->n_strategies; ++*s, *type = CLATTN_FLOAT32) {
        for (; *type < JUDGE_TYPES; ++*type) {
            const struct judge_figures *f = &judge->figures[*s][*type];
            if (f->offered > 0 && f->declined == f->offered &&
                strategy_takes(judge->context, judge->options->strategies[*s], *type)) {
                return 1;
            }
        }
    }
    return 0;
}

int judge_serve(struct judge *judge, const struct judged_call *call, int s)
{
    clattn_plan *plan;
    strategy_set(&call->test->problem, judge->options->strategies[s]);
    const clattn_status status = clattn_plan_create(judge->context, &call->test->problem, &plan);
    clattn_plan_destroy(plan);
    if (status == CLATTN_UNSUPPORTED) {
        return 0;
    }
    judge_call_with(judge, call, s, s + 1);
    return 1;
}

static void report_unserved(struct judge *judge)
{
    int s = 0;
    clattn_type type = CLATTN_TYPE_NONE;
    while (!judge->one_call && judge_unserved(judge, &s, &type)) {
        printf("FAIL %s takes %s, but declined all %" PRId64 " calls: it was not tested\n",
               strategy_label(judge->options->strategies[s]), clattn_type_name(type), judge->figures[s][type].offered);
        ++judge->failed;
    }
}

int64_t judge_declined(const struct judge *judge)
{
    int64_t declined = 0;
    for (int s = 0; s < judge->options->n_strategies; ++s) {
        for (int type = CLATTN_FLOAT32; type < JUDGE_TYPES; ++type) {
            declined += judge->figures[s][type].declined;
        }
    }
    return declined;
}

static void print_row(const char *type, const char *strategy, const struct judge_figures *f)
{
    printf("%-8s %-14s %5" PRId64 "  %-7.3f %-7.3f %-7.3f  %-7.3f %-8.4f  %s; %s\n", type, strategy, f->calls, f->c_out,
           f->c_lse, f->c_weights, f->ratio.calls ? f->ratio.sum / (double)f->ratio.calls : 0, f->ratio.worst,
           *f->c_out_at ? f->c_out_at : "none", *f->worst_at ? f->worst_at : "none");
}

void judge_print(struct judge *judge)
{
    printf("%-8s %-14s %5s  %-23s  %-16s  %s\n", "", "", "calls", "C: out, lse, weights", "R: mean, largest",
           "calls of largest C, R");
    for (int type = CLATTN_FLOAT32; type < JUDGE_TYPES; ++type) {
        const char *name = clattn_type_name((clattn_type)type);
        for (int s = 0; s < judge->options->n_strategies; ++s) {
            const struct judge_figures *f = &judge->figures[s][type];
            const char *strategy = strategy_label(judge->options->strategies[s]);
            if (f->calls) {
                print_row(name, strategy, f);
            }
        }
    }
    report_unserved(judge);
}

int judge_write_digests(struct judge *judge, const char *path)
{
    judge->digests = path ? fopen(path, "w") : NULL;
    if (path && !judge->digests) {
        perror(path);
        return -1;
    }
    return 0;
}

int judge_end(const struct judge *judge)
{
    if (judge->digests && fclose(judge->digests) != 0) {
        perror("digests");
        return 1;
    }
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", judge->passed, judge->failed,
           judge->skipped);
    return judge->failed || !judge->passed;
}
