/* Time and memory of attention against length for the plain, staged and fused strategies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../number.h"
#include "device_time.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define LENGTHS 5
#define KINDS 3
#define DIM 64
#define LONGEST 4096

static const struct kind {
    const char *label;
    const char *strategy; /* NULL: the best, which is fused */
    int lengths[LENGTHS];
} kinds[KINDS] = {
    { "plain", "plain", { 128, 181, 256, 362, 512 } },
    { "staged", "staged", { 1024, 1448, 2048, 2896, 4096 } },
    { "fused", NULL, { 1024, 1448, 2048, 2896, 4096 } },
};

struct timed_call {
    clattn_plan *plan;
    clattn_tensors tensors;
};

struct study {
    cl_mem query, key, value, out, workspace;
    struct timed_call calls[KINDS][LENGTHS];
    double length[KINDS][LENGTHS], work[KINDS][LENGTHS];
    double tensors[KINDS][LENGTHS], workspace_bytes[KINDS][LENGTHS];
    char strategy[KINDS][32];
};

static clattn_status enqueue(void *state, cl_command_queue queue)
{
    const struct timed_call *call = state;
    return clattn_enqueue_forward(call->plan, queue, NULL, &call->tensors, 0, NULL, NULL);
}

static clattn_status make_plan(struct lesson_run *run, struct study *study, int kind, int index)
{
    const int length = kinds[kind].lengths[index];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    struct timed_call *call = &study->calls[kind][index];
    problem.query_len = problem.key_len = length;
    problem.head_dim = DIM;
    problem.matmul = CLATTN_MATMUL_TILES; /* CLBlast builds for half a minute where it never ran */
    problem.strategy = kinds[kind].strategy;
    const clattn_status status = clattn_plan_create(run->context, &problem, &call->plan);
    if (status != CLATTN_OK) {
        return status;
    }
    call->tensors = none;
    call->tensors.query.buffer = study->query;
    call->tensors.key.buffer = study->key;
    call->tensors.value.buffer = study->value;
    call->tensors.out.buffer = study->out;
    clattn_tensor *const all[4] = { &call->tensors.query, &call->tensors.key, &call->tensors.value,
                                    &call->tensors.out };
    for (int i = 0; i < 4; ++i) {
        clattn_strides_bhsd(1, length, DIM, all[i]->stride);
    }
    snprintf(study->strategy[kind], sizeof(study->strategy[kind]), "%s", clattn_plan_strategy(call->plan));
    study->length[kind][index] = length;
    study->tensors[kind][index] = 4.0 * length * DIM * sizeof(float);
    study->workspace_bytes[kind][index] = (double)clattn_plan_workspace(call->plan);
    return CLATTN_OK;
}

static clattn_status prepare(struct lesson_run *run, struct study *study)
{
    size_t workspace = 0;
    clattn_status status = CLATTN_OK;
    study->query = device_normal(run, 700, LONGEST * DIM);
    study->key = device_normal(run, 701, LONGEST * DIM);
    study->value = device_normal(run, 702, LONGEST * DIM);
    study->out = device_empty(run, LONGEST * DIM * sizeof(float));
    if (!study->query || !study->key || !study->value || !study->out) {
        return CLATTN_OUT_OF_DEVICE_MEMORY;
    }
    for (int kind = 0; kind < KINDS; ++kind) {
        for (int i = 0; i < LENGTHS && status == CLATTN_OK; ++i) {
            status = make_plan(run, study, kind, i);
            const size_t needed = clattn_plan_workspace(study->calls[kind][i].plan);
            workspace = needed > workspace ? needed : workspace;
        }
    }
    study->workspace = status == CLATTN_OK ? device_empty(run, workspace) : NULL;
    for (int kind = 0; kind < KINDS; ++kind) {
        for (int i = 0; i < LENGTHS; ++i) {
            study->calls[kind][i].tensors.workspace = study->workspace;
        }
    }
    return status == CLATTN_OK && !study->workspace ? CLATTN_OUT_OF_DEVICE_MEMORY : status;
}

static clattn_status measure(struct lesson_run *run, struct study *study)
{
    struct device_job jobs[KINDS * LENGTHS];
    for (int i = 0; i < KINDS * LENGTHS; ++i) {
        jobs[i].enqueue = enqueue;
        jobs[i].state = &study->calls[i / LENGTHS][i % LENGTHS];
    }
    const clattn_status status = device_measure(run, jobs, KINDS * LENGTHS, 3.0, 4);
    for (int i = 0; i < KINDS * LENGTHS; ++i) {
        study->work[i / LENGTHS][i % LENGTHS] = jobs[i].work_seconds;
    }
    return status;
}

static void release(struct study *study)
{
    const cl_mem buffers[5] = { study->query, study->key, study->value, study->out, study->workspace };
    for (int i = 0; i < KINDS * LENGTHS; ++i) {
        clattn_plan_destroy(study->calls[i / LENGTHS][i % LENGTHS].plan);
    }
    for (int i = 0; i < 5; ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

static void tell_results(struct lesson_run *run, struct study *study)
{
    struct page *page = run->page;
    double time[KINDS], memory[KINDS];
    page_table_caption(page, "A call of each length: its time, the memory of its tensors, and what it needs besides");
    page_row(page, "strategy|length n|time|inputs and output|beyond them");
    for (int kind = 0; kind < KINDS; ++kind) {
        for (int i = 0; i < LENGTHS; i += 2) {
            char shortest[NUMBER_TEXT];
            page_row(page, "%s|%d|%s ms|%.2f MiB|%.2f MiB", study->strategy[kind], kinds[kind].lengths[i],
                     number_text(1e3 * study->work[kind][i], 3, shortest), study->tensors[kind][i] / 1048576,
                     study->workspace_bytes[kind][i] / 1048576);
        }
    }
    page_table_end(page);
    page_table_caption(page, "The power of n that fits each");
    page_row(page, "strategy|time grows as|memory grows as");
    for (int kind = 0; kind < KINDS; ++kind) {
        const int has_workspace = study->workspace_bytes[kind][LENGTHS - 1] > 0;
        time[kind] = sample_fit_power(LENGTHS, study->length[kind], study->work[kind]).slope;
        memory[kind] = sample_fit_power(LENGTHS, study->length[kind],
                                        has_workspace ? study->workspace_bytes[kind] : study->tensors[kind])
                           .slope;
        page_row(page, "%s|n^%.2f|n^%.2f%s", study->strategy[kind], time[kind], memory[kind],
                 has_workspace ? " beyond its inputs" : ", inputs and output only");
        page_figure(page, time[kind], "time %s", kinds[kind].label);
        page_figure(page, memory[kind], "memory %s", kinds[kind].label);
    }
    page_table_end(page);
    page_conclusion(page,
                    "All three take time that grows as the square of the length (n^%.2f, n^%.2f, n^%.2f); the matrix "
                    "of scores makes the memory of %s grow as n^%.2f, where %s needs n^%.2f, and at n = %d it is "
                    "%.1f times as fast.",
                    time[0], time[1], time[2], study->strategy[1], memory[1], study->strategy[2], memory[2], LONGEST,
                    study->work[1][LENGTHS - 1] / study->work[2][LENGTHS - 1]);
}

static void draw(struct lesson_run *run, const struct study *study)
{
    struct chart_panel *time = chart_add(run->chart, "Time of one call", "length n (queries and keys)",
                                         device_is_cpu(run) ? "time of all processors (ms)" : "time (ms)", AXIS_LOG,
                                         AXIS_LOG);
    struct chart_panel *memory = chart_add(run->chart, "Device memory of one call", "length n (queries and keys)",
                                           "memory (MiB)", AXIS_LOG, AXIS_LOG);
    for (int kind = 0; kind < KINDS; ++kind) {
        double ms[LENGTHS], mib[LENGTHS];
        for (int i = 0; i < LENGTHS; ++i) {
            ms[i] = 1e3 * study->work[kind][i];
            mib[i] = (study->tensors[kind][i] + study->workspace_bytes[kind][i]) / 1048576;
        }
        chart_line(run->chart, time, study->strategy[kind], LENGTHS, study->length[kind], ms, 1);
        chart_line(run->chart, memory, study->strategy[kind], LENGTHS, study->length[kind], mib, 1);
    }
}

int lesson_complexity(struct lesson_run *run)
{
    struct study *study = calloc(1, sizeof(*study));
    clattn_status status = CLATTN_OUT_OF_HOST_MEMORY;
    chart_begin(run->chart, "Every pair costs time; only some ways cost memory", 2);
    page_paragraph(run->page,
                   "One head of dimension %d, n queries and n keys, float32. Plain computes each score twice and "
                   "keeps none, staged writes the n x n matrix of scores, fused keeps a block of it in registers. "
                   "Shortest of several calls, in turns%s; exponents are fitted to the logarithms.",
                   DIM, device_is_cpu(run) ? ", in time of all processors" : "");
    page_formula(run->page, "multiply-adds: 2 n^2 d,   matrix of scores: n^2,   inputs and output: 4 n d",
                 "<mtext>multiply-adds</mtext>" MO("=") MN("2") POWER(MI("n"), MN("2")) MI("d")
                     MO(",") "<mspace width=\"1em\"/><mtext>scores</mtext>" MO("=") POWER(MI("n"), MN("2"))
                         MO(",") "<mspace width=\"1em\"/><mtext>inputs and output</mtext>" MO("=") MN("4") MI("n")
                             MI("d"));
    page_picture(run->page,
                 "Time and memory of one call against the length, both axes logarithmic: a straight line is a "
                 "power of n, its slope the exponent. Times run in parallel; memory does not.");
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
