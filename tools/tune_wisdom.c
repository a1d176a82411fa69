/* The file of wisdom, as `clattn tune` shows, writes and empties it. */
#define _XOPEN_SOURCE 700
#include "tune_wisdom.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "document.h"
#include "insides.h"

int tune_no_folder(struct failure *failure)
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
                            : tune_no_folder(failure);
    free(path);
    return result;
}

void tune_print_tile(const struct wisdom_tile *tile)
{
    struct text text = TEXT_INIT;
    wisdom_describe_tile(tile, &text);
    fputs(text.data ? text.data : "", stdout);
    text_free(&text);
}

double tune_gain_of(const struct wisdom_fact *fact)
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
        tune_print_tile(&fact->tile);
    } else {
        printf("taken (--bits)");
    }
    printf(", %.2f times as fast", tune_gain_of(fact));
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
        tune_no_folder(failure);
    }
    if (own && path) {
        *path = found;
    } else {
        free(found);
    }
    return own;
}

int tune_list(const clattn_context *context, struct failure *failure)
{
    const struct wisdom *wisdom = context->wisdom;
    char *path;
    struct wisdom *own = own_wisdom(context, &path, failure);
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

int tune_export(const clattn_context *context, struct failure *failure)
{
    cJSON *json = document_begin("tune", context), *facts = cJSON_AddArrayToObject(json, "facts");
    for (size_t i = 0; i < context->wisdom->count; i++) {
        cJSON_AddItemToArray(facts, fact_json(&context->wisdom->facts[i]));
    }
    return document_print(json, failure);
}

int tune_begin_alone(const clattn_context *context, int *lock, struct failure *failure)
{
    static const struct timespec pause = { 0, 100000000 };
    for (int is_told = 0; !tune_stopped; is_told = 1) {
        const int found = wisdom_lock(context, lock);
        if (found != 0) {
            return found > 0 ? 0 : cannot_write(context, failure);
        }
        if (!is_told) {
            fputs("clattn tune: another clattn tune of this device runs, and is waited for; Ctrl-C ends\n", stderr);
        }
        nanosleep(&pause, NULL);
    }
    return 1;
}

int tune_forget(const clattn_context *context, struct failure *failure)
{
    char *path;
    int lock = -1;
    struct wisdom *own = own_wisdom(context, &path, failure);
    if (!own) {
        return -1;
    }
    const size_t count = own->count;
    own->count = 0;
    const int has_lock = count > 0 && tune_begin_alone(context, &lock, failure) == 0;
    const int is_done = count == 0 || (has_lock && wisdom_store(context, own));
    if (is_done) {
        printf("%s: %zu facts forgotten\n", path, count);
    }
    if (has_lock) {
        wisdom_unlock(lock);
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

int tune_keep(clattn_context *context, const struct tuned *tuned, struct failure *failure)
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
