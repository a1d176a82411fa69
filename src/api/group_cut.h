/* Parts of a call on host memory: some of its batch entries, of its key heads, or of its rows. The public structs of a
 * part point into the memory of the whole. */
#ifndef CLATTN_SRC_GROUP_CUT_H
#define CLATTN_SRC_GROUP_CUT_H

#include "clattn_backward.h"
#include "operation/operation.h"

enum group_axis { GROUP_BATCH, GROUP_HEADS, GROUP_ROWS, GROUP_AXES };
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

/* Into how many pieces the call may be cut there; 1: not at all. */
int64_t group_pieces(const struct group_call *whole, enum group_axis axis);

/* The call of pieces [first, first + count), at least one. `offsets` has room for the batch. */
void group_cut(const struct group_call *whole, enum group_axis axis, int64_t first, int64_t count, int32_t *offsets,
               struct group_call *part);

clattn_status group_call_run(clattn_context *context, const struct group_call *call);

#endif
