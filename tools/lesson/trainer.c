#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../insides.h"
#include "sample.h"

#define RATE 0.003 /* of Adam (Kingma and Ba, 2015), with its usual other constants */
#define MEAN_KEPT 0.9
#define SQUARE_KEPT 0.999
#define EPSILON 1e-8

/* Streams of random numbers. */
enum { STREAM_SYMBOLS = 900, STREAM_PLACES, STREAM_WEIGHTS };
#define UNSEEN_BATCH 1000000

/* ---- the model -------------------------------------------------------------------------------- */

static clattn_mha_problem problem_of(const struct trainer *t, int batch)
{
    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    problem.batch = batch;
    problem.rows = TRAINER_LENGTH;
    problem.model_dim = TRAINER_MODEL;
    problem.query_heads = 1;
    problem.head_dim = TRAINER_DIM;
    problem.head_dim_v = TRAINER_DIM_V;
    problem.out_dim = TRAINER_SYMBOLS;
    problem.has_scale = 1;
    problem.scale = t->scale;
    return problem;
}

static clattn_status make_buffer(const struct trainer *t, size_t bytes, cl_mem *buffer)
{
    cl_int code;
    *buffer = clCreateBuffer(clattn_context_cl(t->context), CL_MEM_READ_WRITE, bytes ? bytes : 1, NULL, &code);
    return *buffer ? CLATTN_OK : error_opencl(code, "clCreateBuffer", "%zu bytes", bytes);
}

static clattn_status write_buffer(const struct trainer *t, cl_mem buffer, const float *values, int count)
{
    const cl_int code = clEnqueueWriteBuffer(clattn_context_queue(t->context), buffer, CL_TRUE, 0,
                                             (size_t)count * sizeof(*values), values, 0, NULL, NULL);
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clEnqueueWriteBuffer", "%d numbers", count);
}

static clattn_status read_buffer(const struct trainer *t, cl_mem buffer, float *values, int count)
{
    const cl_int code = clEnqueueReadBuffer(clattn_context_queue(t->context), buffer, CL_TRUE, 0,
                                            (size_t)count * sizeof(*values), values, 0, NULL, NULL);
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clEnqueueReadBuffer", "%d numbers", count);
}

/* Normal numbers of variance 1 / depth, so that what they make of normal numbers has variance 1. */
static clattn_status make_matrix(struct trainer *t, enum trainer_weight id, int rows, int depth)
{
    struct trainer_matrix *m = &t->matrices[id];
    const size_t bytes = (size_t)(rows * depth) * sizeof(float);
    m->count = rows * depth;
    m->values = malloc(bytes);
    m->gradient = malloc(bytes);
    m->mean = calloc(1, bytes);
    m->square = calloc(1, bytes);
    if (!m->values || !m->gradient || !m->mean || !m->square) {
        return CLATTN_OUT_OF_HOST_MEMORY;
    }
    sample_normal(t->seed, STREAM_WEIGHTS + (uint32_t)id, m->values, (size_t)m->count);
    for (int i = 0; i < m->count; ++i) {
        m->values[i] /= sqrtf((float)depth);
    }
    clattn_status status = make_buffer(t, bytes, &m->buffer);
    if (status == CLATTN_OK) {
        status = make_buffer(t, bytes, &m->gradient_buffer);
    }
    return status == CLATTN_OK ? write_buffer(t, m->buffer, m->values, m->count) : status;
}

static clattn_status plan(struct trainer *t)
{
    clattn_mha_problem problem = problem_of(t, TRAINER_BATCH);
    clattn_mha_backward_problem backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    backward.forward = &problem;
    backward.gradients = CLATTN_MHA_GRADIENT_WQ | CLATTN_MHA_GRADIENT_WK | CLATTN_MHA_GRADIENT_WV |
                         CLATTN_MHA_GRADIENT_WO;
    const clattn_status status = clattn_mha_create(t->context, &problem, &t->forward);
    return status == CLATTN_OK ? clattn_mha_backward_create(t->context, &backward, &t->backward) : status;
}

clattn_status trainer_create(struct trainer *t, clattn_context *context, uint64_t seed, double scale)
{
    static const int shapes[TRAINER_WEIGHTS][2] = { [TRAINER_WQ] = { TRAINER_DIM, TRAINER_MODEL },
                                                    [TRAINER_WK] = { TRAINER_DIM, TRAINER_MODEL },
                                                    [TRAINER_WV] = { TRAINER_DIM_V, TRAINER_MODEL },
                                                    [TRAINER_WO] = { TRAINER_SYMBOLS, TRAINER_DIM_V } };
    memset(t, 0, sizeof(*t));
    t->context = context;
    t->seed = seed;
    t->scale = scale;
    sample_normal(seed, STREAM_SYMBOLS, t->symbols[0], TRAINER_SYMBOLS * TRAINER_CODE);
    sample_normal(seed, STREAM_PLACES, t->places[0], TRAINER_LENGTH * TRAINER_CODE);
    clattn_status status = plan(t);
    for (int id = 0; id < TRAINER_WEIGHTS && status == CLATTN_OK; ++id) {
        status = make_matrix(t, (enum trainer_weight)id, shapes[id][0], shapes[id][1]);
    }
    const struct {
        cl_mem *buffer;
        size_t bytes;
    } buffers[] = { { &t->x, sizeof(t->batch) },
                    { &t->y, sizeof(t->logits) },
                    { &t->dy, sizeof(t->dlogits) },
                    { &t->workspace, clattn_mha_workspace(t->forward) },
                    { &t->backward_workspace, clattn_mha_backward_workspace(t->backward) } };
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]) && status == CLATTN_OK; ++i) {
        status = make_buffer(t, buffers[i].bytes, buffers[i].buffer);
    }
    return status;
}

void trainer_free(struct trainer *t)
{
    for (int id = 0; id < TRAINER_WEIGHTS; ++id) {
        struct trainer_matrix *m = &t->matrices[id];
        const cl_mem buffers[2] = { m->buffer, m->gradient_buffer };
        free(m->values);
        free(m->gradient);
        free(m->mean);
        free(m->square);
        for (int i = 0; i < 2; ++i) {
            if (buffers[i]) {
                clReleaseMemObject(buffers[i]);
            }
        }
    }
    const cl_mem buffers[] = { t->x, t->y, t->dy, t->workspace, t->backward_workspace };
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
    clattn_mha_destroy(t->forward);
    clattn_mha_backward_destroy(t->backward);
}

/* ---- batches ---------------------------------------------------------------------------------- */

/* Random symbols, each as its code and that of its place; the target of a place is the symbol at the mirrored one. */
static void make_batch(struct trainer *t, uint32_t number)
{
    float uniform[TRAINER_ROWS];
    sample_normal(t->seed ^ 0x5bd1e995u, number, uniform, TRAINER_ROWS);
    for (int row = 0; row < TRAINER_ROWS; ++row) {
        const int place = row % TRAINER_LENGTH, mirrored = row - place + TRAINER_LENGTH - 1 - place;
        /* The part of a normal number's distribution below it. */
        const double part = 0.5 * erfc(-(double)uniform[row] / sqrt(2));
        const int symbol = (int)fmin(TRAINER_SYMBOLS - 1, TRAINER_SYMBOLS * part);
        float *x = t->batch + row * TRAINER_MODEL;
        memcpy(x, t->symbols[symbol], sizeof(t->symbols[0]));
        memcpy(x + TRAINER_CODE, t->places[place], sizeof(t->places[0]));
        t->target[mirrored] = symbol;
    }
}

/* The logits' mean loss, share of right rows; the loss's derivative at the logits. */
static void judge(struct trainer *t, double *loss, double *right)
{
    int count = 0;
    *loss = 0;
    for (int row = 0; row < TRAINER_ROWS; ++row) {
        const float *logits = t->logits + row * TRAINER_SYMBOLS;
        float *dlogits = t->dlogits + row * TRAINER_SYMBOLS;
        double sum = 0;
        int best = 0;
        for (int s = 0; s < TRAINER_SYMBOLS; ++s) {
            best = logits[s] > logits[best] ? s : best;
        }
        for (int s = 0; s < TRAINER_SYMBOLS; ++s) {
            sum += exp((double)logits[s] - (double)logits[best]);
        }
        for (int s = 0; s < TRAINER_SYMBOLS; ++s) {
            const double p = exp((double)logits[s] - (double)logits[best]) / sum;
            dlogits[s] = (float)((p - (s == t->target[row])) / TRAINER_ROWS);
        }
        *loss += (log(sum) + (double)logits[best] - (double)logits[t->target[row]]) / TRAINER_ROWS;
        count += best == t->target[row];
    }
    *right = count / (double)TRAINER_ROWS;
}

/* ---- steps ------------------------------------------------------------------------------------ */

static clattn_mha_arrays arrays_of(const struct trainer *t)
{
    clattn_mha_arrays arrays = CLATTN_MHA_ARRAYS_INIT;
    arrays.workspace = t->workspace;
    arrays.x.buffer = t->x;
    arrays.y.buffer = t->y;
    arrays.wq.buffer = t->matrices[TRAINER_WQ].buffer;
    arrays.wk.buffer = t->matrices[TRAINER_WK].buffer;
    arrays.wv.buffer = t->matrices[TRAINER_WV].buffer;
    arrays.wo.buffer = t->matrices[TRAINER_WO].buffer;
    return arrays;
}

static clattn_status predict(struct trainer *t, uint32_t batch, double *loss, double *right)
{
    const clattn_mha_arrays arrays = arrays_of(t);
    make_batch(t, batch);
    clattn_status status = write_buffer(t, t->x, t->batch, TRAINER_ROWS * TRAINER_MODEL);
    if (status == CLATTN_OK) {
        status = clattn_mha_enqueue(t->forward, clattn_context_queue(t->context), &arrays, 0, NULL, NULL);
    }
    if (status == CLATTN_OK) {
        status = read_buffer(t, t->y, t->logits, TRAINER_ROWS * TRAINER_SYMBOLS);
    }
    judge(t, loss, right);
    return status;
}

static clattn_status differentiate(struct trainer *t)
{
    const clattn_mha_arrays arrays = arrays_of(t);
    clattn_mha_gradients gradients = CLATTN_MHA_GRADIENTS_INIT;
    gradients.workspace = t->backward_workspace;
    gradients.dy.buffer = t->dy;
    gradients.dwq.buffer = t->matrices[TRAINER_WQ].gradient_buffer;
    gradients.dwk.buffer = t->matrices[TRAINER_WK].gradient_buffer;
    gradients.dwv.buffer = t->matrices[TRAINER_WV].gradient_buffer;
    gradients.dwo.buffer = t->matrices[TRAINER_WO].gradient_buffer;
    clattn_status status = write_buffer(t, t->dy, t->dlogits, TRAINER_ROWS * TRAINER_SYMBOLS);
    return status == CLATTN_OK ? clattn_mha_backward_enqueue(t->backward, clattn_context_queue(t->context), &arrays,
                                                             &gradients, 0, NULL, NULL)
                               : status;
}

static void move(struct trainer_matrix *m, int step)
{
    const double of_mean = 1 - pow(MEAN_KEPT, step), of_square = 1 - pow(SQUARE_KEPT, step);
    for (int i = 0; i < m->count; ++i) {
        const double g = (double)m->gradient[i];
        const double mean = MEAN_KEPT * (double)m->mean[i] + (1 - MEAN_KEPT) * g;
        const double square = SQUARE_KEPT * (double)m->square[i] + (1 - SQUARE_KEPT) * g * g;
        m->mean[i] = (float)mean;
        m->square[i] = (float)square;
        m->values[i] -= (float)(RATE * mean / of_mean / (sqrt(square / of_square) + EPSILON));
    }
}

clattn_status trainer_step(struct trainer *t, double *loss, double *right)
{
    clattn_status status = predict(t, (uint32_t)t->steps, loss, right);
    if (status == CLATTN_OK) {
        status = differentiate(t);
    }
    ++t->steps;
    for (int id = 0; id < TRAINER_WEIGHTS && status == CLATTN_OK; ++id) {
        struct trainer_matrix *m = &t->matrices[id];
        status = read_buffer(t, m->gradient_buffer, m->gradient, m->count);
        if (status == CLATTN_OK) {
            move(m, t->steps);
            status = write_buffer(t, m->buffer, m->values, m->count);
        }
    }
    return status;
}

clattn_status trainer_test(struct trainer *t, double *loss, double *right)
{
    return predict(t, UNSEEN_BATCH, loss, right);
}

clattn_status trainer_look(struct trainer *t, float weights[TRAINER_LENGTH * TRAINER_LENGTH])
{
    clattn_mha_problem problem = problem_of(t, 1);
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    float y[TRAINER_LENGTH * TRAINER_SYMBOLS];
    problem.weights = CLATTN_MHA_WEIGHTS_HEADS;
    arrays.x = t->batch;
    arrays.y = y;
    arrays.wq = t->matrices[TRAINER_WQ].values;
    arrays.wk = t->matrices[TRAINER_WK].values;
    arrays.wv = t->matrices[TRAINER_WV].values;
    arrays.wo = t->matrices[TRAINER_WO].values;
    arrays.weights = weights;
    return clattn_mha_forward_host(t->context, &problem, &arrays);
}
