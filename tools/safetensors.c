#define _XOPEN_SOURCE 700
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "file_kind.h"
#include "files.h"
#include "safetensors_header.h"

/* ---- reading ---- */

static int compare_positions(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Sorts the entries by their place and checks that they fill the data exactly. */
static int check_places(struct safetensors *file, uint64_t data_bytes, struct failure *failure)
{
    uint64_t reached = 0;
    if (file->n_entries) {
        qsort(file->entries, file->n_entries, sizeof *file->entries, compare_positions);
    }
    for (size_t i = 0; i < file->n_entries; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        if (entry->begin != reached) {
            return failure_misuse(failure, "file %s: tensor %s: begins at byte %llu of the data: %s %llu", file->path,
                                  entry->name, (unsigned long long)entry->begin,
                                  entry->begin < reached ? "overlaps the tensor before it, which ends at"
                                                         : "leaves a hole after byte",
                                  (unsigned long long)reached);
        }
        reached = entry->end;
    }
    if (reached != data_bytes) {
        return failure_misuse(failure, "file %s: has %llu bytes of data: its tensors need exactly %llu%s", file->path,
                              (unsigned long long)data_bytes, (unsigned long long)reached,
                              reached > data_bytes ? "; it is truncated" : "");
    }
    return 0;
}

static int read_header(struct safetensors *file, uint64_t size_bytes, struct failure *failure)
{
    unsigned char start[8];
    uint64_t header_bytes = 0;
    if (size_bytes < sizeof start) {
        const char *kind = file_kind(file->descriptor, size_bytes, 1);
        return failure_misuse(failure, "file %s: %llu bytes: too short for a .safetensors file%s%s", file->path,
                              (unsigned long long)size_bytes, *kind ? "; " : "", kind);
    }
    if (file_read(file->path, file->descriptor, 0, start, sizeof start, failure) != 0) {
        return -1;
    }
    for (int i = 7; i >= 0; i--) {
        header_bytes = header_bytes << 8 | start[i];
    }
    if (header_bytes > SAFETENSORS_HEADER_MAX_BYTES || header_bytes > size_bytes - sizeof start || header_bytes < 2) {
        const char *kind = file_kind(file->descriptor, size_bytes, 1);
        if (*kind) {
            return failure_misuse(failure, "file %s: is not a .safetensors file: %s", file->path, kind);
        }
        return failure_misuse(
            failure,
            "file %s: not a .safetensors file, or damaged: begins with a header of %llu bytes, must be from "
            "2 to %d and inside the file of %llu bytes",
            file->path, (unsigned long long)header_bytes, SAFETENSORS_HEADER_MAX_BYTES, (unsigned long long)size_bytes);
    }
    file->data_position = sizeof start + header_bytes;
    file->header = calloc(header_bytes + 1, 1);
    if (!file->header) {
        return failure_failed(failure, "out of memory");
    }
    if (file_read(file->path, file->descriptor, sizeof start, file->header, header_bytes, failure) != 0 ||
        safetensors_header_read(file, header_bytes, failure) != 0) {
        return -1;
    }
    return check_places(file, size_bytes - file->data_position, failure);
}

int safetensors_open(const char *path, struct safetensors *file, struct failure *failure)
{
    uint64_t size_bytes;
    memset(file, 0, sizeof *file);
    file->path = path;
    if (file_open(path, &file->descriptor, &size_bytes, failure) != 0) {
        return -1;
    }
    if (read_header(file, size_bytes, failure) == 0) {
        return 0;
    }
    safetensors_close(file);
    return -1;
}

void safetensors_close(struct safetensors *file)
{
    close(file->descriptor);
    free(file->header);
    free(file->entries);
    free(file->notes);
    memset(file, 0, sizeof *file);
    file->descriptor = -1;
}

/* ---- what the file holds ---- */

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->n_entries; i++) {
        if (strcmp(file->entries[i].name, name) == 0) {
            return &file->entries[i];
        }
    }
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->n_notes; i++) {
        if (strcmp(file->notes[i].key, key) == 0) {
            return file->notes[i].text;
        }
    }
    return NULL;
}

int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry, struct tensor *tensor,
                     struct failure *failure)
{
    if (entry->type == TENSOR_TYPES) {
        char names[SAFETENSORS_TYPE_LIST];
        return failure_misuse(failure, "file %s: tensor %s: dtype %s: must be one of %s", file->path, entry->name,
                              entry->dtype, safetensors_type_list(names));
    }
    if (tensor_create(tensor, entry->type, entry->dims, entry->shape, entry->name, failure) != 0) {
        return -1;
    }
    if (file_read(file->path, file->descriptor, file->data_position + entry->begin, tensor->data, tensor_bytes(tensor),
                  failure) == 0) {
        return 0;
    }
    tensor_free(tensor);
    return -1;
}

/* ---- writing ---- */

static cJSON *describe(const struct tensor *tensor, double begin, double end)
{
    cJSON *entry = cJSON_CreateObject(), *list;
    cJSON_AddStringToObject(entry, "dtype", safetensors_type_names[tensor->type]);
    list = cJSON_AddArrayToObject(entry, "shape");
    for (int i = 0; i < tensor->dims; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)tensor->shape[i]));
    }
    list = cJSON_AddArrayToObject(entry, "data_offsets");
    cJSON_AddItemToArray(list, cJSON_CreateNumber(begin));
    cJSON_AddItemToArray(list, cJSON_CreateNumber(end));
    return entry;
}

/* The header's text, which the caller frees; NULL without memory. */
static char *format_header(size_t n_items, const struct safetensors_item *items, size_t n_notes,
                           const struct safetensors_note *notes)
{
    cJSON *header = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(header, safetensors_metadata_key);
    double position = 0;
    char *text;
    for (size_t i = 0; i < n_notes; i++) {
        if (notes[i].text) {
            cJSON_AddStringToObject(metadata, notes[i].key, notes[i].text);
        }
    }
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
        for (int i = 0; i < 8; i++) {
            start[i] = (unsigned char)((uint64_t)(bytes + blanks) >> (8 * i));
        }
        parts[0] = (struct file_part){ start, 8 };
        parts[1] = (struct file_part){ text, bytes };
        parts[2] = (struct file_part){ "        ", blanks };
        for (size_t i = 0; i < n_items; i++) {
            parts[3 + i] = (struct file_part){ items[i].tensor->data, tensor_bytes(items[i].tensor) };
        }
        result = file_write(path, n_items + 3, parts, failure);
    } else {
        failure_failed(failure, "output %s: out of memory", path);
    }
    cJSON_free(text);
    free(parts);
    return result;
}
