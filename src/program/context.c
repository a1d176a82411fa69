/* Making and destroying a context; the only place that reads the environment. */
#include "program/context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/growth.h"
#include "device/environment.h"
#include "device/x86.h"
#include "program/gemm.h"
#include "program/host_sharing.h"
#include "program/program.h"
#include "program/program_cache.h"
#include "program/verdicts.h"

#define DEFAULT_WORKSPACE_LIMIT_BYTES ((size_t)256 << 20)

GROWTH(clattn_context_options, "options", kernel_dir, workspace_limit_bytes, CLATTN_CONTEXT_OPTIONS_INIT);

/* A copy: what the environment holds is the program's to change. NULL stays NULL; 0: out of memory. */
static int keep_text(const char *text, char **kept)
{
    *kept = text ? strdup(text) : NULL;
    return *kept || !text;
}

static clattn_status read_options(clattn_context *context, const clattn_context_options *given)
{
    clattn_context_options options = CLATTN_CONTEXT_OPTIONS_INIT;
    clattn_status status = given ? growth_copy(GROWTH_OF(clattn_context_options), given, &options) : CLATTN_OK;
    if (status != CLATTN_OK) {
        return status;
    }
    const char *kernel_dir = options.kernel_dir ? options.kernel_dir : environment_kernel_dir();
    if (!keep_text(kernel_dir, &context->kernel_dir) ||
        !keep_text(environment_clblast_flags(), &context->clblast_flags)) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a context's options");
    }
    context->workspace_limit_bytes = options.workspace_limit_bytes ? options.workspace_limit_bytes
                                                                   : DEFAULT_WORKSPACE_LIMIT_BYTES;
    return CLATTN_OK;
}

static clattn_status check_device(const struct device *device, const struct program_cache *cache)
{
    if (!device->has_compiler && !program_cache_binary_dir(cache)) {
        return error_set(CLATTN_UNSUPPORTED,
                         "device \"%s\": has no online compiler, and clattn compiles its kernels at run "
                         "time; choose another device, or set CLATTN_BINARY_DIR to a folder that "
                         "`clattn compile` wrote",
                         device->name);
    }
    if (!device->little_endian) {
        return error_set(CLATTN_UNSUPPORTED, "device \"%s\": is big-endian, which clattn is not made for",
                         device->name);
    }
    return CLATTN_OK;
}

static clattn_status init(clattn_context *context, cl_context cl, cl_device_id id,
                          const clattn_context_options *options)
{
    clattn_status status = device_read(id, &context->device);
    if (status == CLATTN_OK) {
        status = read_options(context, options);
    }
    if (status == CLATTN_OK) {
        status = program_cache_open(&context->device, &context->cache);
    }
    if (status == CLATTN_OK) {
        status = verdicts_open(&context->device, &context->verdicts);
    }
    if (status == CLATTN_OK) {
        status = check_device(&context->device, context->cache);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    if (context->device.device_class == DEVICE_CPU) {
        x86_request_tiles();
    }
    cl_int code = clRetainContext(cl);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clRetainContext", "is `cl` a valid cl_context?");
    }
    context->cl = cl;
    context->queue = clCreateCommandQueue(cl, id, 0, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateCommandQueue", "does the device belong to the cl_context?");
    }
    context->sharing_alignment = host_sharing_alignment(context);
    return CLATTN_OK;
}

clattn_status context_create(cl_context cl, cl_device_id id, const clattn_context_options *options,
                             clattn_context **result)
{
    clattn_context *context = calloc(1, sizeof(*context));
    if (!context) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a context");
    }
    process_mark_set(&context->maker);
    pthread_mutex_init(&context->program_lock, NULL);
    pthread_cond_init(&context->program_built, NULL);
    pthread_mutex_init(&context->times_lock, NULL);
    clattn_status status = init(context, cl, id, options);
    if (status != CLATTN_OK) {
        context_destroy(context);
        return status;
    }
    *result = context;
    return CLATTN_OK;
}

void context_destroy(clattn_context *context)
{
    /* In a forked child the driver's threads are gone: touch nothing of OpenCL there. */
    const int forked = !process_mark_is_here(&context->maker);
    for (int i = CONTEXT_ENDS_MAX - 1; i >= 0; --i) {
        if (context->ends[i]) {
            context->ends[i](context, forked);
        }
    }
    if (!forked) {
        program_destroy_all(context);
        gemm_forget(context);
        if (context->queue) {
            clReleaseCommandQueue(context->queue);
        }
        if (context->cl) {
            clReleaseContext(context->cl);
        }
    }
    pthread_cond_destroy(&context->program_built);
    pthread_mutex_destroy(&context->program_lock);
    pthread_mutex_destroy(&context->times_lock);
    program_cache_close(context->cache);
    verdicts_close(context->verdicts);
    process_mark_clear(&context->maker);
    free(context->kernel_dir);
    free(context->clblast_flags);
    free(context);
}

void context_at_end(clattn_context *context, context_end *end)
{
    int i = 0;
    while (i < CONTEXT_ENDS_MAX - 1 && context->ends[i]) {
        ++i;
    }
    context->ends[i] = end;
}

static clattn_status forked_error(void)
{
    return error_set(CLATTN_FORKED,
                     "this process was forked after its parent had used OpenCL, whose threads a fork does "
                     "not copy: calls would hang; fork before the first clattn call, or exec in the child");
}

/* The process that used OpenCL first; a fact, not state: it is written once. */
static atomic_long first_pid;

clattn_status context_check_process(void)
{
    long own = (long)getpid(), first = 0;
    return atomic_compare_exchange_strong(&first_pid, &first, own) || first == own ? CLATTN_OK : forked_error();
}

clattn_status context_check(const clattn_context *context)
{
    if (!context) {
        return error_set(CLATTN_INVALID_ARGUMENT, "context: must not be NULL");
    }
    return process_mark_is_here(&context->maker) ? CLATTN_OK : forked_error();
}
