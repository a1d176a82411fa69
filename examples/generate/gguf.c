#include "gguf.h"

#include "failure.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands at a place of the file; `at` never passes `size`. */
struct cursor {
    const char *path;
    const unsigned char *bytes;
    size_t size, at;
};

static const unsigned char *take(struct cursor *cursor, uint64_t bytes, const char *what)
{
    const unsigned char *taken = cursor->bytes + cursor->at;
    if (bytes > cursor->size - cursor->at) {
        fail("%s: %s at byte %zu has %llu bytes, but the file has %zu more: it is damaged, or was not copied whole",
             cursor->path, what, cursor->at, (unsigned long long)bytes, cursor->size - cursor->at);
    }
    cursor->at += (size_t)bytes;
    return taken;
}

/* Little-endian, as the file is, on any machine. */
static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) {
        value = value << 8 | at[i];
    }
    return value;
}

static uint32_t take_u32(struct cursor *cursor, const char *what)
{
    return (uint32_t)number(take(cursor, 4, what), 4);
}

static uint64_t take_u64(struct cursor *cursor, const char *what)
{
    return number(take(cursor, 8, what), 8);
}

static struct span take_string(struct cursor *cursor, const char *what)
{
    const uint64_t length = take_u64(cursor, what);
    const struct span span = { (const char *)take(cursor, length, what), (size_t)length };
    return span;
}

/* A count of things that take at least `smallest` bytes each, so that no memory is asked for that the file cannot
 * fill. */
static uint64_t take_count(struct cursor *cursor, uint64_t smallest, const char *what)
{
    const size_t at = cursor->at;
    const uint64_t count = take_u64(cursor, what);
    if (count > (cursor->size - cursor->at) / smallest) {
        fail("%s: %s at byte %zu is %llu, which the file is too short for", cursor->path, what, at,
             (unsigned long long)count);
    }
    return count;
}

/* Bytes of a value by the file's number for its type, uint8 to float64; 0: of strings and arrays, 8 and 9. */
static const unsigned char value_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
enum { TYPE_ARRAY = 9 };

static uint32_t take_value_type(struct cursor *cursor, int array_allowed)
{
    const size_t at = cursor->at;
    const uint32_t type = take_u32(cursor, "a value's type");
    if (type >= sizeof(value_bytes) || (type == TYPE_ARRAY && !array_allowed)) {
        fail("%s: the value's type at byte %zu is %u: it is none, or an array in an array", cursor->path, at, type);
    }
    return type;
}

static void take_field(struct cursor *cursor, struct gguf_field *field)
{
    field->name = take_string(cursor, "a name");
    field->type = take_value_type(cursor, 1);
    field->is_array = field->type == TYPE_ARRAY;
    field->count = 1;
    if (field->is_array) {
        field->type = take_value_type(cursor, 0);
        field->count = take_count(cursor, value_bytes[field->type] ? value_bytes[field->type] : 8, "an array's count");
    }
    field->values = cursor->bytes + cursor->at;
    if (field->type == GGUF_STRING) {
        for (uint64_t i = 0; i < field->count; ++i) {
            take_string(cursor, "a text");
        }
    } else {
        take(cursor, field->count * value_bytes[field->type], "a value");
    }
}

/* ggml's numbers of types, and ours. */
static const struct {
    uint32_t ggml;
    clattn_type type;
} tensor_types[] = {
    { 0, CLATTN_FLOAT32 }, { 1, CLATTN_FLOAT16 }, { 2, CLATTN_Q4_0 }, { 3, CLATTN_Q4_1 },
    { 6, CLATTN_Q5_0 },    { 7, CLATTN_Q5_1 },    { 8, CLATTN_Q8_0 }, { 30, CLATTN_BFLOAT16 },
};

static clattn_type tensor_type(const struct cursor *cursor, struct span name, uint32_t ggml)
{
    for (size_t i = 0; i < sizeof(tensor_types) / sizeof(tensor_types[0]); ++i) {
        if (tensor_types[i].ggml == ggml) {
            return tensor_types[i].type;
        }
    }
    fail("%s: tensor %.*s has ggml's type %u; this engine reads f32, f16, bf16, q8_0, q4_0, q4_1, q5_0 and q5_1",
         cursor->path, printable(name.length), name.at, ggml);
}

/* The entry of a tensor; its offset counts from the end of all entries, which is not known yet. */
static uint64_t take_tensor(struct cursor *cursor, struct gguf_tensor *tensor)
{
    tensor->name = take_string(cursor, "a tensor's name");
    const uint32_t axes = take_u32(cursor, "a number of axes");
    int64_t extent[2] = { 1, 1 };
    if (axes < 1 || axes > 2) {
        fail("%s: tensor %.*s has %u axes; this engine reads vectors and matrices", cursor->path,
             printable(tensor->name.length), tensor->name.at, axes);
    }
    for (uint32_t axis = 0; axis < axes; ++axis) {
        const uint64_t length = take_u64(cursor, "an axis");
        if (length < 1 || length > INT32_MAX) {
            fail("%s: tensor %.*s has an axis of %llu", cursor->path, printable(tensor->name.length), tensor->name.at,
                 (unsigned long long)length);
        }
        extent[axis] = (int64_t)length;
    }
    tensor->columns = extent[0];
    tensor->rows = extent[1];
    tensor->type = tensor_type(cursor, tensor->name, take_u32(cursor, "a tensor's type"));
    return take_u64(cursor, "a tensor's offset");
}

static void place_tensor(struct cursor *cursor, struct gguf_tensor *tensor, size_t data, uint64_t offset,
                         uint64_t alignment)
{
    const uint64_t row_bytes = clattn_row_bytes(tensor->type, tensor->columns); /* at most 2^34 */
    if (!row_bytes || offset % alignment || data > cursor->size || offset > cursor->size - data) {
        fail("%s: tensor %.*s of %lld columns at offset %llu: columns are in whole blocks, offsets in the file and "
             "multiples of %llu",
             cursor->path, printable(tensor->name.length), tensor->name.at, (long long)tensor->columns,
             (unsigned long long)offset, (unsigned long long)alignment);
    }
    cursor->at = data + (size_t)offset;
    if ((uint64_t)tensor->rows > (cursor->size - cursor->at) / row_bytes) {
        fail("%s: tensor %.*s has %lld rows of %llu bytes, but the file has %zu more from its beginning", cursor->path,
             printable(tensor->name.length), tensor->name.at, (long long)tensor->rows, (unsigned long long)row_bytes,
             cursor->size - cursor->at);
    }
    tensor->data = cursor->bytes + cursor->at;
}

/* The bytes of a regular file; the caller frees them. */
static unsigned char *read_whole(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    long end = -1;
    unsigned char *bytes;
    if (!stream || fseek(stream, 0, SEEK_END) || (end = ftell(stream)) < 0 || end == LONG_MAX ||
        fseek(stream, 0, SEEK_SET)) {
        fail("cannot open %s: %s", path, errno ? strerror(errno) : "it has no end");
    }
    bytes = allocate((size_t)end);
    if (fread(bytes, 1, (size_t)end, stream) != (size_t)end) {
        fail("cannot read %s", path);
    }
    fclose(stream);
    *size = (size_t)end;
    return bytes;
}

void gguf_open(struct gguf *file, const char *path)
{
    file->path = path;
    file->bytes = read_whole(path, &file->size);
    struct cursor cursor = { path, file->bytes, file->size, 0 };
    const unsigned char *magic = take(&cursor, 4, "the word GGUF");
    const uint32_t version = take_u32(&cursor, "the version");
    if (memcmp(magic, "GGUF", 4) || version < 2 || version > 3) {
        fail("%s: not a GGUF file of version 2 or 3", path);
    }
    file->tensor_count = take_count(&cursor, 32, "the number of tensors");
    file->field_count = take_count(&cursor, 13, "the number of fields");
    file->fields = allocate((size_t)file->field_count * sizeof(*file->fields));
    file->tensors = allocate((size_t)file->tensor_count * sizeof(*file->tensors));
    uint64_t *offsets = allocate((size_t)file->tensor_count * sizeof(*offsets));
    for (uint64_t i = 0; i < file->field_count; ++i) {
        take_field(&cursor, &file->fields[i]);
    }
    for (uint64_t i = 0; i < file->tensor_count; ++i) {
        offsets[i] = take_tensor(&cursor, &file->tensors[i]);
    }
    const uint64_t alignment = (uint64_t)gguf_integer(file, "general.alignment", 8, 1 << 20, 32);
    if (alignment & (alignment - 1)) {
        fail("%s: general.alignment is %llu, no power of two", path, (unsigned long long)alignment);
    }
    const size_t data = (cursor.at + (size_t)alignment - 1) / (size_t)alignment * (size_t)alignment;
    for (uint64_t i = 0; i < file->tensor_count; ++i) {
        place_tensor(&cursor, &file->tensors[i], data, offsets[i], alignment);
    }
    free(offsets);
}

void gguf_close(struct gguf *file)
{
    free(file->fields);
    free(file->tensors);
    free(file->bytes);
}

int span_is(struct span span, const char *text)
{
    return span.length == strlen(text) && !memcmp(span.at, text, span.length);
}

const struct gguf_field *gguf_find(const struct gguf *file, const char *name)
{
    for (uint64_t i = 0; i < file->field_count; ++i) {
        if (span_is(file->fields[i].name, name)) {
            return &file->fields[i];
        }
    }
    return NULL;
}

int64_t gguf_integer(const struct gguf *file, const char *name, int64_t lowest, int64_t highest, int64_t otherwise)
{
    static const char is_signed[] = { 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0 };
    const struct gguf_field *field = gguf_find(file, name);
    if (!field && otherwise >= 0) {
        return otherwise;
    }
    if (!field || field->is_array || field->type == GGUF_FLOAT32 || field->type == GGUF_STRING || field->type == 12) {
        fail("%s: %s is %s", file->path, name, field ? "no whole number" : "missing");
    }
    const int bytes = value_bytes[field->type];
    const uint64_t bits = number(field->values, bytes);
    const uint64_t sign = is_signed[field->type] ? bits >> (8 * bytes - 1) : 0;
    if (sign || bits > INT64_MAX || (int64_t)bits < lowest || (int64_t)bits > highest) {
        fail("%s: %s is %s%llu; this engine takes %lld to %lld", file->path, name, sign ? "negative, as bits " : "",
             (unsigned long long)bits, (long long)lowest, (long long)highest);
    }
    return (int64_t)bits;
}

double gguf_float32(const struct gguf *file, const char *name)
{
    const struct gguf_field *field = gguf_find(file, name);
    float value;
    if (!field || field->is_array || field->type != GGUF_FLOAT32) {
        fail("%s: %s is %s", file->path, name, field ? "no float32" : "missing");
    }
    const uint32_t bits = (uint32_t)number(field->values, 4);
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

int gguf_text_is(const struct gguf *file, const char *name, const char *text)
{
    const struct gguf_field *field = gguf_find(file, name);
    if (!field || field->is_array || field->type != GGUF_STRING) {
        return 0;
    }
    const unsigned char *at = field->values;
    return span_is(gguf_next_string(&at), text);
}

const struct gguf_field *gguf_array(const struct gguf *file, const char *name, enum gguf_type type)
{
    const struct gguf_field *field = gguf_find(file, name);
    if (!field || !field->is_array || field->type != (uint32_t)type || field->count > INT32_MAX) {
        fail("%s: %s is %s", file->path, name, field ? "no such array" : "missing");
    }
    return field;
}

struct span gguf_next_string(const unsigned char **at)
{
    const struct span string = { (const char *)*at + 8, (size_t)number(*at, 8) };
    *at += 8 + string.length;
    return string;
}

const struct gguf_tensor *gguf_matrix(const struct gguf *file, const char *name, int64_t columns, int64_t rows,
                                      int optional)
{
    for (uint64_t i = 0; i < file->tensor_count; ++i) {
        const struct gguf_tensor *tensor = &file->tensors[i];
        if (span_is(tensor->name, name)) {
            if (tensor->columns != columns || tensor->rows != rows) {
                fail("%s: tensor %s has %lld columns and %lld rows, and must have %lld and %lld", file->path, name,
                     (long long)tensor->columns, (long long)tensor->rows, (long long)columns, (long long)rows);
            }
            return tensor;
        }
    }
    if (!optional) {
        fail("%s: tensor %s is missing", file->path, name);
    }
    return NULL;
}
