/* clattn tune: measures what is the fastest on a device, and keeps that in its file of wisdom for later plans. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_shapes.h"
#include "commands.h"
#include "document.h"
#include "library.h"
#include "number.h"
#include "plan/strategy.h"
#include "plan/wisdom_store.h"
#include "program/program_folder.h"
#include "progress.h"
#include "system.h"
#include "tune.h"

/* ---- the file ---- */

static int no_folder(struct failure *failure)
{
    return failure_misuse(failure, "CLATTN_WISDOM_DIR, XDG_STATE_HOME, HOME: none of them names a folder for wisdom; "
                                   "set CLATTN_WISDOM_DIR to one");
}

static int cannot_write(const clattn_context *context, struct failure *failure)
{
    char *path = wisdom_path(context);
    const int result = path ? failure_failed(failure,
                                             "%s: cannot be written; its folder must be yours, no link, and "
                                             "writable by you alone",
                                             path)
                            : no_folder(failure);
    free(path);
    return result;
}

static void print_tile(const struct wisdom_tile *tile)
{
    struct text text = TEXT_INIT;
    wisdom_describe_tile(tile, &text);
    fputs(text.data ? text.data : "", stdout);
    text_free(&text);
}

static double gain_of(const struct wisdom_fact *fact)
{
    return (double)fact->table_ns / (double)fact->tuned_ns;
}

static void print_fact(const struct wisdom_fact *fact)
{
    const struct wisdom_class *of = &fact->of;
    printf("%s %s,%s,%s, head dims %lld, %lld, %lld rows, %lld keys", of->name, clattn_type_name(of->type),
           clattn_type_name(of->key_type), clattn_type_name(of->value_type), (long long)of->head_dim,
           (long long)of->head_dim_v, (long long)of->rows, (long long)of->keys);
    if (of->kind == WISDOM_TILE) {
        printf(", %lld planes", (long long)of->planes);
    }
    printf("%s: ", of->causal ? ", causal" : "");
    if (of->kind == WISDOM_TILE) {
        print_tile(&fact->tile);
    } else {
        printf("taken (--bits)");
    }
    printf(", %.2f times as fast", gain_of(fact));
}

/* What the user's own file has, and where that is (NULL: not wanted); the caller frees both. NULL: there is nothing to
 * free. */
static struct wisdom *own_wisdom(const clattn_context *context, char **path, struct failure *failure)
{
    char *found = wisdom_path(context);
    struct wisdom *own = found ? calloc(1, sizeof *own) : NULL;
    if (own) {
        wisdom_load(context, own);
    } else if (found) {
        failure_failed(failure, "out of memory");
    } else {
        no_folder(failure);
    }
    if (own && path) {
        *path = found;
    } else {
        free(found);
    }
    return own;
}

/* What plans choose from. */
static int list(const struct options *options, clattn_context *context, struct failure *failure)
{
    const struct wisdom *wisdom = context->wisdom;
    char *path;
    struct wisdom *own = own_wisdom(context, &path, failure);
    (void)options;
    if (!own) {
        return -1;
    }
    printf("%s: %zu facts about %s\n", path, own->count, context->device.name);
    free(path);
    for (size_t i = 0; i < wisdom->count; i++) {
        print_fact(&wisdom->facts[i]);
        printf("%s\n", wisdom_find(own, &wisdom->facts[i].of) ? "" : " (" WISDOM_OF_ALL ")");
    }
    free(own);
    return 0;
}

static cJSON *fact_json(const struct wisdom_fact *fact)
{
    cJSON *json = cJSON_CreateObject();
    const struct wisdom_class *of = &fact->of;
    const char *word;
    int64_t value;
    cJSON_AddStringToObject(json, "kind", of->kind == WISDOM_TILE ? "tile" : "strategy");
    cJSON_AddStringToObject(json, "for", of->name);
    cJSON_AddStringToObject(json, "type", clattn_type_name(of->type));
    cJSON_AddStringToObject(json, "key_type", clattn_type_name(of->key_type));
    cJSON_AddStringToObject(json, "value_type", clattn_type_name(of->value_type));
    for (int i = 0; wisdom_number(fact, i, &word, &value); i++) {
        cJSON_AddNumberToObject(json, word, (double)value);
    }
    return json;
}

static int export(const struct options *options, clattn_context *context, struct failure *failure)
{
    cJSON *json = document_begin("tune", context), *facts = cJSON_AddArrayToObject(json, "facts");
    (void)options;
    for (size_t i = 0; i < context->wisdom->count; i++) {
        cJSON_AddItemToArray(facts, fact_json(&context->wisdom->facts[i]));
    }
    return document_print(json, failure);
}

static int forget(const struct options *options, clattn_context *context, struct failure *failure)
{
    char *path;
    struct wisdom *own = own_wisdom(context, &path, failure);
    (void)options;
    if (!own) {
        return -1;
    }
    const size_t count = own->count;
    own->count = 0;
    const int is_done = wisdom_store(context, own);
    if (is_done) {
        printf("%s: %zu facts forgotten\n", path, count);
    }
    free(path);
    free(own);
    return is_done ? 0 : cannot_write(context, failure);
}

/* 1: the choice changed what is known. */
static int take_in(const struct tuned_choice *choice, struct wisdom *wisdom)
{
    const int knew = wisdom_find(wisdom, &choice->fact.of) != NULL;
    if (!choice->was_made) {
        return 0;
    }
    wisdom_forget(wisdom, &choice->fact.of);
    if (choice->is_learned) {
        wisdom_learn(wisdom, &choice->fact);
    }
    return knew || choice->is_learned;
}

/* What the file has by now, which another process may have written, with this one's news. */
static int keep(clattn_context *context, const struct tuned *tuned, struct failure *failure)
{
    struct wisdom *now = own_wisdom(context, NULL, failure);
    if (!now) {
        return -1;
    }
    const int tile_is_news = take_in(&tuned->tile, now), strategy_is_news = take_in(&tuned->of_strategy, now);
    const int written = !(tile_is_news || strategy_is_news) || wisdom_store(context, now);
    take_in(&tuned->tile, context->wisdom);
    take_in(&tuned->of_strategy, context->wisdom);
    free(now);
    return written ? 0 : cannot_write(context, failure);
}

/* ---- measuring ---- */

static void print_times(const struct wisdom_fact *fact)
{
    char tuned[NUMBER_TEXT], table[NUMBER_TEXT];
    printf(", %.2f times as fast: %s ms, not %s", gain_of(fact), number_text((double)fact->tuned_ns * 1e-6, 4, tuned),
           number_text((double)fact->table_ns * 1e-6, 4, table));
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
        print_tile(&tuned->tile.fact.tile);
        print_times(&tuned->tile.fact);
    } else if (tuned->tile.was_made) {
        printf("stays with ");
        print_tile(&tuned->table);
    } else {
        printf("has no tiles to choose from");
    }
    printf("; %d tried", tuned->tried);
    if (tuned->rejected) {
        printf(", %d of them not right and not taken", tuned->rejected);
    }
    printf("\n");
    fflush(stdout);
}

static const char *name_of(const struct bench_shape *shape, char *text, size_t capacity)
{
    bench_shape_text(&shape->problem, text, capacity);
    return strcmp(shape->name, "-") == 0 ? text : shape->name;
}

/* Each shape has an even share of what is left of the time. */
static int tune_shapes(const struct options *options, clattn_context *context, const struct bench_shapes *shapes,
                       double seconds, struct failure *failure)
{
    const double end = clock_seconds() + seconds;
    int result = 0;
    for (size_t i = 0; i < shapes->n && result == 0 && !tune_stopped; i++) {
        char text[160], label[200];
        struct tuned tuned;
        const char *name = name_of(&shapes->shape[i], text, sizeof text);
        const double now = clock_seconds();
        snprintf(label, sizeof label, "%s, %zu of %zu", name, i + 1, shapes->n);
        result = tune_problem(options, &shapes->shape[i].problem, context, options->value[OPTION_BITS] != NULL,
                              now + (end - now) / (double)(shapes->n - i), label, &tuned, failure);
        if (result == 0) {
            print_tuned(name, &tuned);
            result = keep(context, &tuned, failure);
        }
    }
    if (tune_stopped && result == 0) {
        printf("ended by Ctrl-C: what is above is kept\n");
    }
    return result;
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
        char text[160];
        struct tuned tuned;
        if (tune_verify(options, &shapes->shape[i].problem, context, &tuned, failure) != 0) {
            return -1;
        }
        bad += !print_verified(name_of(&shapes->shape[i], text, sizeof text), &tuned);
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
        return no_folder(failure);
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
                                               : tune_shapes(options, context, &shapes, seconds, failure);
    }
    free(shapes.shape);
    return result;
}

static const struct {
    enum option_id id;
    int (*run)(const struct options *options, clattn_context *context, struct failure *failure);
} modes[] = { { OPTION_LIST, list }, { OPTION_EXPORT, export }, { OPTION_FORGET, forget }, { OPTION_VERIFY, measure } };
enum { MODES = sizeof modes / sizeof *modes };

static int run(const struct options *options, struct failure *failure)
{
    clattn_context *context;
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
    if (library_open(options, &context, failure) != 0) {
        return -1;
    }
    const int result = mode < 0 ? measure(options, context, failure) : modes[mode].run(options, context, failure);
    clattn_context_destroy(context);
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
