/* Nothing is compiled in a call. On runtimes that compile a kernel again for the size of its work-groups, whatever a
 * call launches has been launched by its plan before: the linker puts this program between the library and the driver,
 * for calls of each strategy, gradient, layer and cache. And, in a process whose PoCL has an empty cache, the first
 * call writes no file there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "program/context.h"
#include "robust/layer_calls.h"
#include "support/device_call.h"
#include "support/gradient_call.h"
#include "support/random_call.h"
#include "support/small_cache.h"
#include "support/small_calls.h"

/* ---- what was launched ------------------------------------------------------------------------ */

#define FORMS_MOST 4096
#define WIDE_RANGE 65535 /* PoCL's bound */

/* What PoCL compiles apart. */
struct form {
    cl_program program;
    char kernel[64];
    size_t local[3];
    int is_wide;
};

static struct form forms[FORMS_MOST];
static int form_count, is_planning, launched, unrehearsed;

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                                     const size_t *, cl_uint, const cl_event *, cl_event *);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                                     const size_t *, cl_uint, const cl_event *, cl_event *);
cl_int __real_clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
cl_int __wrap_clGetKernelWorkGroupInfo(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);

static int is_known(const struct form *form)
{
    for (int i = 0; i < form_count; ++i) {
        if (memcmp(&forms[i], form, sizeof(*form)) == 0) {
            return 1;
        }
    }
    return 0;
}

/* PoCL 6 says of each kernel that it has no local memory. This is what the library hears; the test hears the driver. */
cl_int __wrap_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                       size_t bytes, void *answer, size_t *answer_bytes)
{
    const cl_int code = __real_clGetKernelWorkGroupInfo(kernel, device, what, bytes, answer, answer_bytes);
    if (what == CL_KERNEL_LOCAL_MEM_SIZE && answer && code == CL_SUCCESS) {
        memset(answer, 0, sizeof(cl_ulong));
    }
    return code;
}

static int has_local_memory(cl_command_queue queue, cl_kernel kernel)
{
    cl_device_id device = NULL;
    cl_ulong bytes = 0;
    clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL);
    __real_clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    return bytes > 0;
}

static int has_barriers(cl_program program)
{
    size_t bytes = 0;
    clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes);
    char *source = calloc(bytes + 1, 1);
    EXPECT(source && clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, source, NULL) == CL_SUCCESS);
    const int has = source && strstr(source, "barrier(");
    free(source);
    return has;
}

/* Work-items that wait for each other are not rehearsed: with arguments of zero they would not return at once. */
static int waits(cl_command_queue queue, cl_kernel kernel, const struct form *form)
{
    const int is_one = form->local[0] * form->local[1] * form->local[2] == 1;
    return !is_one && (has_local_memory(queue, kernel) || has_barriers(form->program));
}

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait,
                                     cl_event *event)
{
    struct form form;
    memset(&form, 0, sizeof(form));
    clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(form.program), &form.program, NULL);
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof(form.kernel) - 1, form.kernel, NULL);
    for (cl_uint i = 0; i < 3; ++i) {
        form.local[i] = i < dims ? local[i] : 1;
        form.is_wide |= i < 2 && i < dims && global[i] >= WIDE_RANGE;
    }
    if (is_planning && waits(queue, kernel, &form)) {
        printf("    rehearsed, and waits: %s\n", form.kernel);
        return CL_INVALID_KERNEL;
    }
    if (is_planning && !is_known(&form) && form_count < FORMS_MOST) {
        forms[form_count++] = form;
    }
    if (!is_planning) {
        ++launched;
        if (!is_known(&form) && !waits(queue, kernel, &form)) {
            ++unrehearsed;
            printf("    not rehearsed: %s, work-groups of %zu x %zu x %zu%s\n", form.kernel, form.local[0],
                   form.local[1], form.local[2], form.is_wide ? ", a wide range" : "");
        }
    }
    return __real_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n_wait, wait, event);
}

/* From the end of planning to the end of calls. */
static void begin_calls(void)
{
    is_planning = launched = unrehearsed = 0;
}

static void end_calls(const char *what)
{
    is_planning = 1;
    if (launched == 0 || unrehearsed > 0) {
        printf("    %s: %d launches, %d of them not rehearsed\n", what, launched, unrehearsed);
    }
    EXPECT(launched > 0 && unrehearsed == 0);
}

/* ---- calls of all kinds ----------------------------------------------------------------------- */

static void try_sample(clattn_context *context, int sample, const char *strategy)
{
    struct test_call test;
    clattn_plan *plan = NULL;
    sample_create(&test, sample, strategy);
    const clattn_status status = clattn_plan_create(context, &test.problem, &plan);
    EXPECT(status == CLATTN_OK || status == CLATTN_UNSUPPORTED);
    if (status == CLATTN_OK) {
        begin_calls();
        EXPECT(device_call_run(context, &test, NULL) == CLATTN_OK);
        end_calls(sample_name(sample));
    }
    clattn_plan_destroy(plan);
    test_call_free(&test);
}

/* Few, for each compiles; CLBlast compiles its own kernels when it likes. */
static void try_samples(clattn_context *context)
{
    const char *strategy;
    for (size_t s = 0; (strategy = sample_strategy(s)) != NULL; ++s) {
        if (!strstr(strategy, "clblast")) {
            try_sample(context, SAMPLE_PLAIN_FLOAT32, strategy);
        }
    }
    try_sample(context, SAMPLE_MASKED, "plain");
    try_sample(context, SAMPLE_MASKED, "staged");
}

/* Sums along all axes, whose kernels a call chooses by strides. */
static void try_gradients(clattn_context *context, uint64_t index)
{
    const struct random_call_options what = { .type = CLATTN_FLOAT32, .work_limit = 100000, .gradients = 1 };
    struct gradient_call g;
    enum value_family family;
    struct random random = random_start(5, index);
    clattn_plan *plan = NULL;
    memset(&g, 0, sizeof(g));
    EXPECT(random_call_create(&g.test, 5, index, &what, &family) == CLATTN_OK);
    EXPECT(gradient_call_random(&g, &random) == CLATTN_OK);
    EXPECT(clattn_backward_plan_create(context, &g.problem, &plan) == CLATTN_OK);
    begin_calls();
    EXPECT(gradient_call_run(context, &g, 0) == CLATTN_OK);
    end_calls("gradients");
    clattn_plan_destroy(plan);
    gradient_call_free(&g);
}

static void try_layers(clattn_context *context)
{
    clattn_status (*const calls[])(const struct layer_calls *, cl_command_queue,
                                   cl_event *) = { layer_calls_mha, layer_calls_additive, layer_calls_backward,
                                                   layer_calls_mha_backward, layer_calls_additive_backward };
    struct layer_calls layers;
    EXPECT(layer_calls_create(&layers, context));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
        begin_calls();
        EXPECT(calls[i](&layers, clattn_context_queue(context), NULL) == CLATTN_OK);
        end_calls("a layer");
    }
    clFinish(clattn_context_queue(context));
    layer_calls_release(&layers);
}

static void try_cache(clattn_context *context)
{
    struct small_cache cache;
    EXPECT(small_cache_create(&cache, context));
    begin_calls();
    EXPECT(small_cache_rotary(&cache, clattn_context_queue(context), NULL) == CLATTN_OK);
    EXPECT(small_cache_append(&cache, clattn_context_queue(context), NULL) == CLATTN_OK);
    end_calls("rotary and append");
    clFinish(clattn_context_queue(context));
    small_cache_release(&cache);
}

/* ---- an empty cache --------------------------------------------------------------------------- */

static int files_of_pocl(void)
{
    int files = -1;
    FILE *stream = popen("find \"$POCL_CACHE_DIR\" -type f | wc -l", "r");
    EXPECT(stream && fscanf(stream, "%d", &files) == 1 && pclose(stream) == 0);
    return files;
}

/* A step of few keys, by another number of them each time, and a prompt, in rows of another number. */
static void call_cold(clattn_context *context, int64_t rows, const char *strategy)
{
    float query[64] = { 0 }, key[64] = { 0 }, value[64] = { 0 }, out[64];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_plan *plan = NULL;
    problem.query_len = rows;
    problem.key_len = problem.head_dim = 8;
    problem.strategy = strategy;
    tensors.query = clattn_host_tensor_bhsd(query, 1, rows, 8);
    tensors.key = clattn_host_tensor_bhsd(key, 1, 8, 8);
    tensors.value = clattn_host_tensor_bhsd(value, 1, 8, 8);
    tensors.out = clattn_host_tensor_bhsd(out, 1, rows, 8);
    EXPECT(clattn_plan_create(context, &problem, &plan) == CLATTN_OK);
    const int planned = files_of_pocl();
    EXPECT(planned > 0);
    for (int64_t keys = 8; keys >= 2 && plan; keys -= 3) {
        clattn_call call = CLATTN_CALL_INIT;
        call.key_len = keys;
        call.query_len = rows - keys % 2;
        EXPECT(clattn_enqueue_host(plan, clattn_context_queue(context), &call, &tensors, 0, NULL, NULL) == CLATTN_OK);
        EXPECT(clFinish(clattn_context_queue(context)) == CL_SUCCESS);
    }
    EXPECT(files_of_pocl() == planned);
    clattn_plan_destroy(plan);
}

static void try_cold(clattn_context *context)
{
    call_cold(context, 1, NULL);
    call_cold(context, 8, "plain");
    call_cold(context, 8, "staged");
}

/* ---- the run ---------------------------------------------------------------------------------- */

static int with_context(void (*run)(clattn_context *context))
{
    clattn_context *context = NULL;
    is_planning = 1;
    EXPECT(clattn_context_open(NULL, NULL, &context) == CLATTN_OK);
    if (!context) {
        return report();
    }
    if (!(context->device.quirks & QUIRK_COMPILES_AT_ENQUEUE)) {
        skip("the runtime compiles no kernel in a call", 1);
    } else {
        run(context);
    }
    clattn_context_destroy(context);
    return 0;
}

static void try_all(clattn_context *context)
{
    try_samples(context);
    for (uint64_t index = 0; index < 2; ++index) {
        try_gradients(context, index);
    }
    try_layers(context);
    try_cache(context);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--cold") == 0) {
        with_context(try_cold);
        return report();
    }
    char command[FOLDER_PATH_BYTES + 4096];
    folder_begin();
    snprintf(command, sizeof(command), "mkdir '%s' && POCL_CACHE_DIR='%s' '%s' --cold", folder_path(""),
             folder_path(""), argv[0]);
    EXPECT(system(command) == 0);
    with_context(try_all);
    folder_end();
    return report();
}
