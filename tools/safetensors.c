#define _XOPEN_SOURCE 700
#include "safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "files.h"

static const char *const type_names[TENSOR_TYPES] = {
    [TENSOR_FLOAT32] = "F32", [TENSOR_FLOAT16] = "F16", [TENSOR_BFLOAT16] = "BF16", [TENSOR_FLOAT64] = "F64",
    [TENSOR_INT32] = "I32",   [TENSOR_INT64] = "I64",   [TENSOR_UINT8] = "U8",      [TENSOR_BOOL] = "BOOL",
};

static const char metadata_key[] = "__metadata__";

/* ---- the header: one entry at a time ---- */

/* An integer that JSON's numbers hold exactly. */
static int read_integer(const cJSON *node, int64_t *value)
{
    if (!cJSON_IsNumber(node) || !(node->valuedouble >= 0) || node->valuedouble > 9007199254740992.0 ||
        node->valuedouble != floor(node->valuedouble))
        return -1;
    *value = (int64_t)node->valuedouble;
    return 0;
}

static int read_type(const char *path, const cJSON *node, struct safetensors_entry *entry, struct failure *failure)
{
    if (!cJSON_IsString(node))
        return failure_misuse(failure, "file %s: tensor %s: dtype: must be a string", path, entry->name);
    for (int i = 0; i < TENSOR_TYPES; i++)
        if (strcmp(node->valuestring, type_names[i]) == 0) {
            entry->type = (enum tensor_type)i;
            return 0;
        }
    return failure_misuse(failure, "file %s: tensor %s: dtype %.40s: must be F32, F16, BF16, F64, I32, I64, U8 or BOOL",
                          path, entry->name, node->valuestring);
}

static int read_shape(const char *path, const cJSON *node, struct safetensors_entry *entry, struct failure *failure)
{
    const cJSON *extent;
    entry->dims = 0;
    if (!cJSON_IsArray(node))
        return failure_misuse(failure, "file %s: tensor %s: shape: must be an array", path, entry->name);
    cJSON_ArrayForEach(extent, node)
    {
        if (entry->dims == TENSOR_DIMS_MAX)
            return failure_misuse(failure, "file %s: tensor %s: shape: must have at most %d axes", path, entry->name,
                                  TENSOR_DIMS_MAX);
        if (read_integer(extent, &entry->shape[entry->dims++]) != 0)
            return failure_misuse(failure, "file %s: tensor %s: shape: extents must be integers from 0 to 2^53", path,
                                  entry->name);
    }
    return 0;
}

static int read_offsets(const char *path, const cJSON *node, struct safetensors_entry *entry, struct failure *failure)
{
    int64_t begin, end;
    if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) != 2 ||
        read_integer(cJSON_GetArrayItem(node, 0), &begin) != 0 ||
        read_integer(cJSON_GetArrayItem(node, 1), &end) != 0 || end < begin)
        return failure_misuse(failure, "file %s: tensor %s: data_offsets: must be two integers, begin <= end", path,
                              entry->name);
    entry->begin = (uint64_t)begin;
    entry->end = (uint64_t)end;
    return 0;
}

enum { FIELD_TYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELD_ALL = 7 };

static int read_field(const char *path, const cJSON *node, struct safetensors_entry *entry, int *seen,
                      struct failure *failure)
{
    const char *key = node->string;
    int which = strcmp(key, "dtype") == 0          ? FIELD_TYPE
                : strcmp(key, "shape") == 0        ? FIELD_SHAPE
                : strcmp(key, "data_offsets") == 0 ? FIELD_OFFSETS
                                                   : 0;
    if (!which || (*seen & which))
        return failure_misuse(failure, "file %s: tensor %s: field %.40s: %s", path, entry->name, key,
                              which ? "is there twice" : "must be dtype, shape or data_offsets");
    *seen |= which;
    return which == FIELD_TYPE    ? read_type(path, node, entry, failure)
           : which == FIELD_SHAPE ? read_shape(path, node, entry, failure)
                                  : read_offsets(path, node, entry, failure);
}

static int read_entry(const char *path, const cJSON *node, struct safetensors_entry *entry, struct failure *failure)
{
    const cJSON *field;
    char shape[TENSOR_SHAPE_TEXT];
    struct tensor like = TENSOR_INIT;
    int64_t count, bytes;
    int seen = 0;
    entry->name = node->string;
    if (!cJSON_IsObject(node))
        return failure_misuse(failure, "file %s: tensor %s: must be an object", path, entry->name);
    cJSON_ArrayForEach(field, node) if (read_field(path, field, entry, &seen, failure) != 0) return -1;
    if (seen != FIELD_ALL)
        return failure_misuse(failure, "file %s: tensor %s: must have dtype, shape and data_offsets", path,
                              entry->name);
    like.dims = entry->dims;
    memcpy(like.shape, entry->shape, sizeof like.shape);
    tensor_shape_text(&like, shape);
    if (tensor_measure(entry->type, entry->dims, entry->shape, &count, &bytes) != 0)
        return failure_misuse(failure, "file %s: tensor %s: shape %s: its size does not fit into 62 bits", path,
                              entry->name, shape);
    if ((uint64_t)bytes != entry->end - entry->begin)
        return failure_misuse(failure, "file %s: tensor %s: data_offsets span %llu bytes: shape %s of %s needs %lld",
                              path, entry->name, (unsigned long long)(entry->end - entry->begin), shape,
                              type_names[entry->type], (long long)bytes);
    return 0;
}

static int check_metadata(const char *path, const cJSON *metadata, struct failure *failure)
{
    const cJSON *note;
    if (!cJSON_IsObject(metadata))
        return failure_misuse(failure, "file %s: %s: must be an object", path, metadata_key);
    cJSON_ArrayForEach(note, metadata) if (!cJSON_IsString(note)) return failure_misuse(
        failure, "file %s: %s: %.80s: must be a string", path, metadata_key, note->string);
    return 0;
}

/* ---- the header as a whole ---- */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* No key of an object twice. */
static int check_names(const char *path, const cJSON *object, struct failure *failure)
{
    size_t n = (size_t)cJSON_GetArraySize(object), i = 0;
    const char **names = malloc((n + 1) * sizeof *names);
    const cJSON *node;
    int result = 0;
    if (!names)
        return failure_failed(failure, "out of memory");
    cJSON_ArrayForEach(node, object) names[i++] = node->string;
    qsort(names, n, sizeof *names, compare_names);
    for (i = 1; i < n && result == 0; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            result = failure_misuse(failure, "file %s: header: the name %.80s is there twice", path, names[i]);
    free(names);
    return result;
}

static int compare_positions(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Sorts the entries by their place and checks that they fill the data exactly. */
static int check_places(struct safetensors *file, uint64_t data_bytes, struct failure *failure)
{
    uint64_t reached = 0;
    qsort(file->entries, file->n_entries, sizeof *file->entries, compare_positions);
    for (size_t i = 0; i < file->n_entries; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        if (entry->begin != reached)
            return failure_misuse(failure, "file %s: tensor %s: begins at byte %llu of the data: %s %llu", file->path,
                                  entry->name, (unsigned long long)entry->begin,
                                  entry->begin < reached ? "overlaps the tensor before it, which ends at"
                                                         : "leaves a hole after byte",
                                  (unsigned long long)reached);
        reached = entry->end;
    }
    if (reached != data_bytes)
        return failure_misuse(failure, "file %s: has %llu bytes of data: its tensors need exactly %llu%s", file->path,
                              (unsigned long long)data_bytes, (unsigned long long)reached,
                              reached > data_bytes ? "; it is truncated" : "");
    return 0;
}

static int read_entries(struct safetensors *file, struct failure *failure)
{
    const cJSON *node;
    size_t n = (size_t)cJSON_GetArraySize(file->header);
    if (check_names(file->path, file->header, failure) != 0)
        return -1;
    file->entries = calloc(n + 1, sizeof *file->entries);
    if (!file->entries)
        return failure_failed(failure, "out of memory");
    cJSON_ArrayForEach(node, file->header)
    {
        if (strcmp(node->string, metadata_key) == 0) {
            if (check_metadata(file->path, node, failure) != 0 || check_names(file->path, node, failure) != 0)
                return -1;
        } else if (read_entry(file->path, node, &file->entries[file->n_entries++], failure) != 0) {
            return -1;
        }
    }
    return 0;
}

static int parse_header(struct safetensors *file, const char *text, size_t bytes, struct failure *failure)
{
    const char *end = NULL;
    if (text[0] != '{')
        return failure_misuse(failure, "file %s: header: must begin with {", file->path);
    file->header = cJSON_ParseWithOpts(text, &end, 0);
    if (!file->header)
        return failure_misuse(failure, "file %s: header: is not JSON at byte %ld, or nested too deeply", file->path,
                              end ? (long)(end - text) : 0L);
    while (end < text + bytes && *end == ' ')
        end++;
    if (end != text + bytes)
        return failure_misuse(failure, "file %s: header: only blanks may follow the JSON, byte %ld is not", file->path,
                              (long)(end - text));
    return read_entries(file, failure);
}

static int read_header(struct safetensors *file, uint64_t size_bytes, struct failure *failure)
{
    unsigned char start[8];
    uint64_t header_bytes = 0;
    char *text;
    int result;
    if (size_bytes < sizeof start)
        return failure_misuse(failure, "file %s: %llu bytes: too short for a .safetensors file", file->path,
                              (unsigned long long)size_bytes);
    if (file_read(file->path, file->descriptor, 0, start, sizeof start, failure) != 0)
        return -1;
    for (int i = 7; i >= 0; i--)
        header_bytes = header_bytes << 8 | start[i];
    if (header_bytes > SAFETENSORS_HEADER_MAX_BYTES || header_bytes > size_bytes - sizeof start || header_bytes < 2)
        return failure_misuse(
            failure,
            "file %s: not a .safetensors file, or damaged: begins with a header of %llu bytes, must be from "
            "2 to %d and inside the file of %llu bytes",
            file->path, (unsigned long long)header_bytes, SAFETENSORS_HEADER_MAX_BYTES, (unsigned long long)size_bytes);
    file->data_position = sizeof start + header_bytes;
    text = calloc(header_bytes + 1, 1);
    if (!text)
        return failure_failed(failure, "out of memory");
    result = file_read(file->path, file->descriptor, sizeof start, text, header_bytes, failure);
    if (result == 0)
        result = parse_header(file, text, header_bytes, failure);
    if (result == 0)
        result = check_places(file, size_bytes - file->data_position, failure);
    free(text);
    return result;
}

int safetensors_open(const char *path, struct safetensors *file, struct failure *failure)
{
    uint64_t size_bytes;
    memset(file, 0, sizeof *file);
    file->path = path;
    if (file_open(path, &file->descriptor, &size_bytes, failure) != 0)
        return -1;
    if (read_header(file, size_bytes, failure) == 0)
        return 0;
    safetensors_close(file);
    return -1;
}

void safetensors_close(struct safetensors *file)
{
    close(file->descriptor);
    cJSON_Delete(file->header);
    free(file->entries);
    memset(file, 0, sizeof *file);
    file->descriptor = -1;
}

/* ---- what the file holds ---- */

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->n_entries; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, metadata_key);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry, struct tensor *tensor,
                     struct failure *failure)
{
    if (tensor_create(tensor, entry->type, entry->dims, entry->shape, entry->name, failure) != 0)
        return -1;
    if (file_read(file->path, file->descriptor, file->data_position + entry->begin, tensor->data, tensor_bytes(tensor),
                  failure) == 0)
        return 0;
    tensor_free(tensor);
    return -1;
}

/* ---- writing ---- */

static cJSON *describe(const struct tensor *tensor, double begin, double end)
{
    cJSON *entry = cJSON_CreateObject(), *list;
    cJSON_AddStringToObject(entry, "dtype", type_names[tensor->type]);
    list = cJSON_AddArrayToObject(entry, "shape");
    for (int i = 0; i < tensor->dims; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)tensor->shape[i]));
    list = cJSON_AddArrayToObject(entry, "data_offsets");
    cJSON_AddItemToArray(list, cJSON_CreateNumber(begin));
    cJSON_AddItemToArray(list, cJSON_CreateNumber(end));
    return entry;
}

/* The header's text, which the caller frees; NULL without memory. */
static char *format_header(size_t n_items, const struct safetensors_item *items, size_t n_notes,
                           const struct safetensors_note *notes)
{
    cJSON *header = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(header, metadata_key);
    double position = 0;
    char *text;
    for (size_t i = 0; i < n_notes; i++)
        if (notes[i].text)
            cJSON_AddStringToObject(metadata, notes[i].key, notes[i].text);
    for (size_t i = 0; i < n_items; i++) {
        double end = position + (double)tensor_bytes(items[i].tensor);
        cJSON_AddItemToObject(header, items[i].name, describe(items[i].tensor, position, end));
        position = end;
    }
    text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

int safetensors_write(const char *path, size_t n_items, const struct safetensors_item *items, size_t n_notes,
                      const struct safetensors_note *notes, struct failure *failure)
{
    char *text = format_header(n_items, items, n_notes, notes);
    struct file_part *parts = calloc(n_items + 3, sizeof *parts);
    unsigned char start[8];
    int result = -1;
    if (text && parts) {
        size_t bytes = strlen(text), blanks = (8 - bytes % 8) % 8;
        for (int i = 0; i < 8; i++)
            start[i] = (unsigned char)((uint64_t)(bytes + blanks) >> (8 * i));
        parts[0] = (struct file_part){ start, 8 };
        parts[1] = (struct file_part){ text, bytes };
        parts[2] = (struct file_part){ "        ", blanks };
        for (size_t i = 0; i < n_items; i++)
            parts[3 + i] = (struct file_part){ items[i].tensor->data, tensor_bytes(items[i].tensor) };
        result = file_write(path, n_items + 3, parts, failure);
    } else {
        failure_failed(failure, "output %s: out of memory", path);
    }
    cJSON_free(text);
    free(parts);
    return result;
}
