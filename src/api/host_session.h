/* A blocking call on host memory, for any operation: its tensors copied to buffers, and what is written copied back. */
#ifndef CLATTN_SRC_HOST_SESSION_H
#define CLATTN_SRC_HOST_SESSION_H

#include "operation/operands.h"
#include "program/context.h"

struct host_session {
    clattn_context *context;
    const struct operands *host;
    struct operands device; /* the same call, on buffers of the session's own: elements [low, high) of each tensor */
};

/* Makes the buffers and the workspace and copies what is read. Whatever it returns, the caller ends the session. */
clattn_status host_session_begin(struct host_session *session, clattn_context *context, const struct operands *host,
                                 size_t workspace_bytes);

/* Waits for `done`, which it releases, and copies what is written out; only elements of it change. */
clattn_status host_session_finish(struct host_session *session, cl_event done);

/* Releases the buffers. `status` is that of the call: after a failure part of it may still be running on them, and is
 * waited for. */
void host_session_end(struct host_session *session, clattn_status status);

#endif
