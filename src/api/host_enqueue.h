/* A call of a plan on host memory, without waiting, on any queue. */
#ifndef CLATTN_SRC_HOST_ENQUEUE_H
#define CLATTN_SRC_HOST_ENQUEUE_H

#include "plan/enqueue.h"

/* The call of the plan's operation begins with these operands; they become the device's, which no one needs
 * afterwards. */
clattn_status host_enqueue(const struct clattn_plan *plan, const struct enqueue_target *target,
                           struct operands *operands);

#endif
