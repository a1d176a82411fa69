/* What the command's readers make of files, for tests/python/test_readers.py, which asks other readers the same. A path
 * on each line of the standard input. For each a line "refused", or "taken N"; then for each of the N tensors a line
 * "NAME TYPE EXTENT,EXTENT...; ELEMENT ELEMENT...", its name in hexadecimal, "-" where the file has no names, the
 * elements as %a prints them. */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/npy.h"
#include "tools/safetensors.h"

static void print_name(const char *name)
{
    for (const char *at = name; *at; ++at) {
        printf("%02x", (unsigned char)*at);
    }
    printf("%s ", *name ? "" : "-");
}

static void print_shape(int dims, const int64_t *shape)
{
    for (int axis = 0; axis < dims; ++axis) {
        printf("%" PRId64 ",", shape[axis]);
    }
    printf(";");
}

static void print_tensor(const char *name, const struct tensor *tensor)
{
    print_name(name);
    printf("%s ", tensor_type_name(tensor->type));
    print_shape(tensor->dims, tensor->shape);
    for (int64_t i = 0; i < tensor_count(tensor); ++i) {
        printf(" %a", tensor_load(tensor, i));
    }
    printf("\n");
}

static void read_npy(const char *path)
{
    struct tensor tensor;
    struct failure failure = { EXIT_GOOD, "" };
    if (npy_read(path, &tensor, &failure) != 0) {
        printf("refused\n");
        return;
    }
    printf("taken 1\n");
    print_tensor("", &tensor);
    tensor_free(&tensor);
}

/* Whose header is taken, its tensors can be read: a line that says otherwise is none that the test understands. */
static void read_safetensors(const char *path)
{
    struct safetensors file;
    struct failure failure = { EXIT_GOOD, "" };
    if (safetensors_open(path, &file, &failure) != 0) {
        printf("refused\n");
        return;
    }
    printf("taken %zu\n", file.n_entries);
    for (size_t i = 0; i < file.n_entries; ++i) {
        const struct safetensors_entry *entry = &file.entries[i];
        struct tensor tensor = TENSOR_INIT;
        if (entry->type == TENSOR_TYPES) { /* one that is not read: its shape alone */
            print_name(entry->name);
            printf("%s ", entry->dtype);
            print_shape(entry->dims, entry->shape);
            printf("\n");
            continue;
        }
        if (safetensors_read(&file, entry, &tensor, &failure) != 0) {
            printf("cannot be read\n");
            continue;
        }
        print_tensor(entry->name, &tensor);
        tensor_free(&tensor);
    }
    safetensors_close(&file);
}

int main(void)
{
    char path[4096];
    while (fgets(path, sizeof(path), stdin)) {
        path[strcspn(path, "\n")] = 0;
        const size_t length = strlen(path);
        if (length > 4 && strcmp(path + length - 4, ".npy") == 0) {
            read_npy(path);
        } else {
            read_safetensors(path);
        }
    }
    return 0;
}
