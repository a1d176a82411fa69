/* Recording of steps, the sections of their workspace, and calls of them. */
#include "plan/steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/planner.h"
#include "program/rehearsal.h"

#define SECTION_ALIGNMENT 4096 /* no device asks more of a sub-buffer */

void steps_begin(struct steps *steps, clattn_context *context, size_t element_bytes)
{
    memset(steps, 0, sizeof(*steps));
    steps->context = context;
    for (int i = 0; i < STEPS_SECTIONS_MAX; ++i) {
        steps->element_bytes[i] = (int64_t)element_bytes;
    }
}

void steps_free(struct steps *steps)
{
    for (int i = 0; i < STEPS_CHILDREN_MAX; ++i) {
        planner_destroy(steps->child[i]);
    }
    free(steps->step);
}

/* ---- recording -------------------------------------------------------------------------------- */

void steps_section_elements(struct steps *steps, int section, size_t element_bytes)
{
    steps->element_bytes[section] = (int64_t)element_bytes;
}

void steps_need(struct steps *steps, struct place place, int64_t rows, int64_t stride)
{
    const int section = -1 - place.at;
    int64_t elements, bytes = -1;
    if (section < 0) {
        return;
    }
    if (!checked_multiply(rows, stride, &elements) || !checked_add(elements, place.offset, &elements) ||
        !checked_multiply(elements, steps->element_bytes[section], &bytes)) {
        bytes = -1;
    }
    const int64_t before = steps->bytes[section];
    steps->bytes[section] = before < 0 || (bytes >= 0 && bytes < before) ? before : bytes;
}

clattn_status steps_plan_child(struct steps *steps, int child, int section, const struct any_problem *problem)
{
    const clattn_status status = planner_plan(steps->context, problem, &steps->child[child]);
    if (status == CLATTN_OK) {
        const struct place whole = { PLACE_OF_SECTION(section), 0, 1 };
        steps_section_elements(steps, section, 1);
        steps_need(steps, whole, (int64_t)steps->child[child]->workspace_bytes, 1);
        steps->child_section[child] = section;
    }
    return status;
}

void steps_add(struct steps *steps, const struct step *step)
{
    if (steps->count == steps->room && steps->status == CLATTN_OK) {
        const size_t room = steps->room + 32;
        struct step *more = realloc(steps->step, room * sizeof(*more));
        if (!more) {
            steps->status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the steps of a plan");
        } else {
            steps->step = more;
            steps->room = room;
        }
    }
    if (steps->status == CLATTN_OK) {
        steps->step[steps->count++] = *step;
    }
}

static clattn_status enqueue_child(const struct step *step, const struct run *run)
{
    struct call call;
    const clattn_status status = step->call(step->of, run, run->child_workspace[step->child], &call);
    return status == CLATTN_OK ? enqueue_in_chain(run->steps->child[step->child], &call.operands, run->chain) : status;
}

void steps_add_child(struct steps *steps, int child, step_call *call, const void *of)
{
    const struct step step = { .enqueue = enqueue_child, .of = of, .child = child, .call = call };
    steps_add(steps, &step);
}

static clattn_status place_sections(struct steps *steps)
{
    const struct device *device = &steps->context->device;
    int64_t sum = 0;
    int fits = 1;
    for (int i = 0; i < STEPS_SECTIONS_MAX && fits; ++i) {
        steps->section_at[i] = (size_t)sum;
        fits = steps->bytes[i] >= 0 && steps->bytes[i] <= INT64_MAX / STEPS_SECTIONS_MAX - SECTION_ALIGNMENT;
        sum += fits ? round_up(steps->bytes[i], SECTION_ALIGNMENT) : 0;
    }
    steps->workspace_bytes = (size_t)sum;
    if (!fits || (uint64_t)sum > device->allocation_bytes || (uint64_t)sum > device->global_bytes) {
        return error_set(CLATTN_OUT_OF_DEVICE_MEMORY,
                         "workspace of %s%" PRId64 " bytes: device \"%s\" allows %llu bytes in one buffer "
                         "and has %llu in all; lower batch or rows",
                         fits ? "" : "more than ", sum, device->name, (unsigned long long)device->allocation_bytes,
                         (unsigned long long)device->global_bytes);
    }
    return CLATTN_OK;
}

/* ---- calls ------------------------------------------------------------------------------------ */

struct matrix steps_matrix(const struct run *run, struct place place)
{
    struct matrix matrix = { NULL, place.offset, place.stride };
    if (place.at > 0) {
        const struct tensor_place *given = &run->operands->tensor[place.at - 1];
        matrix.buffer = given->buffer;
        matrix.offset += given->offset;
    } else if (place.at < 0) {
        const int section = -1 - place.at;
        matrix.buffer = run->operands->workspace;
        matrix.offset += (int64_t)run->steps->section_at[section] / run->steps->element_bytes[section];
    }
    return matrix;
}

/* The last step makes the caller's event where it can. A child says by itself which of its commands is its last. */
static clattn_status run_steps(const struct run *run)
{
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < run->steps->count && status == CLATTN_OK; ++i) {
        const struct step *step = &run->steps->step[i];
        run->chain->more_follows = i + 1 < run->steps->count;
        if (!step->call) {
            chain_final(run->chain);
        }
        status = step->enqueue(step, run);
    }
    return status;
}

struct rehearsed {
    const struct steps *steps;
    const struct operands *largest;
};

static clattn_status rehearsed_run(const void *of, struct chain *chain)
{
    const struct rehearsed *rehearsed = of;
    struct operands operands = *rehearsed->largest;
    operands_stand_in(&operands);
    const struct run run = { rehearsed->steps, &operands, { operands.workspace, operands.workspace }, chain };
    return run_steps(&run);
}

clattn_status steps_end(struct steps *steps, const struct operands *largest)
{
    const struct rehearsed rehearsed = { steps, largest };
    clattn_status status = steps->status == CLATTN_OK ? place_sections(steps) : steps->status;
    return status == CLATTN_OK ? rehearse(steps->context, rehearsed_run, &rehearsed) : status;
}

/* A child's section of the workspace as a buffer of its own, NULL where it needs none. Commands keep it alive. */
static clattn_status child_buffer(const struct steps *steps, int child, cl_mem workspace, cl_mem *buffer)
{
    const struct clattn_plan *plan = steps->child[child];
    cl_int code;
    if (!plan || plan->workspace_bytes == 0) {
        return CLATTN_OK;
    }
    const cl_buffer_region region = { steps->section_at[steps->child_section[child]], plan->workspace_bytes };
    *buffer = clCreateSubBuffer(workspace, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    return *buffer ? CLATTN_OK
                   : error_opencl(code, "clCreateSubBuffer", "%zu bytes of the workspace", plan->workspace_bytes);
}

clattn_status steps_enqueue(const struct steps *steps, const struct enqueue_target *target,
                            const struct operands *operands)
{
    struct chain chain;
    struct run run = { .steps = steps, .operands = operands, .chain = &chain };
    clattn_status status = enqueue_begin(steps->context, target, operands, steps->workspace_bytes, &chain);
    if (status != CLATTN_OK) {
        return status;
    }
    for (int i = 0; i < STEPS_CHILDREN_MAX && status == CLATTN_OK; ++i) {
        status = child_buffer(steps, i, operands->workspace, &run.child_workspace[i]);
    }
    status = status == CLATTN_OK ? run_steps(&run) : status;
    for (int i = 0; i < STEPS_CHILDREN_MAX; ++i) {
        if (run.child_workspace[i]) {
            clReleaseMemObject(run.child_workspace[i]);
        }
    }
    return chain_end(&chain, status);
}
