/* Dot-product attention beside additive attention: parameters, time and memory over lengths and dimensions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../number.h"
#include "clattn_layers.h"
#include "device_time.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define POINTS 4
#define SWEEPS 2
#define LENGTH 512 /* of the sweep over dimensions */
#define DIM 64     /* of the sweep over lengths */
#define LONGEST 2048
#define WIDEST 256

static const int lengths[POINTS] = { 256, 512, 1024, 2048 }, dims[POINTS] = { 32, 64, 128, 256 };

struct pair {
    int length, dim;
    clattn_plan *dot;
    clattn_tensors tensors;
    clattn_additive *additive;
    clattn_additive_arrays arrays;
    double seconds[2], bytes[2], parameters[2]; /* dot, additive */
};

struct study {
    cl_mem query, key, value, out, wq, wk, score, workspace;
    struct pair pairs[SWEEPS][POINTS];
};

static clattn_status enqueue_dot(void *state, cl_command_queue queue)
{
    const struct pair *pair = state;
    return clattn_enqueue_forward(pair->dot, queue, NULL, &pair->tensors, 0, NULL, NULL);
}

static clattn_status enqueue_additive(void *state, cl_command_queue queue)
{
    const struct pair *pair = state;
    return clattn_additive_enqueue(pair->additive, queue, &pair->arrays, 0, NULL, NULL);
}

static clattn_status plan_dot(struct lesson_run *run, const struct study *study, struct pair *pair)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    problem.query_len = problem.key_len = pair->length;
    problem.head_dim = pair->dim;
    problem.matmul = CLATTN_MATMUL_TILES;
    pair->tensors = none;
    pair->tensors.query.buffer = study->query;
    pair->tensors.key.buffer = study->key;
    pair->tensors.value.buffer = study->value;
    pair->tensors.out.buffer = study->out;
    clattn_tensor *const all[4] = { &pair->tensors.query, &pair->tensors.key, &pair->tensors.value,
                                    &pair->tensors.out };
    for (int i = 0; i < 4; ++i) {
        clattn_strides_bhsd(1, pair->length, pair->dim, all[i]->stride);
    }
    return clattn_plan_create(run->context, &problem, &pair->dot);
}

static clattn_status plan_additive(struct lesson_run *run, const struct study *study, struct pair *pair)
{
    clattn_additive_problem problem = CLATTN_ADDITIVE_PROBLEM_INIT;
    const clattn_additive_arrays none = CLATTN_ADDITIVE_ARRAYS_INIT;
    problem.rows = problem.keys = pair->length;
    problem.query_dim = problem.hidden_dim = problem.value_dim = pair->dim;
    pair->arrays = none;
    pair->arrays.query.buffer = study->query;
    pair->arrays.key.buffer = study->key;
    pair->arrays.value.buffer = study->value;
    pair->arrays.out.buffer = study->out;
    pair->arrays.wq.buffer = study->wq;
    pair->arrays.wk.buffer = study->wk;
    pair->arrays.score.buffer = study->score;
    return clattn_additive_create(run->context, &problem, &pair->additive);
}

static clattn_status plan_pair(struct lesson_run *run, const struct study *study, struct pair *pair, size_t *workspace)
{
    const double dim = pair->dim, tensors = 4.0 * pair->length * dim * sizeof(float);
    clattn_status status = plan_dot(run, study, pair);
    if (status == CLATTN_OK) {
        status = plan_additive(run, study, pair);
    }
    const size_t needed[2] = { clattn_plan_workspace(pair->dot), clattn_additive_workspace(pair->additive) };
    for (int i = 0; i < 2; ++i) {
        *workspace = needed[i] > *workspace ? needed[i] : *workspace;
        pair->bytes[i] = tensors + (double)needed[i];
    }
    pair->parameters[0] = 2 * dim * dim;       /* wq and wk, which make the queries and keys of it */
    pair->parameters[1] = 2 * dim * dim + dim; /* wq, wk and the score vector */
    return status;
}

static clattn_status prepare(struct lesson_run *run, struct study *study)
{
    size_t workspace = 0;
    clattn_status status = CLATTN_OK;
    const size_t most = (size_t)LONGEST * DIM > (size_t)LENGTH * WIDEST ? (size_t)LONGEST * DIM
                                                                        : (size_t)LENGTH * WIDEST;
    study->query = device_normal(run, 800, most);
    study->key = device_normal(run, 801, most);
    study->value = device_normal(run, 802, most);
    study->out = device_empty(run, most * sizeof(float));
    study->wq = device_normal(run, 803, WIDEST * WIDEST);
    study->wk = device_normal(run, 804, WIDEST * WIDEST);
    study->score = device_normal(run, 805, WIDEST);
    if (!study->query || !study->key || !study->value || !study->out || !study->wq || !study->wk || !study->score) {
        return CLATTN_OUT_OF_DEVICE_MEMORY;
    }
    for (int i = 0; i < SWEEPS * POINTS && status == CLATTN_OK; ++i) {
        const int sweep = i / POINTS, point = i % POINTS;
        struct pair *pair = &study->pairs[sweep][point];
        pair->length = sweep == 0 ? lengths[point] : LENGTH;
        pair->dim = sweep == 0 ? DIM : dims[point];
        status = plan_pair(run, study, pair, &workspace);
    }
    study->workspace = status == CLATTN_OK ? device_empty(run, workspace) : NULL;
    for (int i = 0; i < SWEEPS * POINTS; ++i) {
        struct pair *pair = &study->pairs[i / POINTS][i % POINTS];
        pair->tensors.workspace = pair->arrays.workspace = study->workspace;
    }
    return status == CLATTN_OK && !study->workspace ? CLATTN_OUT_OF_DEVICE_MEMORY : status;
}

static clattn_status measure(struct lesson_run *run, struct study *study)
{
    struct device_job jobs[2 * SWEEPS * POINTS];
    for (int i = 0; i < SWEEPS * POINTS; ++i) {
        struct pair *pair = &study->pairs[i / POINTS][i % POINTS];
        jobs[2 * i] = (struct device_job){ enqueue_dot, pair, 0 };
        jobs[2 * i + 1] = (struct device_job){ enqueue_additive, pair, 0 };
    }
    const clattn_status status = device_measure(run, jobs, 2 * SWEEPS * POINTS, 2.0, 4);
    for (int i = 0; i < 2 * SWEEPS * POINTS; ++i) {
        study->pairs[i / 2 / POINTS][i / 2 % POINTS].seconds[i % 2] = jobs[i].work_seconds;
    }
    return status;
}

static void release(struct study *study)
{
    const cl_mem buffers[8] = { study->query, study->key, study->value, study->out,
                                study->wq,    study->wk,  study->score, study->workspace };
    for (int i = 0; i < SWEEPS * POINTS; ++i) {
        clattn_plan_destroy(study->pairs[i / POINTS][i % POINTS].dot);
        clattn_additive_destroy(study->pairs[i / POINTS][i % POINTS].additive);
    }
    for (int i = 0; i < 8; ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

static void tell_results(struct lesson_run *run, const struct study *study)
{
    struct page *page = run->page;
    double least = INFINITY, most = 0;
    page_table_caption(
        page, "One call of each form; the last column is the time of additive attention over that of the dot product");
    page_row(page, "n|d|parameters: dot|additive|time: dot|additive|memory: dot|additive|slower");
    for (int i = 0; i < SWEEPS * POINTS; ++i) {
        const struct pair *p = &study->pairs[i / POINTS][i % POINTS];
        const double ratio = p->seconds[1] / p->seconds[0];
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        char time[2][NUMBER_TEXT];
        page_row(page, "%d|%d|%.0f|%.0f|%s ms|%s ms|%.2f MiB|%.2f MiB|%.1f", p->length, p->dim, p->parameters[0],
                 p->parameters[1], number_text(1e3 * p->seconds[0], 3, time[0]),
                 number_text(1e3 * p->seconds[1], 3, time[1]), p->bytes[0] / 1048576, p->bytes[1] / 1048576, ratio);
    }
    page_table_end(page);
    const struct pair *longest = &study->pairs[0][POINTS - 1];
    page_figure(page, least, "least ratio");
    page_figure(page, longest->bytes[1] / longest->bytes[0], "memory ratio");
    page_figure(page, longest->parameters[1], "parameters");
    page_conclusion(page,
                    "Additive attention takes %.1f to %.1f times as long, because a tanh for every pair and hidden "
                    "unit takes the place of a multiply-add; at length %d it needs %.1f times the memory. Their "
                    "parameters are nearly the same, %.0f and %.0f, both with their two projections: what additive "
                    "attention has more is one vector.",
                    least, most, longest->length, longest->bytes[1] / longest->bytes[0], longest->parameters[0],
                    longest->parameters[1]);
}

static void draw(struct lesson_run *run, const struct study *study)
{
    static const char *const labels[2] = { "dot product", "additive" };
    const char *time = device_is_cpu(run) ? "time of all processors (ms)" : "time (ms)";
    struct chart_panel *panels[3] = {
        chart_add(run->chart, "Time against length (d = 64)", "length n", time, AXIS_LOG, AXIS_LOG),
        chart_add(run->chart, "Time against dimension (n = 512)", "dimension d", time, AXIS_LOG, AXIS_LOG),
        chart_add(run->chart, "Memory against length (d = 64)", "length n", "memory (MiB)", AXIS_LOG, AXIS_LOG),
    };
    for (int kind = 0; kind < 2; ++kind) {
        double x[3][POINTS], y[3][POINTS];
        for (int i = 0; i < POINTS; ++i) {
            x[0][i] = x[2][i] = lengths[i];
            x[1][i] = dims[i];
            y[0][i] = 1e3 * study->pairs[0][i].seconds[kind];
            y[1][i] = 1e3 * study->pairs[1][i].seconds[kind];
            y[2][i] = study->pairs[0][i].bytes[kind] / 1048576;
        }
        for (int i = 0; i < 3; ++i) {
            chart_line(run->chart, panels[i], labels[kind], POINTS, x[i], y[i], 1);
        }
    }
}

int lesson_additive(struct lesson_run *run)
{
    struct study *study = calloc(1, sizeof(*study));
    clattn_status status = CLATTN_OUT_OF_HOST_MEMORY;
    chart_begin(run->chart, "Dot-product and additive attention", 3);
    page_paragraph(run->page,
                   "Additive attention (Bahdanau, Cho and Bengio, 2014) scores a pair by v . tanh(Wq q + Wk k), "
                   "a small network; the dot product scores it by q . k. One head of dimension d, n queries and "
                   "n keys, as many hidden units "
                   "as dimensions, float32; shortest of several calls, in turns%s. Parameters are those of both "
                   "projections, Wq and Wk, and of v. The additive call computes its projections itself; those of the "
                   "dot product are not in its time: they would multiply d / n as much again.",
                   device_is_cpu(run) ? ", in time of all processors" : "");
    page_formula(run->page, "dot product: s_ij = q_i . k_j / sqrt(d)     additive: s_ij = v . tanh(Wq q_i + Wk k_j)",
                 SUB(MI("s"), MI("i") MI("j")) MO("=")
                     OVER(SUB(MI("q"), MI("i")) MO("&#x22c5;") SUB(MI("k"), MI("j")), ROOT(MI("d")))
                         MO(",") "<mspace width=\"1em\"/>" SUB(MI("s"), MI("i") MI("j")) MO("=") MI("v") MO("&#x22c5;")
                             FUNCTION("tanh") PAREN(SUB(MI("W"), MI("q")) SUB(MI("q"), MI("i")) MO("+")
                                                        SUB(MI("W"), MI("k")) SUB(MI("k"), MI("j"))));
    page_picture(run->page, "Time against length and against dimension, and memory against length, of both forms. The "
                            "curves run side by side: the same growth, with another factor.");
    if (study) {
        status = prepare(run, study);
        if (status == CLATTN_OK) {
            status = measure(run, study);
        }
        if (status == CLATTN_OK) {
            draw(run, study);
            tell_results(run, study);
        }
        release(study);
    }
    free(study);
    return status == CLATTN_OK ? 0 : lesson_failed(run, status);
}
