/* usage: mha_gradients [--seed N] [--count N | --index N]
 *
 * The gradients of the multi-head layer against their reference: random shapes, both kinds of calls, gradients alone
 * and together, added to what is there, context that no row sees. A failure prints the command that repeats it. */
#include "mha_case.h"
#include "reference/reference_mha_backward.h"

#define CALLS 120 /* or CLATTN_TEST_LAYER_CALLS */
#define GRADIENTS 10
#define ALL_GRADIENTS ((1u << GRADIENTS) - 1)
#define BOUND 2 /* units of rounding, as that of attention's gradients */

struct gradient_case {
    struct mha_case layer;
    clattn_mha_backward_problem problem;
    clattn_mha_host_gradients arrays;
    int64_t count[GRADIENTS];
    void *got[GRADIENTS], *before[GRADIENTS]; /* by the bits of clattn_mha_gradient */
};

static clattn_type gradient_type(const struct gradient_case *c)
{
    return c->problem.gradient_type ? c->problem.gradient_type : c->layer.problem.type;
}

static void set_arrays(struct gradient_case *c, void *const *data)
{
    clattn_mha_host_gradients *g = &c->arrays;
    void **const fields[GRADIENTS] = { &g->dx,  &g->dcontext, &g->dwq, &g->dwk, &g->dwv,
                                       &g->dwo, &g->dbq,      &g->dbk, &g->dbv, &g->dbo };
    for (int i = 0; i < GRADIENTS; ++i) {
        *fields[i] = c->problem.gradients >> i & 1 ? data[i] : NULL;
    }
}

/* All gradients that the layer has. */
static uint32_t available(const clattn_mha_problem *p)
{
    const uint32_t packed = CLATTN_MHA_GRADIENT_WK | CLATTN_MHA_GRADIENT_WV | CLATTN_MHA_GRADIENT_BK |
                            CLATTN_MHA_GRADIENT_BV;
    const uint32_t biases = (p->parts & CLATTN_MHA_BIASES) / CLATTN_MHA_BIAS_QUERY * CLATTN_MHA_GRADIENT_BQ;
    uint32_t all = (ALL_GRADIENTS & ~(CLATTN_MHA_GRADIENT_BQ * 15u)) | biases;
    all &= p->parts & CLATTN_MHA_CROSS ? all : ~(uint32_t)CLATTN_MHA_GRADIENT_CONTEXT;
    return p->parts & CLATTN_MHA_PACKED ? all & ~packed : all;
}

static void begin(struct gradient_case *c, struct random *random, const clattn_context *context)
{
    *c = (struct gradient_case){ .layer = { .problem = CLATTN_MHA_PROBLEM_INIT, .arrays = CLATTN_MHA_HOST_ARRAYS_INIT },
                                 .problem = CLATTN_MHA_BACKWARD_PROBLEM_INIT,
                                 .arrays = CLATTN_MHA_HOST_GRADIENTS_INIT };
    mha_case_choose(&c->layer, random, context);
    c->layer.problem.weights = CLATTN_MHA_WEIGHTS_NONE;
    c->problem.forward = &c->layer.problem;
    c->problem.strategy = "plain";
}

/* Arrays for all gradients that the layer has; those that are not added to are poison. */
static void fill(struct gradient_case *c, struct random *random)
{
    mha_case_fill(&c->layer, random);
    const struct mha_counts n = mha_case_counts(&c->layer);
    const int64_t counts[GRADIENTS] = { n.x, n.context, n.wq, n.wk, n.wv, n.wo, n.bq, n.bk, n.bv, n.bo };
    const size_t size = clattn_type_size(gradient_type(c));
    memcpy(c->count, counts, sizeof(counts));
    c->arrays.dy = mha_case_keep(&c->layer, layer_test_normal(random, c->layer.problem.type, n.y, 1));
    for (int i = 0; i < GRADIENTS; ++i) {
        const int adds = (c->problem.accumulate >> i & 1) != 0;
        c->before[i] = adds ? layer_test_normal(random, gradient_type(c), counts[i], 1) : layer_test_poison(counts[i]);
        c->got[i] = layer_test_poison(counts[i]);
        memcpy(c->got[i], c->before[i], (size_t)counts[i] * size);
    }
}

static void end(struct gradient_case *c)
{
    mha_case_free(&c->layer);
    for (int i = 0; i < GRADIENTS; ++i) {
        free(c->got[i]);
        free(c->before[i]);
    }
}

/* ---- both kinds of calls ---------------------------------------------------------------------- */

static clattn_status run_host(const struct layer_test *test, struct gradient_case *c)
{
    set_arrays(c, c->got);
    return clattn_mha_backward_host(test->context, &c->problem, &c->layer.arrays, &c->arrays);
}

static clattn_status run_enqueued(const struct layer_test *test, struct gradient_case *c, int out_of_order)
{
    const size_t size = clattn_type_size(gradient_type(c));
    struct upload upload = { .context = test->context };
    clattn_mha_backward *backward;
    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    clattn_mha_gradients g = CLATTN_MHA_GRADIENTS_INIT;
    clattn_array *const fields[GRADIENTS] = { &g.dx,  &g.dcontext, &g.dwq, &g.dwk, &g.dwv,
                                              &g.dwo, &g.dbq,      &g.dbk, &g.dbv, &g.dbo };
    clattn_status status = clattn_mha_backward_create(test->context, &c->problem, &backward);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(test->context),
                                                  clattn_context_device(test->context),
                                                  out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, NULL);
    mha_case_upload(&c->layer, &upload, &arrays);
    g.dy = upload_put(&upload, c->arrays.dy, c->layer.y_count, clattn_type_size(c->layer.problem.type));
    for (int i = 0; i < GRADIENTS; ++i) {
        *fields[i] = upload_put(&upload, c->problem.gradients >> i & 1 ? c->got[i] : NULL, c->count[i], size);
    }
    g.workspace = clCreateBuffer(clattn_context_cl(test->context), CL_MEM_READ_WRITE,
                                 clattn_mha_backward_workspace(backward) + 1, NULL, NULL);
    cl_event done = NULL;
    status = clattn_mha_backward_enqueue(backward, queue, &arrays, &g, 0, NULL, &done);
    for (int i = 0; i < GRADIENTS && status == CLATTN_OK; ++i) {
        if (fields[i]->buffer && c->count[i] > 0) {
            clEnqueueReadBuffer(queue, fields[i]->buffer, CL_TRUE, UPLOAD_OFFSET * size, (size_t)c->count[i] * size,
                                c->got[i], 1, &done, NULL);
        }
    }
    if (done) {
        clReleaseEvent(done);
    }
    clFinish(queue);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(g.workspace);
    upload_release(&upload);
    clattn_mha_backward_destroy(backward);
    return status;
}

/* ---- random calls ----------------------------------------------------------------------------- */

static double unit_of(clattn_type type)
{
    return type == CLATTN_FLOAT16 ? 0x1p-11 : type == CLATTN_BFLOAT16 ? 0x1p-8 : 0x1p-24;
}

/* What the errors are of the bound, the largest. */
static void compare(const struct gradient_case *c, const struct operands *operands,
                    const struct gradient_detail *detail, struct layer_worst *worst)
{
    const clattn_type type = gradient_type(c);
    for (int g = 0; g < GRADIENTS; ++g) {
        const int id = MHA_DX + g, adds = (c->problem.accumulate >> g & 1) != 0;
        for (int64_t i = 0; detail->value[id] && i < c->count[g]; ++i) {
            const double before = adds ? type_load(type, c->before[g], i) : 0;
            const double want = before + detail->value[id][i], got = type_load(type, c->got[g], i);
            const double bound = BOUND * 0x1p-24 * detail->unit[id][i];
            const double rounding = unit_of(type) * (fabs(want) + bound) + (type == CLATTN_FLOAT16 ? 0x1p-25 : 0);
            const double excess = fabs(got - want) - rounding;
            const double share = excess <= 0 ? 0 : excess > 0 && bound > 0 ? excess / bound : (double)INFINITY;
            if (share > worst->share) {
                *worst = (struct layer_worst){ share, got, want, operand_name(operands, id), 1, { 0, 0, 0, i } };
            }
        }
    }
}

static void choose(struct gradient_case *c, struct random *random)
{
    const clattn_mha_problem *p = &c->layer.problem;
    const uint32_t all = available(p);
    c->problem.gradients = random_chance(random, 0.6) ? all : all & (uint32_t)random_between(random, 1, ALL_GRADIENTS);
    c->problem.gradients = c->problem.gradients ? c->problem.gradients : CLATTN_MHA_GRADIENT_X;
    c->problem.gradient_type = p->type != CLATTN_FLOAT64 && random_chance(random, 0.5) ? CLATTN_FLOAT32
                                                                                       : CLATTN_TYPE_NONE;
    if (gradient_type(c) == CLATTN_FLOAT32 || gradient_type(c) == CLATTN_FLOAT64) {
        c->problem.accumulate = c->problem.gradients & (uint32_t)random_between(random, 0, ALL_GRADIENTS);
    }
}

static clattn_status run_and_compare(const struct layer_test *test, struct gradient_case *c, struct random *random,
                                     struct layer_worst *worst)
{
    struct mha_backward_problem checked;
    struct gradient_detail detail;
    struct operands operands;
    clattn_status status;
    if (random_chance(random, 0.5)) {
        const int out_of_order = random_chance(random, 0.5);
        c->layer.way = out_of_order ? "enqueued out of order" : "enqueued";
        status = run_enqueued(test, c, out_of_order);
    } else {
        c->layer.way = "blocking";
        status = run_host(test, c);
    }
    set_arrays(c, c->got);
    if (status == CLATTN_OK) {
        status = any_problem_init(&checked.layer.any, &operation_mha_backward, &c->problem);
    }
    if (status == CLATTN_OK) {
        status = any_call_from_host(&checked.layer.any, GIVEN(NULL, &c->layer.arrays, &c->arrays), &operands);
    }
    if (status == CLATTN_OK) {
        status = reference_mha_backward_detail(&checked, &operands, &detail);
    }
    if (status == CLATTN_OK) {
        compare(c, &operands, &detail, worst);
        gradient_detail_free(&detail);
    }
    return status;
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct gradient_case c;
    struct layer_worst worst = { .share = 0 };
    char layer[512], problem[640];
    begin(&c, &random, test->context);
    choose(&c, &random);
    fill(&c, &random);
    const clattn_status status = run_and_compare(test, &c, &random, &worst);
    mha_case_describe(&c.layer, layer, sizeof(layer));
    snprintf(problem, sizeof(problem), "%s; gradients %#x in %s, accumulate %#x", layer, (unsigned)c.problem.gradients,
             clattn_type_name(gradient_type(&c)), (unsigned)c.problem.accumulate);
    layer_test_judge(test, index, c.layer.problem.type, status, &worst, problem);
    end(&c);
}

/* ---- the same bits ---------------------------------------------------------------------------- */

static int same_bits(const struct gradient_case *c, void *const *want, uint32_t gradients)
{
    int same = 1;
    for (int i = 0; i < GRADIENTS; ++i) {
        same = same && (!(gradients >> i & 1) ||
                        memcmp(c->got[i], want[i], (size_t)c->count[i] * clattn_type_size(gradient_type(c))) == 0);
    }
    return same;
}

/* Float32 gradients into `to`, which the caller frees. */
static void copy_all(const struct gradient_case *c, void **to)
{
    for (int i = 0; i < GRADIENTS; ++i) {
        to[i] = layer_test_poison(c->count[i]);
        memcpy(to[i], c->got[i], (size_t)c->count[i] * sizeof(float));
    }
}

/* A gradient alone, added to something, again: of a problem with all of them. */
static void bits(struct layer_test *test, uint32_t parts, clattn_type type)
{
    struct random random = random_start(test->seed, 1000 + parts);
    struct gradient_case c;
    void *all[GRADIENTS];
    begin(&c, &random, test->context);
    clattn_mha_problem *p = &c.layer.problem;
    *p = (clattn_mha_problem)CLATTN_MHA_PROBLEM_INIT;
    p->type = type;
    p->batch = 2;
    p->rows = 37;
    p->context_rows = parts & CLATTN_MHA_CROSS ? 21 : 0;
    p->model_dim = 24;
    p->query_heads = 4;
    p->head_dim = 6;
    p->kv_heads = 2;
    p->parts = parts;
    p->strategy = "plain";
    c.problem.gradient_type = CLATTN_FLOAT32;
    c.problem.gradients = available(p);
    fill(&c, &random);
    layer_test_note(test, run_host(test, &c) == CLATTN_OK, "all gradients");
    copy_all(&c, all);
    layer_test_note(test, run_enqueued(test, &c, 1) == CLATTN_OK && same_bits(&c, all, available(p)), "again");
    for (int i = 0; i < GRADIENTS; ++i) {
        c.problem.gradients = available(p) & 1u << i;
        memset(c.got[i], 0xff, (size_t)c.count[i] * sizeof(float));
        if (c.problem.gradients) {
            layer_test_note(test, run_host(test, &c) == CLATTN_OK && same_bits(&c, all, c.problem.gradients),
                            "a gradient by itself");
        }
    }
    c.problem.accumulate = c.problem.gradients = available(p);
    for (int i = 0; i < GRADIENTS; ++i) {
        for (int64_t n = 0; n < c.count[i]; ++n) {
            const float before = (float)random_normal(&random);
            ((float *)c.got[i])[n] = before;
            ((float *)all[i])[n] += before;
        }
    }
    layer_test_note(test, run_host(test, &c) == CLATTN_OK && same_bits(&c, all, available(p)), "accumulate");
    for (int i = 0; i < GRADIENTS; ++i) {
        free(all[i]);
    }
    end(&c);
}

/* Rows of context past the key lengths hold NaN, or not: the same, and their gradients are 0. */
static void hidden_context(struct layer_test *test)
{
    struct random random = random_start(test->seed, 2000);
    struct gradient_case c;
    void *all[GRADIENTS];
    int32_t lengths[2] = { 9, 0 };
    begin(&c, &random, test->context);
    clattn_mha_problem *p = &c.layer.problem;
    *p = (clattn_mha_problem)CLATTN_MHA_PROBLEM_INIT;
    p->batch = 2;
    p->rows = 7;
    p->context_rows = 13;
    p->model_dim = 12;
    p->query_heads = p->kv_heads = 2;
    p->head_dim = 6;
    p->parts = CLATTN_MHA_CROSS | CLATTN_MHA_BIASES;
    p->strategy = "plain";
    c.problem.gradients = available(p);
    fill(&c, &random);
    p->features = CLATTN_WITH_KEY_LENGTHS;
    c.layer.arrays.key_lengths = lengths;
    layer_test_note(test, run_host(test, &c) == CLATTN_OK, "key lengths");
    copy_all(&c, all);
    int zero = 1;
    for (int64_t i = 9 * 12; i < 26 * 12; ++i) {
        ((float *)(uintptr_t)c.layer.arrays.context)[i] = NAN;
        zero = zero && ((float *)c.got[1])[i] == 0;
    }
    layer_test_note(test, zero, "dcontext of rows that are not seen is 0");
    layer_test_note(test, run_host(test, &c) == CLATTN_OK && same_bits(&c, all, available(p)),
                    "NaN in context that is not seen");
    for (int i = 0; i < GRADIENTS; ++i) {
        free(all[i]);
    }
    end(&c);
}

int main(int argc, char **argv)
{
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/mha_gradients", argc, argv, CALLS);
    if (skip) {
        return skip;
    }
    for (uint64_t i = 0; i < test.count; ++i) {
        random_call(&test, test.first + i);
    }
    if (test.first == 0) {
        bits(&test, CLATTN_MHA_BIASES, CLATTN_FLOAT32);
        bits(&test, CLATTN_MHA_BIASES | CLATTN_MHA_PACKED, CLATTN_BFLOAT16);
        bits(&test, CLATTN_MHA_CROSS | CLATTN_MHA_BIAS_VALUE, CLATTN_FLOAT16);
        hidden_context(&test);
    }
    return layer_test_end(&test);
}
