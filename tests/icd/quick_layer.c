/* An OpenCL layer by which the driver compiles kernels without optimising. Those for GPUs always: on a CPU they stand
 * for what GPUs compute, not for how fast, and PoCL takes up to nine times as long for them otherwise; but not their
 * gradients, of whose large problems running took longer than compiling them well does. All others where
 * QUICK_LAYER_ALL is set, which tests do that are not about kernels: those for CPUs take PoCL three times as long
 * otherwise. make check loads it into its tests (tests/local.mk). */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;

/* How the programs begin: with the name of their file (src/program/kernel_source.c). */
static const char *const beginnings[] = {
    "#line 1 \"simt/fused_simt.cl\"\n",
    "#line 1 \"split_simt/split_simt.cl\"\n",
    "#line 1 \"mma/fused_mma.cl\"\n",
};

static int begins_as_one_for_gpus(const char *source)
{
    int found = 0;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); ++i) {
        found |= strncmp(source, beginnings[i], strlen(beginnings[i])) == 0;
    }
    return found;
}

/* A program made of a binary has no source: it is not meant. */
static int is_for_gpus(cl_program program)
{
    size_t size = 0;
    if (next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS || size == 0) {
        return 0;
    }
    char *source = malloc(size);
    const int found = source && next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS &&
                      begins_as_one_for_gpus(source);
    free(source);
    return found;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    static const char quickly[] = " -cl-opt-disable";
    const char *given = options ? options : "";
    const size_t size = strlen(given) + sizeof(quickly);
    char *changed = getenv("QUICK_LAYER_ALL") || is_for_gpus(program) ? malloc(size) : NULL;
    if (changed) {
        snprintf(changed, size, "%s%s", given, quickly);
    }
    const cl_int code = next->clBuildProgram(program, count, devices, changed ? changed : options, notify, data);
    free(changed);
    return code;
}

#define LAYER_CALLS(own) ((own).clBuildProgram = build_program)
#include "icd_entry.h"
