#define _POSIX_C_SOURCE 200809L
#include "npy.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_kind.h"
#include "files.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file formats of the command are written for little-endian machines: --disable-tool"
#endif

static const char magic[6] = { '\x93', 'N', 'U', 'M', 'P', 'Y' };

static const struct {
    const char *descr;
    enum tensor_type type;
} descriptions[] = {
    { "<f4", TENSOR_FLOAT32 },  { "<f2", TENSOR_FLOAT16 }, { "<f8", TENSOR_FLOAT64 }, { "<V2", TENSOR_BFLOAT16 },
    { "|V2", TENSOR_BFLOAT16 }, { "V2", TENSOR_BFLOAT16 }, { "<i4", TENSOR_INT32 },   { "<i8", TENSOR_INT64 },
    { "|u1", TENSOR_UINT8 },    { "<u1", TENSOR_UINT8 },   { "|i1", TENSOR_INT8 },    { "<i1", TENSOR_INT8 },
    { "|b1", TENSOR_BOOL },     { "<b1", TENSOR_BOOL },    { "<u4", TENSOR_UINT32 },
};

#define N_DESCRIPTIONS (sizeof descriptions / sizeof *descriptions)

/* ---- the header: a Python dictionary of three known keys ---- */

struct cursor {
    const char *at, *end;
    const char *path;
    struct failure *failure;
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) && *cursor->at) {
        cursor->at++;
    }
}

static int take(struct cursor *cursor, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) {
        return 0;
    }
    cursor->at += length;
    return 1;
}

static int bad_header(struct cursor *cursor, const char *rule)
{
    return failure_misuse(cursor->failure, "file %s: header: %s", cursor->path, rule);
}

/* 'text' or "text", without escapes. */
static int parse_string(struct cursor *cursor, char *text, size_t capacity)
{
    size_t used = 0;
    char quote;
    skip_blanks(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return bad_header(cursor, "a quoted name or type is missing");
    }
    quote = *cursor->at++;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (*cursor->at == '\\' || used + 1 >= capacity) {
            return bad_header(cursor, "a quoted text is too long or has a backslash");
        }
        text[used++] = *cursor->at++;
    }
    if (cursor->at == cursor->end) {
        return bad_header(cursor, "a quoted text has no end");
    }
    cursor->at++;
    text[used] = 0;
    return 0;
}

static int parse_descr(struct cursor *cursor, enum tensor_type *type)
{
    char descr[32];
    skip_blanks(cursor);
    if (cursor->at < cursor->end && *cursor->at == '[') {
        return bad_header(cursor, "descr is a structure: must be a plain type, such as '<f4'");
    }
    if (parse_string(cursor, descr, sizeof descr) != 0) {
        return -1;
    }
    for (size_t i = 0; i < N_DESCRIPTIONS; i++) {
        if (strcmp(descr, descriptions[i].descr) == 0) {
            *type = descriptions[i].type;
            return 0;
        }
    }
    return failure_misuse(cursor->failure,
                          "file %s: descr '%s': must be a little-endian f2, f4, f8, i1, i4, i8, u1, u4, b1 or V2 "
                          "(bfloat16); convert with array.astype",
                          cursor->path, descr);
}

static int parse_extent(struct cursor *cursor, int64_t *extent)
{
    int64_t value = 0;
    const char *start;
    skip_blanks(cursor);
    start = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        int digit = *cursor->at++ - '0';
        if (value > (INT64_MAX - digit) / 10) {
            return bad_header(cursor, "shape: an extent is too large");
        }
        value = value * 10 + digit;
    }
    if (cursor->at == start) {
        return bad_header(cursor, "shape: must be a tuple of integers >= 0");
    }
    *extent = value;
    return 0;
}

static int parse_shape(struct cursor *cursor, struct tensor *tensor)
{
    int comma = 1;
    tensor->dims = 0;
    if (!take(cursor, "(")) {
        return bad_header(cursor, "shape: must be a tuple, such as (3, 4)");
    }
    while (!take(cursor, ")")) {
        if (!comma) {
            return bad_header(cursor, "shape: a comma is missing");
        }
        if (tensor->dims == TENSOR_DIMS_MAX) {
            return bad_header(cursor, "shape: has more than 8 axes; reshape it");
        }
        if (parse_extent(cursor, &tensor->shape[tensor->dims++]) != 0) {
            return -1;
        }
        comma = take(cursor, ",");
    }
    if (tensor->dims == 1 && !comma) {
        return bad_header(cursor, "shape: a tuple of one integer is written (3,)");
    }
    return 0;
}

static int parse_order(struct cursor *cursor, int *fortran_order)
{
    *fortran_order = take(cursor, "True");
    if (!*fortran_order && !take(cursor, "False")) {
        return bad_header(cursor, "fortran_order: must be True or False");
    }
    return 0;
}

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

static int parse_entry(struct cursor *cursor, struct tensor *tensor, int *fortran_order, int *seen)
{
    char key[32];
    int which;
    if (parse_string(cursor, key, sizeof key) != 0) {
        return -1;
    }
    which = strcmp(key, "descr") == 0           ? KEY_DESCR
            : strcmp(key, "fortran_order") == 0 ? KEY_ORDER
            : strcmp(key, "shape") == 0         ? KEY_SHAPE
                                                : 0;
    if (!which || (*seen & which)) {
        return failure_misuse(cursor->failure, "file %s: header key '%s': %s", cursor->path, key,
                              which ? "is there twice" : "must be one of descr, fortran_order, shape");
    }
    *seen |= which;
    if (!take(cursor, ":")) {
        return bad_header(cursor, "a colon is missing");
    }
    if (which == KEY_DESCR) {
        return parse_descr(cursor, &tensor->type);
    }
    if (which == KEY_ORDER) {
        return parse_order(cursor, fortran_order);
    }
    return parse_shape(cursor, tensor);
}

/* The text of a header, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: fills type, dims and shape
 * of *tensor. `path` is for messages. */
static int parse_header(const char *path, const char *header, size_t bytes, struct tensor *tensor, int *fortran_order,
                        struct failure *failure)
{
    struct cursor cursor = { header, header + bytes, path, failure };
    int seen = 0, comma = 1;
    if (!take(&cursor, "{")) {
        return bad_header(&cursor, "must be a dictionary: { is missing");
    }
    while (!take(&cursor, "}")) {
        if (!comma) {
            return bad_header(&cursor, "a comma or } is missing");
        }
        if (parse_entry(&cursor, tensor, fortran_order, &seen) != 0) {
            return -1;
        }
        comma = take(&cursor, ",");
    }
    skip_blanks(&cursor);
    if (cursor.at != cursor.end) {
        return bad_header(&cursor, "there is text after the dictionary");
    }
    if (seen != KEY_ALL) {
        return bad_header(&cursor, "must have descr, fortran_order and shape; one is missing");
    }
    return 0;
}

static int not_npy(const char *path, int descriptor, uint64_t size_bytes, struct failure *failure)
{
    const char *kind = file_kind(descriptor, size_bytes, 0);
    return failure_misuse(failure, "file %s: is not an .npy file: %s", path,
                          *kind ? kind : "its magic bytes are missing");
}

/* ---- reading ---- */

/* Reads magic, version and header; *position is where the data begins. */
static int read_header(const char *path, int descriptor, uint64_t size_bytes, struct tensor *tensor, int *fortran_order,
                       uint64_t *position, struct failure *failure)
{
    unsigned char start[12];
    char *header;
    uint64_t prefix_bytes, header_bytes;
    int result;
    if (size_bytes < sizeof start) {
        const char *kind = file_kind(descriptor, size_bytes, 0);
        return failure_misuse(failure, "file %s: %llu bytes: too short for an .npy file%s%s", path,
                              (unsigned long long)size_bytes, *kind ? "; " : "", kind);
    }
    if (file_read(path, descriptor, 0, start, sizeof start, failure) != 0) {
        return -1;
    }
    if (memcmp(start, magic, sizeof magic) != 0) {
        return not_npy(path, descriptor, size_bytes, failure);
    }
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
        return failure_misuse(failure, "file %s: version %d.%d: must be 1.0, 2.0 or 3.0", path, start[6], start[7]);
    }
    prefix_bytes = start[6] == 1 ? 10 : 12;
    header_bytes = (uint64_t)start[8] | (uint64_t)start[9] << 8;
    if (start[6] != 1) {
        header_bytes |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    }
    if (header_bytes > NPY_HEADER_MAX_BYTES) {
        return failure_misuse(failure, "file %s: header of %llu bytes: must be <= %d", path,
                              (unsigned long long)header_bytes, NPY_HEADER_MAX_BYTES);
    }
    *position = prefix_bytes + header_bytes;
    if (*position > size_bytes) {
        return failure_misuse(failure, "file %s: is truncated: its header of %llu bytes is not all there", path,
                              (unsigned long long)header_bytes);
    }
    header = malloc(header_bytes + 1);
    if (!header) {
        return failure_failed(failure, "out of memory");
    }
    result = file_read(path, descriptor, prefix_bytes, header, header_bytes, failure);
    if (result == 0) {
        result = parse_header(path, header, header_bytes, tensor, fortran_order, failure);
    }
    free(header);
    return result;
}

/* Element (i0, i1, ...) of Fortran order lies at i0 + shape0 * (i1 + shape1 * ...). */
static int to_c_order(struct tensor *tensor, struct failure *failure)
{
    struct tensor turned;
    size_t size = tensor_type_size(tensor->type);
    int64_t count = tensor_count(tensor), index[TENSOR_DIMS_MAX] = { 0 };
    if (tensor_create(&turned, tensor->type, tensor->dims, tensor->shape, "Fortran order", failure) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t from = 0;
        for (int d = tensor->dims - 1; d >= 0; d--) {
            from = from * tensor->shape[d] + index[d];
        }
        memcpy((char *)turned.data + (size_t)i * size, (char *)tensor->data + (size_t)from * size, size);
        for (int d = tensor->dims - 1; d >= 0 && ++index[d] == tensor->shape[d]; d--) {
            index[d] = 0;
        }
    }
    tensor_free(tensor);
    *tensor = turned;
    return 0;
}

static int read_data(const char *path, int descriptor, uint64_t size_bytes, uint64_t position, struct tensor *tensor,
                     struct failure *failure)
{
    int64_t count, bytes;
    char shape[TENSOR_SHAPE_TEXT];
    struct tensor read;
    tensor_shape_text(tensor, shape);
    if (tensor_measure(tensor->type, tensor->dims, tensor->shape, &count, &bytes) != 0) {
        return failure_misuse(failure, "file %s: shape %s: its size does not fit into 62 bits", path, shape);
    }
    if ((uint64_t)bytes != size_bytes - position) {
        return failure_misuse(failure, "file %s: has %llu bytes of data: shape %s of %s must have exactly %lld", path,
                              (unsigned long long)(size_bytes - position), shape, tensor_type_name(tensor->type),
                              (long long)bytes);
    }
    if (tensor_create(&read, tensor->type, tensor->dims, tensor->shape, path, failure) != 0) {
        return -1;
    }
    if (file_read(path, descriptor, position, read.data, (size_t)bytes, failure) != 0) {
        tensor_free(&read);
        return -1;
    }
    *tensor = read;
    return 0;
}

int npy_read(const char *path, struct tensor *tensor, struct failure *failure)
{
    const struct tensor none = TENSOR_INIT;
    int descriptor, result, fortran_order = 0;
    uint64_t size_bytes, position = 0;
    *tensor = none;
    if (file_open(path, &descriptor, &size_bytes, failure) != 0) {
        return -1;
    }
    result = read_header(path, descriptor, size_bytes, tensor, &fortran_order, &position, failure);
    if (result == 0) {
        result = read_data(path, descriptor, size_bytes, position, tensor, failure);
    }
    close(descriptor);
    if (result == 0 && fortran_order && tensor->dims > 1) {
        result = to_c_order(tensor, failure);
    }
    if (result != 0) {
        tensor_free(tensor);
    }
    return result;
}

/* ---- writing ---- */

/* numpy aligns the data to 64 bytes by blanks before the header's newline. */
static size_t format_header(const struct tensor *tensor, char *header, size_t capacity)
{
    const char *descr = "";
    size_t used = 10, total;
    for (size_t i = N_DESCRIPTIONS; i-- > 0;) {
        if (descriptions[i].type == tensor->type) {
            descr = descriptions[i].descr;
        }
    }
    used +=
        (size_t)snprintf(header + used, capacity - used, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < tensor->dims; i++) {
        used += (size_t)snprintf(header + used, capacity - used, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    }
    used += (size_t)snprintf(header + used, capacity - used, "%s), }", tensor->dims == 1 ? "," : "");
    total = (used + 1 + 63) / 64 * 64;
    memset(header + used, ' ', total - used);
    header[total - 1] = '\n';
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((total - 10) & 0xff);
    header[9] = (char)((total - 10) >> 8);
    return total;
}

int npy_write(const char *path, const struct tensor *tensor, struct failure *failure)
{
    char header[512];
    struct file_part parts[2];
    parts[0].data = header;
    parts[0].bytes = format_header(tensor, header, sizeof header);
    parts[1].data = tensor->data;
    parts[1].bytes = tensor_bytes(tensor);
    return file_write(path, 2, parts, failure);
}
