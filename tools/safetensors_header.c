#include "safetensors_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

const char *const safetensors_type_names[TENSOR_TYPES] = {
    [TENSOR_FLOAT32] = "F32", [TENSOR_FLOAT16] = "F16",  [TENSOR_BFLOAT16] = "BF16", [TENSOR_FLOAT64] = "F64",
    [TENSOR_INT32] = "I32",   [TENSOR_INT64] = "I64",    [TENSOR_UINT8] = "U8",      [TENSOR_INT8] = "I8",
    [TENSOR_BOOL] = "BOOL",   [TENSOR_E4M3] = "F8_E4M3", [TENSOR_E5M2] = "F8_E5M2",  [TENSOR_E8M0] = "F8_E8M0",
    [TENSOR_UINT32] = "U32",
};

/* The format's other types, which a file may have and nothing here reads. */
static const struct {
    const char *name;
    int bits;
} foreign_types[] = { { "I16", 16 },    { "U16", 16 }, { "U64", 64 },        { "C64", 64 },       { "F6_E2M3", 6 },
                      { "F6_E3M2", 6 }, { "F4", 4 },   { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 } };
enum { FOREIGN_TYPES = sizeof foreign_types / sizeof foreign_types[0] };

#define FOREIGN_COUNT_MAX ((int64_t)1 << 53) /* elements; times 64 bits they fit */

const char safetensors_metadata_key[] = "__metadata__";

const char *safetensors_type_list(char list[SAFETENSORS_TYPE_LIST])
{
    size_t used = 0;
    for (int i = 0; i < TENSOR_TYPES; i++) {
        used += (size_t)snprintf(list + used, SAFETENSORS_TYPE_LIST - used, "%s%s", i ? ", " : "",
                                 safetensors_type_names[i]);
    }
    return list;
}

/* What is being read, and how far. */
struct reading {
    struct safetensors *file;
    char *at;
    size_t entry_room, note_room;
    int has_metadata;
    struct failure *failure;
};

/* Room for one item more. */
static int reserve(struct reading *reading, void **items, size_t n, size_t *room, size_t item_bytes)
{
    size_t larger_room = *room ? *room + *room / 2 + 1 : 16;
    void *larger;
    if (n < *room) {
        return 0;
    }
    larger = realloc(*items, larger_room * item_bytes);
    if (!larger) {
        return failure_failed(reading->failure, "out of memory");
    }
    *items = larger;
    *room = larger_room;
    return 0;
}

/* ---- one tensor ---- */

static int tensor_misuse(struct reading *reading, const struct safetensors_entry *entry, const char *rule)
{
    return failure_misuse(reading->failure, "file %s: tensor %s: %s", reading->file->path, entry->name, rule);
}

/* -1: none of the format's others. */
static int foreign_type(const char *name)
{
    for (int i = 0; i < FOREIGN_TYPES; i++) {
        if (strcmp(name, foreign_types[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

static int read_type(struct reading *reading, struct safetensors_entry *entry)
{
    char names[SAFETENSORS_TYPE_LIST];
    entry->dtype = json_take_string(&reading->at);
    if (!entry->dtype) {
        return tensor_misuse(reading, entry, "dtype: must be a string");
    }
    for (int i = 0; i < TENSOR_TYPES; i++) {
        if (strcmp(entry->dtype, safetensors_type_names[i]) == 0) {
            entry->type = (enum tensor_type)i;
            return 0;
        }
    }
    entry->type = TENSOR_TYPES;
    return foreign_type(entry->dtype) >= 0
               ? 0
               : failure_misuse(reading->failure, "file %s: tensor %s: dtype %.40s: must be one of %s",
                                reading->file->path, entry->name, entry->dtype, safetensors_type_list(names));
}

static int read_shape(struct reading *reading, struct safetensors_entry *entry)
{
    entry->dims = 0;
    if (!json_take(&reading->at, '[')) {
        return tensor_misuse(reading, entry, "shape: must be an array");
    }
    if (json_take(&reading->at, ']')) {
        return 0;
    }
    do {
        if (entry->dims == TENSOR_DIMS_MAX) {
            return failure_misuse(reading->failure, "file %s: tensor %s: shape: must have at most %d axes",
                                  reading->file->path, entry->name, TENSOR_DIMS_MAX);
        }
        if (!json_take_integer(&reading->at, &entry->shape[entry->dims++])) {
            return tensor_misuse(reading, entry, "shape: extents must be integers from 0 to 2^53");
        }
    } while (json_take(&reading->at, ','));
    json_take(&reading->at, ']');
    return 0;
}

static int read_offsets(struct reading *reading, struct safetensors_entry *entry)
{
    int64_t begin = 0, end = 0;
    if (!json_take(&reading->at, '[') || !json_take_integer(&reading->at, &begin) || !json_take(&reading->at, ',') ||
        !json_take_integer(&reading->at, &end) || !json_take(&reading->at, ']') || end < begin) {
        return tensor_misuse(reading, entry, "data_offsets: must be two integers, begin <= end");
    }
    entry->begin = (uint64_t)begin;
    entry->end = (uint64_t)end;
    return 0;
}

enum { FIELD_TYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELD_ALL = 7 };

static int read_field(struct reading *reading, struct safetensors_entry *entry, int *seen)
{
    const char *key = json_take_string(&reading->at);
    int which = !key                               ? 0
                : strcmp(key, "dtype") == 0        ? FIELD_TYPE
                : strcmp(key, "shape") == 0        ? FIELD_SHAPE
                : strcmp(key, "data_offsets") == 0 ? FIELD_OFFSETS
                                                   : 0;
    if (!which || (*seen & which)) {
        return failure_misuse(reading->failure, "file %s: tensor %s: field %.40s: %s", reading->file->path, entry->name,
                              key ? key : "", which ? "is there twice" : "must be dtype, shape or data_offsets");
    }
    *seen |= which;
    json_take(&reading->at, ':');
    return which == FIELD_TYPE    ? read_type(reading, entry)
           : which == FIELD_SHAPE ? read_shape(reading, entry)
                                  : read_offsets(reading, entry);
}

/* As tensor_measure, of the file's types: -1 also where the last byte is not full. */
static int measure(const struct safetensors_entry *entry, int64_t *bytes)
{
    int64_t count, bits;
    if (entry->type != TENSOR_TYPES) {
        return tensor_measure(entry->type, entry->dims, entry->shape, &count, bytes);
    }
    if (tensor_measure(TENSOR_UINT8, entry->dims, entry->shape, &count, bytes) != 0 || count > FOREIGN_COUNT_MAX) {
        return -1;
    }
    bits = count * foreign_types[foreign_type(entry->dtype)].bits;
    *bytes = bits / 8;
    return bits % 8 ? -1 : 0;
}

/* Shape, type and offsets fit each other. */
static int check_entry(struct reading *reading, const struct safetensors_entry *entry)
{
    char shape[TENSOR_SHAPE_TEXT];
    struct tensor like = TENSOR_INIT;
    int64_t bytes;
    like.dims = entry->dims;
    memcpy(like.shape, entry->shape, sizeof like.shape);
    tensor_shape_text(&like, shape);
    if (measure(entry, &bytes) != 0) {
        return failure_misuse(
            reading->failure,
            "file %s: tensor %s: shape %s of %s: its size does not fit into 62 bits, or ends within a byte",
            reading->file->path, entry->name, shape, entry->dtype);
    }
    if ((uint64_t)bytes != entry->end - entry->begin) {
        return failure_misuse(reading->failure,
                              "file %s: tensor %s: data_offsets span %llu bytes: shape %s of %s needs %lld",
                              reading->file->path, entry->name, (unsigned long long)(entry->end - entry->begin), shape,
                              entry->dtype, (long long)bytes);
    }
    return 0;
}

static int read_entry(struct reading *reading, const char *name)
{
    struct safetensors *file = reading->file;
    struct safetensors_entry *entry;
    int seen = 0;
    if (reserve(reading, (void **)&file->entries, file->n_entries, &reading->entry_room, sizeof *entry) != 0) {
        return -1;
    }
    entry = &file->entries[file->n_entries++];
    memset(entry, 0, sizeof *entry);
    entry->name = name;
    if (!json_take(&reading->at, '{')) {
        return tensor_misuse(reading, entry, "must be an object");
    }
    if (!json_take(&reading->at, '}')) {
        do {
            if (read_field(reading, entry, &seen) != 0) {
                return -1;
            }
        } while (json_take(&reading->at, ','));
        json_take(&reading->at, '}');
    }
    if (seen != FIELD_ALL) {
        return tensor_misuse(reading, entry, "must have dtype, shape and data_offsets");
    }
    return check_entry(reading, entry);
}

/* ---- the metadata ---- */

static int read_note(struct reading *reading)
{
    struct safetensors *file = reading->file;
    struct safetensors_note *note;
    if (reserve(reading, (void **)&file->notes, file->n_notes, &reading->note_room, sizeof *note) != 0) {
        return -1;
    }
    note = &file->notes[file->n_notes];
    note->key = json_take_string(&reading->at);
    if (note->key) {
        json_take(&reading->at, ':');
    }
    note->text = note->key ? json_take_string(&reading->at) : NULL;
    if (!note->text) {
        return failure_misuse(reading->failure, "file %s: %s: %.80s: must be a string without U+0000", file->path,
                              safetensors_metadata_key, note->key ? note->key : "a name");
    }
    file->n_notes++;
    return 0;
}

static int read_metadata(struct reading *reading)
{
    const char *path = reading->file->path;
    if (reading->has_metadata) {
        return failure_misuse(reading->failure, "file %s: header: the name %s is there twice", path,
                              safetensors_metadata_key);
    }
    reading->has_metadata = 1;
    if (!json_take(&reading->at, '{')) {
        return failure_misuse(reading->failure, "file %s: %s: must be an object", path, safetensors_metadata_key);
    }
    if (json_take(&reading->at, '}')) {
        return 0;
    }
    do {
        if (read_note(reading) != 0) {
            return -1;
        }
    } while (json_take(&reading->at, ','));
    json_take(&reading->at, '}');
    return 0;
}

/* ---- the whole ---- */

static int compare_names(const void *left, const void *right)
{
    return strcmp(((const struct safetensors_entry *)left)->name, ((const struct safetensors_entry *)right)->name);
}

static int compare_keys(const void *left, const void *right)
{
    return strcmp(((const struct safetensors_note *)left)->key, ((const struct safetensors_note *)right)->key);
}

static int twice(struct reading *reading, const char *name)
{
    return failure_misuse(reading->failure, "file %s: header: the name %.80s is there twice", reading->file->path,
                          name);
}

/* Sorts entries and notes by their names: no name twice. */
static int check_names(struct reading *reading)
{
    struct safetensors *file = reading->file;
    if (file->n_entries) {
        qsort(file->entries, file->n_entries, sizeof *file->entries, compare_names);
    }
    if (file->n_notes) {
        qsort(file->notes, file->n_notes, sizeof *file->notes, compare_keys);
    }
    for (size_t i = 1; i < file->n_entries; i++) {
        if (compare_names(&file->entries[i - 1], &file->entries[i]) == 0) {
            return twice(reading, file->entries[i].name);
        }
    }
    for (size_t i = 1; i < file->n_notes; i++) {
        if (compare_keys(&file->notes[i - 1], &file->notes[i]) == 0) {
            return twice(reading, file->notes[i].key);
        }
    }
    return 0;
}

static int check_text(struct reading *reading, size_t bytes)
{
    const char *text = reading->file->header, *end = NULL, *wrong;
    if (text[0] != '{') {
        return failure_misuse(reading->failure, "file %s: header: must begin with {", reading->file->path);
    }
    wrong = json_check(text, &end);
    if (wrong) {
        return failure_misuse(reading->failure, "file %s: header: is not JSON at byte %ld, or nested too deeply",
                              reading->file->path, (long)(wrong - text));
    }
    end += strspn(end, " ");
    if (end != text + bytes) {
        return failure_misuse(reading->failure, "file %s: header: only blanks may follow the JSON, byte %ld is not",
                              reading->file->path, (long)(end - text));
    }
    return 0;
}

int safetensors_header_read(struct safetensors *file, size_t bytes, struct failure *failure)
{
    struct reading reading = { file, file->header, 0, 0, 0, failure };
    if (check_text(&reading, bytes) != 0) {
        return -1;
    }
    json_take(&reading.at, '{');
    if (json_take(&reading.at, '}')) {
        return 0;
    }
    do {
        const char *name = json_take_string(&reading.at);
        if (!name) {
            return failure_misuse(failure, "file %s: header: names must not have U+0000", file->path);
        }
        json_take(&reading.at, ':');
        if ((strcmp(name, safetensors_metadata_key) == 0 ? read_metadata(&reading) : read_entry(&reading, name)) != 0) {
            return -1;
        }
    } while (json_take(&reading.at, ','));
    return check_names(&reading);
}
