/* A call by several contexts at once: a thread for each but the first, which the caller's computes. */
#include "api/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/context.h"

struct job {
    clattn_context *context;
    struct group_call part;
    int32_t *offsets;
    clattn_status status;
    struct error_record failure;
    pthread_t thread;
    int has_thread;
};

static void *compute(void *argument)
{
    struct job *job = argument;
    job->status = group_call_run(job->context, &job->part);
    if (job->status != CLATTN_OK) {
        error_save(&job->failure);
    }
    return NULL;
}

/* Those before the first run beside it; where no thread is to be had, after it. */
static void compute_all(struct job *jobs, size_t count)
{
    for (size_t n = 1; n < count; ++n) {
        jobs[n].has_thread = pthread_create(&jobs[n].thread, NULL, compute, &jobs[n]) == 0;
    }
    compute(&jobs[0]);
    for (size_t n = 1; n < count; ++n) {
        if (jobs[n].has_thread) {
            pthread_join(jobs[n].thread, NULL);
        } else {
            compute(&jobs[n]);
        }
    }
}

static clattn_status first_failure(const struct job *jobs, size_t count)
{
    for (size_t n = 0; n < count; ++n) {
        if (jobs[n].status != CLATTN_OK) {
            error_set(jobs[n].status, "%s: %s", jobs[n].context->device.name, jobs[n].failure.text);
            return jobs[n].status;
        }
    }
    return CLATTN_OK;
}

clattn_status group_run_divided(const clattn_group *group, const struct group_division *division,
                                const struct group_call *whole)
{
    const size_t batch = whole->problem.batch > 0 ? (size_t)whole->problem.batch : 1;
    const int64_t now = group_pieces(whole, division->axis);
    struct job *jobs = calloc(group->count, sizeof(*jobs));
    int32_t *offsets = malloc(group->count * batch * sizeof(*offsets));
    size_t count = 0;
    clattn_status status = CLATTN_OK;
    if (!jobs || !offsets) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the parts of a call");
    }
    for (size_t n = 0; n < group->count && status == CLATTN_OK; ++n) {
        const int64_t first = division->first[n];
        const int64_t end = division->first[n + 1] < now ? division->first[n + 1] : now; /* calls may have fewer rows */
        if (first < end) {
            jobs[count].context = group->context[n];
            jobs[count].offsets = offsets + count * batch;
            group_cut(whole, division->axis, first, end - first, jobs[count].offsets, &jobs[count].part);
            count++;
        }
    }
    if (status == CLATTN_OK && count > 0) {
        compute_all(jobs, count);
        status = first_failure(jobs, count);
    } else if (status == CLATTN_OK) {
        status = group_call_run(group->context[0], whole);
    }
    free(offsets);
    free(jobs);
    return status;
}
