#define _XOPEN_SOURCE 700
#include "safetensors_index.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "insides.h"
#include "json.h"

/* ---- the document ---- */

static int misuse(const struct safetensors_index *index, const char *rule, const char *what, struct failure *failure)
{
    return failure_misuse(failure, "file %s: %s%s%.80s", index->path, rule, what ? " " : "", what ? what : "");
}

/* The file's text, ended with 0. */
static int read_text(struct safetensors_index *index, struct failure *failure)
{
    uint64_t bytes;
    int descriptor, result = -1;
    if (file_open(index->path, &descriptor, &bytes, failure) != 0) {
        return -1;
    }
    if (bytes > SAFETENSORS_HEADER_MAX_BYTES) {
        failure_misuse(failure, "file %s: has %llu bytes: an index has at most %d", index->path,
                       (unsigned long long)bytes, SAFETENSORS_HEADER_MAX_BYTES);
    } else if (!(index->text = calloc((size_t)bytes + 1, 1))) {
        failure_failed(failure, "out of memory");
    } else {
        result = file_read(index->path, descriptor, 0, index->text, (size_t)bytes, failure);
    }
    close(descriptor);
    return result;
}

/* Whether a name is that of a file in the same folder. */
static int is_plain_name(const char *name)
{
    return name[0] && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int add(struct safetensors_index *index, struct safetensors_place place, size_t *room, struct failure *failure)
{
    if (index->n_places == *room) {
        const size_t larger_room = *room ? 2 * *room : 64;
        struct safetensors_place *larger = realloc(index->places, larger_room * sizeof *larger);
        if (!larger) {
            return failure_failed(failure, "out of memory");
        }
        index->places = larger;
        *room = larger_room;
    }
    index->places[index->n_places++] = place;
    return 0;
}

/* "weight_map": { "name": "shard", ... } from its brace on. */
static int read_map(struct safetensors_index *index, char **at, struct failure *failure)
{
    size_t room = 0;
    if (!json_take(at, '{')) {
        return misuse(index, "weight_map: must be an object", NULL, failure);
    }
    if (json_take(at, '}')) {
        return 0;
    }
    do {
        struct safetensors_place place = { json_take_string(at), NULL };
        json_take(at, ':');
        place.shard = place.tensor ? json_take_string(at) : NULL;
        if (!place.shard || !is_plain_name(place.shard)) {
            return misuse(index, "weight_map: must name a file in the index's folder for each tensor, and does not for",
                          place.tensor ? place.tensor : "a name with U+0000", failure);
        }
        if (add(index, place, &room, failure) != 0) {
            return -1;
        }
    } while (json_take(at, ','));
    json_take(at, '}');
    return 0;
}

/* Its fields, behind the brace. */
static int read_fields(struct safetensors_index *index, char **at, int *maps, struct failure *failure)
{
    if (json_take(at, '}')) {
        return 0;
    }
    do {
        const char *key = json_take_string(at);
        if (!key) {
            return misuse(index, "names must not have U+0000", NULL, failure);
        }
        json_take(at, ':');
        if (strcmp(key, "weight_map") != 0) {
            json_skip(at);
        } else if (++*maps, read_map(index, at, failure) != 0) {
            return -1;
        }
    } while (json_take(at, ','));
    return 0;
}

static int read_document(struct safetensors_index *index, struct failure *failure)
{
    const char *end = NULL, *wrong = json_check(index->text, &end);
    char *at = index->text;
    int maps = 0;
    if (wrong || end[strspn(end, " \t\r\n")]) {
        return misuse(index, "is no JSON document", NULL, failure);
    }
    if (!json_take(&at, '{')) {
        return misuse(index, "must be an object with a weight_map", NULL, failure);
    }
    if (read_fields(index, &at, &maps, failure) != 0) {
        return -1;
    }
    return maps == 1 ? 0
                     : misuse(index, "must have one weight_map, of tensors and the files they are in", NULL, failure);
}

/* ---- the index ---- */

static int compare(const void *left, const void *right)
{
    const struct safetensors_place *a = left, *b = right;
    const int order = strcmp(a->shard, b->shard);
    return order ? order : strcmp(a->tensor, b->tensor);
}

int safetensors_index_open(const char *path, struct safetensors_index *index, struct failure *failure)
{
    memset(index, 0, sizeof *index);
    index->path = path;
    if (read_text(index, failure) != 0 || read_document(index, failure) != 0) {
        safetensors_index_close(index);
        return -1;
    }
    if (index->n_places) {
        qsort(index->places, index->n_places, sizeof *index->places, compare);
    }
    return 0;
}

void safetensors_index_close(struct safetensors_index *index)
{
    free(index->text);
    free(index->places);
    memset(index, 0, sizeof *index);
}

/* ---- shards ---- */

/* The first place of shard i; n_places: there are no more. */
static size_t begin_of(const struct safetensors_index *index, size_t i)
{
    size_t at = 0;
    for (size_t shard = 0; at < index->n_places && shard < i; shard++) {
        const char *name = index->places[at].shard;
        while (at < index->n_places && strcmp(index->places[at].shard, name) == 0) {
            at++;
        }
    }
    return at;
}

static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    struct text text = TEXT_INIT;
    text_append(&text, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    return text_take(&text);
}

int safetensors_index_shard(const struct safetensors_index *index, size_t i, char **path, struct safetensors *file,
                            struct failure *failure)
{
    const size_t begin = begin_of(index, i);
    if (begin == index->n_places) {
        return 1;
    }
    const char *shard = index->places[begin].shard;
    *path = beside(index->path, shard);
    if (!*path) {
        return failure_failed(failure, "out of memory");
    }
    if (safetensors_open(*path, file, failure) != 0) {
        free(*path);
        return -1;
    }
    for (size_t at = begin; at < index->n_places && strcmp(index->places[at].shard, shard) == 0; at++) {
        if (!safetensors_find(file, index->places[at].tensor)) {
            failure_misuse(failure, "file %s: has no tensor %.80s, which %s says is in it", *path,
                           index->places[at].tensor, index->path);
            safetensors_close(file);
            free(*path);
            return -1;
        }
    }
    return 0;
}
