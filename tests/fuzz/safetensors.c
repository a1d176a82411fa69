/* .safetensors files: every entry that is taken lies in the file; then as `clattn run` reads it, up to the call that
 * would be made. The first byte chooses how the tensors are to be understood. */
#include "tools/safetensors.h"

#include <string.h>

#include "fuzz.h"
#include "tools/attention.h"

static void read_entries(const char *path, size_t size)
{
    struct safetensors file;
    struct failure failure = { EXIT_GOOD, "" };
    if (safetensors_open(path, &file, &failure) != 0) {
        fuzz_must(failure.status == EXIT_MISUSE && failure.text[0], "a refusal is the file's fault, and says why");
        return;
    }
    for (size_t i = 0; i < file.n_entries; ++i) {
        const struct safetensors_entry *entry = &file.entries[i];
        struct tensor tensor;
        fuzz_must(entry->begin <= entry->end && file.data_position + entry->end <= size, "an entry lies in the file");
        fuzz_must(safetensors_find(&file, entry->name) == entry, "no name is there twice");
        fuzz_must(safetensors_read(&file, entry, &tensor, &failure) == 0, "what was checked can be read");
        fuzz_must(tensor_bytes(&tensor) == entry->end - entry->begin, "a tensor is as large as its entry");
        tensor_free(&tensor);
    }
    for (size_t i = 0; i < file.n_notes; ++i) {
        fuzz_must(safetensors_metadata(&file, file.notes[i].key) != NULL, "a note is found by its name");
    }
    safetensors_close(&file);
}

static void prepare(const char *path, unsigned how)
{
    static const char *const layouts[] = { NULL, "bhsd", "bshd", "bsh", "thd" };
    static const char *const heads[] = { NULL, "1", "2", "3" };
    static const char *const causal[] = { NULL, "top-left", "bottom-right", "offsets" };
    struct options options;
    struct inputs inputs;
    struct attention attention;
    struct failure failure = { EXIT_GOOD, "" };
    memset(&options, 0, sizeof(options));
    memset(&inputs, 0, sizeof(inputs));
    memset(&attention, 0, sizeof(attention));
    options.operand = path;
    options.value[OPTION_LAYOUT] = layouts[how % 5];
    options.value[OPTION_HEADS] = heads[how / 5 % 4];
    options.value[OPTION_CAUSAL] = causal[how / 20 % 4];
    if (inputs_read(&options, ROLES_FORWARD, &inputs, &failure) == 0 && inputs.tensor[ROLE_QUERY].data &&
        inputs.tensor[ROLE_KEY].data && inputs.tensor[ROLE_VALUE].data) {
        (void)attention_prepare(&options, &inputs, CLATTN_WEIGHTS_SOFTMAX, 1, &attention, &failure);
    }
    attention_free(&attention);
    inputs_free(&inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    const char *path = fuzz_file(data + 1, size - 1);
    read_entries(path, size - 1);
    prepare(path, data[0]);
    return 0;
}
