/* A call by several contexts at once: a thread for each but the first, which the caller's computes. */
#include "api/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/context.h"

struct job {
    clattn_context *context;
    const struct group_call *part;
    clattn_status status;
    struct error_record failure;
    pthread_t thread;
    int has_thread;
};

static void *compute(void *argument)
{
    struct job *job = argument;
    job->status = group_call_run(job->context, job->part);
    if (job->status != CLATTN_OK) {
        error_save(&job->failure);
    }
    return NULL;
}

/* The first job runs in this thread, the others beside it, or after it where no thread is to be had. */
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

/* Where the share of context n begins, of so many pieces: other calls of the problem may have other rows. */
static int64_t share_begin(const struct group_division *division, size_t n, int64_t pieces)
{
    return pieces == division->pieces
               ? division->first[n]
               : (int64_t)((double)division->first[n] * (double)pieces / (double)division->pieces);
}

/* By the contexts that have a part. */
static clattn_status run_parts(const clattn_group *group, const struct group_parts *parts)
{
    struct job *jobs = calloc(parts->count, sizeof(*jobs));
    if (!jobs) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the parts of a call");
    }
    for (size_t n = 0; n < parts->count; ++n) {
        jobs[n].context = group->context[parts->part[n].share];
        jobs[n].part = &parts->part[n].call;
    }
    compute_all(jobs, parts->count);
    const clattn_status status = first_failure(jobs, parts->count);
    free(jobs);
    return status == CLATTN_OK ? group_parts_sum(parts) : status;
}

clattn_status group_run_divided(const clattn_group *group, const struct group_division *division,
                                const struct group_call *whole)
{
    const int64_t pieces = group_pieces(whole, division->axis);
    if (pieces <= 1) {
        return group_call_run(group->context[division->fastest], whole);
    }
    int64_t first[CLATTN_GROUP_MOST + 1];
    for (size_t n = 0; n <= group->count; ++n) {
        first[n] = share_begin(division, n, pieces);
    }
    struct group_parts parts;
    clattn_status status = group_parts_begin(&parts, whole, division->axis, group->count, first);
    if (status == CLATTN_OK) {
        status = run_parts(group, &parts);
    }
    group_parts_free(&parts);
    return status;
}
