/* A workspace and a tensor in one buffer: right behind the workspace a tensor is taken, and left as it is or as it must
 * become; one element before that it is refused. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "support/small_calls.h"

struct shared {
    struct test_call test;
    struct sample_device device;
    clattn_plan *plan;
    cl_command_queue queue;
    size_t workspace_bytes;
    cl_mem both; /* the workspace, and a tensor's array behind it */
};

/* Where the tensor's array begins in `both`, in elements: right behind the workspace. */
static int64_t elements_before(const struct shared *shared, enum tensor_id id)
{
    const size_t bytes = shared->test.arrays[id].element_bytes;
    ck_assert_msg(shared->workspace_bytes % bytes == 0, "a workspace of %zu bytes: nothing lies right behind it",
                  shared->workspace_bytes);
    return (int64_t)(shared->workspace_bytes / bytes);
}

static clattn_status enqueue(struct shared *shared, enum tensor_id id, int64_t before)
{
    clattn_tensors tensors = shared->device.tensors;
    clattn_tensor *tensor = device_tensor_of(&tensors, (int)id);
    tensors.workspace = tensor->buffer = shared->both;
    tensor->offset += before;
    const clattn_status status =
        clattn_enqueue_forward(shared->plan, shared->queue, &shared->device.values, &tensors, 0, NULL, NULL);
    clFinish(shared->queue);
    return status;
}

/* The array of the tensor behind the workspace, as it is now. */
static void *behind(const struct shared *shared, enum tensor_id id)
{
    const struct test_array *array = &shared->test.arrays[id];
    const size_t bytes = (size_t)array->count * array->element_bytes;
    void *memory = malloc(bytes);
    ck_assert_int_eq(clEnqueueReadBuffer(shared->queue, shared->both, CL_TRUE, shared->workspace_bytes, bytes, memory,
                                         0, NULL, NULL),
                     CL_SUCCESS);
    return memory;
}

/* `id` behind the workspace; its array must become what it is in `expected`. */
static void check_behind(struct shared *shared, enum tensor_id id, const struct test_call *expected)
{
    const struct test_array *array = &shared->test.arrays[id];
    const size_t bytes = (size_t)array->count * array->element_bytes;
    const int64_t before = elements_before(shared, id);
    cl_int code;
    shared->both =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, shared->workspace_bytes + bytes, NULL, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    ck_assert_int_eq(clEnqueueWriteBuffer(shared->queue, shared->both, CL_TRUE, shared->workspace_bytes, bytes,
                                          array->data, 0, NULL, NULL),
                     CL_SUCCESS);
    EXPECT_OK(enqueue(shared, id, before));
    void *memory = behind(shared, id);
    ck_assert_msg(memcmp(memory, expected->arrays[id].data, bytes) == 0, "%s: tensor %d behind the workspace",
                  clattn_plan_strategy(shared->plan), (int)id);
    free(memory);
    expect_error(enqueue(shared, id, before - 1), CLATTN_INVALID_ARGUMENT, "its memory is also the workspace's",
                 clattn_plan_strategy(shared->plan));
    clReleaseMemObject(shared->both);
}

/* The output, which must be that of memory of its own; and an input, which must stay. 0: there is no workspace. */
static int check(int sample, const char *strategy)
{
    struct shared shared = { .queue = clattn_context_queue(context) };
    struct test_call expected;
    sample_create(&shared.test, sample, strategy);
    EXPECT_OK(clattn_plan_create(context, &shared.test.problem, &shared.plan));
    shared.workspace_bytes = clattn_plan_workspace(shared.plan);
    ck_assert(sample_upload(&shared.device, &shared.test, clattn_context_cl(context), shared.workspace_bytes));
    if (shared.workspace_bytes > 0) {
        sample_create(&expected, sample, strategy);
        EXPECT_OK(clattn_enqueue_forward(shared.plan, shared.queue, &shared.device.values, &shared.device.tensors, 0,
                                         NULL, NULL));
        ck_assert(sample_download(&shared.device, &expected, shared.queue));
        check_behind(&shared, TENSOR_OUT, &expected);
        check_behind(&shared, TENSOR_KEY, &expected);
        test_call_free(&expected);
    }
    sample_release(&shared.device);
    clattn_plan_destroy(shared.plan);
    test_call_free(&shared.test);
    return shared.workspace_bytes > 0;
}

START_TEST(test_right_behind)
{
    const char *strategy;
    int tried = 0;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        const int sample = sample_for(context, strategy);
        if (sample >= 0) {
            tried += check(sample, strategy);
        }
    }
    ck_assert_msg(tried > 0 || getenv("CLATTN_TEST_STRATEGIES"), "no strategy has a workspace");
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_right_behind);
}

int main(void)
{
    return api_main("workspaces", add);
}
