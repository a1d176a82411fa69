/* Climbs the ladder: host check, probe, comparison, measurement; remembers verdicts. */
#include "plan/ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "program/launch.h"

#define MATRIX_MAX (64 * 64)
#define MEASURED_TURNS 31
#define REASON_BYTES 400

struct verdict {
    int is_known, has_it;
    double gain;
    char reason[REASON_BYTES]; /* of a refusal */
};

struct ladder {
    clattn_context *context;
    pthread_mutex_t lock; /* held while a probe runs: others who ask wait for the answer */
    int ignores_speed;
    struct verdict verdicts[RUNG_COUNT];
};

static void ladder_end(clattn_context *context, int forked)
{
    (void)forked; /* no OpenCL object is kept */
    pthread_mutex_destroy(&context->ladder->lock);
    free(context->ladder);
}

clattn_status ladder_create(clattn_context *context)
{
    struct ladder *ladder = calloc(1, sizeof(*ladder));
    if (!ladder) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a context");
    }
    ladder->context = context;
    pthread_mutex_init(&ladder->lock, NULL);
    context->ladder = ladder;
    context_at_end(context, ladder_end);
    return CLATTN_OK;
}

/* ---- one probe ------------------------------------------------------------------------------ */

/* The OpenCL objects of one probe. */
struct probe {
    clattn_context *context;
    const struct rung *rung;
    cl_command_queue queue; /* of its own: what callers have enqueued may wait for them */
    cl_mem a, b, product;
    float host_a[MATRIX_MAX], host_b[MATRIX_MAX], host_product[MATRIX_MAX];
};

/* An integer from -8 to 7, different everywhere. */
static float number(unsigned i)
{
    return (float)(int)((i * 2654435761u) >> 28) - 8.0f;
}

static clattn_status make_matrix(struct probe *probe, cl_mem *buffer, float *host, int count)
{
    cl_int code;
    *buffer = clCreateBuffer(probe->context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                             (size_t)count * sizeof(float), host, &code);
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clCreateBuffer", "for a probe");
}

static clattn_status open_probe(struct probe *probe)
{
    const struct rung *r = probe->rung;
    for (unsigned i = 0; i < MATRIX_MAX; ++i) {
        probe->host_a[i] = number(i + 1);
        probe->host_b[i] = number(i + 1 + MATRIX_MAX);
    }
    cl_int code;
    probe->queue =
        clCreateCommandQueue(probe->context->cl, probe->context->device.id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateCommandQueue", "for a probe");
    }
    clattn_status status = make_matrix(probe, &probe->a, probe->host_a, r->m * r->k);
    if (status == CLATTN_OK) {
        status = make_matrix(probe, &probe->b, probe->host_b, r->k * r->n);
    }
    return status == CLATTN_OK ? make_matrix(probe, &probe->product, probe->host_product, r->m * r->n) : status;
}

static void close_probe(struct probe *probe)
{
    const cl_mem buffers[] = { probe->a, probe->b, probe->product };
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
    if (probe->queue) {
        clReleaseCommandQueue(probe->queue);
    }
}

/* Runs one kernel of the probe's program and reads the product; *ns is the time on the device. */
static clattn_status run(struct probe *probe, const char *name, size_t n_arguments,
                         const struct launch_argument *arguments, cl_ulong *ns)
{
    const struct rung *r = probe->rung;
    const size_t items = (size_t)r->work_items;
    struct kernel *kernel;
    struct chain chain;
    cl_event done = NULL;
    clattn_status status = program_kernel(probe->context, r->file, r->options, name, &kernel);
    if (status == CLATTN_OK) {
        status = chain_begin(&chain, probe->queue, 0, NULL, &done);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    chain_final(&chain);
    status = chain_end(&chain, launch(&chain, kernel, 1, &items, &items, n_arguments, arguments));
    cl_int code = CL_SUCCESS;
    if (status == CLATTN_OK) {
        code = clEnqueueReadBuffer(probe->queue, probe->product, CL_TRUE, 0, (size_t)(r->m * r->n) * sizeof(float),
                                   probe->host_product, 0, NULL, NULL);
    }
    cl_ulong start = 0, end = 0;
    if (status == CLATTN_OK && code == CL_SUCCESS) {
        code = clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL);
    }
    if (status == CLATTN_OK && code == CL_SUCCESS) {
        code = clGetEventProfilingInfo(done, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL);
    }
    if (done) {
        clReleaseEvent(done);
    }
    *ns = end - start;
    return code == CL_SUCCESS ? status : error_opencl(code, "running", "kernel %s of a probe", name);
}

/* Elements of the product that are not what they should be. */
static int wrong_elements(const struct probe *probe)
{
    const struct rung *r = probe->rung;
    int wrong = 0;
    for (int m = 0; m < r->m; ++m) {
        for (int n = 0; n < r->n; ++n) {
            float sum = 0;
            for (int k = 0; k < r->k; ++k) {
                sum += probe->host_a[m * r->k + k] * probe->host_b[k * r->n + n];
            }
            wrong += !(probe->host_product[m * r->n + n] == sum);
        }
    }
    return wrong;
}

/* In turns, and the least time of each: what else the machine does strikes both. */
static clattn_status measure(struct probe *probe, double *gain)
{
    const struct rung *r = probe->rung;
    const struct launch_argument arguments[] = { ARGUMENT(probe->product), ARGUMENT(r->rounds) };
    cl_ulong with = 0, without = 0;
    for (int turn = 0; turn < MEASURED_TURNS; ++turn) {
        cl_ulong ns[2];
        clattn_status status = run(probe, r->speed_kernel, 2, arguments, &ns[0]);
        if (status == CLATTN_OK) {
            status = run(probe, r->rival_kernel, 2, arguments, &ns[1]);
        }
        if (status != CLATTN_OK) {
            return status;
        }
        with = turn == 0 || ns[0] < with ? ns[0] : with;
        without = turn == 0 || ns[1] < without ? ns[1] : without;
    }
    *gain = with > 0 ? (double)without / (double)with : 0;
    return CLATTN_OK;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

/* The first line of a failure that says something: of a build log, the first that has an error in it. */
static void explain_failure(const struct rung *rung, struct verdict *verdict)
{
    const char *text = error_text(), *line = strstr(text, "error:");
    if (rung->without_kernel && strstr(text, "CL_INVALID_KERNEL_NAME")) {
        line = text = rung->without_kernel;
    }
    while (line && line > text && line[-1] != '\n') {
        --line;
    }
    line = line ? line : text;
    snprintf(verdict->reason, sizeof(verdict->reason), "%.*s", (int)strcspn(line, "\n"), line);
}

static clattn_status judge(struct probe *probe, struct verdict *verdict)
{
    const struct rung *r = probe->rung;
    const struct launch_argument arguments[] = { ARGUMENT(probe->a), ARGUMENT(probe->b), ARGUMENT(probe->product) };
    cl_ulong ns;
    clattn_status status = open_probe(probe);
    if (status == CLATTN_OK) {
        status = run(probe, r->kernel, 3, arguments, &ns);
    }
    int wrong = status == CLATTN_OK ? wrong_elements(probe) : 0;
    if (wrong) {
        snprintf(verdict->reason, sizeof(verdict->reason), "the probe ran and %d of %d results are wrong", wrong,
                 r->m * r->n);
    } else if (status == CLATTN_OK && r->speed_kernel) {
        status = measure(probe, &verdict->gain);
        snprintf(verdict->reason, sizeof(verdict->reason),
                 "it is %s times as fast as multiply-adds here, and worth its conversions from %s on",
                 DECIMAL_FIXED(2, verdict->gain), DECIMAL_FIXED(1, r->gain_least));
    }
    const int is_slow = r->speed_kernel && verdict->gain < r->gain_least && !probe->context->ladder->ignores_speed;
    verdict->has_it = status == CLATTN_OK && !wrong && !is_slow;
    return status;
}

/* For want of memory, which may be there later; or of a program where it cannot be built. */
static int is_no_answer(const clattn_context *context, const struct rung *rung, clattn_status status)
{
    return status == CLATTN_OUT_OF_HOST_MEMORY || (status == CLATTN_OUT_OF_DEVICE_MEMORY && !rung->asks_for_memory) ||
           (status == CLATTN_UNSUPPORTED && rung->builds_everywhere && !context->device.has_compiler);
}

/* A probe of the rung, and what its failure says, which becomes *failure where it is no answer. Only the first such,
 * which may be the caller's too, stays the last error. */
static void try_probe(clattn_context *context, const struct rung *rung, struct verdict *verdict, clattn_status *failure)
{
    struct error_record before;
    error_save(&before);
    clattn_status status = CLATTN_OUT_OF_HOST_MEMORY;
    struct probe *probe = calloc(1, sizeof(*probe));
    if (probe) {
        probe->context = context;
        probe->rung = rung;
        status = judge(probe, verdict);
        close_probe(probe);
    } else {
        error_set(status, "out of memory for a probe");
    }
    free(probe);
    if (status != CLATTN_OK) {
        explain_failure(rung, verdict);
    }
    verdict->is_known = !is_no_answer(context, rung, status);
    if (verdict->is_known || *failure != CLATTN_OK) {
        error_restore(&before);
    } else {
        *failure = status;
    }
}

static void find_out(clattn_context *context, const struct rung *rung, struct verdict *verdict, clattn_status *failure)
{
    struct text why = TEXT_INIT;
    memset(verdict, 0, sizeof(*verdict));
    if (rung->host_check && !rung->host_check(&context->device, &why)) {
        snprintf(verdict->reason, sizeof(verdict->reason), "%s", why.data ? why.data : "out of memory");
        verdict->is_known = 1;
    } else {
        try_probe(context, rung, verdict, failure);
    }
    text_free(&why);
}

int ladder_asks(const struct device *device, enum rung_id id)
{
    const struct rung *rung = &ladder_table[id];
    return (rung->classes & RUNG_CLASS(device->device_class)) != 0 &&
           (!rung->vendor || strstr(device->vendor, rung->vendor) != NULL);
}

int ladder_has(struct ask *ask, enum rung_id id, struct text *why)
{
    struct ladder *ladder = ask->context->ladder;
    const struct rung *rung = &ladder_table[id];
    struct verdict *verdict = &ladder->verdicts[id];
    if (!ladder_asks(&ask->context->device, id)) {
        if (why) {
            text_append(why, "not for devices of this kind");
        }
        return 0;
    }
    pthread_mutex_lock(&ladder->lock);
    if (!verdict->is_known) {
        find_out(ladder->context, rung, verdict, &ask->failure);
    }
    int has_it = verdict->has_it;
    if (!has_it && why) {
        text_append(why, "%s", verdict->reason);
    }
    pthread_mutex_unlock(&ladder->lock);
    return has_it;
}

int ladder_try(clattn_context *context, const struct rung *rung, struct text *why)
{
    struct verdict verdict;
    clattn_status failure = CLATTN_OK;
    find_out(context, rung, &verdict, &failure);
    if (!verdict.has_it) {
        text_append(why, "%s", verdict.reason);
    }
    return verdict.has_it;
}

void ladder_ignore_speed(clattn_context *context)
{
    context->ladder->ignores_speed = 1;
}

double ladder_gain(const clattn_context *context, enum rung_id id)
{
    pthread_mutex_lock(&context->ladder->lock);
    double gain = context->ladder->verdicts[id].gain;
    pthread_mutex_unlock(&context->ladder->lock);
    return gain;
}
