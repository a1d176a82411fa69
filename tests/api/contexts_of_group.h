/* A group of contexts on one device, for tests that divide calls among them. */
#ifndef CLATTN_TESTS_CONTEXTS_OF_GROUP_H
#define CLATTN_TESTS_CONTEXTS_OF_GROUP_H

#include <stdlib.h>

#include "api.h"
#include "api/group.h"
#include "support/random.h"

#define CONTEXTS 3

static clattn_context *contexts[CONTEXTS];
static clattn_group *group;

static void open_group(void)
{
    for (int n = 0; n < CONTEXTS; ++n) {
        EXPECT_OK(clattn_context_open(NULL, NULL, &contexts[n]));
    }
    EXPECT_OK(clattn_group_create(CONTEXTS, contexts, &group));
}

static void close_group(void)
{
    clattn_group_destroy(group);
    for (int n = 0; n < CONTEXTS; ++n) {
        clattn_context_destroy(contexts[n]);
    }
}

static int calls_wanted(int usual)
{
    const char *wanted = getenv("CLATTN_TEST_GROUP_CALLS");
    return wanted ? atoi(wanted) : usual;
}

/* Parts of any length, none too. */
static void divide_by_chance(struct random *random, int64_t pieces, struct group_division *division)
{
    division->pieces = pieces;
    division->first[0] = 0;
    division->first[CONTEXTS] = pieces;
    for (int n = 1; n < CONTEXTS; ++n) {
        division->first[n] = random_between(random, division->first[n - 1], pieces);
    }
}

#endif
