/* An OpenCL layer by which the driver compiles kernels without optimising, for which PoCL takes a fifth to a third of
 * the time. Those for GPUs always: on a CPU they stand for what GPUs compute, not for how fast. Some never, which run
 * so much slower then that all takes longer. The environment says which others:
 *   QUICK_LAYER_ALL    all: of tests that are not about kernels, or that compare bits of two programs
 *   QUICK_LAYER_MOST   all but every sixteenth, by a hash of its options, so that a program is the one or the other in
 *                      all tests
 *   QUICK_LAYER_SMALL  with either: calls are so small that those too are compiled quickly that never are else
 *   QUICK_LAYER_WELL   with either: FILE of cl/ whose programs are none of them
 * make check loads it into its tests (tests/local.mk); tests/limited and tests/short.txt say what it does in which. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

static const char *const always[] = { "simt/fused_simt.cl", "split_simt/split_simt.cl", "mma/fused_mma.cl", NULL };
static const char *const never[] = { "wgmma/fused_wgmma.cl", "backward_gpu/backward_simt.cl",
                                     "backward_gpu/backward_mma.cl", NULL };

/* Programs begin with the name of their file, as a line of C (src/program/kernel_source.c). */
static void file_of(const char *source, char name[100])
{
    static const char line[] = "#line 1 \"";
    const char *path = strncmp(source, line, sizeof(line) - 1) == 0 ? source + sizeof(line) - 1 : "";
    snprintf(name, 100, "%.*s", (int)strcspn(path, "\""), path);
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

static int is_compiled_quickly(cl_program program, const char *options)
{
    char *source = source_of(program), name[100];
    file_of(source ? source : "", name);
    const int quickly = source && (is_one_of(name, always) || is_asked_for(name, options));
    free(source);
    return quickly;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    static const char quickly[] = " -cl-opt-disable";
    const char *given = options ? options : "";
    const size_t size = strlen(given) + sizeof(quickly);
    char *changed = is_compiled_quickly(program, given) ? malloc(size) : NULL;
    if (changed) {
        snprintf(changed, size, "%s%s", given, quickly);
    }
    const cl_int code = next->clBuildProgram(program, count, devices, changed ? changed : options, notify, data);
    free(changed);
    return code;
}

#define LAYER_CALLS(own) ((own).clBuildProgram = build_program)
#include "icd_entry.h"
