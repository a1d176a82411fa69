#include "device_time.h"

#include <math.h>
#include <stdlib.h>

#include "../insides.h"
#include "../progress.h"
#include "sample.h"

cl_mem device_empty(struct lesson_run *run, size_t bytes)
{
    cl_int code;
    cl_mem buffer = clCreateBuffer(clattn_context_cl(run->context), CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    if (!buffer) {
        error_opencl(code, "clCreateBuffer", "%zu bytes", bytes);
    }
    return buffer;
}

cl_mem device_normal(struct lesson_run *run, uint32_t stream, size_t count)
{
    float *values = malloc(count * sizeof(*values));
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    cl_mem buffer = NULL;
    if (values) {
        sample_normal(run->seed, stream, values, count);
        buffer = clCreateBuffer(clattn_context_cl(run->context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                count * sizeof(*values), values, &code);
    }
    free(values);
    if (!buffer) {
        error_opencl(code, "clCreateBuffer", "%zu numbers", count);
    }
    return buffer;
}

/* A time that is shorter by this part is another time; rounds for such ones are added for at most so many times the
 * seconds that were asked for. */
#define CLEARLY 0.02
#define PATIENCE 6.0

struct duration {
    double clock, processors;
};

static clattn_status run_once(struct lesson_run *run, struct device_job *job, struct duration *duration)
{
    cl_command_queue queue = clattn_context_queue(run->context);
    const double start = clock_seconds(), processors = clock_process_seconds();
    const clattn_status status = job->enqueue(job->state, queue);
    const cl_int code = clFinish(queue);
    duration->clock = clock_seconds() - start;
    duration->processors = clock_process_seconds() - processors;
    return status == CLATTN_OK && code != CL_SUCCESS ? error_opencl(code, "clFinish", "measuring") : status;
}

int device_is_cpu(const struct lesson_run *run)
{
    cl_device_type type = 0;
    clGetDeviceInfo(clattn_context_device(run->context), CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    return (type & CL_DEVICE_TYPE_CPU) != 0;
}

/* Whether another round is due: not all rounds were run, the time is not up, or neighbours still hide the shortest
 * times and patience is not at its end. */
static int goes_on(int rounds_left, int rounds_to_settle, double end, double latest)
{
    const double now = clock_seconds();
    return rounds_left > 0 || now < end || (rounds_to_settle > 0 && now < latest);
}

clattn_status device_measure(struct lesson_run *run, struct device_job *jobs, size_t n, double seconds, int rounds)
{
    const int is_cpu = device_is_cpu(run);
    clattn_status status = CLATTN_OK;
    struct duration once;
    for (size_t i = 0; i < n && status == CLATTN_OK; ++i) { /* what drivers compile at the first launch */
        status = run_once(run, &jobs[i], &once);
        jobs[i].work_seconds = INFINITY;
    }
    const double start = clock_seconds(), end = start + seconds, latest = start + PATIENCE * seconds;
    int settled = 0; /* the rounds in a row in which no job found a clearly shorter time */
    for (int round = 0; status == CLATTN_OK && goes_on(rounds - round, rounds - settled, end, latest); ++round) {
        ++settled;
        for (size_t i = 0; i < n && status == CLATTN_OK; ++i) {
            status = run_once(run, &jobs[i], &once);
            const double work = is_cpu ? once.processors : once.clock;
            settled = work < jobs[i].work_seconds * (1 - CLEARLY) ? 0 : settled;
            jobs[i].work_seconds = fmin(jobs[i].work_seconds, work);
        }
    }
    return status;
}
