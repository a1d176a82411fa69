/* Calls on host memory where the driver or the device says no: what is refused, by which words, and what is done
 * without. Buffers are counted on their way to OpenCL: none outlives its call. */
#include <string.h>

#include "api.h"
#include "program/context.h"

#define ROWS 5
#define COLUMNS 16
#define FLOATS (ROWS * COLUMNS)
#define TENSOR_BYTES (FLOATS * sizeof(float))

cl_mem __real_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *memory, cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *memory, cl_int *code);
cl_int __real_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t bytes,
                                   const void *from, cl_uint n_wait, const cl_event *wait, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t bytes,
                                   const void *from, cl_uint n_wait, const cl_event *wait, cl_event *event);
cl_int __real_clReleaseMemObject(cl_mem buffer);
cl_int __wrap_clReleaseMemObject(cl_mem buffer);

static cl_int refusal; /* of buffers on host memory; CL_SUCCESS: none */
static int buffers;    /* that are there */
static cl_event gate;  /* that copies must wait for; NULL: none */
static int gated;      /* copies that do */

cl_mem __wrap_clCreateBuffer(cl_context cl, cl_mem_flags flags, size_t bytes, void *memory, cl_int *code)
{
    if (flags & CL_MEM_USE_HOST_PTR && refusal != CL_SUCCESS) {
        *code = refusal;
        return NULL;
    }
    const cl_mem buffer = __real_clCreateBuffer(cl, flags, bytes, memory, code);
    buffers += buffer != NULL;
    return buffer;
}

cl_int __wrap_clReleaseMemObject(cl_mem buffer)
{
    --buffers;
    return __real_clReleaseMemObject(buffer);
}

cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocks, size_t offset, size_t bytes,
                                   const void *from, cl_uint n_wait, const cl_event *wait, cl_event *event)
{
    gated += gate && n_wait == 1 && wait[0] == gate;
    return __real_clEnqueueWriteBuffer(queue, buffer, blocks, offset, bytes, from, n_wait, wait, event);
}

/* ---- a call: the mean of rows 0 to 4 -------------------------------------------------------------- */

struct scene {
    clattn_plan *plan;
    clattn_problem problem;
    clattn_host_tensors tensors;
    float zeros[2][FLOATS], value[FLOATS], out[FLOATS];
};

static void scene_begin(struct scene *s, const char *strategy)
{
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    memset(s, 0, sizeof(*s));
    s->problem = problem;
    s->problem.query_len = s->problem.key_len = ROWS;
    s->problem.head_dim = COLUMNS;
    s->problem.strategy = strategy;
    for (int i = 0; i < FLOATS; ++i) {
        s->value[i] = (float)(i / COLUMNS);
    }
    s->tensors = none;
    s->tensors.query = clattn_host_tensor_bhsd(s->zeros[0], 1, ROWS, COLUMNS);
    s->tensors.key = clattn_host_tensor_bhsd(s->zeros[1], 1, ROWS, COLUMNS);
    s->tensors.value = clattn_host_tensor_bhsd(s->value, 1, ROWS, COLUMNS);
    s->tensors.out = clattn_host_tensor_bhsd(s->out, 1, ROWS, COLUMNS);
    EXPECT_OK(clattn_plan_create(context, &s->problem, &s->plan));
}

static clattn_status blocking(struct scene *s)
{
    return clattn_forward_host(context, &s->problem, NULL, &s->tensors);
}

static clattn_status enqueued(struct scene *s)
{
    const clattn_status status =
        clattn_enqueue_host(s->plan, clattn_context_queue(context), NULL, &s->tensors, 0, NULL, NULL);
    clFinish(clattn_context_queue(context));
    return status;
}

static clattn_status (*const ways[])(struct scene *s) = { blocking, enqueued };
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* The call is made, and copies so many bytes. */
static void expect_right(struct scene *s, size_t way, uint64_t copied)
{
    const uint64_t before = clattn_bytes_copied(context);
    const int there = buffers;
    memset(s->out, 0xff, sizeof(s->out));
    EXPECT_OK(ways[way](s));
    ck_assert_uint_eq(clattn_bytes_copied(context) - before, copied);
    ck_assert_int_eq(buffers, there);
    for (int i = 0; i < FLOATS; ++i) {
        ck_assert_msg(s->out[i] > 1.9999f && s->out[i] < 2.0001f, "way %d: element %d is %g", (int)way, i,
                      (double)s->out[i]);
    }
}

static void expect_refused(struct scene *s, size_t way, clattn_status status, const char *text)
{
    const int there = buffers;
    expect_error(ways[way](s), status, text, way ? "clattn_enqueue_host" : "clattn_forward_host");
    ck_assert_int_eq(buffers, there);
}

/* ---- the device's memory -------------------------------------------------------------------------- */

/* To the byte, with the workspace, whether it is copied or not. */
START_TEST(test_memory_of_the_device)
{
    static const char *const strategies[] = { "plain", "staged" };
    const cl_ulong whole = context->device.global_bytes;
    const size_t alignment = context->sharing_alignment;
    for (size_t i = 0; i < 4; ++i) {
        struct scene s;
        scene_begin(&s, strategies[i % 2]);
        context->sharing_alignment = i / 2 ? alignment : 0;
        const size_t workspace = clattn_plan_workspace(s.plan);
        ck_assert_int_eq(workspace > 0, i % 2);
        for (size_t way = 0; way < WAYS; ++way) {
            expect_right(&s, way, context->sharing_alignment ? 0 : 4 * TENSOR_BYTES); /* and plans are kept */
            context->device.global_bytes = 4 * TENSOR_BYTES + workspace;
            expect_right(&s, way, context->sharing_alignment ? 0 : 4 * TENSOR_BYTES);
            context->device.global_bytes -= 1;
            expect_refused(&s, way, CLATTN_OUT_OF_DEVICE_MEMORY, "bytes of device memory");
            context->device.global_bytes = whole;
        }
        clattn_plan_destroy(s.plan);
    }
    context->sharing_alignment = alignment;
}
END_TEST

/* ---- buffers that the driver refuses -------------------------------------------------------------- */

/* What cannot be wrapped is copied, and nobody hears of it; memory that ran out is no such thing. */
START_TEST(test_refused_buffers)
{
    struct scene s;
    scene_begin(&s, "plain");
    for (size_t way = 0; way < WAYS && context->sharing_alignment > 0; ++way) {
        refusal = CL_INVALID_HOST_PTR;
        clattn_plan_create(NULL, NULL, &(clattn_plan *){ NULL });
        expect_right(&s, way, 4 * TENSOR_BYTES);
        ck_assert_str_eq(clattn_last_error(), "context: must not be NULL");
        refusal = CL_OUT_OF_HOST_MEMORY;
        expect_refused(&s, way, CLATTN_OUT_OF_HOST_MEMORY, "clCreateBuffer");
        refusal = CL_SUCCESS;
        expect_right(&s, way, 0);
    }
    clattn_plan_destroy(s.plan);
}
END_TEST

/* ---- outputs -------------------------------------------------------------------------------------- */

/* What lies between the elements of an output is not the library's, also where it is copied. */
START_TEST(test_gaps_of_copied_outputs)
{
    struct scene s;
    unsigned char out[2 * TENSOR_BYTES];
    const size_t alignment = context->sharing_alignment, row = COLUMNS * sizeof(float);
    scene_begin(&s, "plain");
    memset(out, 0xee, sizeof(out));
    s.tensors.out = clattn_host_tensor_bhsd(out, 1, ROWS, COLUMNS);
    s.tensors.out.stride[2] = 2 * COLUMNS;
    context->sharing_alignment = 0;
    EXPECT_OK(blocking(&s));
    context->sharing_alignment = alignment;
    for (size_t i = 0; i < sizeof(out); ++i) {
        ck_assert_msg(i / row % 2 == 0 || out[i] == 0xee, "byte %d between the rows was written", (int)i);
    }
    clattn_plan_destroy(s.plan);
}
END_TEST

START_TEST(test_outputs_in_one_place)
{
    struct scene s;
    clattn_plan *plan;
    scene_begin(&s, "plain");
    s.problem.features = CLATTN_WITH_LSE;
    s.tensors.lse = clattn_host_tensor_bhsd(s.out, 1, ROWS, 1);
    expect_refused(&s, 0, CLATTN_INVALID_ARGUMENT, "its memory is also");
    EXPECT_OK(clattn_plan_create(context, &s.problem, &plan));
    expect_error(clattn_enqueue_host(plan, clattn_context_queue(context), NULL, &s.tensors, 0, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "its memory is also", "clattn_enqueue_host");
    clattn_plan_destroy(plan);
    clattn_plan_destroy(s.plan);
}
END_TEST

/* Whether a copy came too early is seen only by chance, so the wait list is looked at. */
START_TEST(test_copies_wait)
{
    struct scene s;
    cl_event done;
    const size_t alignment = context->sharing_alignment;
    scene_begin(&s, "plain");
    gate = clCreateUserEvent(clattn_context_cl(context), NULL);
    context->sharing_alignment = 0;
    EXPECT_OK(clattn_enqueue_host(s.plan, clattn_context_queue(context), NULL, &s.tensors, 1, &gate, &done));
    context->sharing_alignment = alignment;
    ck_assert_int_eq(gated, 3);
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(done);
    clReleaseEvent(gate);
    gate = NULL;
    clattn_plan_destroy(s.plan);
}
END_TEST

/* ---- queues of others ----------------------------------------------------------------------------- */

START_TEST(test_queues_of_others)
{
    struct scene s;
    cl_device_id device = clattn_context_device(context);
    const size_t alignment = context->sharing_alignment;
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue foreign = clCreateCommandQueue(other, device, 0, NULL);
    scene_begin(&s, "plain");
    for (int copies = 0; copies < 2; ++copies) {
        context->sharing_alignment = copies ? 0 : alignment;
        const uint64_t before = clattn_bytes_copied(context);
        expect_error(clattn_enqueue_host(s.plan, foreign, NULL, &s.tensors, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                     "queue: must be of the clattn context's cl_context", "clattn_enqueue_host");
        ck_assert_uint_eq(clattn_bytes_copied(context), before);
    }
    context->sharing_alignment = alignment;
    clattn_plan_destroy(s.plan);
    clReleaseCommandQueue(foreign);
    clReleaseContext(other);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_memory_of_the_device);
    tcase_add_test(tests, test_refused_buffers);
    tcase_add_test(tests, test_gaps_of_copied_outputs);
    tcase_add_test(tests, test_outputs_in_one_place);
    tcase_add_test(tests, test_copies_wait);
    tcase_add_test(tests, test_queues_of_others);
}

int main(void)
{
    return api_main("host_refused", add);
}
