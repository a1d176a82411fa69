/* The search for the fastest tile of one problem, and what is common to it and to the choice of a strategy. */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "insides.h"
#include "progress.h"
#include "tune_run.h"
#include "tune_strategies.h"

#define DROP 1.25 /* a candidate whose first calls take so many times the best's is out */
#define TRIED_MOST 512

volatile sig_atomic_t tune_stopped;

struct search {
    struct tune_run run;
    const char *name;
    const struct tune_extent *extent;
    struct wisdom_fact fact; /* the tile that is tried; with its class */
    struct tunable about;
    struct wisdom_fact with; /* the strategy's fact, that all candidates have; kind WISDOM_TILE: none */
    struct wisdom_tile tried[TRIED_MOST], best_tile;
    int tried_count, possible, rejected;
};

/* ---- tiles ---- */

#define VALUES_MOST 16
#define FIELD(name, ...)                                                                                               \
    {                                                                                                                  \
        offsetof(struct wisdom_tile, name),                                                                            \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* What a field may be where its kernel has it; those that change most first. */
static const struct field {
    size_t offset;
    int64_t values[VALUES_MOST]; /* then zeros */
} fields[] = {
    FIELD(shape, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
    FIELD(launches, 1, 2),
    FIELD(sums, 2, 4, 8, 16),
    FIELD(rows, 16, 32, 64, 128),
    FIELD(shared, 1, 2, 4, 8),
    FIELD(item_keys, 1, 2, 3, 4, 6, 8, 12, 16, 24),
    FIELD(item_columns, 1, 2, 3, 4, 6, 8, 12, 16, 24),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int64_t *field_of(struct wisdom_tile *tile, const struct field *field)
{
    return (int64_t *)(void *)((char *)tile + field->offset);
}

static int is_legal(const clattn_plan *plan, const struct wisdom_tile *tile)
{
    struct ask ask = plan_ask(plan);
    return plan->strategy->is_legal(&ask, tile);
}

/* More rows leave room for fewer keys and columns: the most that are legal, of those up to `most`. 0: none are. */
static int fit(const clattn_plan *plan, const struct wisdom_tile *most, struct wisdom_tile *tile)
{
    const int64_t *keys = fields[FIELDS - 2].values, *columns = fields[FIELDS - 1].values;
    if (tile->item_keys == 0 || tile->item_columns == 0) {
        return is_legal(plan, tile);
    }
    for (int k = VALUES_MOST - 1; k >= 0; k--) {
        for (int c = VALUES_MOST - 1; c >= 0; c--) {
            tile->item_keys = keys[k];
            tile->item_columns = columns[c];
            if (keys[k] && columns[c] && keys[k] <= most->item_keys && columns[c] <= most->item_columns &&
                is_legal(plan, tile)) {
                return 1;
            }
        }
    }
    return 0;
}

static int was_tried(const struct search *search, const struct wisdom_tile *tile)
{
    for (int i = 0; i < search->tried_count; i++) {
        if (wisdom_tile_equal(&search->tried[i], tile)) {
            return 1;
        }
    }
    return 0;
}

/* ---- candidates ---- */

static int is_over(const struct search *search)
{
    return tune_stopped || clock_seconds() >= search->extent->deadline || search->tried_count == TRIED_MOST;
}

static void tell_progress(const struct search *search)
{
    char line[64];
    snprintf(line, sizeof line, "tile %d of %d, %.0f s left", search->tried_count, search->possible,
             fmax(0, search->extent->deadline - clock_seconds()));
    progress_line("tune", line);
}

static int make_with_tile(struct search *search, const struct wisdom_tile *tile, struct candidate *candidate,
                          struct failure *failure)
{
    struct wisdom_fact facts[2] = { search->fact, search->with };
    facts[0].tile = *tile;
    return candidate_make(&search->run, facts, search->with.of.kind == WISDOM_STRATEGY ? 2 : 1, candidate, failure);
}

/* Takes the place of the best when it is right and faster. One that cannot be computed with is no failure of all. */
static int try_tile(struct search *search, const struct wisdom_tile *tile, struct candidate *best, int *improved,
                    struct failure *failure)
{
    struct candidate candidate = { 0 };
    double gain = 0, ms = 0;
    int result = 0;
    search->tried[search->tried_count++] = *tile;
    tell_progress(search);
    if (make_with_tile(search, tile, &candidate, failure) != 0 || !candidate.plan->took_wisdom ||
        !tune_outputs_equal(&search->run)) {
        search->rejected++;
    } else {
        result = candidate_time(&search->run, &candidate, &ms, failure);
    }
    if (result == 0 && ms > 0 && ms <= DROP * best->best_ms) {
        result = candidate_gain(&search->run, best, &candidate, TUNE_GAIN_LEAST, &gain, failure);
    }
    if (result == 0 && gain >= TUNE_GAIN_LEAST) {
        candidate_free(best);
        *best = candidate;
        search->best_tile = *tile;
        *improved = 1;
        return 0;
    }
    candidate_free(&candidate);
    return result;
}

/* Where it is legal and new. */
static int consider(struct search *search, const struct wisdom_tile *tile, struct candidate *best, int *improved,
                    struct failure *failure)
{
    if (is_over(search) || was_tried(search, tile) || !is_legal(best->plan, tile)) {
        return 0;
    }
    return try_tile(search, tile, best, improved, failure);
}

/* ---- the search ---- */

/* What was the fastest for other classes of the same tiles. */
static int try_others(struct search *search, struct candidate *best, struct failure *failure)
{
    const struct wisdom *wisdom = search->run.context->wisdom;
    int improved = 0;
    for (size_t i = 0; i < wisdom->count; i++) {
        if (wisdom->facts[i].of.kind == WISDOM_TILE && strcmp(wisdom->facts[i].of.name, search->fact.of.name) == 0 &&
            consider(search, &wisdom->facts[i].tile, best, &improved, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Every value of a field, beside what the best one has, and beside as many keys and columns as are legal. */
static int try_field(struct search *search, const struct field *field, struct candidate *best, int *improved,
                     struct failure *failure)
{
    const struct wisdom_tile all = { .item_keys = INT64_MAX, .item_columns = INT64_MAX };
    const int makes_room = field->offset == offsetof(struct wisdom_tile, rows);
    for (int i = 0; i < VALUES_MOST && field->values[i]; i++) {
        struct wisdom_tile tile = search->best_tile, large = tile;
        if (*field_of(&tile, field) == 0) { /* its kernel has no such thing */
            return 0;
        }
        *field_of(&tile, field) = *field_of(&large, field) = field->values[i];
        if (((!makes_room || fit(best->plan, &search->best_tile, &tile)) &&
             consider(search, &tile, best, improved, failure) != 0) ||
            (makes_room && fit(best->plan, &all, &large) && consider(search, &large, best, improved, failure) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int descend(struct search *search, struct candidate *best, struct failure *failure)
{
    for (int improved = 1; improved && !is_over(search);) {
        improved = 0;
        for (int i = 0; i < FIELDS; i++) {
            if (try_field(search, &fields[i], best, &improved, failure) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* The number-th of all combinations of values; a field that kernels have not stays 0. 0: there is no such number. */
static int combination(const struct wisdom_tile *like, uint64_t number, struct wisdom_tile *tile)
{
    *tile = *like;
    for (int i = 0; i < FIELDS; i++) {
        uint64_t count = 0;
        while (count < VALUES_MOST && fields[i].values[count]) {
            count++;
        }
        if (count == 0 || *field_of(tile, &fields[i]) == 0) {
            continue;
        }
        *field_of(tile, &fields[i]) = fields[i].values[number % count];
        number /= count;
    }
    return number == 0;
}

static uint64_t count_combinations(const struct search *search)
{
    struct wisdom_tile tile;
    uint64_t count = 0;
    while (combination(&search->about.table, count, &tile)) {
        count++;
    }
    return count;
}

/* How many tiles there are to try, the table's with them. */
static int count_legal(const struct search *search, const clattn_plan *plan)
{
    struct wisdom_tile tile;
    int count = 0, has_table = 0;
    for (uint64_t i = 0; combination(&search->about.table, i, &tile); i++) {
        const int is_table = wisdom_tile_equal(&tile, &search->about.table);
        has_table |= is_table;
        count += is_table || is_legal(plan, &tile);
    }
    return count + !has_table;
}

/* What is left, as long as there is time. */
static int try_all(struct search *search, struct candidate *best, struct failure *failure)
{
    struct wisdom_tile tile;
    const uint64_t count = count_combinations(search);
    int improved = 0;
    /* A prime above what there may be steps through all of them, in an order that is none. */
    for (uint64_t i = 0; i < count && !is_over(search); i++) {
        if (combination(&search->about.table, i * 7919 % count, &tile) &&
            consider(search, &tile, best, &improved, failure) != 0) {
            return -1;
        }
    }
    return improved ? descend(search, best, failure) : 0;
}

/* The table's tile: its result is right by the reference, and those of all others have its bits. */
static int begin(struct search *search, struct candidate *table, struct failure *failure)
{
    int is_right = 0;
    double ms;
    if (make_with_tile(search, &search->about.table, table, failure) != 0 ||
        tune_outputs_right(&search->run, table, &is_right, failure) != 0) {
        return -1;
    }
    if (!is_right) {
        return failure_failed(failure, "%s: the result is wrong without any wisdom", search->name);
    }
    if (tune_keep_outputs(&search->run, failure) != 0) {
        return -1;
    }
    return candidate_time(&search->run, table, &ms, failure);
}

/* The best one against the table's tile, from the start: the steps' gains were the luckiest of many. */
static int finish(struct search *search, struct candidate *table, struct candidate *best, struct tuned_choice *choice,
                  struct failure *failure)
{
    double gain = 1;
    if (wisdom_tile_equal(&search->best_tile, &search->about.table)) {
        return 0;
    }
    table->best_ms = best->best_ms = 0;
    if (candidate_gain(&search->run, table, best, TUNE_GAIN_LEAST, &gain, failure) != 0) {
        return -1;
    }
    choice->is_learned = gain >= TUNE_GAIN_LEAST;
    choice->fact.tile = search->best_tile;
    choice->fact.table_ns = candidate_ns(table);
    choice->fact.tuned_ns = candidate_ns(best);
    return 0;
}

static int search_tiles(struct search *search, struct tuned_choice *choice, struct failure *failure)
{
    struct candidate table = { 0 }, best = { 0 };
    int result = begin(search, &table, failure);
    search->best_tile = search->tried[search->tried_count++] = search->about.table;
    if (result == 0) {
        result = make_with_tile(search, &search->about.table, &best, failure);
    }
    best.best_ms = table.best_ms;
    search->possible = result == 0 ? count_legal(search, best.plan) : 0;
    if (result == 0 && (result = try_others(search, &best, failure)) == 0 &&
        (result = descend(search, &best, failure)) == 0 && search->extent->of_all) {
        result = try_all(search, &best, failure);
    }
    if (result == 0) {
        result = finish(search, &table, &best, choice, failure);
    }
    candidate_free(&table);
    candidate_free(&best);
    return result;
}

/* ---- one problem ---- */

/* What the problem's strategy has to choose from. Forgets what the context knew of it. */
static int look(struct search *search, struct tuned *tuned, struct failure *failure)
{
    struct candidate candidate = { 0 };
    const int has_strategy = search->with.of.kind == WISDOM_STRATEGY;
    const int result = candidate_make(&search->run, &search->with, has_strategy, &candidate, failure);
    if (result == 0) {
        const struct strategy *strategy = candidate.plan->strategy;
        snprintf(tuned->strategy, sizeof tuned->strategy, "%s", strategy->name);
        struct ask ask = plan_ask(candidate.plan);
        tuned->tile.was_made = strategy->tunable && strategy->tunable(&ask, &search->about);
        tuned->table = search->about.table;
        tuned->tile.fact = (struct wisdom_fact){ .of = search->about.of, .table_ns = 1, .tuned_ns = 1 };
        search->fact = tuned->tile.fact;
        wisdom_forget(search->run.context->wisdom, &search->about.of);
    }
    candidate_free(&candidate);
    return result;
}

int tune_problem(const struct options *options, const clattn_problem *problem, clattn_context *context,
                 const struct tune_extent *extent, const char *name, struct tuned *tuned, struct failure *failure)
{
    struct search search = { .run = { .options = options, .problem = problem, .context = context },
                             .name = name,
                             .extent = extent };
    memset(tuned, 0, sizeof *tuned);
    progress_line("tune", "begins");
    int result = tune_run_make(&search.run, failure);
    if (result == 0 && extent->bits && !problem->strategy) {
        result = tune_strategies(&search.run, extent->deadline, tuned, failure);
    }
    if (result == 0 && tuned->of_strategy.is_learned) {
        search.with = tuned->of_strategy.fact;
    }
    if (result == 0) {
        result = look(&search, tuned, failure);
    }
    if (result == 0 && tuned->tile.was_made) {
        result = search_tiles(&search, &tuned->tile, failure);
    }
    tuned->tried = search.tried_count;
    tuned->possible = search.possible > search.tried_count ? search.possible : search.tried_count;
    tuned->rejected += search.rejected;
    tune_run_free(&search.run);
    progress_line("tune", "");
    return result;
}
