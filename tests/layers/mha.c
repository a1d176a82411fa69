/* usage: mha [--seed N] [--count N | --index N]
 *
 * The multi-head layer against its reference: random shapes, every projection, both kinds of calls; and
 * wrong arguments, which must end in messages. A failure prints the command that repeats it. */
#include "mha_case.h"

#define CALLS 160 /* or CLATTN_TEST_LAYER_CALLS */

/* ---- the other kind of call: buffers with offsets, any queue ---------------------------------- */

static clattn_status run_enqueued(const struct layer_test *test, struct mha_case *c, int out_of_order)
{
    const clattn_mha_problem *p = &c->problem;
    const size_t size = clattn_type_size(p->type), real = p->type == CLATTN_FLOAT64 ? 8 : 4;
    struct upload upload = { .context = test->context };
    clattn_mha *mha;
    clattn_mha_arrays a = CLATTN_MHA_ARRAYS_INIT;
    clattn_status status = clattn_mha_create(test->context, p, &mha);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(test->context),
                                                  clattn_context_device(test->context),
                                                  out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, NULL);
    mha_case_upload(c, &upload, &a);
    a.y = upload_put(&upload, c->y[0], c->y_count, size);
    a.weights = upload_put(&upload, p->weights ? c->weights[0] : NULL, c->weights_count, real);
    const size_t workspace = clattn_mha_workspace(mha);
    a.workspace = clCreateBuffer(clattn_context_cl(test->context), CL_MEM_READ_WRITE, workspace + 1, NULL, NULL);
    cl_event done = NULL;
    status = clattn_mha_enqueue(mha, queue, &a, 0, NULL, &done);
    if (status == CLATTN_OK) {
        clEnqueueReadBuffer(queue, a.y.buffer, CL_TRUE, UPLOAD_OFFSET * size, (size_t)c->y_count * size, c->y[0], 1,
                            &done, NULL);
        if (a.weights.buffer) {
            clEnqueueReadBuffer(queue, a.weights.buffer, CL_TRUE, UPLOAD_OFFSET * real, (size_t)c->weights_count * real,
                                c->weights[0], 1, &done, NULL);
        }
        clReleaseEvent(done);
    }
    clFinish(queue);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(a.workspace);
    upload_release(&upload);
    clattn_mha_destroy(mha);
    return status;
}

/* ---- random calls ----------------------------------------------------------------------------- */

static clattn_status run(const struct layer_test *test, struct random *random, struct mha_case *c)
{
    c->arrays.y = c->y[0];
    c->arrays.weights = c->problem.weights ? c->weights[0] : NULL;
    if (random_chance(random, 0.5) && c->y_count > 0) {
        const int out_of_order = random_chance(random, 0.5);
        c->way = out_of_order ? "enqueued out of order" : "enqueued";
        return run_enqueued(test, c, out_of_order);
    }
    c->way = "blocking";
    return clattn_mha_forward_host(test->context, &c->problem, &c->arrays);
}

static void compare(const struct mha_case *c, struct layer_worst *worst)
{
    const clattn_mha_problem *p = &c->problem;
    const clattn_type real = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    const double tolerance = layer_test_tolerance(p->type);
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    const int averaged = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
    const struct layer_output y = { "y",
                                    p->type,
                                    3,
                                    { 1, p->batch, p->rows, p->out_dim ? p->out_dim : p->model_dim },
                                    c->y[0],
                                    c->y[1],
                                    tolerance * layer_test_size(p->type, c->y[1], c->y_count) };
    const struct layer_output weights = {
        "weights",        real,
        averaged ? 3 : 4, { averaged ? 1 : p->batch, averaged ? p->batch : p->query_heads, p->rows, keys },
        c->weights[0],    c->weights[1],
        2 * tolerance
    };
    layer_test_compare(worst, &y);
    if (p->weights) {
        layer_test_compare(worst, &weights);
    }
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct mha_case c = { .problem = CLATTN_MHA_PROBLEM_INIT, .arrays = CLATTN_MHA_HOST_ARRAYS_INIT };
    struct layer_worst worst = { .share = 0 };
    char problem[512];
    mha_case_choose(&c, &random, test->context);
    mha_case_fill(&c, &random);
    clattn_status status = run(test, &random, &c);
    c.arrays.y = c.y[1];
    c.arrays.weights = c.problem.weights ? c.weights[1] : NULL;
    if (status == CLATTN_OK) {
        status = clattn_mha_reference(&c.problem, &c.arrays);
    }
    if (status == CLATTN_OK) {
        compare(&c, &worst);
    }
    mha_case_describe(&c, problem, sizeof(problem));
    layer_test_judge(test, index, c.problem.type, status, &worst, problem);
    mha_case_free(&c);
}

/* ---- what must be refused --------------------------------------------------------------------- */

static void refusals(struct layer_test *test)
{
    float x[12] = { 1, 2, 3, 4 }, y[12], w[16] = { 1, 2, 3, 4 }, weights[36];
    int32_t lengths[1] = { 4 };
    clattn_mha_problem p = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_host_arrays a = CLATTN_MHA_HOST_ARRAYS_INIT;
    p.rows = 3;
    p.model_dim = 4;
    p.query_heads = 2;
    p.strategy = "plain";
    a.x = x;
    a.y = y;
    a.wq = a.wk = a.wv = a.wo = w;
    clattn_context *context = test->context;
    layer_test_note(test, clattn_mha_forward_host(context, &p, &a) == CLATTN_OK, "the valid problem");
    p.query_heads = 3;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_SHAPE,
                       "model_dim 4: must be a multiple of query_heads 3");
    p.query_heads = 2;
    p.kv_heads = 3;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_SHAPE,
                       "query_heads 2: must be a multiple of kv_heads 3");
    p.kv_heads = 0;
    p.context_rows = 5;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_SHAPE, "context_rows 5");
    p.context_rows = 0;
    p.batch = INT64_MAX;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_SHAPE, "batch");
    p.batch = 1;
    p.parts = 1 << 20;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT, "parts");
    p.parts = 0;
    p.scale = 2;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "scale 2: would be ignored while has_scale is 0");
    p.has_scale = 1;
    p.scale = 1e300;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "scale 1e+300: must be finite and fit float32");
    p.has_scale = 0;
    p.scale = 0;
    p.parts = CLATTN_MHA_BIAS_QUERY;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "bq: must be given, the problem has it; its shape is [4]");
    p.parts = CLATTN_MHA_PACKED;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "wk: was given, but the problem does not have it");
    p.parts = 0;
    a.weights = weights;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "weights: was given, but the problem does not have it");
    a.weights = NULL;
    p.causal = 1;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT, "alignment");
    p.causal = 0;
    p.features = CLATTN_WITH_KEY_LENGTHS;
    a.key_lengths = lengths;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT, "key_lengths[0] 4");
    p.features = 0;
    a.key_lengths = NULL;
    w[6] = NAN;
    layer_test_refused(test, clattn_mha_forward_host(context, &p, &a), CLATTN_INVALID_ARGUMENT,
                       "wq[1, 2] of [4, 4] is NaN");
    w[6] = -INFINITY;
    layer_test_refused(test, clattn_mha_reference(&p, &a), CLATTN_INVALID_ARGUMENT, "is infinite");
    p.struct_size = 8;
    layer_test_refused(test, clattn_mha_reference(&p, &a), CLATTN_INVALID_ARGUMENT, "CLATTN_MHA_PROBLEM_INIT");
}

int main(int argc, char **argv)
{
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/mha", argc, argv, CALLS);
    if (skip) {
        return skip;
    }
    for (uint64_t i = 0; i < test.count; ++i) {
        random_call(&test, test.first + i);
    }
    refusals(&test);
    return layer_test_end(&test);
}
