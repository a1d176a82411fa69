/* The table of kinds, and a call's inputs and outputs. */
#include "kernel.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const struct kind *const kinds[] = { &kind_attention, &kind_multi_head, &kind_group_query, &kind_rotary,
                                            &kind_rotary_contributed };

const struct kind *kind_of(const struct node *node)
{
    for (size_t n = 0; n < sizeof(kinds) / sizeof(*kinds); ++n) {
        const struct kind *kind = kinds[n];
        if (strcmp(node->domain, kind->domain) == 0 && strcmp(node->operation, kind->operation) == 0 &&
            node->version >= kind->first_version && node->version <= kind->last_version) {
            return kind;
        }
    }
    return NULL;
}

OrtStatus *node_scale(const struct node *node, struct attributes *attributes)
{
    TRY(node_number(node, "scale", NAN, &attributes->scale));
    attributes->has_scale = !isnan(attributes->scale);
    return NULL;
}

OrtStatus *node_contributed_scale(const struct node *node, struct attributes *attributes)
{
    TRY(node_number(node, "scale", 0.0f, &attributes->scale));
    attributes->has_scale = attributes->scale != 0.0f;
    return NULL;
}

OrtStatus *run_input(const struct run *run, int index, struct tensor *tensor)
{
    static const struct tensor none = { .data = NULL };
    const int place = run->kernel->input[index];
    const OrtValue *value;
    *tensor = none;
    if (place < 0) {
        return NULL;
    }
    TRY(ort->KernelContext_GetInput(run->context, (size_t)place, &value));
    return value ? tensor_read(value, tensor) : NULL;
}

OrtStatus *run_output(const struct run *run, int index, int rank, const int64_t *extent, void **data)
{
    const int place = run->kernel->output[index];
    OrtValue *value;
    struct tensor tensor;
    *data = NULL;
    if (place < 0) {
        return NULL;
    }
    TRY(ort->KernelContext_GetOutput(run->context, (size_t)place, extent, (size_t)rank, &value));
    if (value) {
        TRY(tensor_read(value, &tensor));
        *data = tensor.data;
    }
    return NULL;
}
