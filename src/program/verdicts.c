/* Verdicts on programs, in memory and on disk. Whatever fails on disk, programs are tried again. */
#include "program/verdicts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/environment.h"
#include "program/verdict_file.h"

#define REASON_BYTES 400

struct verdict {
    struct verdict *next;
    struct program_key key;
    enum verdict_kind kind;
    char why[REASON_BYTES];
};

struct verdicts {
    struct sha256 identity; /* of the library and the device: where each key starts */
    char *folder;           /* NULL: in memory only */
    int again;              /* files from before this context do not count */
    pthread_mutex_t lock;
    struct verdict *list; /* owned */
};

/* ---- opening -------------------------------------------------------------------------------- */

int verdicts_are_wanted(const struct device *device)
{
    const char *wanted = environment_self_check();
    return wanted && wanted[0] ? strcmp(wanted, "off") != 0 : !device_is_tested(device);
}

clattn_status verdicts_open(const struct device *device, struct verdicts **result)
{
    const char *wanted = environment_self_check();
    const int is_again = wanted && strcmp(wanted, "again") == 0;
    if (!verdicts_are_wanted(device)) {
        return CLATTN_OK;
    }
    if (wanted && wanted[0] && !is_again && strcmp(wanted, "always") != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "CLATTN_SELF_CHECK \"%s\": must be always, again or off", wanted);
    }
    struct verdicts *verdicts = calloc(1, sizeof(*verdicts));
    if (!verdicts) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for verdicts on programs");
    }
    pthread_mutex_init(&verdicts->lock, NULL);
    verdicts->folder = program_cache_folder();
    verdicts->again = is_again;
    program_cache_identity(device, &verdicts->identity);
    *result = verdicts;
    return CLATTN_OK;
}

void verdicts_close(struct verdicts *verdicts)
{
    if (!verdicts) {
        return;
    }
    while (verdicts->list) {
        struct verdict *next = verdicts->list->next;
        free(verdicts->list);
        verdicts->list = next;
    }
    pthread_mutex_destroy(&verdicts->lock);
    free(verdicts->folder);
    free(verdicts);
}

void verdicts_key(const struct verdicts *verdicts, const char *const *texts, size_t count, struct program_key *key)
{
    struct sha256 sha256 = verdicts->identity;
    for (size_t i = 0; i < count; ++i) {
        sha256_add(&sha256, texts[i], strlen(texts[i]) + 1);
    }
    sha256_end(&sha256, key->bytes);
}

int verdicts_start_again(const struct verdicts *verdicts)
{
    return verdicts && verdicts->again;
}

/* ---- in memory ------------------------------------------------------------------------------ */

static const struct verdict *find(const struct verdicts *verdicts, const struct program_key *key)
{
    const struct verdict *verdict = verdicts->list;
    while (verdict && memcmp(&verdict->key, key, sizeof(*key)) != 0) {
        verdict = verdict->next;
    }
    return verdict;
}

/* Where memory runs out, it is tried again. */
static void remember(struct verdicts *verdicts, const struct program_key *key, enum verdict_kind kind, const char *why)
{
    struct verdict *verdict = kind == VERDICT_NONE ? NULL : calloc(1, sizeof(*verdict));
    if (verdict) {
        verdict->key = *key;
        verdict->kind = kind;
        snprintf(verdict->why, sizeof(verdict->why), "%.*s", (int)strcspn(why, "\n"), why);
        pthread_mutex_lock(&verdicts->lock);
        verdict->next = verdicts->list;
        verdicts->list = verdict;
        pthread_mutex_unlock(&verdicts->lock);
    }
}

/* ---- trials --------------------------------------------------------------------------------- */

static enum verdict_kind known(struct verdicts *verdicts, const struct program_key *key, struct text *why)
{
    pthread_mutex_lock(&verdicts->lock);
    const struct verdict *verdict = find(verdicts, key);
    const enum verdict_kind kind = verdict ? verdict->kind : VERDICT_NONE;
    if (kind == VERDICT_BAD) {
        text_append(why, "%s", verdict->why);
    }
    pthread_mutex_unlock(&verdicts->lock);
    return kind;
}

#define TRYING "trying"
#define TRYING_AGAIN "trying again"

/* What the trial's file says, which another process left. `mark` is what to write into it where that is nothing. */
static enum verdict_kind judge_file(const struct verdict_trial *trial, const char **mark, char why[REASON_BYTES])
{
    char text[VERDICT_FILE_BYTES], name[PROGRAM_FILE_NAME_BYTES];
    const char *line = "", *word = verdict_file_read(trial->file, &trial->key, text, &line);
    if (!word || trial->verdicts->again) {
        return VERDICT_NONE;
    }
    if (strcmp(word, TRYING) == 0) {
        *mark = TRYING_AGAIN;
        return VERDICT_NONE;
    }
    if (strcmp(word, TRYING_AGAIN) == 0) {
        verdict_file_name(&trial->key, name);
        snprintf(why, REASON_BYTES,
                 "two processes ended, one after the other, while they tried %.120s; CLATTN_SELF_CHECK=again, or a new "
                 "driver, tries it again (%s)",
                 line, name);
        return VERDICT_BAD;
    }
    snprintf(why, REASON_BYTES, "%s", line);
    return strcmp(word, "good") == 0 ? VERDICT_GOOD : strcmp(word, "bad") == 0 ? VERDICT_BAD : VERDICT_NONE;
}

enum verdict_kind verdicts_begin(struct verdicts *verdicts, const struct program_key *key, const char *what,
                                 struct verdict_trial *trial, struct text *why)
{
    char reason[REASON_BYTES] = "";
    const char *mark = TRYING;
    enum verdict_kind kind = known(verdicts, key, why);
    *trial = (struct verdict_trial){ verdicts, *key, -1 };
    if (kind != VERDICT_NONE) {
        return kind;
    }
    trial->file = verdict_file_open(verdicts->folder, key);
    if (trial->file >= 0) {
        kind = judge_file(trial, &mark, reason);
    }
    if (kind == VERDICT_NONE && trial->file >= 0) {
        verdict_file_write(trial->file, key, mark, what);
    } else if (kind != VERDICT_NONE) {
        verdict_file_close(trial->file);
        remember(verdicts, key, kind, reason);
        text_append(why, "%s", kind == VERDICT_BAD ? reason : "");
    }
    return kind;
}

void verdicts_end(struct verdict_trial *trial, enum verdict_kind kind, const char *why)
{
    char line[REASON_BYTES];
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(why, "\n"), why);
    remember(trial->verdicts, &trial->key, kind, line);
    if (trial->file >= 0 && kind == VERDICT_NONE) {
        verdict_file_remove(trial->verdicts->folder, &trial->key, trial->file);
    } else if (trial->file >= 0) {
        verdict_file_write(trial->file, &trial->key, kind == VERDICT_GOOD ? "good" : "bad", line);
    }
    if (trial->file >= 0) {
        verdict_file_close(trial->file);
    }
}
