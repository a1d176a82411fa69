/* Parts of a call on host memory: some of its batch entries, of its key heads, of its rows, or of its keys. The public
 * structs of a part point into the memory of the whole, but for results of some of the keys, which are summed later. */
#ifndef CLATTN_SRC_GROUP_CUT_H
#define CLATTN_SRC_GROUP_CUT_H

#include "clattn_backward.h"
#include "operation/operation.h"

enum group_axis { GROUP_BATCH, GROUP_HEADS, GROUP_ROWS, GROUP_KEYS, GROUP_AXES };
extern const char *const group_axis_names[GROUP_AXES];

/* A call of attention or of its gradients, whole: the caller's structs, with every field that this library knows. */
struct group_call {
    const struct operation *operation;
    clattn_problem problem;
    clattn_backward_problem backward; /* of gradients; its forward is `problem` */
    clattn_call call;
    clattn_host_tensors tensors;
    clattn_host_gradients gradients;
};

/* Out of the caller's; backward and gradients NULL: of attention. */
clattn_status group_call_read(const clattn_problem *problem, const clattn_backward_problem *backward,
                              const clattn_call *call, const clattn_host_tensors *tensors,
                              const clattn_host_gradients *gradients, struct group_call *whole);

/* Rows, and keys, of this call: the problem's where it says nothing of them. */
int64_t group_rows(const struct group_call *call);
int64_t group_key_len(const struct group_call *call);

/* Into how many pieces the call may be cut there; 1: not at all. */
int64_t group_pieces(const struct group_call *whole, enum group_axis axis);

struct group_part {
    struct group_call call;
    size_t share;     /* the number of its bounds */
    int32_t *offsets; /* [batch] query_offsets of its own, and as many key_lengths behind them */
    float *results;   /* of keys: out, and lse behind it; of gradients dquery. Dense. */
};

struct group_parts {
    const struct group_call *whole;
    enum group_axis axis;
    size_t count;
    struct group_part *part;
};

/* Part n has pieces [first[n], first[n + 1]); those without are left out. */
clattn_status group_parts_begin(struct group_parts *parts, const struct group_call *whole, enum group_axis axis,
                                size_t shares, const int64_t *first);

/* After all of them were computed: puts together what each has a part of. */
clattn_status group_parts_sum(const struct group_parts *parts);
void group_parts_free(struct group_parts *parts);

/* By one context: in slices, one after the other, where the call is more than its device holds, or gives out in one
 * buffer. */
clattn_status group_call_run(clattn_context *context, const struct group_call *call);

#endif
