/* clattn tune: measures what is the fastest on a device, and keeps that in its file of wisdom for later plans. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_shapes.h"
#include "commands.h"
#include "insides.h"
#include "library.h"
#include "number.h"
#include "progress.h"
#include "several.h"
#include "system.h"
#include "tune.h"
#include "tune_wisdom.h"

/* ---- measuring ---- */

static void print_times(const struct wisdom_fact *fact)
{
    char tuned[NUMBER_TEXT], table[NUMBER_TEXT];
    printf(", %.2f times as fast: %s ms, not %s", tune_gain_of(fact),
           number_text((double)fact->tuned_ns * 1e-6, 4, tuned), number_text((double)fact->table_ns * 1e-6, 4, table));
}

static void print_tuned(const char *name, const struct tuned *tuned)
{
    printf("%-16s %-10s ", name, tuned->strategy);
    if (tuned->of_strategy.is_learned) {
        printf("in place of %s", tuned->other_strategy);
        print_times(&tuned->of_strategy.fact);
        printf("; ");
    }
    if (tuned->tile.is_learned) {
        tune_print_tile(&tuned->tile.fact.tile);
        print_times(&tuned->tile.fact);
    } else if (tuned->tile.was_made) {
        printf("stays with ");
        tune_print_tile(&tuned->table);
    } else {
        printf("has no tiles to choose from");
    }
    if (tuned->strategies_tried) {
        printf("; %d strategies tried", tuned->strategies_tried);
    }
    if (tuned->tile.was_made) {
        printf("; %d of %d tiles tried", tuned->tried, tuned->possible);
    }
    if (tuned->rejected) {
        printf(", %d of them not right and not taken", tuned->rejected);
    }
    printf("\n");
    fflush(stdout);
}

/* Names the shapes that the time did not reach. */
static void print_left(const struct bench_shapes *shapes, size_t reached)
{
    printf("The time ended before %zu of %zu shapes:", shapes->n - reached, shapes->n);
    for (size_t i = reached; i < shapes->n; i++) {
        char text[BENCH_SHAPE_TEXT];
        printf("%s %s", i > reached ? "," : "", bench_shape_name(&shapes->shape[i], text));
    }
    printf("; give a longer --time, or one of them by --shape\n");
}

/* One after the other: each has its whole search where the time lets it, and the last one what is left besides. */
static int tune_shapes(const struct options *options, clattn_context *context, const struct bench_shapes *shapes,
                       double seconds, struct failure *failure)
{
    const double end = clock_seconds() + seconds;
    int result = 0;
    size_t i = 0;
    for (; i < shapes->n && result == 0 && !tune_stopped && (i == 0 || clock_seconds() < end); i++) {
        char text[BENCH_SHAPE_TEXT];
        struct tuned tuned;
        const char *name = bench_shape_name(&shapes->shape[i], text);
        const struct tune_extent extent = { .bits = options->value[OPTION_BITS] != NULL,
                                            .of_all = i + 1 == shapes->n,
                                            .deadline = end };
        progress_subject(name, i + 1, shapes->n);
        result = tune_problem(options, &shapes->shape[i].problem, context, &extent, name, &tuned, failure);
        if (result == 0) {
            print_tuned(name, &tuned);
            result = tune_keep(context, &tuned, failure);
        }
    }
    if (result == 0 && i < shapes->n && !tune_stopped) {
        print_left(shapes, i);
    }
    if (tune_stopped && result == 0) {
        printf("ended by Ctrl-C: what is above is kept\n");
    }
    return result;
}

static int tune_alone(const struct options *options, clattn_context *context, const struct bench_shapes *shapes,
                      double seconds, struct failure *failure)
{
    int lock, result = tune_begin_alone(context, &lock, failure);
    if (result == 0) {
        result = tune_shapes(options, context, shapes, seconds, failure);
        wisdom_unlock(lock);
    }
    return result < 0 ? -1 : 0;
}

/* 1: it is right, and no slower beyond noise. */
static int print_verified(const char *name, const struct tuned *tuned)
{
    const int is_slower = tuned->gain < 1 / TUNE_GAIN_LEAST;
    printf("%-16s %-10s ", name, tuned->strategy);
    if (!tuned->tile.was_made && !tuned->of_strategy.was_made) {
        printf("nothing is known of it\n");
        return 1;
    }
    if (tuned->of_strategy.was_made) {
        printf("in place of %s, ", tuned->other_strategy);
    }
    printf("%.2f times as fast as without wisdom%s\n", tuned->gain,
           tuned->rejected ? ", WRONG"
           : is_slower     ? ", SLOWER"
                           : "");
    return !tuned->rejected && !is_slower;
}

static int verify_shapes(const struct options *options, clattn_context *context, const struct bench_shapes *shapes,
                         struct failure *failure)
{
    int bad = 0;
    for (size_t i = 0; i < shapes->n && !tune_stopped; i++) {
        char text[BENCH_SHAPE_TEXT];
        struct tuned tuned;
        const char *name = bench_shape_name(&shapes->shape[i], text);
        progress_subject(name, i + 1, shapes->n);
        if (tune_verify(options, &shapes->shape[i].problem, context, &tuned, failure) != 0) {
            return -1;
        }
        bad += !print_verified(name, &tuned);
    }
    return bad ? failure_failed(failure, "%d shapes: what is known is wrong, or slower than nothing; tune them again",
                                bad)
               : 0;
}

/* ---- the command ---- */

/* The second Ctrl-C ends the process. */
static int stop(void)
{
    tune_stopped = 1;
    return 1;
}

static int measure(const struct options *options, clattn_context *context, struct failure *failure)
{
    struct bench_shapes shapes;
    double seconds = 60;
    char *path = wisdom_path(context);
    const int has_folder = path != NULL;
    free(path);
    if (!has_folder) {
        return tune_no_folder(failure);
    }
    if (option_number(options, OPTION_TIME, &seconds, failure) != 0) {
        return -1;
    }
    if (!(seconds > 0 && seconds <= 86400)) {
        return failure_misuse(failure, "--time %s: must be above 0 and at most 86400", options->value[OPTION_TIME]);
    }
    int result = bench_shapes_read(options, &shapes, failure);
    system_at_interrupt(stop);
    if (result == 0) {
        result = options->value[OPTION_VERIFY] ? verify_shapes(options, context, &shapes, failure)
                                               : tune_alone(options, context, &shapes, seconds, failure);
    }
    free(shapes.shape);
    return result;
}

static int list(const struct options *options, clattn_context *context, struct failure *failure)
{
    (void)options;
    return tune_list(context, failure);
}

static int export_facts(const struct options *options, clattn_context *context, struct failure *failure)
{
    (void)options;
    return tune_export(context, failure);
}

static int forget(const struct options *options, clattn_context *context, struct failure *failure)
{
    (void)options;
    return tune_forget(context, failure);
}

/* Which of several devices it is. */
static void tell_device(const struct several *several, size_t n)
{
    char name[256];
    if (several->group) {
        library_device_name(several_context(several, n), name, sizeof name);
        printf("device %zu of %zu: %s\n", n, several_count(several), name);
    }
}

static const struct {
    enum option_id id;
    int (*run)(const struct options *options, clattn_context *context, struct failure *failure);
} modes[] = {
    { OPTION_LIST, list }, { OPTION_EXPORT, export_facts }, { OPTION_FORGET, forget }, { OPTION_VERIFY, measure }
};
enum { MODES = sizeof modes / sizeof *modes };

static int run(const struct options *options, struct failure *failure)
{
    static const enum option_id alone[] = { OPTION_EXPORT, OPTION_NONE };
    struct several several;
    int mode = -1;
    for (int i = 0; i < MODES; i++) {
        if (!options->value[modes[i].id]) {
            continue;
        }
        if (mode >= 0) {
            return failure_misuse(failure, "--%s: not together with --%s", option_name(modes[i].id),
                                  option_name(modes[mode].id));
        }
        mode = i;
    }
    if (program_folder_refusal()) {
        return failure_failed(failure, "%s", program_folder_refusal());
    }
    int result = several_open(options, alone, &several, failure);
    for (size_t n = 0; result == 0 && n < several_count(&several) && !tune_stopped; n++) {
        clattn_context *context = several_context(&several, n);
        tell_device(&several, n);
        result = mode < 0 ? measure(options, context, failure) : modes[mode].run(options, context, failure);
    }
    several_close(&several);
    return result;
}

static const struct option_group groups[] = {
    { "Shapes", { OPTION_SHAPE, OPTION_BENCH_CAUSAL, OPTION_SHAPES, OPTION_TYPE } },
    { "How", { OPTION_TIME, OPTION_BITS, OPTION_DEVICE, OPTION_STRATEGY } },
    { "Instead", { OPTION_LIST, OPTION_EXPORT, OPTION_VERIFY, OPTION_FORGET, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_tune = {
    "tune",
    "Measures which tiles are the fastest for shapes on a device, and keeps that for later plans of like shapes, in a "
    "file of wisdom. No result changes, not in the last bit, but with --bits.",
    "[--shape B,HQ,HKV,LQ,LK,D,DV] [OPTION]...",
    NULL,
    groups,
    "Without --shape: the shapes of bench/shapes.txt. Ctrl-C ends; what was\n"
    "learned is kept. The file is in CLATTN_WISDOM_DIR, else\n"
    "$XDG_STATE_HOME/clattn/wisdom, else ~/.local/state/clattn/wisdom.\n"
    "Example:\n  clattn tune --shape 1,8,8,1024,1024,64,64 --time 20\n",
    run,
};
