/* A rehearsal: a queue of its own, and the launches that compile. */
#include "program/rehearsal.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "program/program_parts.h"

/* From so many work-items along the first or the second axis on, PoCL launches another form of the kernel, whose
 * indices have more than 16 bits. */
#define WIDE_RANGE 65535

#define ARGUMENTS_MOST 64
#define ARGUMENT_BYTES_MOST 1024 /* every device takes so many; no kernel has more */

/* There is none until the first launch: a plan whose kernels are known needs none. */
static clattn_status need_queue(struct chain *chain)
{
    const clattn_context *context = chain->rehearses;
    cl_int code = CL_SUCCESS;
    if (!chain->queue) {
        chain->queue = clCreateCommandQueue(context->cl, context->device.id, 0, &code);
    }
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clCreateCommandQueue", "for a plan's rehearsal");
}

/* Which is compiled by then. */
static clattn_status finish(struct chain *chain, struct kernel *kernel, double start_ms)
{
    clattn_context *context = chain->rehearses;
    const cl_int code = clFinish(chain->queue);
    const double compile_ms = clock_ms() - start_ms;
    pthread_mutex_lock(&context->program_lock);
    kernel->program->compile_ms += compile_ms;
    pthread_mutex_unlock(&context->program_lock);
    chain->rehearsal_ms += compile_ms;
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clFinish", "of a plan's rehearsal");
}

static clattn_status launch_nothing(struct chain *chain, struct kernel *kernel, cl_uint dims,
                                    const struct rehearsed_range *range, size_t n_arguments,
                                    const struct launch_argument *arguments)
{
    static const unsigned char zeros[ARGUMENT_BYTES_MOST];
    const size_t groups = range->is_wide ? (WIDE_RANGE + range->local[0] - 1) / range->local[0] : 1;
    const size_t global[3] = { groups * range->local[0], range->local[1], range->local[2] };
    struct launch_argument none[ARGUMENTS_MOST];
    for (size_t i = 0; i < n_arguments; ++i) {
        none[i].bytes = arguments[i].bytes;
        none[i].value = arguments[i].value ? zeros : NULL; /* NULL: local memory */
    }
    const double start_ms = clock_ms();
    clattn_status status = need_queue(chain);
    if (status == CLATTN_OK) {
        status = launch_kernel(chain, kernel, dims, global, range->local, n_arguments, none);
    }
    return status == CLATTN_OK ? finish(chain, kernel, start_ms) : status;
}

/* Whether it is the first rehearsal of the kernel for such ranges; from then on it is not. */
static int is_first(struct kernel *kernel, const struct rehearsed_range *range)
{
    for (int i = 0; i < kernel->rehearsed_count; ++i) {
        const struct rehearsed_range *known = &kernel->rehearsed[i];
        if (memcmp(known->local, range->local, sizeof(known->local)) == 0 && known->is_wide == range->is_wide) {
            return 0;
        }
    }
    if (kernel->rehearsed_count < REHEARSED_MOST) { /* else the next plan rehearses it once more */
        kernel->rehearsed[kernel->rehearsed_count++] = *range;
    }
    return 1;
}

/* A plan whose largest call has a wide range has smaller calls too. */
clattn_status rehearsal_launch(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                               const size_t *local, size_t n_arguments, const struct launch_argument *arguments)
{
    const int has_wide = global[0] >= WIDE_RANGE || (dims > 1 && global[1] >= WIDE_RANGE);
    struct rehearsed_range range = { .local = { local[0], dims > 1 ? local[1] : 1, dims > 2 ? local[2] : 1 } };
    clattn_status status = CLATTN_OK;
    for (; range.is_wide <= has_wide && status == CLATTN_OK && !kernel_waits(kernel, range.local); ++range.is_wide) {
        if (is_first(kernel, &range)) {
            status = launch_nothing(chain, kernel, dims, &range, n_arguments, arguments);
        }
    }
    return status;
}

/* One lock for the process, not for a context: a plan is there when its kernels are, also those that another thread
 * rehearses, and PoCL ends the process where two devices compile one kernel at once. */
static pthread_mutex_t rehearsal_lock = PTHREAD_MUTEX_INITIALIZER;

clattn_status rehearse(clattn_context *context, rehearsed_call *call, const void *of)
{
    struct chain chain = { .in_order = 1, .rehearses = context };
    if (!(context->device.quirks & QUIRK_COMPILES_AT_ENQUEUE)) {
        return CLATTN_OK;
    }
    pthread_mutex_lock(&rehearsal_lock);
    const clattn_status status = call(of, &chain);
    if (chain.queue) {
        clReleaseCommandQueue(chain.queue);
    }
    pthread_mutex_unlock(&rehearsal_lock);
    return status;
}
