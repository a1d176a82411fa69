/* What the tensors and the queue of one call may not be, in host and in device memory. */
#include <math.h>
#include <string.h>

#include "api.h"
#include "program/context.h"
#include "support/small_calls.h"

#define SHAPE CLATTN_INVALID_SHAPE
#define ARGUMENT CLATTN_INVALID_ARGUMENT

/* ---- host memory ---------------------------------------------------------------------------- */

static void expect_host_refused(struct test_call *test, clattn_status expected, const char *text)
{
    expect_error(clattn_forward_host(context, &test->problem, &test->values, &test->tensors), expected, text,
                 "forward_host");
    expect_error(clattn_reference_forward(&test->problem, &test->values, &test->tensors), expected, text,
                 "reference_forward");
}

/* Sample `index`, changed by the statements, is refused. */
#define HOST_REFUSED(index, status, text, ...)                                                                         \
    do {                                                                                                               \
        struct test_call test;                                                                                         \
        sample_create(&test, index, NULL);                                                                             \
        clattn_host_tensors *t = &test.tensors;                                                                        \
        clattn_call *v = &test.values;                                                                                 \
        (void)t, (void)v;                                                                                              \
        __VA_ARGS__;                                                                                                   \
        expect_host_refused(&test, status, text);                                                                      \
        test_call_free(&test);                                                                                         \
    } while (0)

static int sample_named(const char *name)
{
    for (int i = 0; i < sample_count; ++i) {
        if (strcmp(sample_name(i), name) == 0) {
            return i;
        }
    }
    ck_abort_msg("no sample %s", name);
    return 0;
}

START_TEST(test_presence)
{
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "query: must be given", t->query.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "key: must be given", t->key.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "value: must be given", t->value.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out: must be given", t->out.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "mask: must be given", t->mask.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "lse: must be given", t->lse.data = NULL);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "bias: was given, but the problem does not have it", t->bias = t->query);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "weights: was given", t->weights = t->out);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "slopes: was given", t->slopes = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "sinks: was given", t->sinks = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "key_lengths: was given", t->key_lengths = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "query_offsets: was given", t->query_offsets = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "cu_query: was given", t->cu_query = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "cu_key: was given", t->cu_key = t->lse);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "tensors.struct_size 0: must be", t->struct_size = 0);
    HOST_REFUSED(sample_named("packed sequences"), ARGUMENT, "cu_query: must be given", t->cu_query.data = NULL);
}
END_TEST

START_TEST(test_places)
{
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "query.offset -1: must be >= 0", t->query.offset = -1);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "query.offset 9223372036854775807", t->query.offset = INT64_MAX;
                 memset(t->query.stride, 0, sizeof(t->query.stride)); t->query.stride[3] = 1; test.problem.head_dim = 1;
                 test.problem.head_dim_v = 16);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "key: its strides reach element", t->key.stride[2] = -1);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "value.stride[2] 9", t->value.stride[2] = INT64_MAX);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "value.stride[2] -9", t->value.stride[2] = INT64_MIN);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "key.stride[3] 2: must be 1, or set problem.strided_columns",
                 t->key.stride[3] = 2);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "key.stride: all are 0: must be set, as by clattn_strides_bhsd()",
                 memset(t->key.stride, 0, sizeof(t->key.stride)));
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out.stride[2] 0: must not be 0", t->out.stride[2] = 0);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "lse.stride[1] 0: must not be 0", t->lse.stride[1] = 0);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out.stride[3] 0: must not be 0", test.problem.strided_columns = 1;
                 t->out.stride[3] = 0);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out.stride[2] 1: two elements of the output would be in one place",
                 t->out.stride[2] = 1);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out.stride[2] 7: two elements", t->out.stride[2] = 7);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "out.stride[1] 47: two elements", t->out.stride[1] = 47);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "lse.stride[1] 5: two elements", t->lse.stride[1] = 5);
}
END_TEST

/* The blocking calls copy their inputs first; the reference computes where they are. */
START_TEST(test_overlaps)
{
    struct test_call in_place;
    sample_create(&in_place, SAMPLE_MASKED, NULL);
    in_place.tensors.out = in_place.tensors.query;
    expect_error(clattn_reference_forward(&in_place.problem, &in_place.values, &in_place.tensors), ARGUMENT,
                 "out: its memory is also query's", "reference_forward");
    EXPECT_OK(clattn_forward_host(context, &in_place.problem, &in_place.values, &in_place.tensors));
    test_call_free(&in_place);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "its memory is also", t->lse.data = t->out.data);
}
END_TEST

START_TEST(test_values)
{
    const int packed = sample_named("packed sequences"), decoding = sample_named("decoding");
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "query_len 7: must be -1 or 0 to 6", v->query_len = 7);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "key_len -2", v->key_len = -2);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "mask_key_len 12", v->mask_key_len = 12);
    HOST_REFUSED(SAMPLE_MASKED, SHAPE, "bias_key_len 99", v->bias_key_len = 99);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "scale nan", v->has_scale = 1; v->scale = (double)NAN);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "scale inf", v->has_scale = 1; v->scale = (double)INFINITY);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "scale 1e+40", v->has_scale = 1; v->scale = 1e40);
    HOST_REFUSED(SAMPLE_MASKED, ARGUMENT, "scale 2: would be ignored while has_scale is 0", v->scale = 2);
    HOST_REFUSED(decoding, ARGUMENT, "key_lengths[1] 68: must be 0 to key_len 67",
                 ((int32_t *)t->key_lengths.data)[1] = 68);
    HOST_REFUSED(decoding, ARGUMENT, "key_lengths[0] -1", ((int32_t *)t->key_lengths.data)[0] = -1);
    HOST_REFUSED(packed, ARGUMENT, "cu_query[0] 1: must be 0", ((int32_t *)t->cu_query.data)[0] = 1);
    HOST_REFUSED(packed, ARGUMENT, "cu_key[1] 13", ((int32_t *)t->cu_key.data)[1] = 13);
    HOST_REFUSED(packed, ARGUMENT, "cu_key[2] -4", ((int32_t *)t->cu_key.data)[2] = -4);
    HOST_REFUSED(packed, ARGUMENT, "cu_query.offset -1", t->cu_query.offset = -1);
    HOST_REFUSED(packed, ARGUMENT, "cu_query.offset -", t->cu_query.offset = INT64_MIN);
}
END_TEST

/* ---- device memory -------------------------------------------------------------------------- */

struct device_case {
    struct test_call test;
    struct sample_device device;
    clattn_plan *plan;
    cl_command_queue queue;
};

static void device_case_begin(struct device_case *c, int index, const char *strategy)
{
    sample_create(&c->test, index, strategy);
    EXPECT_OK(clattn_plan_create(context, &c->test.problem, &c->plan));
    c->queue = clattn_context_queue(context);
    ck_assert(sample_upload(&c->device, &c->test, clattn_context_cl(context), clattn_plan_workspace(c->plan)));
}

static void device_case_end(struct device_case *c)
{
    sample_release(&c->device);
    clattn_plan_destroy(c->plan);
    test_call_free(&c->test);
}

/* After every refusal the same call, unchanged, works; and no event is left. */
static void expect_device_refused(struct device_case *c, const clattn_tensors *tensors, clattn_status expected,
                                  const char *text)
{
    cl_event done = (cl_event)c;
    expect_error(clattn_enqueue_forward(c->plan, c->queue, NULL, tensors, 0, NULL, &done), expected, text,
                 "enqueue_forward");
    ck_assert_ptr_null(done);
    EXPECT_OK(clattn_enqueue_forward(c->plan, c->queue, &c->device.values, &c->device.tensors, 0, NULL, NULL));
    clFinish(c->queue);
}

#define DEVICE_REFUSED(status, text, ...)                                                                              \
    do {                                                                                                               \
        clattn_tensors changed = c.device.tensors, *t = &changed;                                                      \
        __VA_ARGS__;                                                                                                   \
        expect_device_refused(&c, t, status, text);                                                                    \
    } while (0)

START_TEST(test_device_tensors)
{
    struct device_case c;
    device_case_begin(&c, SAMPLE_MASKED, NULL);
    DEVICE_REFUSED(ARGUMENT, "tensors: must not be NULL", t = NULL);
    DEVICE_REFUSED(ARGUMENT, "tensors.struct_size 8", t->struct_size = 8);
    DEVICE_REFUSED(ARGUMENT, "key: must be given", t->key.buffer = NULL);
    DEVICE_REFUSED(ARGUMENT, "bias: was given", t->bias = t->query);
    DEVICE_REFUSED(SHAPE, "query.buffer of 768 bytes: its strides reach element 192 of 4 bytes each",
                   t->query.offset = 1);
    DEVICE_REFUSED(SHAPE, "mask.buffer of 132 bytes", t->mask.stride[2] = 12);
    DEVICE_REFUSED(SHAPE, "lse.buffer", t->lse.buffer = t->mask.buffer; t->lse.offset = 43);
    DEVICE_REFUSED(SHAPE, "out.buffer", t->out.offset = INT64_MAX / 2);
    DEVICE_REFUSED(ARGUMENT, "out: its memory is also query's", t->query = t->out);
    DEVICE_REFUSED(ARGUMENT, "out.stride[2] 1: two elements", t->out.stride[2] = 1);
    device_case_end(&c);
}
END_TEST

/* Query, key, value, out and lse in one buffer: beside one another they are right, on top of one another refused. */
START_TEST(test_one_buffer)
{
    struct device_case c;
    device_case_begin(&c, SAMPLE_PLAIN_FLOAT32, "plain");
    const int64_t rows = c.test.problem.query_len, columns = c.test.problem.head_dim;
    const int64_t heads = c.test.problem.query_heads, elements = c.test.problem.batch * rows * heads * 2 * columns;
    const size_t bytes = (size_t)elements * 4 + 64;
    const float zero = 0;
    cl_mem one = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes, NULL, NULL);
    ck_assert_int_eq(clEnqueueFillBuffer(c.queue, one, &zero, sizeof(zero), 0, bytes, 0, NULL, NULL), CL_SUCCESS);
    clattn_tensors packed = c.device.tensors;
    packed.query.buffer = packed.out.buffer = one; /* rows of the two take turns */
    packed.query.offset = 0;
    packed.out.offset = columns;
    const int64_t stride[4] = { rows * heads * 2 * columns, rows * 2 * columns, 2 * columns, 1 };
    memcpy(packed.query.stride, stride, sizeof(stride));
    memcpy(packed.out.stride, stride, sizeof(stride));
    EXPECT_OK(clattn_enqueue_forward(c.plan, c.queue, NULL, &packed, 0, NULL, NULL));
    clFinish(c.queue);
    DEVICE_REFUSED(ARGUMENT, "out: its memory is also query's", changed = packed; changed.out.offset = columns - 1);
    DEVICE_REFUSED(ARGUMENT, "out: its memory is also query's", changed = packed; changed.out.offset = 0);
    DEVICE_REFUSED(ARGUMENT, "out: its memory is also query's", changed = packed; changed.out.offset = 2 * columns;
                   changed.query.stride[0] -= 2 * columns * (heads * rows > 1));
    clReleaseMemObject(one);
    device_case_end(&c);
}
END_TEST

/* What kernels may do with a buffer is what its flags say. */
START_TEST(test_access)
{
    struct device_case c;
    cl_context cl = clattn_context_cl(context);
    device_case_begin(&c, SAMPLE_MASKED, "staged");
    cl_mem read_only = clCreateBuffer(cl, CL_MEM_READ_ONLY, 1 << 16, NULL, NULL);
    cl_mem write_only = clCreateBuffer(cl, CL_MEM_WRITE_ONLY, 1 << 16, NULL, NULL);
    DEVICE_REFUSED(ARGUMENT, "out: must not be a buffer of CL_MEM_READ_ONLY", t->out.buffer = read_only);
    DEVICE_REFUSED(ARGUMENT, "lse: must not be a buffer of CL_MEM_READ_ONLY", t->lse.buffer = read_only);
    DEVICE_REFUSED(ARGUMENT, "query: must not be a buffer of CL_MEM_WRITE_ONLY", t->query.buffer = write_only);
    if (clattn_plan_workspace(c.plan) > 0) {
        DEVICE_REFUSED(ARGUMENT, "workspace: must not be a buffer of CL_MEM_READ_ONLY", t->workspace = read_only);
        DEVICE_REFUSED(ARGUMENT, "workspace: must not be a buffer of CL_MEM_WRITE_ONLY", t->workspace = write_only);
        cl_mem both = clCreateBuffer(cl, CL_MEM_READ_WRITE, clattn_plan_workspace(c.plan) + (1 << 16), NULL, NULL);
        DEVICE_REFUSED(ARGUMENT, "out: its memory is also the workspace's", t->workspace = t->out.buffer = both);
        clReleaseMemObject(both);
    }
    clReleaseMemObject(read_only);
    clReleaseMemObject(write_only);
    device_case_end(&c);
}
END_TEST

START_TEST(test_workspace)
{
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        struct device_case c;
        const int sample = sample_for(context, strategy);
        if (sample < 0) {
            continue;
        }
        device_case_begin(&c, sample, strategy);
        size_t bytes = clattn_plan_workspace(c.plan);
        if (bytes > 1) {
            cl_mem small = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, bytes - 1, NULL, NULL);
            DEVICE_REFUSED(ARGUMENT, "workspace: must be a buffer of", t->workspace = NULL);
            DEVICE_REFUSED(ARGUMENT, "workspace of", t->workspace = small);
            clReleaseMemObject(small);
        }
        device_case_end(&c);
    }
}
END_TEST

START_TEST(test_queues)
{
    struct device_case c;
    cl_device_id device = clattn_context_device(context);
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue foreign = clCreateCommandQueue(other, device, 0, NULL);
    device_case_begin(&c, SAMPLE_MASKED, NULL);
    clattn_tensors *t = &c.device.tensors;
    expect_error(clattn_enqueue_forward(NULL, c.queue, NULL, t, 0, NULL, NULL), ARGUMENT, "plan: must not be NULL",
                 "enqueue_forward");
    expect_error(clattn_enqueue_forward(c.plan, NULL, NULL, t, 0, NULL, NULL), ARGUMENT, "queue: must not be NULL",
                 "enqueue_forward");
    expect_error(clattn_enqueue_forward(c.plan, foreign, NULL, t, 0, NULL, NULL), ARGUMENT,
                 "queue: must be of the clattn context's cl_context", "enqueue_forward");
    context->device.id = (cl_device_id)&c; /* as if the queue were of another device of the cl_context */
    const clattn_status status = clattn_enqueue_forward(c.plan, c.queue, NULL, t, 0, NULL, NULL);
    context->device.id = device;
    expect_error(status, ARGUMENT, "queue: must be of the clattn context's device", "enqueue_forward");
    cl_mem foreign_buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 1 << 16, NULL, NULL);
    clattn_tensors mixed = *t;
    mixed.out.buffer = foreign_buffer;
    expect_error(clattn_enqueue_forward(c.plan, c.queue, NULL, &mixed, 0, NULL, NULL), ARGUMENT,
                 "out: must be a buffer of the clattn context's cl_context", "enqueue_forward");
    clReleaseMemObject(foreign_buffer);
    clReleaseCommandQueue(foreign);
    clReleaseContext(other);
    device_case_end(&c);
}
END_TEST

START_TEST(test_wait_lists)
{
    struct device_case c;
    device_case_begin(&c, SAMPLE_MASKED, NULL);
    clattn_tensors *t = &c.device.tensors;
    cl_event event = clCreateUserEvent(clattn_context_cl(context), NULL);
    expect_error(clattn_enqueue_forward(c.plan, c.queue, NULL, t, 1, NULL, NULL), ARGUMENT, "n_wait 1",
                 "enqueue_forward");
    expect_error(clattn_enqueue_forward(c.plan, c.queue, NULL, t, 0, &event, NULL), ARGUMENT, "n_wait 0",
                 "enqueue_forward");
    const cl_event missing[2] = { event, NULL };
    expect_error(clattn_enqueue_forward(c.plan, c.queue, NULL, t, 2, missing, NULL), ARGUMENT,
                 "wait[1]: must not be NULL", "enqueue_forward");
    clSetUserEventStatus(event, CL_COMPLETE);
    clReleaseEvent(event);
    device_case_end(&c);
}
END_TEST

/* Each buffer of a pool must have its own pages; the last one those that are left. */
START_TEST(test_pools)
{
    cl_context cl = clattn_context_cl(context);
    cl_command_queue queue = clattn_context_queue(context);
    int32_t zeros[24] = { 0 };
    cl_mem in = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(zeros), zeros, NULL);
    cl_mem page = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 16, zeros, NULL);
    cl_mem out = clCreateBuffer(cl, CL_MEM_READ_WRITE, 16, NULL, NULL);
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_plan *plan = NULL;
    p.query_len = 1;
    p.key_len = p.head_dim = p.page_size = p.pool_pages = 2;
    p.pages = 3;
    p.features = CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    p.strategy = "plain";
    EXPECT_OK(clattn_plan_create(context, &p, &plan));
    clattn_tensors t = CLATTN_TENSORS_INIT;
    t.query = clattn_tensor_bhsd(in, 1, 1, 2);
    t.out = clattn_tensor_bhsd(out, 1, 1, 2);
    t.key = t.value = clattn_tensor_bhsd(in, 1, 2, 2);
    t.key_pools[0] = t.value_pools[0] = clattn_tensor_bhsd(page, 1, 2, 2);
    t.key_lengths.buffer = t.page_table.buffer = in;
    EXPECT_OK(clattn_enqueue_forward(plan, queue, NULL, &t, 0, NULL, NULL));
    t.value_pools[0].offset = 1;
    expect_error(clattn_enqueue_forward(plan, queue, NULL, &t, 0, NULL, NULL), SHAPE,
                 "value_pools[0].buffer of 16 bytes: its strides reach element 4",
                 "a page that ends behind its buffer");
    t.value_pools[0].offset = 0;
    t.key.buffer = page;
    expect_error(clattn_enqueue_forward(plan, queue, NULL, &t, 0, NULL, NULL), SHAPE,
                 "key.buffer of 16 bytes: its strides reach element 7", "two pages in a buffer for one");
    t.key.buffer = in;
    t.key_pools[0].buffer = out;
    expect_error(clattn_enqueue_forward(plan, queue, NULL, &t, 0, NULL, NULL), ARGUMENT, "its memory is also",
                 "keys in the output");
    clFinish(queue);
    clattn_plan_destroy(plan);
    clReleaseMemObject(in);
    clReleaseMemObject(page);
    clReleaseMemObject(out);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_presence);
    tcase_add_test(tests, test_places);
    tcase_add_test(tests, test_overlaps);
    tcase_add_test(tests, test_values);
    tcase_add_test(tests, test_device_tensors);
    tcase_add_test(tests, test_one_buffer);
    tcase_add_test(tests, test_access);
    tcase_add_test(tests, test_workspace);
    tcase_add_test(tests, test_queues);
    tcase_add_test(tests, test_wait_lists);
    tcase_add_test(tests, test_pools);
}

int main(void)
{
    return api_main("calls", add);
}
