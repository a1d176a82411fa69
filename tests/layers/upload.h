/* Arrays of host memory in buffers of their own, for enqueued calls of layers. */
#ifndef CLATTN_TESTS_LAYERS_UPLOAD_H
#define CLATTN_TESTS_LAYERS_UPLOAD_H

#include "clattn_layers.h"

#define UPLOAD_OFFSET 3

struct upload {
    clattn_context *context;
    cl_mem buffers[32];
    int n;
};

/* `count` elements of `size` bytes behind UPLOAD_OFFSET elements of NaN. NULL: none. */
clattn_array upload_put(struct upload *upload, const void *data, int64_t count, size_t size);
void upload_release(struct upload *upload);

#endif
