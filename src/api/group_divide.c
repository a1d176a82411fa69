/* How a problem is divided among contexts: what the whole takes on each alone, shares by these speeds, and what all
 * take together. What is least is how it is computed. */
#include <float.h>
#include <string.h>

#include "api/group.h"
#include "base/clock.h"

#define SPEED_TURNS 2
#define TURNS 4
#define ENOUGH_MS 500.0  /* turns that took so long are enough */
#define LONG_MS 100.0    /* a way as long as that is not tried again where another takes half of it */
#define IDLE_MS 5.0      /* before each call: threads of the runtime that computed last may still spin */
#define BALANCE_GAIN 1.1 /* an axis must divide so much better to be taken before one whose pieces are whole calls */

/* ---- measuring -------------------------------------------------------------------------------- */

/* A way to compute a call, and the least that it took. */
struct way {
    const struct group_division *division; /* NULL: by context `alone` */
    size_t alone;
    double least_ms;
};

struct trial {
    const clattn_group *group;
    const struct group_call *call;
    size_t count;
    struct way way[CLATTN_GROUP_MOST + 1];
};

static clattn_status run_once(const struct trial *trial, const struct way *way)
{
    return way->division ? group_run_divided(trial->group, way->division, trial->call)
                         : group_call_run(trial->group->context[way->alone], trial->call);
}

/* Its first call, in which plans are made, is not timed. */
static clattn_status add_way(struct trial *trial, const struct group_division *division, size_t alone)
{
    struct way *way = &trial->way[trial->count++];
    *way = (struct way){ division, alone, DBL_MAX };
    return run_once(trial, way);
}

/* Among the first `count` ways. */
static size_t fastest_of(const struct trial *trial, size_t count)
{
    size_t best = 0;
    for (size_t n = 1; n < count; ++n) {
        best = trial->way[n].least_ms < trial->way[best].least_ms ? n : best;
    }
    return best;
}

static int is_hopeless(const struct trial *trial, const struct way *way)
{
    return way->least_ms < DBL_MAX && way->least_ms > LONG_MS &&
           way->least_ms > 2 * trial->way[fastest_of(trial, trial->count)].least_ms;
}

static clattn_status time_once(const struct trial *trial, struct way *way, double *spent_ms)
{
    clock_idle(IDLE_MS);
    const double start_ms = clock_ms();
    const clattn_status status = run_once(trial, way);
    const double took_ms = clock_ms() - start_ms;
    way->least_ms = took_ms < way->least_ms ? took_ms : way->least_ms;
    *spent_ms += took_ms;
    return status;
}

/* In turns, so that what else the machine does strikes all ways. */
static clattn_status measure(struct trial *trial, int turns)
{
    clattn_status status = CLATTN_OK;
    double spent_ms = 0;
    for (int turn = 0; turn < turns && spent_ms < ENOUGH_MS; ++turn) {
        for (size_t n = 0; n < trial->count && status == CLATTN_OK; ++n) {
            if (!is_hopeless(trial, &trial->way[n])) {
                status = time_once(trial, &trial->way[n], &spent_ms);
            }
        }
    }
    return status;
}

static clattn_status measure_alone(struct trial *trial)
{
    clattn_status status = CLATTN_OK;
    for (size_t n = 0; n < trial->group->count && status == CLATTN_OK; ++n) {
        status = add_way(trial, NULL, n);
    }
    return status == CLATTN_OK ? measure(trial, SPEED_TURNS) : status;
}

static clattn_status measure_together(struct trial *trial, const struct group_division *division)
{
    const clattn_status status = add_way(trial, division, 0);
    return status == CLATTN_OK ? measure(trial, TURNS) : status;
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

/* A call that adds to what is there cannot be tried. */
static int may_be_tried(const struct group_call *whole)
{
    return whole->backward.accumulate == 0;
}

/* By all, as if they were equally fast, where an axis divides. */
static void divide_untried(const clattn_group *group, const struct group_call *whole, struct group_division *division)
{
    double speed[CLATTN_GROUP_MOST];
    for (size_t n = 0; n < group->count; ++n) {
        speed[n] = 1;
    }
    division->is_divided = group->count > 1 && choose_axis(group, whole, speed, division);
}

/* The contexts are the first ways, all of them together, where an axis divides, the last. */
static void take_fastest(const struct trial *trial, struct group_division *division)
{
    const size_t contexts = trial->group->count;
    for (size_t n = 0; n < contexts; ++n) {
        division->alone_ms[n] = trial->way[n].least_ms;
    }
    division->together_ms = trial->count > contexts ? trial->way[contexts].least_ms : 0;
    division->fastest = fastest_of(trial, contexts);
    division->is_divided = fastest_of(trial, trial->count) == contexts;
}

clattn_status group_divide(clattn_group *group, const struct group_call *whole, struct group_division *division)
{
    if (group->count == 1 || !may_be_tried(whole)) {
        divide_untried(group, whole, division);
        return CLATTN_OK;
    }
    struct trial trial = { group, whole, 0, { { NULL, 0, 0 } } };
    double speed[CLATTN_GROUP_MOST];
    clattn_status status = measure_alone(&trial);
    for (size_t n = 0; n < trial.count; ++n) {
        speed[n] = 1 / (trial.way[n].least_ms > 1e-6 ? trial.way[n].least_ms : 1e-6);
    }
    if (status == CLATTN_OK && choose_axis(group, whole, speed, division)) {
        status = measure_together(&trial, division);
    }
    if (status == CLATTN_OK) {
        take_fastest(&trial, division);
    }
    return status;
}
