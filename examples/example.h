/* What the examples share: they end at the first error, fill arrays with the same numbers everywhere, and compare what
 * a device computed with what is right. Nothing of it is needed to use clattn. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline void must(clattn_status status)
{
    if (status != CLATTN_OK) {
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
        exit(1);
    }
}

static inline void must_cl(cl_int error)
{
    if (error != CL_SUCCESS) {
        fprintf(stderr, "OpenCL error %d\n", (int)error);
        exit(1);
    }
}

/* Numbers from -1 to 1, others for each seed. */
static inline void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* A buffer of the context's device; `data` is copied into it, or NULL. No buffer has 0 bytes in OpenCL. */
static inline cl_mem device_buffer(const clattn_context *context, size_t bytes, const void *data)
{
    cl_int error;
    const cl_mem buffer =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &error);
    must_cl(error);
    if (data) {
        must_cl(clEnqueueWriteBuffer(clattn_context_queue(context), buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL));
    }
    return buffer;
}

/* Reads a buffer after the events of `wait`. */
static inline void read_buffer(cl_command_queue queue, cl_mem buffer, size_t bytes, void *data, cl_uint n_wait,
                               const cl_event *wait)
{
    must_cl(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, data, n_wait, wait, NULL));
}

/* Ends the program where `got` is further than `limit` from `right` anywhere; a NaN is. */
static inline void compare(const char *what, const float *got, const float *right, size_t count, double limit)
{
    double largest = 0;
    for (size_t i = 0; i < count; ++i) {
        const double difference = fabs((double)got[i] - (double)right[i]);
        if (!(difference <= limit)) {
            fprintf(stderr, "%s: element %zu is %g, not %g\n", what, i, (double)got[i], (double)right[i]);
            exit(1);
        }
        largest = fmax(largest, difference);
    }
    printf("%s: right, to %.1e\n", what, largest);
}

#endif
