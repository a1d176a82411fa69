/* A claimed node, or the nodes of a pattern, as it is computed: what kinds of them there are, and what a call of one
 * has to work with. */
#ifndef CLATTN_ORT_KERNEL_H
#define CLATTN_ORT_KERNEL_H

#include "declined.h"
#include "device.h"
#include "ort.h"
#include "plans.h"

#include <stdint.h>

/* What nodes say once and for all; a kind uses those that its operation has. */
struct attributes {
    int64_t query_heads, kv_heads; /* 0: not said */
    int has_scale;
    float scale, softcap;
    int64_t is_causal, window_left, window_right; /* -1: no bound */
    clattn_weights weights;                       /* of the output that shows them */
    int64_t is_rotary, is_interleaved, rotary_columns;
    int64_t has_smooth_softmax; /* 1: a sink of 0 for each head */
};

struct kernel;
struct run;

/* A kind of node. */
struct kind {
    const char *domain, *operation;
    int first_version, last_version; /* in which its operator set changed it */
    /* Why clattn does not compute this node, or DECLINED_NOT; and its attributes. */
    OrtStatus *(*read)(const struct node *node, struct attributes *attributes, enum declined *reason);
    OrtStatus *(*compute)(const struct run *run);
    int is_companion; /* claimed only where its result goes into attention */
};

/* The kind of this node; NULL: it is none of attention. */
const struct kind *kind_of(const struct node *node);

extern const struct kind kind_attention, kind_multi_head, kind_group_query, kind_rotary, kind_rotary_contributed;

struct kernel {
    OrtNodeComputeInfo base; /* first: ONNX Runtime hands it back */
    const struct kind *kind;
    struct plans *plans; /* not owned; of the session */
    struct attributes attributes;
    /* Where ONNX Runtime has the node's inputs and outputs in a call; -1: it has none. */
    int input[INPUTS_MAX], output[OUTPUTS_MAX];
};

/* The node's scale, where it has one. */
OrtStatus *node_scale(const struct node *node, struct attributes *attributes);

/* The same of com.microsoft's operations, for which 0 is none. */
OrtStatus *node_contributed_scale(const struct node *node, struct attributes *attributes);

/* One call. */
struct run {
    const struct kernel *kernel;
    OrtKernelContext *context;
    struct lane *lane;
};

/* An input of this call; its data is NULL where it is left out. */
OrtStatus *run_input(const struct run *run, int index, struct tensor *tensor);

/* An output of this call, made with this shape; *data is NULL where nobody takes it. */
OrtStatus *run_output(const struct run *run, int index, int rank, const int64_t *extent, void **data);

#endif
