/* The .safetensors format: eight bytes of header length, a JSON header, data. Everything that a
 * header says is checked before any of it is used: a limit on its size, known fields only, no name
 * twice, shape and offsets that fit each other, data without holes or overlap. A file may have
 * tensors of types that clattn has no use for, such as U16; only who reads one is refused. */
#ifndef CLATTN_TOOLS_SAFETENSORS_H
#define CLATTN_TOOLS_SAFETENSORS_H

#include "failure.h"
#include "tensor.h"

#define SAFETENSORS_HEADER_MAX_BYTES (16 << 20)

struct safetensors_entry {
    const char *name;      /* owned by the file */
    enum tensor_type type; /* TENSOR_TYPES: one that is not read here */
    const char *dtype;     /* its name in the file */
    int dims;
    int64_t shape[TENSOR_DIMS_MAX];
    uint64_t begin, end; /* bytes, counted from the end of the header */
};

struct safetensors_note {
    const char *key;
    const char *text; /* to be written, NULL: left out */
};

struct safetensors {
    const char *path; /* the caller's */
    int descriptor;
    uint64_t data_position;
    char *header; /* its text, where the names of entries and notes are */
    size_t n_entries, n_notes;
    struct safetensors_entry *entries;
    struct safetensors_note *notes;
};

/* Reads and checks the header. The caller ends with safetensors_close; on failure there is nothing
 * to close. `path` must stay valid. */
int safetensors_open(const char *path, struct safetensors *file, struct failure *failure);
void safetensors_close(struct safetensors *file);

/* NULL when the file has no such tensor, or no such metadata. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* The caller frees the tensor. A type that is not read here is a misuse. */
int safetensors_read(const struct safetensors *file, const struct safetensors_entry *entry, struct tensor *tensor,
                     struct failure *failure);

struct safetensors_item {
    const char *name;
    const struct tensor *tensor;
};

/* Temporary name, fsync, rename. */
int safetensors_write(const char *path, size_t n_items, const struct safetensors_item *items, size_t n_notes,
                      const struct safetensors_note *notes, struct failure *failure);

#endif
