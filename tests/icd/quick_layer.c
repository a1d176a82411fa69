/* An OpenCL layer by which the driver compiles kernels without optimising, for which PoCL takes a fifth to a third of
 * the time. Those for GPUs always: on a CPU they stand for what GPUs compute, not for how fast. Some never, which run
 * so much slower then that all takes longer. The environment says which others:
 *   QUICK_LAYER_ALL    all: of tests that are not about kernels, or that compare bits of two programs
 *   QUICK_LAYER_MOST   all but every sixteenth, by a hash of its options, so that a program is the one or the other in
 *                      all tests
 *   QUICK_LAYER_SMALL  with either: calls are so small that those too are compiled quickly that never are else
 *   QUICK_LAYER_WELL   with either: FILE of cl/ whose programs are none of them
 *   QUICK_LAYER_NONE   none: kernels are those that users get
 *
 * All programs get few built-in functions (few_builtins.h), which is faster and makes the same code, but with
 * CLATTN_TEST_LONG. One that names others, or is wrong, is built again with all.
 *
 * make check loads it into its tests (tests/local.mk); tests/limited and tests/short.txt say what it does in which. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "few_builtins.h"

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static const char *const always[] = { "simt/fused_simt.cl", "split_simt/split_simt.cl", "mma/fused_mma.cl", NULL };
static const char *const never[] = { "wgmma/fused_wgmma.cl", "backward_gpu/backward_simt.cl",
                                     "backward_gpu/backward_mma.cl", NULL };

/* Programs begin with the name of their file, as a line of C (src/program/kernel_source.c). */
static const char file_line[] = "#line 1 \"";

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void file_of(const char *source, char name[100])
{
    const char *path = begins_with(source, file_line) ? source + strlen(file_line) : "";
    snprintf(name, 100, "%.*s", (int)strcspn(path, "\""), path);
}

/* clattn gives one text, which ends with 0. */
static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count, const char **text,
                                                 const size_t *sizes, cl_int *error)
{
    const int is_ours = count == 1 && !sizes && begins_with(text[0], file_line);
    char *whole = is_ours && !getenv("CLATTN_TEST_LONG") ? few_builtins_before(text[0]) : NULL;
    const char *given = whole;
    cl_program program = next->clCreateProgramWithSource(context, count, whole ? &given : text, sizes, error);
    free(whole);
    return program;
}

/* Other drivers include no such header, or declare what it has by themselves. */
static int is_pocl_3(cl_program program)
{
    cl_device_id device = NULL;
    char version[200] = "", driver[200] = "";
    return next->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(device), &device, NULL) == CL_SUCCESS &&
           next->clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(version), version, NULL) == CL_SUCCESS &&
           next->clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(driver), driver, NULL) == CL_SUCCESS &&
           (strstr(version, "pocl") || strstr(version, "PoCL")) && begins_with(driver, "3.");
}

/* Whether a compiler said so: the driver may have failed otherwise (tests/icd/fault_layer.c). */
static int has_complaint(cl_program program)
{
    cl_device_id device = NULL;
    char log[4096] = "";
    next->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(device), &device, NULL);
    next->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL);
    return strstr(log, "error") != NULL;
}

static int is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0) {
        ++names;
    }
    return *names != NULL;
}

/* FNV-1a of the options, whose last bits are the least alike. */
static int is_every_sixteenth(const char *options)
{
    uint32_t hash = 2166136261;
    for (; *options; ++options) {
        hash = (hash ^ (unsigned char)*options) * 16777619;
    }
    return (hash >> 16) % 16 == 0;
}

/* The caller frees it. NULL: a program made of a binary has none, and is not meant. */
static char *source_of(cl_program program)
{
    size_t size = 0;
    if (next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size == 0) {
        return NULL;
    }
    char *source = malloc(size);
    if (source && next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) != CL_SUCCESS) {
        free(source);
        return NULL;
    }
    return source;
}

/* What the environment asks for. */
static int is_asked_for(const char *name, const char *options)
{
    const char *well = getenv("QUICK_LAYER_WELL");
    const int is_one = getenv("QUICK_LAYER_ALL") || (getenv("QUICK_LAYER_MOST") && !is_every_sixteenth(options));
    return is_one && !(well && strcmp(well, name) == 0) && (getenv("QUICK_LAYER_SMALL") || !is_one_of(name, never));
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    char *source = source_of(program), name[100];
    const char *behind = source ? few_builtins_behind(source) : NULL;
    file_of(behind ? behind : source ? source : "", name);
    const char *given = options ? options : "";
    const int is_quick = !getenv("QUICK_LAYER_NONE") && (is_one_of(name, always) || is_asked_for(name, given));
    const char *quickly = is_quick ? " -cl-opt-disable" : "";
    const size_t size = strlen(given) + strlen(quickly) + sizeof(FEW_BUILTINS_OPTIONS);
    char *changed = source ? malloc(size) : NULL;
    const int has_few = changed && behind && !notify && is_pocl_3(program);
    cl_int code = CL_BUILD_PROGRAM_FAILURE;
    if (has_few) {
        snprintf(changed, size, "%s%s" FEW_BUILTINS_OPTIONS, given, quickly);
        code = next->clBuildProgram(program, count, devices, changed, NULL, NULL);
    }
    if (!has_few || (code != CL_SUCCESS && has_complaint(program))) {
        snprintf(changed, changed ? size : 0, "%s%s", given, quickly);
        code = next->clBuildProgram(program, count, devices, changed ? changed : options, notify, data);
    }
    free(changed);
    free(source);
    return code;
}

#define LAYER_CALLS(own) ((own).clCreateProgramWithSource = create_with_source, (own).clBuildProgram = build_program)
#include "icd_entry.h"
