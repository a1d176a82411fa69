/* Whether a device computes on host memory where it lies. */
#ifndef CLATTN_SRC_HOST_SHARING_H
#define CLATTN_SRC_HOST_SHARING_H

#include "program/context.h"

/* Bytes of which a buffer of CL_MEM_USE_HOST_PTR must begin, and end, at a multiple so that it is the host's memory
 * and no copy; 0: buffers of this device are copies, or nobody knows. Tried on a small one: a device may say that it
 * shares memory, and yet keep a copy until a buffer is mapped. What lies beside the wanted bytes, up to such multiples,
 * is then never touched. Fails never: without an answer memory is copied. */
size_t host_sharing_alignment(const clattn_context *context);

#endif
