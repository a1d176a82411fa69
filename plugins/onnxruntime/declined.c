/* The provider's counters. */
#include "declined.h"

#include "counts.h"

#include <stdio.h>

enum { CLAIMED, COMPUTED, PLANNED, FIRST_REASON };
#define R(name, text) { text, 0 },
static struct count count[] = { [CLAIMED] = { "nodes claimed", 0 },
                                [COMPUTED] = { "nodes computed", 0 },
                                [PLANNED] = { "plans made", 0 },
                                DECLINED_REASONS(R) };
#undef R
static const struct counts counts = { "onnxruntime-ep-clattn", "CLATTN_ORT_LOG", count, FIRST_REASON + DECLINED_COUNT,
                                      FIRST_REASON };

void declined_count(enum declined reason, const char *operation)
{
    if (reason != DECLINED_NOT && counts_add(&counts, FIRST_REASON + (size_t)reason) == 0 &&
        counts_are_logged(&counts)) {
        fprintf(stderr, "%s: %s left to another provider: %s\n", counts.plugin, operation,
                count[FIRST_REASON + reason].what);
    }
}

void claimed_count(void)
{
    counts_add(&counts, CLAIMED);
}

void computed_count(void)
{
    counts_add(&counts, COMPUTED);
}

void planned_count(void)
{
    counts_add(&counts, PLANNED);
}

size_t clattn_ort_report(char *text, size_t size)
{
    return counts_report(&counts, text, size);
}

void log_report(void)
{
    counts_log(&counts);
}
