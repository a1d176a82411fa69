/* A validated problem, and the validated values of one call on it. All argument checking that needs no
 * device is here; used by the planner, by enqueue, and by the CPU reference. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "clattn.h"

#define STRATEGY_NAME_MAX 32

/* Immutable after problem_init: every default is resolved (head_dim_v, alignment). */
struct problem {
    clattn_problem p; /* p.strategy is NULL: strategy_name has it */
    char strategy_name[STRATEGY_NAME_MAX]; /* "": the best */
    uint32_t flags; /* CLATTN_FLAG_* of cl/forward_params.h */
};

clattn_status problem_init(struct problem *problem, const clattn_problem *given);

/* Two problems with the same key have the same plan on the same context. */
int problem_equal(const struct problem *a, const struct problem *b);

/* Whether keys may be hidden from rows in any way. */
int problem_hides_keys(const struct problem *problem);

/* "1 x 8(2) heads x 128 x 1024, head_dim 64, float32, causal bottom-right, mask" into `line`. */
void problem_describe(const struct problem *problem, char *line, size_t line_size);

/* What scores are multiplied by must be finite in float32 where it is given, and 0 where it is not. */
clattn_status problem_check_scale(int has_scale, double scale);

/* The tensors of a call, in the order of the public structs. */
enum tensor_id {
    TENSOR_QUERY,
    TENSOR_KEY,
    TENSOR_VALUE,
    TENSOR_OUT,
    TENSOR_LSE,
    TENSOR_MASK,
    TENSOR_BIAS,
    TENSOR_WEIGHTS,
    TENSOR_SLOPES,
    TENSOR_SINKS,
    TENSOR_KEY_LENGTHS,
    TENSOR_QUERY_OFFSETS,
    TENSOR_CU_QUERY,
    TENSOR_CU_KEY,
    TENSOR_COUNT
};

/* Where a tensor is; exactly one of buffer and data is used, by the kind of call. Zero when absent. */
struct tensor_place {
    cl_mem buffer;
    void *data;
    int64_t offset;
    int64_t stride[4];
};

/* One call, validated against its problem: lengths resolved, scale resolved, tensors present exactly
 * where the problem has them, column strides 1 unless the problem allows others. */
struct call {
    int64_t query_len, key_len;
    int64_t mask_key_len, bias_key_len; /* <= key_len; key_len when there is none */
    double scale;
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    struct tensor_place tensor[TENSOR_COUNT];
    cl_mem workspace;
};

clattn_status call_from_device(const struct problem *problem, const clattn_tensors *tensors,
                               struct call *call);
clattn_status call_from_host(const struct problem *problem, const clattn_host_tensors *tensors,
                             struct call *call);

/* The int32 values of a host call that shapes depend on: seams must not fall, sequences must not be
 * longer than the problem's lengths, key lengths must be 0 to key_len. */
clattn_status call_check_host_values(const struct problem *problem, const struct call *call);

/* What a tensor is called in messages ("query"), its element size, its extents on the four axes in
 * this call (dense int tensors: count in shape[3]); an axis that its strides do not use is 1. Packed
 * tensors: batch 1, and all rows on the row axis in host calls, one sequence's in device calls. */
const char *tensor_name(enum tensor_id id);
size_t tensor_element_bytes(const struct problem *problem, enum tensor_id id);
void tensor_shape(const struct problem *problem, const struct call *call, enum tensor_id id,
                  int64_t shape[4]);
int tensor_is_output(enum tensor_id id);

/* Lowest and one past the highest element index that a tensor's strides reach; both 0 when it has no
 * element.
 * CLATTN_INVALID_SHAPE when it does not fit int64. */
clattn_status tensor_extent(const struct problem *problem, const struct call *call,
                            enum tensor_id id, int64_t *low, int64_t *high);

#endif
