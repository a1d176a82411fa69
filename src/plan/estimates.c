#include "plan/estimates.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "plan/strategy.h"

int estimates_begin(struct estimates *estimates)
{
    estimates_free(estimates);
    estimates->list = calloc(strategy_count, sizeof(*estimates->list));
    return estimates->list ? 0 : -1;
}

struct estimate *estimates_add(struct estimates *estimates, const struct strategy *strategy)
{
    struct estimate *estimate = &estimates->list[estimates->count++];
    *estimate = (struct estimate){ .strategy = strategy, .declined = TEXT_INIT };
    return estimate;
}

/* Never with an exponent, but of less than 0.0001 ms. */
static const char *time_text(double ms, char *text, size_t size)
{
    const double seconds = ms / 1000;
    snprintf(text, size, "%s %s",
             ms < 999.5        ? DECIMAL_SHORT(3, ms)
             : seconds < 999.5 ? DECIMAL_SHORT(3, seconds)
                               : DECIMAL_FIXED(0, seconds),
             ms < 999.5 ? "ms" : "s");
    return text;
}

/* Estimates order strategies; how far apart those are that are far apart they do not know. */
static const char *slower_text(double ms, double best_ms, char *text, size_t size)
{
    char time[32], best_time[32];
    if (ms > 10 * best_ms) {
        snprintf(text, size, "far slower");
    } else if (ms > 3 * best_ms) {
        snprintf(text, size, "several times slower");
    } else {
        snprintf(text, size, "slower (%s, against %s)", time_text(ms, time, sizeof(time)),
                 time_text(best_ms, best_time, sizeof(best_time)));
    }
    return text;
}

void estimates_describe(const struct estimates *estimates, const struct estimate *taken, struct text *text)
{
    for (size_t i = 0; i < estimates->count; ++i) {
        const struct estimate *e = &estimates->list[i];
        if (!e->was_asked) {
            text_append(text, "  %s: not asked for\n", e->strategy->name);
        } else if (!e->takes) {
            text_append(text, "  %s: declined: %s\n", e->strategy->name,
                        e->declined.data ? e->declined.data : "no reason given");
        }
    }
    for (size_t i = 0; i < estimates->count; ++i) {
        const struct estimate *e = &estimates->list[i];
        if (e->takes && e != taken) {
            char how_much[128];
            text_append(text, "  %s: expected to be %s\n", e->strategy->name,
                        slower_text(e->cost_ms, taken->cost_ms, how_much, sizeof(how_much)));
        }
    }
}

void estimates_free(struct estimates *estimates)
{
    for (size_t i = 0; i < estimates->count; ++i) {
        text_free(&estimates->list[i].declined);
    }
    free(estimates->list);
    *estimates = (struct estimates){ NULL, 0 };
}
