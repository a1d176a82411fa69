/* A claim: nodes that become one kernel. It is made twice alike, in the whole graph to claim the nodes, and in the
 * graph of the claimed nodes alone to compile them. */
#ifndef CLATTN_ORT_CLAIM_H
#define CLATTN_ORT_CLAIM_H

#include "kernel.h"

#define CLAIM_NODES_MAX 24

struct claim {
    int is_made_again;       /* in the graph of the claimed nodes */
    const struct kind *kind; /* NULL: the node is none of attention's */
    enum declined reason;    /* DECLINED_NOT, or why the node is left */
    struct attributes attributes;
    const OrtNode *nodes[CLAIM_NODES_MAX];
    size_t count;
    struct operand input[INPUTS_MAX], output[OUTPUTS_MAX]; /* by the kind's own numbers */
};

/* What begins, or would begin, at this node. */
OrtStatus *claim_make(const OrtNode *node, int is_made_again, struct claim *claim);

/* For kinds: one node, with its inputs and outputs as they are. */
void claim_node(const struct node *node, struct claim *claim);
void claim_add(const struct node *node, struct claim *claim);

/* For kinds: this input, or output 0, of four axes is found behind a Transpose that nobody else needs, which is claimed
 * too: ONNX Runtime need not move what clattn reads by its strides. Columns stay the last axis. */
OrtStatus *claim_transposed_input(int index, const struct value *value, struct claim *claim);
OrtStatus *claim_transposed_output(const struct value *value, struct claim *claim);

/* DECLINED_NOT for queries of this type, which clattn and the device compute in. */
enum declined claim_reason_of_type(ONNXTensorElementDataType type);

/* The axes of a Transpose of four axes; *is_found 0: it is none, or has others. */
OrtStatus *transposed_axes(const struct node *node, int axis[4], int *is_found);

#endif
