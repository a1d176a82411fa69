/* usage: mha [--seed N] [--count N | --index N]
 *
 * The multi-head layer against its reference: random shapes, every projection, both kinds of calls; and
 * wrong arguments, which must end in messages. A failure prints the command that repeats it. */
#include "clattn_layers.h"
#include "layer_test.h"

#define CALLS 160 /* or CLATTN_TEST_LAYER_CALLS */

struct mha_case {
    clattn_mha_problem problem;
    clattn_mha_host_arrays arrays;
    void *owned[16];
    int n_owned;
    void *y[2], *weights[2]; /* device, reference */
    const char *way;         /* by which call */
    int64_t y_count, weights_count;
};

static void *keep(struct mha_case *c, void *data)
{
    c->owned[c->n_owned++] = data;
    return data;
}

static void choose_problem(struct random *random, const clattn_context *context, struct mha_case *c)
{
    static const clattn_type types[4] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_FLOAT64 };
    clattn_mha_problem *p = &c->problem;
    cl_device_fp_config fp64 = 0;
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(fp64), &fp64, NULL);
    p->type = random_chance(random, 0.5) ? CLATTN_FLOAT32 : types[random_between(random, 1, fp64 ? 3 : 2)];
    p->batch = random_between(random, random_chance(random, 0.05) ? 0 : 1, 3);
    p->rows = random_between(random, random_chance(random, 0.05) ? 0 : 1, 40);
    p->kv_heads = random_between(random, 1, 3);
    p->query_heads = p->kv_heads * random_between(random, 1, 3);
    p->head_dim = random_between(random, 1, 20);
    p->head_dim_v = random_chance(random, 0.3) ? random_between(random, 1, 20) : 0;
    p->model_dim = random_between(random, 1, 90);
    p->out_dim = random_chance(random, 0.5) ? random_between(random, 1, 40) : 0;
    p->parts = random_chance(random, 0.5) ? CLATTN_MHA_BIASES : 0;
    if (random_chance(random, 0.4)) {
        p->parts |= CLATTN_MHA_PACKED;
    } else {
        p->parts ^= (uint32_t)random_between(random, 0, 15) << 2;
    }
    if (random_chance(random, 0.4)) {
        p->parts |= CLATTN_MHA_CROSS;
        p->context_rows = random_between(random, 0, 40);
        p->context_dim = p->parts & CLATTN_MHA_PACKED ? 0 : random_between(random, 1, 60);
    }
    p->features = (random_chance(random, 0.3) ? CLATTN_WITH_MASK : 0) |
                  (random_chance(random, 0.3) ? CLATTN_WITH_KEY_LENGTHS : 0);
    p->causal = random_chance(random, 0.3);
    p->alignment = p->causal ? random_chance(random, 0.5) ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_BOTTOM_RIGHT
                             : CLATTN_ALIGN_UNSET;
    p->weights = (clattn_mha_weights)random_between(random, 0, 2);
    p->has_scale = random_chance(random, 0.2);
    p->scale = p->has_scale ? -0.3 : 0;
    p->projection = random_chance(random, 0.5) ? CLATTN_PROJECTION_AUTO : CLATTN_PROJECTION_TILES;
    p->strategy = "plain";
    if (p->type == CLATTN_FLOAT32 && random_chance(random, 0.05)) {
        p->projection = CLATTN_PROJECTION_CLBLAST;
    }
}

static void fill_arrays(struct random *random, struct mha_case *c)
{
    const clattn_mha_problem *p = &c->problem;
    clattn_mha_host_arrays *a = &c->arrays;
    const int cross = (p->parts & CLATTN_MHA_CROSS) != 0, packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t keys = cross ? p->context_rows : p->rows, dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t context_dim = p->context_dim ? p->context_dim : p->model_dim;
    const int64_t out_dim = p->out_dim ? p->out_dim : p->model_dim;
    const int64_t q = p->query_heads * p->head_dim, k = p->kv_heads * p->head_dim, v = p->kv_heads * dv;
    const int64_t first = packed ? q + k + v : q;
    const double sharp = 1.6 / sqrt((double)p->model_dim), soft = 1.6 / sqrt((double)context_dim);
    a->x = keep(c, layer_test_normal(random, p->type, p->batch * p->rows * p->model_dim, 1));
    a->context = cross ? keep(c, layer_test_normal(random, p->type, p->batch * keys * context_dim, 1)) : NULL;
    a->wq = keep(c, layer_test_normal(random, p->type, first * p->model_dim, sharp));
    a->wk = packed ? NULL : keep(c, layer_test_normal(random, p->type, k * context_dim, soft));
    a->wv = packed ? NULL : keep(c, layer_test_normal(random, p->type, v * context_dim, soft));
    a->wo = keep(c, layer_test_normal(random, p->type, out_dim * p->query_heads * dv, 0.3));
    if (p->parts & CLATTN_MHA_BIAS_QUERY) {
        a->bq = keep(c, layer_test_normal(random, p->type, first, 0.5));
    }
    if (p->parts & CLATTN_MHA_BIAS_KEY && !packed) {
        a->bk = keep(c, layer_test_normal(random, p->type, k, 0.5));
    }
    if (p->parts & CLATTN_MHA_BIAS_VALUE && !packed) {
        a->bv = keep(c, layer_test_normal(random, p->type, v, 0.5));
    }
    if (p->parts & CLATTN_MHA_BIAS_OUT) {
        a->bo = keep(c, layer_test_normal(random, p->type, out_dim, 0.5));
    }
    c->y_count = p->batch * p->rows * out_dim;
    c->weights_count = p->batch * (p->weights == CLATTN_MHA_WEIGHTS_AVERAGE ? 1 : p->query_heads) * p->rows * keys;
    for (int i = 0; i < 2; ++i) {
        c->y[i] = layer_test_poison(c->y_count);
        c->weights[i] = layer_test_poison(c->weights_count);
    }
}

static void fill_masks(struct random *random, struct mha_case *c)
{
    const clattn_mha_problem *p = &c->problem;
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    if (p->features & CLATTN_WITH_MASK) {
        const int by_head = random_chance(random, 0.5);
        uint8_t *mask = malloc((size_t)(p->query_heads * p->rows * keys) + 1);
        for (int64_t i = 0; i < p->query_heads * p->rows * keys; ++i) {
            mask[i] = (uint8_t)random_chance(random, 0.7);
        }
        const int64_t stride[4] = { 0, by_head ? p->rows * keys : 0, keys, 1 };
        c->arrays.mask.data = keep(c, mask);
        memcpy(c->arrays.mask.stride, stride, sizeof(stride));
    }
    if (p->features & CLATTN_WITH_KEY_LENGTHS) {
        int32_t *lengths = calloc((size_t)p->batch + 1, sizeof(*lengths));
        for (int64_t b = 0; b < p->batch; ++b) {
            lengths[b] = (int32_t)random_between(random, 0, keys);
        }
        c->arrays.key_lengths = keep(c, lengths);
    }
}

static void release(struct mha_case *c)
{
    for (int i = 0; i < c->n_owned; ++i) {
        free(c->owned[i]);
    }
    for (int i = 0; i < 2; ++i) {
        free(c->y[i]);
        free(c->weights[i]);
    }
}

/* ---- the other kind of call: buffers with offsets, any queue ---------------------------------- */

#define OFFSET 3

struct upload {
    clattn_context *context;
    size_t size;
    cl_mem buffers[16];
    int n;
};

/* `count` elements behind OFFSET elements of NaN. */
static clattn_array put(struct upload *upload, const void *data, int64_t count, size_t size)
{
    clattn_array array = { NULL, OFFSET };
    if (data) {
        const size_t bytes = (size_t)(count + OFFSET) * size;
        char *copy = malloc(bytes);
        memset(copy, 0xff, bytes);
        memcpy(copy + OFFSET * size, data, (size_t)count * size);
        array.buffer = clCreateBuffer(clattn_context_cl(upload->context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                      bytes, copy, NULL);
        upload->buffers[upload->n++] = array.buffer;
        free(copy);
    }
    return array;
}

static clattn_status run_enqueued(const struct layer_test *test, struct mha_case *c, int out_of_order)
{
    const clattn_mha_problem *p = &c->problem;
    const clattn_mha_host_arrays *h = &c->arrays;
    const int cross = (p->parts & CLATTN_MHA_CROSS) != 0, packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t keys = cross ? p->context_rows : p->rows, dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t context_dim = p->context_dim ? p->context_dim : p->model_dim;
    const int64_t out_dim = p->out_dim ? p->out_dim : p->model_dim;
    const int64_t q = p->query_heads * p->head_dim, k = p->kv_heads * p->head_dim, v = p->kv_heads * dv;
    const int64_t first = packed ? q + k + v : q;
    const size_t size = clattn_type_size(p->type), real = p->type == CLATTN_FLOAT64 ? 8 : 4;
    struct upload upload = { test->context, size, { NULL }, 0 };
    clattn_mha *mha;
    clattn_mha_arrays a = CLATTN_MHA_ARRAYS_INIT;
    clattn_status status = clattn_mha_create(test->context, p, &mha);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(test->context),
                                                  clattn_context_device(test->context),
                                                  out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, NULL);
    a.x = put(&upload, h->x, p->batch * p->rows * p->model_dim, size);
    a.context = put(&upload, h->context, p->batch * keys * context_dim, size);
    a.y = put(&upload, c->y[0], c->y_count, size);
    a.wq = put(&upload, h->wq, first * p->model_dim, size);
    a.wk = put(&upload, h->wk, k * context_dim, size);
    a.wv = put(&upload, h->wv, v * context_dim, size);
    a.wo = put(&upload, h->wo, out_dim * p->query_heads * dv, size);
    a.bq = put(&upload, h->bq, first, size);
    a.bk = put(&upload, h->bk, k, size);
    a.bv = put(&upload, h->bv, v, size);
    a.bo = put(&upload, h->bo, out_dim, size);
    const clattn_array mask = put(&upload, h->mask.data, p->query_heads * p->rows * keys, 1);
    a.mask.buffer = mask.buffer;
    a.mask.offset = mask.offset;
    a.key_lengths = put(&upload, h->key_lengths, p->batch, 4);
    a.weights = put(&upload, p->weights ? c->weights[0] : NULL, c->weights_count, real);
    memcpy(a.mask.stride, h->mask.stride, sizeof(a.mask.stride));
    const size_t workspace = clattn_mha_workspace(mha);
    a.workspace = clCreateBuffer(clattn_context_cl(test->context), CL_MEM_READ_WRITE, workspace + 1, NULL, NULL);
    cl_event done = NULL;
    status = clattn_mha_enqueue(mha, queue, &a, 0, NULL, &done);
    if (status == CLATTN_OK) {
        clEnqueueReadBuffer(queue, a.y.buffer, CL_TRUE, OFFSET * size, (size_t)c->y_count * size, c->y[0], 1, &done,
                            NULL);
        if (a.weights.buffer) {
            clEnqueueReadBuffer(queue, a.weights.buffer, CL_TRUE, OFFSET * real, (size_t)c->weights_count * real,
                                c->weights[0], 1, &done, NULL);
        }
        clReleaseEvent(done);
    }
    clFinish(queue);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(a.workspace);
    for (int i = 0; i < upload.n; ++i) {
        clReleaseMemObject(upload.buffers[i]);
    }
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

static void describe(const struct mha_case *c, char *text, size_t bytes)
{
    static const char *const projections[] = { "any projection", "lanes", "tiles", "clblast" };
    const clattn_mha_problem *p = &c->problem;
    snprintf(text, bytes,
             "%s, %s, %s, batch %d, rows %d, context_rows %d, model_dim %d, context_dim %d, %d(%d) heads, head_dim %d, "
             "head_dim_v %d, out_dim %d, parts %#x, features %#x, causal %d, alignment %d, weights %d, scale %g (%d)",
             c->way, clattn_type_name(p->type), projections[p->projection], (int)p->batch, (int)p->rows,
             (int)p->context_rows, (int)p->model_dim, (int)p->context_dim, (int)p->query_heads, (int)p->kv_heads,
             (int)p->head_dim, (int)p->head_dim_v, (int)p->out_dim, (unsigned)p->parts, (unsigned)p->features,
             p->causal, (int)p->alignment, (int)p->weights, p->scale, p->has_scale);
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct mha_case c = { .problem = CLATTN_MHA_PROBLEM_INIT, .arrays = CLATTN_MHA_HOST_ARRAYS_INIT };
    struct layer_worst worst = { .share = 0 };
    char problem[512];
    choose_problem(&random, test->context, &c);
    fill_arrays(&random, &c);
    fill_masks(&random, &c);
    clattn_status status = run(test, &random, &c);
    c.arrays.y = c.y[1];
    c.arrays.weights = c.problem.weights ? c.weights[1] : NULL;
    if (status == CLATTN_OK) {
        status = clattn_mha_reference(&c.problem, &c.arrays);
    }
    if (status == CLATTN_OK) {
        compare(&c, &worst);
    }
    describe(&c, problem, sizeof(problem));
    layer_test_judge(test, index, c.problem.type, status, &worst, problem);
    release(&c);
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
