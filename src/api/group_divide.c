/* How a problem is divided among contexts: by what a part of it takes on each, and whether that is faster than the
 * fastest by itself. */
#include <float.h>
#include <string.h>

#include "api/group.h"
#include "base/checked_math.h"
#include "base/clock.h"

#define TURNS 4
#define LONG_MS 100.0    /* a call as long as that is timed once, a shorter one by the better of two */
#define BALANCE_GAIN 1.1 /* an axis must divide so much better to be taken before one whose pieces are whole calls */

/* ---- measuring -------------------------------------------------------------------------------- */

struct timed {
    const clattn_group *group;
    const struct group_call *call;
    const struct group_division *division; /* NULL: by context `alone` */
    size_t alone;
};

static clattn_status run_once(const struct timed *timed)
{
    return timed->division ? group_run_divided(timed->group, timed->division, timed->call)
                           : group_call_run(timed->group->context[timed->alone], timed->call);
}

static clattn_status time_once(const struct timed *timed, double *ms)
{
    const double start = clock_ms();
    const clattn_status status = run_once(timed);
    *ms = clock_ms() - start;
    return status;
}

/* The better of two, after a call in which plans are made. */
static clattn_status measure(const struct timed *timed, double *ms)
{
    clattn_status status = run_once(timed);
    double again = DBL_MAX;
    *ms = DBL_MAX;
    status = status == CLATTN_OK ? time_once(timed, ms) : status;
    if (status == CLATTN_OK && *ms < LONG_MS) {
        status = time_once(timed, &again);
    }
    *ms = again < *ms ? again : *ms;
    return status;
}

/* In turns, so that what else the machine does strikes both. */
static clattn_status compare(const struct timed *together, const struct timed *alone, struct group_division *division)
{
    clattn_status status = measure(together, &division->together_ms);
    if (status == CLATTN_OK) {
        status = measure(alone, &division->alone_ms);
    }
    for (int turn = 0; turn < TURNS && status == CLATTN_OK && division->alone_ms < LONG_MS; ++turn) {
        double together_ms, alone_ms;
        status = time_once(together, &together_ms);
        status = status == CLATTN_OK ? time_once(alone, &alone_ms) : status;
        if (status == CLATTN_OK) {
            division->together_ms = together_ms < division->together_ms ? together_ms : division->together_ms;
            division->alone_ms = alone_ms < division->alone_ms ? alone_ms : division->alone_ms;
        }
    }
    return status;
}

/* ---- dividing --------------------------------------------------------------------------------- */

/* Contexts one after the other take pieces up to where their speeds add up to. Returns the time of the slowest, in
 * pieces of all speeds together: 1 where every context has exactly its share. */
static double divide(const double *speed, size_t count, int64_t pieces, int64_t *first)
{
    double all = 0, sum = 0, slowest = 0;
    for (size_t n = 0; n < count; ++n) {
        all += speed[n];
    }
    first[0] = 0;
    for (size_t n = 0; n < count; ++n) {
        sum += speed[n];
        first[n + 1] = n + 1 == count ? pieces : (int64_t)((double)pieces * sum / all + 0.5);
        const double time = (double)(first[n + 1] - first[n]) / speed[n];
        slowest = time > slowest ? time : slowest;
    }
    return slowest * all / (double)pieces;
}

/* The axis that divides best; the first of those that are as good. 0: none divides. */
static int choose_axis(const clattn_group *group, const struct group_call *whole, const double *speed,
                       struct group_division *division)
{
    double best = DBL_MAX;
    for (enum group_axis axis = GROUP_BATCH; axis < GROUP_AXES; ++axis) {
        int64_t first[CLATTN_GROUP_MOST + 1];
        const int64_t pieces = group_pieces(whole, axis);
        if (pieces <= 1) {
            continue;
        }
        const double time = divide(speed, group->count, pieces, first);
        if (time * BALANCE_GAIN < best) {
            best = time;
            division->axis = axis;
            division->pieces = pieces;
            memcpy(division->first, first, sizeof(first));
        }
    }
    return best < DBL_MAX;
}

/* The speed of each context: of a part that all could have, where there is one, else of the whole. */
static clattn_status find_speeds(const clattn_group *group, const struct group_call *whole, double *speed)
{
    struct group_division part = { .axis = GROUP_BATCH };
    while (part.axis < GROUP_AXES && group_pieces(whole, part.axis) <= 1) {
        part.axis++;
    }
    part.pieces = part.axis < GROUP_AXES ? group_pieces(whole, part.axis) : 1;
    clattn_status status = CLATTN_OK;
    for (size_t n = 0; n < group->count && status == CLATTN_OK; ++n) {
        for (size_t k = 0; k <= group->count; ++k) { /* the part is that of context n, and no other has one */
            part.first[k] = k > n ? ceil_div(part.pieces, (int64_t)group->count) : 0;
        }
        const struct timed timed = { group, whole, part.pieces > 1 ? &part : NULL, n };
        double ms;
        status = measure(&timed, &ms);
        speed[n] = 1 / (ms > 1e-6 ? ms : 1e-6);
    }
    return status;
}

static size_t fastest(const double *speed, size_t count)
{
    size_t best = 0;
    for (size_t n = 1; n < count; ++n) {
        best = speed[n] > speed[best] ? n : best;
    }
    return best;
}

/* A call that adds to what is there cannot be tried. */
static int may_be_tried(const struct group_call *whole)
{
    return whole->backward.accumulate == 0;
}

clattn_status group_divide(clattn_group *group, const struct group_call *whole, struct group_division *division)
{
    double speed[CLATTN_GROUP_MOST];
    for (size_t n = 0; n < group->count; ++n) {
        speed[n] = 1;
    }
    clattn_status status = CLATTN_OK;
    if (group->count > 1 && may_be_tried(whole)) {
        status = find_speeds(group, whole, speed);
    }
    division->fastest = fastest(speed, group->count);
    if (status != CLATTN_OK || group->count == 1 || !choose_axis(group, whole, speed, division)) {
        return status;
    }
    if (may_be_tried(whole)) {
        const struct timed together = { group, whole, division, 0 }, alone = { group, whole, NULL, division->fastest };
        status = compare(&together, &alone, division);
    }
    division->is_divided = division->together_ms <= division->alone_ms;
    return status;
}
