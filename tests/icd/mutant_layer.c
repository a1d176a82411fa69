/* An OpenCL layer that is a bad compiler: it changes kernels on their way to the driver, or dies with them. By the
 * environment:
 *
 *     MUTANT_OLD=TEXT       programs whose source has this text are meant
 *     MUTANT_NEW=TEXT       what the driver gets in its place, everywhere
 *     MUTANT_DEATH=build    the process is killed when one of them is built
 *     MUTANT_DEATH=run      or when a kernel is enqueued after one of them was made
 *     MUTANT_DEATH=refuse   which the driver refuses, and the process lives */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static atomic_int mutants_made;

static int is_moment(const char *moment)
{
    const char *death = getenv("MUTANT_DEATH");
    return death && strcmp(death, moment) == 0 && atomic_load(&mutants_made) > 0;
}

static void die_at(const char *moment)
{
    if (is_moment(moment)) {
        raise(SIGKILL);
    }
}

/* The text with each `old` in it replaced; NULL where there is none. The caller frees it. */
static char *replaced(const char *text, const char *old, const char *new)
{
    const size_t old_length = strlen(old), new_length = strlen(new);
    size_t count = 0;
    for (const char *at = text; old_length > 0 && (at = strstr(at, old)) != NULL; at += old_length) {
        ++count;
    }
    char *result = count > 0 ? malloc(strlen(text) + count * new_length + 1) : NULL, *to = result;
    while (result && count-- > 0) {
        const char *at = strstr(text, old);
        memcpy(to, text, (size_t)(at - text));
        to += at - text;
        memcpy(to, new, new_length);
        to += new_length;
        text = at + old_length;
    }
    if (result) {
        memcpy(to, text, strlen(text) + 1);
    }
    return result;
}

/* clattn gives one text, which ends with 0. */
static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count, const char **text,
                                                 const size_t *sizes, cl_int *error)
{
    const char *old = getenv("MUTANT_OLD"), *new = getenv("MUTANT_NEW");
    char *mutant = count == 1 && !sizes && old ? replaced(text[0], old, new ? new : old) : NULL;
    if (!mutant) {
        return next->clCreateProgramWithSource(context, count, text, sizes, error);
    }
    const char *source = mutant;
    atomic_fetch_add(&mutants_made, 1);
    cl_program program = next->clCreateProgramWithSource(context, 1, &source, NULL, error);
    free(mutant);
    return program;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    die_at("build");
    return next->clBuildProgram(program, count, devices, options, notify, data);
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                  const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait,
                                  cl_event *done)
{
    die_at("run");
    if (is_moment("refuse")) {
        return CL_OUT_OF_RESOURCES;
    }
    return next->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n_wait, wait, done);
}

#define LAYER_CALLS(own)                                                                                               \
    ((own).clCreateProgramWithSource = create_with_source, (own).clBuildProgram = build_program,                       \
     (own).clEnqueueNDRangeKernel = enqueue)
#include "icd_entry.h"
