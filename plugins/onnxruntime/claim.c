/* What kinds share when they claim nodes. */
#include "claim.h"

#include "graph.h"

#include <string.h>

OrtStatus *claim_make(const OrtNode *ort_node, int is_made_again, struct claim *claim)
{
    struct node node;
    memset(claim, 0, sizeof(*claim));
    claim->is_made_again = is_made_again;
    claim->reason = DECLINED_NOT;
    TRY(node_read(ort_node, &node));
    claim->kind = kind_of(&node);
    return claim->kind ? claim->kind->gather(&node, claim) : NULL;
}

void claim_add(const struct node *node, struct claim *claim)
{
    if (claim->count < CLAIM_NODES_MAX) {
        claim->nodes[claim->count++] = node->node;
    } else {
        claim->reason = DECLINED_PATTERN;
    }
}

void claim_node(const struct node *node, struct claim *claim)
{
    claim_add(node, claim);
    for (int n = 0; n < INPUTS_MAX; ++n) {
        claim->input[n].name = node_has_input(node, n) ? node->input[n].name : NULL;
    }
    for (int n = 0; n < OUTPUTS_MAX; ++n) {
        claim->output[n].name = node_has_output(node, n) ? node->output[n].name : NULL;
    }
}

enum declined claim_reason_of_type(ONNXTensorElementDataType type)
{
    if (type_of_element(type) == CLATTN_TYPE_NONE) {
        return DECLINED_TYPE;
    }
    return type != ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE || device_has_float64() ? DECLINED_NOT : DECLINED_FLOAT64;
}

OrtStatus *transposed_axes(const struct node *node, int axis[4], int *is_found)
{
    int64_t axes[RANK_MAX] = { -1, -1, -1, -1, -1 };
    size_t count = 0;
    *is_found = 0;
    if (!node_is(node, "Transpose")) {
        return NULL;
    }
    TRY(node_integers(node, "perm", axes, RANK_MAX, &count));
    for (int n = 0; n < 4 && count == 4; ++n) {
        axis[n] = (int)axes[n];
        *is_found = 1;
    }
    return NULL;
}

OrtStatus *claim_transposed_input(int index, const struct value *value, struct claim *claim)
{
    struct operand *operand = &claim->input[index];
    struct node transpose;
    int is_found;
    operand->name = value->name;
    TRY(graph_own_producer(value, &transpose, &is_found));
    if (is_found) {
        TRY(transposed_axes(&transpose, operand->axis, &is_found));
    }
    if (is_found && operand->axis[3] == 3) {
        operand->name = transpose.input[0].name;
        operand->is_permuted = 1;
        claim_add(&transpose, claim);
    }
    return NULL;
}

OrtStatus *claim_transposed_output(const struct value *value, struct claim *claim)
{
    struct operand *operand = &claim->output[0];
    struct node transpose;
    int is_found, axis[4];
    operand->name = value->name;
    TRY(graph_only_consumer(value, "Transpose", &transpose, &is_found));
    if (is_found) {
        TRY(transposed_axes(&transpose, axis, &is_found));
    }
    if (is_found && axis[3] == 3) {
        for (int n = 0; n < 4; ++n) {
            operand->axis[axis[n]] = n;
        }
        operand->name = transpose.output[0].name;
        operand->is_permuted = 1;
        claim_add(&transpose, claim);
    }
    return NULL;
}
