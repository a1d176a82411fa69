/* ONNX Runtime's two tables of functions, and what is read through them: nodes of a graph, tensors of a call. */
#ifndef CLATTN_ORT_ORT_H
#define CLATTN_ORT_ORT_H

#include <onnxruntime_c_api.h>

#include <clattn.h>

/* The version of the tables that is asked for, 1.23's: the first that has what a provider needs. */
#define ORT_TABLES 23

#define INPUTS_MAX 17 /* of GroupQueryAttention, which has most */
#define OUTPUTS_MAX 4
#define RANK_MAX 5

extern const OrtApi *ort;
extern const OrtEpApi *ort_ep;

/* Returns from a function what went wrong. */
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        OrtStatus *failure_ = (expression);                                                                            \
        if (failure_) {                                                                                                \
            return failure_;                                                                                           \
        }                                                                                                              \
    } while (0)

/* A status with this text; the caller returns it. */
OrtStatus *refuse(OrtErrorCode code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A status with what clattn said last, its code by that of clattn. */
OrtStatus *refuse_as_clattn(clattn_status status);

/* A status for memory that is not there. */
OrtStatus *refuse_memory(void);

/* clattn's name; CLATTN_TYPE_NONE: it has none. */
clattn_type type_of_element(ONNXTensorElementDataType type);

/* ---- nodes ------------------------------------------------------------------------------------- */

/* An input or output of a node. */
struct value {
    const OrtValueInfo *info; /* NULL: left out */
    const char *name;
    ONNXTensorElementDataType type;
    int rank;                 /* -1: not known before the call */
    int64_t extent[RANK_MAX]; /* -1: not known */
};

/* A node of a graph that ONNX Runtime owns, read once. */
struct node {
    const OrtNode *node;
    const char *domain, *operation;
    int version;
    size_t inputs, outputs;
    struct value input[INPUTS_MAX], output[OUTPUTS_MAX]; /* those beyond are counted, not read */
};

OrtStatus *node_read(const OrtNode *node, struct node *read);
int node_has_input(const struct node *node, int index);
int node_has_output(const struct node *node, int index);

/* An attribute; what it is by default where the node has none. */
OrtStatus *node_integer(const struct node *node, const char *name, int64_t by_default, int64_t *number);
OrtStatus *node_number(const struct node *node, const char *name, float by_default, float *number);
/* Which of the `count` words a text is; the first where the node has none, -1 for another one. */
OrtStatus *node_choice(const struct node *node, const char *name, const char *const *words, int count, int *choice);
/* At most `max` numbers; *count 0 where the node has none, or more. */
OrtStatus *node_integers(const struct node *node, const char *name, int64_t *numbers, size_t max, size_t *count);

/* ---- tensors ----------------------------------------------------------------------------------- */

/* A tensor of a call, in the host's memory. */
struct tensor {
    void *data; /* NULL: not given; never NULL for a tensor without elements */
    ONNXTensorElementDataType type;
    int rank;
    int64_t extent[RANK_MAX], stride[RANK_MAX]; /* in elements */
};

/* What ONNX Runtime owns as a value. Fails for more than RANK_MAX axes, and for what is no tensor in the host's
 * memory. */
OrtStatus *tensor_read(const OrtValue *value, struct tensor *tensor);

/* The first `count` elements, of any floating type but float64, as they lie. */
OrtStatus *tensor_widen(const struct tensor *tensor, int64_t count, float *wide);

/* Bytes of an element, 0 for types that attention has no use for. */
size_t element_bytes(ONNXTensorElementDataType type);

#endif
