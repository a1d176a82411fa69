#define _XOPEN_SOURCE 700
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "insides.h"
#include "labels.h"
#include "npy.h"
#include "safetensors.h"
#include "safetensors_index.h"
#include "standard_files.h"

/* A role's name, the names that files give it, and the option that names a file for it. */
static const struct {
    const char *name;
    const char *file_names[4];
    enum option_id option;
} roles[ROLES] = {
#define ROLE(id, name, option, ...) [ROLE_##id] = { name, { __VA_ARGS__ }, option },
#define GRADIENT(id, word, field, ...) [ROLE_D##id] = { "d" word, { __VA_ARGS__ }, OPTION_NONE },
    FORWARD_ROLES(ROLE) LOSS_ROLES(ROLE) GRADIENT_ROLES(GRADIENT, GRADIENT)
#undef ROLE
#undef GRADIENT
};

const char *role_name(enum role role)
{
    return roles[role].name;
}

/* ---- a .safetensors file ---- */

static int role_of(const char *name, enum role end)
{
    for (int role = 0; role < (int)end; role++) {
        for (int i = 0; i < 4 && roles[role].file_names[i]; i++) {
            if (strcmp(roles[role].file_names[i], name) == 0) {
                return role;
            }
        }
    }
    return -1;
}

/* Copies a file's metadata; the first of several files that has it counts. */
static int copy_metadata(const struct safetensors *file, const char *key, char **copy)
{
    const char *text = *copy ? NULL : safetensors_metadata(file, key);
    if (text && !(*copy = strdup(text))) {
        return -1;
    }
    return 0;
}

/* A mask of floats is a bias. */
static int sort_mask(struct inputs *inputs, struct failure *failure)
{
    struct tensor *mask = &inputs->tensor[ROLE_MASK], *bias = &inputs->tensor[ROLE_BIAS];
    const struct tensor none = TENSOR_INIT;
    if (!mask->data || mask->type == TENSOR_BOOL || mask->type == TENSOR_UINT8 || mask->type == TENSOR_UINT32) {
        return 0;
    }
    if (!tensor_is_float(mask->type)) {
        return failure_misuse(failure, "mask %s: must be bool, uint8, uint32 (bits) or a float type",
                              tensor_type_name(mask->type));
    }
    if (bias->data) {
        return failure_misuse(failure,
                              "mask %s: a mask of floats is a bias, and there is a bias already; "
                              "add them up, or give a bool mask",
                              tensor_type_name(mask->type));
    }
    *bias = *mask;
    *mask = none;
    return 0;
}

static int read_entries(const struct safetensors *file, enum role end, struct inputs *inputs, struct text *unused,
                        struct failure *failure)
{
    for (size_t i = 0; i < file->n_entries; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        int role = role_of(entry->name, end);
        struct tensor *of_text;
        if (user_text_slot(&inputs->code, entry->name, &of_text, failure) != 0 ||
            (of_text && safetensors_read(file, entry, of_text, failure) != 0)) {
            return -1;
        }
        if (of_text) {
            continue;
        }
        if (role < 0) {
            text_append(unused, "%s%s", unused->length ? ", " : "", entry->name);
        } else if (inputs->tensor[role].data) {
            return failure_misuse(failure, "file %s: tensor %s: another tensor is the %s already", file->path,
                                  entry->name, roles[role].name);
        } else if (safetensors_read(file, entry, &inputs->tensor[role], failure) != 0) {
            return -1;
        }
    }
    return copy_metadata(file, "text", &inputs->text) != 0 || copy_metadata(file, "tokens", &inputs->tokens) != 0
               ? failure_failed(failure, "out of memory")
               : 0;
}

/* All shards of an index. */
static int read_shards(const char *path, enum role end, struct inputs *inputs, struct text *unused,
                       struct failure *failure)
{
    struct safetensors_index index;
    int result = 0, found = 0;
    if (safetensors_index_open(path, &index, failure) != 0) {
        return -1;
    }
    for (size_t i = 0; result == 0; i++) {
        struct safetensors file;
        char *shard;
        found = safetensors_index_shard(&index, i, &shard, &file, failure);
        if (found != 0) {
            break;
        }
        result = read_entries(&file, end, inputs, unused, failure);
        safetensors_close(&file);
        free(shard);
    }
    safetensors_index_close(&index);
    return found < 0 ? -1 : result;
}

static int read_one(const char *path, enum role end, struct inputs *inputs, struct text *unused,
                    struct failure *failure)
{
    struct safetensors file;
    if (safetensors_open(path, &file, failure) != 0) {
        return -1;
    }
    const int result = read_entries(&file, end, inputs, unused, failure);
    safetensors_close(&file);
    return result;
}

static int read_safetensors(const char *path, enum role end, struct inputs *inputs, struct failure *failure)
{
    struct text unused = TEXT_INIT;
    if (file_has_suffix(path, ".npy")) {
        return failure_misuse(failure,
                              "INPUT %s: must be a .safetensors file; for .npy files give --q, --k "
                              "and --v",
                              path);
    }
    const int result = file_has_suffix(path, SAFETENSORS_INDEX_SUFFIX)
                           ? read_shards(path, end, inputs, &unused, failure)
                           : read_one(path, end, inputs, &unused, failure);
    inputs->unused = unused.length ? text_take(&unused) : NULL;
    text_free(&unused);
    if (inputs->unused) {
        utf8_clean_in_place(inputs->unused, "");
    }
    return result == 0 && inputs->tensor[ROLE_MASK].data ? sort_mask(inputs, failure) : result;
}

/* ---- options ---- */

static int is_number_option(enum option_id id)
{
    return id == OPTION_KEY_TENSOR_SCALE || id == OPTION_VALUE_TENSOR_SCALE;
}

/* What an option says in words instead of by a file: a list of integers, or standard slopes, which
 * attention.c makes. */
static int is_list_option(enum option_id id)
{
    return id == OPTION_KEY_LENGTHS || id == OPTION_CU_Q || id == OPTION_CU_K || id == OPTION_PAGE_STARTS;
}

static int read_option(const struct options *options, enum role role, struct inputs *inputs, struct failure *failure)
{
    enum option_id id = roles[role].option;
    const char *value = id == OPTION_NONE ? NULL : options->value[id];
    struct tensor *tensor = &inputs->tensor[role];
    if (!value) {
        return 0;
    }
    if (tensor->data || (role == ROLE_MASK && inputs->tensor[ROLE_BIAS].data)) {
        return failure_misuse(failure, "--%s %s: %s has a tensor for it already; take one away", option_name(id), value,
                              options->operand);
    }
    if (id == OPTION_ALIBI && strcmp(value, "standard") == 0) {
        return 0;
    }
    if (is_list_option(id) && !is_standard_file(value) && text_is_integer_list(value)) {
        return option_integer_tensor(options, id, tensor, failure);
    }
    if (is_number_option(id) && !is_standard_file(value) && !file_has_suffix(value, ".npy")) {
        return option_number_tensor(options, id, tensor, failure);
    }
    if (npy_read(value, tensor, failure) == 0) {
        return 0;
    }
    if (failure->status != EXIT_MISUSE) { /* not the file's fault */
        return -1;
    }
    const struct failure of_file = *failure;
    return failure_misuse(failure, "--%s: %s%s", option_name(id), of_file.text,
                          id == OPTION_ALIBI   ? "; give a file, or standard"
                          : is_list_option(id) ? "; give a file, or integers with commas between them"
                                               : "");
}

/* Standard input can be read once. */
static int check_standard_input(const struct options *options, enum role end, struct failure *failure)
{
    const char *reader = options->operand && is_standard_file(options->operand) ? "INPUT" : NULL;
    for (int role = 0; role < (int)end; role++) {
        const enum option_id id = roles[role].option;
        if (id == OPTION_NONE || !options->value[id] || !is_standard_file(options->value[id])) {
            continue;
        }
        if (reader) {
            return failure_misuse(failure, "--%s -: standard input is read already, as %s%s; give a file",
                                  option_name(id), strcmp(reader, "INPUT") == 0 ? "" : "--", reader);
        }
        reader = option_name(id);
    }
    return 0;
}

int inputs_read(const struct options *options, enum role end, struct inputs *inputs, struct failure *failure)
{
    const enum option_id given[] = { OPTION_Q, OPTION_K, OPTION_V };
    memset(inputs, 0, sizeof *inputs);
    for (int i = 0; i < 3; i++) {
        if (options->operand && options->value[given[i]]) {
            return failure_misuse(failure, "--%s %s: give either INPUT or --q, --k and --v, not both",
                                  option_name(given[i]), options->value[given[i]]);
        }
        const int is_in_keys = given[i] == OPTION_V && options->value[OPTION_VALUES_IN_KEYS];
        if (!options->operand && !options->value[given[i]] && !is_in_keys) {
            return failure_misuse(failure, "--%s: is missing; give INPUT.safetensors, or --q, --k and --v",
                                  option_name(given[i]));
        }
    }
    if (check_standard_input(options, end, failure) != 0 || user_text_read(options, &inputs->code, failure) != 0) {
        return -1;
    }
    if (options->operand && read_safetensors(options->operand, end, inputs, failure) != 0) {
        return -1;
    }
    for (int role = 0; role < (int)end; role++) {
        if (read_option(options, (enum role)role, inputs, failure) != 0) {
            return -1;
        }
    }
    return sort_mask(inputs, failure);
}

void inputs_free(struct inputs *inputs)
{
    for (int role = 0; role < ROLES; role++) {
        tensor_free(&inputs->tensor[role]);
    }
    user_text_free(&inputs->code);
    free(inputs->text);
    free(inputs->tokens);
    free(inputs->unused);
    memset(inputs, 0, sizeof *inputs);
}
