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
    int64_t is_rotary, is_interleaved;
    int has_norms; /* of queries and keys, before they are turned */
    float norm_epsilon;
    clattn_type cache_type;     /* of codes with scales; CLATTN_TYPE_NONE: the cache has keys and values as they are */
    int64_t has_smooth_softmax; /* 1: a sink of 0 for each head */
    int hides_where_true;       /* of a pattern: its boolean mask names what is hidden */
};

struct claim;
struct run;

/* A kind of node. */
struct kind {
    const char *domain, *operation;
    int first_version, last_version; /* in which its operator set changed it */
    /* Which nodes go into one kernel with this one, or why clattn computes none of them. */
    OrtStatus *(*gather)(const struct node *node, struct claim *claim);
    OrtStatus *(*compute)(const struct run *run);
};

/* The kind of this node; NULL: it is none of attention. */
const struct kind *kind_of(const struct node *node);

extern const struct kind kind_attention, kind_multi_head, kind_group_query, kind_rotary, kind_rotary_contributed,
    kind_softmax;

/* The node's scale, where it has one. */
OrtStatus *node_scale(const struct node *node, struct attributes *attributes);

/* The node's scale where the operation is com.microsoft's: 0 says that it has none. */
OrtStatus *node_contributed_scale(const struct node *node, struct attributes *attributes);

/* A value that a kernel reads or writes: axis n of what the kind computes with is axis[n] of four of that value. */
struct operand {
    const char *name; /* NULL: it has none */
    int is_permuted;  /* 0: the axes are as they are */
    int axis[4];
    int place; /* where ONNX Runtime has it in a call; -1: nowhere */
};

struct kernel {
    OrtNodeComputeInfo base; /* first: ONNX Runtime hands it back */
    const struct kind *kind;
    struct plans *plans; /* not owned; of the session */
    struct attributes attributes;
    struct operand input[INPUTS_MAX], output[OUTPUTS_MAX]; /* their names are gone */
};

/* One call. */
struct run {
    const struct kernel *kernel;
    OrtKernelContext *context;
    struct lane *lane;
};

/* An input of this call; its data is NULL where it is left out. */
OrtStatus *run_input(const struct run *run, int index, struct tensor *tensor);

/* An output of this call, made with this shape; its data is NULL where nobody takes it. */
OrtStatus *run_output(const struct run *run, int index, int rank, const int64_t *extent, struct tensor *tensor);

#endif
