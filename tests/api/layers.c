/* Calls of layers on the caller's queue: what they wait for, what of another cl_context they refuse. */
#include <unistd.h>

#include "api.h"
#include "clattn_layers.h"

#define BYTES 4096

/* A layer, ready to be enqueued: the multi-head one or additive attention, with so many batch entries. */
struct layer {
    clattn_mha *mha;
    clattn_additive *additive;
    clattn_mha_arrays mha_arrays;
    clattn_additive_arrays additive_arrays;
    cl_mem buffer, workspace;
};

static void mha_begin(struct layer *layer, int64_t batch)
{
    clattn_mha_problem p = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_arrays *a = &layer->mha_arrays;
    p.batch = batch;
    p.rows = p.model_dim = 4;
    p.query_heads = 2;
    p.strategy = "plain";
    EXPECT_OK(clattn_mha_create(context, &p, &layer->mha));
    clattn_mha_arrays_init(a, sizeof(*a));
    a->x.buffer = a->y.buffer = a->wq.buffer = a->wk.buffer = a->wv.buffer = a->wo.buffer = layer->buffer;
    a->y.offset = 512;
    a->workspace = layer->workspace;
}

static void additive_begin(struct layer *layer, int64_t batch)
{
    clattn_additive_problem p = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_arrays *a = &layer->additive_arrays;
    p.batch = batch;
    p.rows = p.keys = p.query_dim = p.hidden_dim = p.value_dim = 4;
    p.strategy = "plain";
    EXPECT_OK(clattn_additive_create(context, &p, &layer->additive));
    clattn_additive_arrays_init(a, sizeof(*a));
    a->query.buffer = a->key.buffer = a->value.buffer = a->wq.buffer = a->wk.buffer = layer->buffer;
    a->score.buffer = a->out.buffer = layer->buffer;
    a->out.offset = 512;
    a->workspace = layer->workspace;
}

static void begin(struct layer *layer, int is_mha, int64_t batch)
{
    static const unsigned char zeros[BYTES];
    cl_context cl = clattn_context_cl(context);
    *layer = (struct layer){ .mha = NULL };
    layer->buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, BYTES, (void *)zeros, NULL);
    layer->workspace = clCreateBuffer(cl, CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    if (is_mha) {
        mha_begin(layer, batch);
    } else {
        additive_begin(layer, batch);
    }
}

static clattn_status enqueue(struct layer *layer, cl_command_queue queue, cl_uint n_wait, const cl_event *wait,
                             cl_event *done)
{
    return layer->mha ? clattn_mha_enqueue(layer->mha, queue, &layer->mha_arrays, n_wait, wait, done)
                      : clattn_additive_enqueue(layer->additive, queue, &layer->additive_arrays, n_wait, wait, done);
}

static void end(struct layer *layer)
{
    clattn_mha_destroy(layer->mha);
    clattn_additive_destroy(layer->additive);
    clReleaseMemObject(layer->buffer);
    clReleaseMemObject(layer->workspace);
}

static void check_waits(int is_mha, int64_t batch, cl_command_queue_properties kind)
{
    struct layer layer;
    cl_int state = CL_COMPLETE;
    cl_event gate = clCreateUserEvent(clattn_context_cl(context), NULL), done = NULL;
    cl_command_queue queue =
        clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), kind, NULL);
    begin(&layer, is_mha, batch);
    EXPECT_OK(enqueue(&layer, queue, 1, &gate, &done));
    ck_assert_ptr_nonnull(done);
    clFlush(queue);
    usleep(20000);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    ck_assert_msg(state != CL_COMPLETE, "%s of batch %d: done before what it waits for", is_mha ? "mha" : "additive",
                  (int)batch);
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    clReleaseEvent(done);
    clReleaseEvent(gate);
    clReleaseCommandQueue(queue);
    end(&layer);
}

/* Also where no command consumes the wait list. */
START_TEST(test_waits)
{
    for (int n = 0; n < 8; ++n) {
        check_waits(n & 1, n >> 1 & 1, n & 4 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    }
}
END_TEST

START_TEST(test_foreign_buffers)
{
    cl_device_id device = clattn_context_device(context);
    cl_context foreign = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_mem buffer = clCreateBuffer(foreign, CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    for (int is_mha = 0; is_mha < 2; ++is_mha) {
        struct layer layer;
        cl_command_queue queue = clattn_context_queue(context);
        cl_event done = (cl_event)&layer;
        begin(&layer, is_mha, 1);
        layer.mha_arrays.wk.buffer = layer.additive_arrays.wk.buffer = buffer;
        expect_error(enqueue(&layer, queue, 0, NULL, &done), CLATTN_INVALID_ARGUMENT,
                     "wk: must be a buffer of the clattn context's cl_context", "a layer");
        ck_assert_ptr_null(done);
        layer.mha_arrays.wk.buffer = layer.additive_arrays.wk.buffer = layer.buffer;
        layer.mha_arrays.workspace = layer.additive_arrays.workspace = buffer;
        expect_error(enqueue(&layer, queue, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                     "workspace: must be a buffer of the clattn context's cl_context", "a layer");
        end(&layer);
    }
    clReleaseMemObject(buffer);
    clReleaseContext(foreign);
}
END_TEST

START_TEST(test_overlaps)
{
    for (int is_mha = 0; is_mha < 2; ++is_mha) {
        struct layer layer;
        cl_command_queue queue = clattn_context_queue(context);
        const cl_event missing = NULL;
        begin(&layer, is_mha, 1);
        layer.mha_arrays.y.offset = layer.additive_arrays.out.offset = 15; /* the last element of the inputs */
        expect_error(enqueue(&layer, queue, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                     is_mha ? "y: its memory is also x's" : "out: its memory is also query's", "a layer");
        layer.mha_arrays.y.offset = layer.additive_arrays.out.offset = 16;
        EXPECT_OK(enqueue(&layer, queue, 0, NULL, NULL));
        expect_error(enqueue(&layer, queue, 1, &missing, NULL), CLATTN_INVALID_ARGUMENT, "wait[0]: must not be NULL",
                     "a layer");
        clFinish(queue);
        end(&layer);
    }
}
END_TEST

/* Kernels count the rows of a tile past the last one in int, so not all of its numbers are lengths. */
START_TEST(test_too_long)
{
    clattn_mha_problem many = CLATTN_MHA_PROBLEM_INIT;
    clattn_additive_problem more = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_mha *mha;
    clattn_additive *additive;
    many.batch = more.batch = 1048575; /* times 2048: 2048 below 2^31 */
    many.rows = more.rows = 2048;
    many.model_dim = many.query_heads = 1;
    more.query_dim = more.hidden_dim = more.value_dim = more.keys = 1;
    expect_error(clattn_mha_create(context, &many, &mha), CLATTN_INVALID_SHAPE,
                 "batch * rows 2147481600: must be >= 0 and at most 2147479551", "mha");
    expect_error(clattn_additive_create(context, &more, &additive), CLATTN_INVALID_SHAPE,
                 "batch * rows 2147481600: must be >= 0 and at most 2147479551", "additive");
    many.batch = 1;
    many.model_dim = INT32_MAX;
    expect_error(clattn_mha_create(context, &many, &mha), CLATTN_INVALID_SHAPE,
                 "model_dim 2147483647: must be > 0 and at most 2147479551", "mha");
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_too_long);
    tcase_add_test(tests, test_waits);
    tcase_add_test(tests, test_foreign_buffers);
    tcase_add_test(tests, test_overlaps);
}

int main(void)
{
    return api_main("layers", add);
}
