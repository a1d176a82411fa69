/* A call on host memory, for any operation. Its tensors get buffers: on the host's memory itself where the device
 * shares it (host_regions.h), else copies, and what is written is copied back. */
#ifndef CLATTN_SRC_HOST_SESSION_H
#define CLATTN_SRC_HOST_SESSION_H

#include "operation/operands.h"
#include "plan/host_regions.h"
#include "plan/strategy.h"

struct enqueue_target; /* plan/enqueue.h */

struct host_session {
    clattn_context *context;
    cl_command_queue queue;
    const struct operands *host;
    struct operands device; /* the same call, on buffers of the session's own */
    struct host_regions regions;
    cl_mem region_buffer[OPERANDS_MAX];
    int is_trial; /* HOST_CONTENT_TRIAL */
};

enum host_content {
    HOST_CONTENT_NOW,   /* copies have what stands in host memory */
    HOST_CONTENT_LATER, /* copies are empty, whoever began the session fills them */
    /* For kernels that nobody trusts yet: as NOW, but nothing is used where it lies, all that kernels wrote comes back,
     * beside elements too, and copies are not counted as a caller's. */
    HOST_CONTENT_TRIAL
};

/* Makes the buffers and the workspace. `queue`: where the call is to run. Whatever it returns, the caller ends the
 * session. */
clattn_status host_session_begin(struct host_session *session, clattn_context *context, cl_command_queue queue,
                                 const struct operands *host, size_t workspace_bytes, enum host_content content);

/* Whether a tensor with elements is copied. */
int host_session_copies(const struct host_session *session, int id);

/* Bytes from the first element that the strides reach to the last, and where they are. */
size_t host_session_bytes(const struct host_session *session, int id);
char *host_session_first(const struct host_session *session, int id);

/* Enqueues what makes a written tensor that is not copied valid in host memory, as OpenCL asks: mapped and unmapped,
 * after `computed`. *shown, an event, is the caller's; NULL for other tensors. */
clattn_status host_session_show(struct host_session *session, int id, cl_event computed, cl_event *shown);

/* Waits for `done` on the session's queue, which it releases, and makes what is written valid in host memory; only
 * elements of it change. */
clattn_status host_session_finish(struct host_session *session, cl_event done);

/* Releases the buffers, of which OpenCL keeps what commands still use. */
void host_session_release(struct host_session *session);

/* Releases the buffers behind a call that was to be waited for, whose status this is: after a failure part of it may
 * still be running on host memory, and the queue is finished first. */
void host_session_end(struct host_session *session, clattn_status status);

/* What a session is for: something that enqueues its call on the device's operands. */
typedef clattn_status host_session_work(const void *of, const struct enqueue_target *target,
                                        const struct operands *operands);

/* All of it for one call, which is over when this returns. The operands become those on the device, which no one needs
 * afterwards. */
clattn_status host_session_call(clattn_context *context, cl_command_queue queue, struct operands *operands,
                                size_t workspace_bytes, enum host_content content, host_session_work *enqueue,
                                const void *of);

/* That, of a plan. */
clattn_status host_session_run(const struct clattn_plan *plan, cl_command_queue queue, struct operands *operands,
                               enum host_content content);

#endif
