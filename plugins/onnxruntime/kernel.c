/* The table of kinds, and a call's inputs and outputs. */
#include "kernel.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const struct kind *const kinds[] = { &kind_attention, &kind_multi_head,         &kind_group_query,
                                            &kind_rotary,    &kind_rotary_contributed, &kind_softmax };

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

/* The tensor by the kind's axes. */
static void permute(const struct operand *operand, struct tensor *tensor)
{
    const struct tensor stored = *tensor;
    for (int n = 0; n < 4; ++n) {
        tensor->extent[n] = stored.extent[operand->axis[n]];
        tensor->stride[n] = stored.stride[operand->axis[n]];
    }
}

OrtStatus *run_input(const struct run *run, int index, struct tensor *tensor)
{
    static const struct tensor none = { .data = NULL };
    const struct operand *operand = &run->kernel->input[index];
    const OrtValue *value;
    *tensor = none;
    if (operand->place < 0) {
        return NULL;
    }
    TRY(ort->KernelContext_GetInput(run->context, (size_t)operand->place, &value));
    if (value) {
        TRY(tensor_read(value, tensor));
    }
    if (value && operand->is_permuted) {
        if (tensor->rank != 4) {
            return refuse(ORT_INVALID_ARGUMENT, "clattn: an input has %d axes: must be 4", tensor->rank);
        }
        permute(operand, tensor);
    }
    return NULL;
}

OrtStatus *run_output(const struct run *run, int index, int rank, const int64_t *extent, struct tensor *tensor)
{
    static const struct tensor none = { .data = NULL };
    const struct operand *operand = &run->kernel->output[index];
    int64_t stored[RANK_MAX];
    OrtValue *value;
    *tensor = none;
    if (operand->place < 0) {
        return NULL;
    }
    for (int n = 0; n < rank; ++n) {
        stored[operand->is_permuted ? operand->axis[n] : n] = extent[n];
    }
    TRY(ort->KernelContext_GetOutput(run->context, (size_t)operand->place, stored, (size_t)rank, &value));
    if (value) {
        TRY(tensor_read(value, tensor));
    }
    if (value && operand->is_permuted) {
        permute(operand, tensor);
    }
    return NULL;
}
