/* GGUF, the file of llama.cpp's models: numbers and texts by name, then tensors. The file is not trusted: every length,
 * count and offset in it is checked against its size before it is used, and what does not fit ends the program with a
 * message that says where. */
#ifndef GENERATE_GGUF_H
#define GENERATE_GGUF_H

#include <clattn.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the file, not ended by a zero. */
struct span {
    const char *at;
    size_t length;
};

/* A name with a value, or with `count` values (arrays; else 1), which stand at `values` one after another. */
struct gguf_field {
    struct span name;
    uint32_t type; /* enum gguf_type, of the elements */
    int is_array;
    uint64_t count;
    const unsigned char *values;
};

enum gguf_type { GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_STRING = 8 };

/* A matrix of rows, or with rows = 1 a vector; each row is clattn_row_bytes(type, columns) bytes. */
struct gguf_tensor {
    struct span name;
    clattn_type type;
    int64_t columns, rows;
    const unsigned char *data;
};

struct gguf {
    const char *path;
    unsigned char *bytes;
    size_t size;
    uint64_t field_count, tensor_count;
    struct gguf_field *fields;
    struct gguf_tensor *tensors;
};

/* Reads the whole file and checks it. */
void gguf_open(struct gguf *file, const char *path);
void gguf_close(struct gguf *file);

/* NULL: there is none of that name. */
const struct gguf_field *gguf_find(const struct gguf *file, const char *name);

/* A whole number of any width, from lowest to highest; `otherwise` where the file has none of that name (then it is not
 * checked), and an error where that is negative. */
int64_t gguf_integer(const struct gguf *file, const char *name, int64_t lowest, int64_t highest, int64_t otherwise);
double gguf_float32(const struct gguf *file, const char *name);
int gguf_text_is(const struct gguf *file, const char *name, const char *text);

/* The array of that name, or an error. */
const struct gguf_field *gguf_array(const struct gguf *file, const char *name, enum gguf_type type);

/* The first of the strings at `at`, which goes on to the next one. */
struct span gguf_next_string(const unsigned char **at);

/* The tensor of that name and shape; NULL where it is not there and `optional`, else an error. */
const struct gguf_tensor *gguf_matrix(const struct gguf *file, const char *name, int64_t columns, int64_t rows,
                                      int optional);

int span_is(struct span span, const char *text);

#endif
