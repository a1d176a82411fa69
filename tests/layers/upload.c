#include "upload.h"

#include <stdlib.h>
#include <string.h>

clattn_array upload_put(struct upload *upload, const void *data, int64_t count, size_t size)
{
    clattn_array array = { NULL, UPLOAD_OFFSET };
    if (data) {
        const size_t bytes = (size_t)(count + UPLOAD_OFFSET) * size;
        char *copy = malloc(bytes);
        memset(copy, 0xff, bytes);
        memcpy(copy + UPLOAD_OFFSET * size, data, (size_t)count * size);
        array.buffer = clCreateBuffer(clattn_context_cl(upload->context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                      bytes, copy, NULL);
        upload->buffers[upload->n++] = array.buffer;
        free(copy);
    }
    return array;
}

void upload_release(struct upload *upload)
{
    for (int i = 0; i < upload->n; ++i) {
        clReleaseMemObject(upload->buffers[i]);
    }
}
