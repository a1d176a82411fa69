/* usage: groups
 *
 * A program that takes some groups of tensors and the host that fills its params agree where each tensor's place is,
 * and how many bytes there are: for no group, each of them alone, all but each, and all. A kernel says where its
 * compiler has them; clattn_params is filled with places that tell which tensor and number they are. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn.h"
#include "operation/fill_params.h"
#include "program/embedded_cl.h"
#include "program/launch.h"

/* at[0]: bytes of the params; at[1 + n]: where tensor n begins. */
#define NUMBERS (1 + TENSOR_COUNT)
#define LINE_OF_ROW(id, name, axes, element, access, place, asked_by)                                                  \
    "    *at++ = (char *)&OFFSET(" #name ") - (char *)p;\n"
static const char kernel[] = "#include \"forward/arguments.clh\"\n"
                             "__kernel void groups(const clattn_params params, __global long *at)\n{\n"
                             "    const clattn_params copy = params, *p = &copy;\n"
                             "    *at++ = sizeof(params);\n" CLATTN_FORWARD_TENSORS(LINE_OF_ROW) "}\n";

/* What the device says. 0: it failed. */
static int ask_device(clattn_context *context, uint32_t groups, const struct launch_argument *params,
                      cl_long at[NUMBERS])
{
    const size_t one = 1, bytes = NUMBERS * sizeof(cl_long);
    struct kernel *taken = NULL;
    char options[48];
    cl_int code = CL_SUCCESS;
    snprintf(options, sizeof(options), "-D TYPE=1 -D CLATTN_TAKES=%u", (unsigned)groups);
    clattn_status status = program_kernel(context, "groups.cl", options, "groups", &taken);
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_WRITE_ONLY, bytes, NULL, &code);
    if (status == CLATTN_OK && code == CL_SUCCESS) {
        const struct launch_argument arguments[] = { *params, ARGUMENT(buffer) };
        struct chain chain;
        status = chain_begin(&chain, context->queue, 0, NULL, NULL);
        if (status == CLATTN_OK) {
            status = chain_end(&chain, launch(&chain, taken, 1, &one, &one, 2, arguments));
        }
        code = clEnqueueReadBuffer(context->queue, buffer, CL_TRUE, 0, bytes, at, 0, NULL, NULL);
    }
    if (buffer) {
        clReleaseMemObject(buffer);
    }
    if (status != CLATTN_OK || code != CL_SUCCESS) {
        printf("FAIL groups 0x%x: %s (OpenCL %d)\n", (unsigned)groups,
               status != CLATTN_OK ? clattn_last_error() : "a buffer", (int)code);
        return 0;
    }
    return 1;
}

/* Each number of a place tells its tensor, and which it is: the offset 0, strides from 1 on. */
static void place_tensors(struct operands *operands)
{
    operands_begin(operands, &operation_forward);
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        operands->tensor[id].offset = 10 * id;
        for (int axis = 0; axis < 4; ++axis) {
            operands->tensor[id].stride[axis] = 10 * id + 1 + axis;
        }
    }
}

static int judge(clattn_context *context, uint32_t groups, const struct problem *problem, const struct call *call)
{
    clattn_params params;
    cl_long at[NUMBERS];
    const size_t bytes = params_fill(problem, call, groups, &params);
    const struct launch_argument argument = { bytes, &params };
    int failed = 0;
    if (!ask_device(context, groups, &argument, at)) {
        return 1;
    }
    if ((size_t)at[0] != bytes) {
        printf("FAIL groups 0x%x: params of %zu bytes on the host, %lld on the device\n", (unsigned)groups, bytes,
               (long long)at[0]);
        return 1;
    }
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const int is_taken = (forward_tensors(groups) >> id & 1) != 0;
        const int64_t *place = (const int64_t *)((const char *)&params + at[1 + id]);
        const int strides = operation_forward.rows[id].strides, tensor = is_taken ? id : 0;
        int is_right = (size_t)at[1 + id] + sizeof(*place) * (size_t)(1 + strides) <= bytes;
        for (int n = 0; n <= strides && is_right; ++n) {
            is_right = place[n] == 10 * tensor + n;
        }
        if (!is_right) {
            printf("FAIL groups 0x%x: %s is not at byte %lld\n", (unsigned)groups, operation_forward.rows[id].name,
                   (long long)at[1 + id]);
            failed = 1;
        }
    }
    return failed;
}

int main(void)
{
    const struct clattn_embedded_file file = { "groups.cl", kernel, sizeof(kernel) - 1 };
    const struct clattn_embedded_table table = { &file, 1 };
    const struct problem problem = { .p = CLATTN_PROBLEM_INIT };
    struct call *call = calloc(1, sizeof(*call));
    clattn_context *context = NULL;
    if (!call || clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "%s\n", call ? clattn_last_error() : "out of memory");
        return 1;
    }
    place_tensors(&call->operands);
    program_own_kernels(context, &table);
    int failed = judge(context, 0, &problem, call) + judge(context, CLATTN_TAKES_ALL, &problem, call), count = 2;
    for (uint32_t group = 1; group < CLATTN_TAKES_ALL; group *= 2, count += 2) {
        failed += judge(context, group, &problem, call) + judge(context, CLATTN_TAKES_ALL & ~group, &problem, call);
    }
    clattn_context_destroy(context);
    free(call);
    printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed > 0;
}
