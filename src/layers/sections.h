/* The workspace of a layer, cut into sections: where each begins, and the section of the attention inside it as a
 * buffer of its own. */
#ifndef CLATTN_SRC_SECTIONS_H
#define CLATTN_SRC_SECTIONS_H

#include "program/context.h"

/* Sizes of a workspace's sections -> where each begins, fit for a sub-buffer; *total is the whole. An error
 * where the device has not so much. A size below 0 stands for one that does not fit 64 bits. */
clattn_status sections_place(const struct device *device, const int64_t *bytes, size_t *at, int count, size_t *total);

/* One section as a buffer of its own, NULL where bytes is 0. The caller releases it after enqueueing; commands keep it
 * alive. */
clattn_status section_buffer(cl_mem workspace, size_t at, size_t bytes, cl_mem *buffer);

/* For strides over axes that may have no element: a stride of 0 would look like a broadcast. */
static inline int64_t at_least_1(int64_t extent)
{
    return extent > 0 ? extent : 1;
}

#endif
