/* Softmax naively, with the maximum subtracted, and online, in three storage types: where each breaks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../insides.h"
#include "attend.h"
#include "kernels.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define COLUMNS 64
#define STEPS 1600 /* shifts from -200 to 200 */
#define STEP 0.25

enum form { NAIVE, MAXIMUM, ONLINE, FORMS };
static const char *const form_names[FORMS] = { "naive", "maximum subtracted", "online" };
static const clattn_type types[3] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };

struct study {
    float *scores, *weights; /* [STEPS][COLUMNS] */
    double shift[STEPS], error[3][FORMS][STEPS];
    double low[3][FORMS], high[3][FORMS]; /* the shifts between which it works */
};

static double shift_of(int step)
{
    return (step - STEPS / 2) * STEP;
}

/* Equal scores in every row, moved; multiples of 1/4, so that they are exact in float16. */
static void fill_scores(uint64_t seed, float *scores)
{
    float normal[COLUMNS];
    sample_normal(seed, 600, normal, COLUMNS);
    for (int step = 0; step < STEPS; ++step) {
        for (int j = 0; j < COLUMNS; ++j) {
            scores[step * COLUMNS + j] = (float)(shift_of(step) + 0.25 * rint(4 * (double)normal[j]));
        }
    }
}

static clattn_status launch_form(struct lesson_run *run, struct kernel *kernel, cl_mem scores, cl_mem weights)
{
    struct chain chain;
    const cl_int columns = COLUMNS;
    const size_t global[1] = { STEPS }, local[1] = { 1 };
    const struct launch_argument arguments[] = { ARGUMENT(columns), ARGUMENT(scores), ARGUMENT(weights) };
    clattn_status status = chain_begin(&chain, clattn_context_queue(run->context), 0, NULL, NULL);
    if (status == CLATTN_OK) {
        status = chain_end(&chain, launch(&chain, kernel, 1, global, local, 3, arguments));
    }
    return status;
}

static clattn_status compute(struct lesson_run *run, clattn_type type, enum form form, struct study *study)
{
    char options[48];
    struct kernel *kernel;
    const size_t bytes = sizeof(float) * STEPS * COLUMNS;
    cl_int code = CL_SUCCESS;
    snprintf(options, sizeof(options), "-D TYPE=%d -D FORM=%d", (int)type, (int)form);
    program_own_kernels(run->context, &lesson_kernels);
    clattn_status status = program_kernel(run->context, "softmax.cl", options, "lesson_softmax", &kernel);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_mem scores = clCreateBuffer(clattn_context_cl(run->context), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                   study->scores, &code);
    cl_mem weights = clCreateBuffer(clattn_context_cl(run->context), CL_MEM_READ_WRITE, bytes, NULL, NULL);
    status = scores && weights ? launch_form(run, kernel, scores, weights) : CLATTN_OUT_OF_DEVICE_MEMORY;
    if (status == CLATTN_OK) {
        code = clEnqueueReadBuffer(clattn_context_queue(run->context), weights, CL_TRUE, 0, bytes, study->weights, 0,
                                   NULL, NULL);
        status = code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clEnqueueReadBuffer", "weights");
    }
    if (scores) {
        clReleaseMemObject(scores);
    }
    if (weights) {
        clReleaseMemObject(weights);
    }
    return status;
}

/* Largest error of a row against float64; infinite where the row does not sum to about 1. */
static double row_error(const float *scores, const float *weights)
{
    float row_maximum = -INFINITY; /* of floats by fmaxf: by fmax, GCC 12 for AArch64 dies of an internal error */
    double sum = 0, error = 0, total = 0;
    for (int j = 0; j < COLUMNS; ++j) {
        row_maximum = fmaxf(row_maximum, scores[j]);
    }
    const double maximum = row_maximum;
    for (int j = 0; j < COLUMNS; ++j) {
        sum += exp(scores[j] - maximum);
        total += weights[j];
    }
    for (int j = 0; j < COLUMNS; ++j) {
        error = fmax(error, fabs(weights[j] - exp(scores[j] - maximum) / sum));
    }
    return fabs(total - 1) < 0.1 ? error : INFINITY; /* NaN, infinities and rows of zeros too */
}

/* The interval around 0 in which every row is good. */
static void find_limits(struct study *study, int type, enum form form)
{
    int low = STEPS / 2, high = STEPS / 2;
    while (low > 0 && isfinite(study->error[type][form][low - 1])) {
        --low;
    }
    while (high + 1 < STEPS && isfinite(study->error[type][form][high + 1])) {
        ++high;
    }
    study->low[type][form] = low == 0 ? -INFINITY : shift_of(low);
    study->high[type][form] = high == STEPS - 1 ? INFINITY : shift_of(high);
}

static void limit_text(double limit, char *text, size_t size)
{
    if (isinf(limit)) {
        snprintf(text, size, "no limit to %g", limit > 0 ? shift_of(STEPS - 1) : shift_of(0));
    } else {
        snprintf(text, size, "%.2f", limit);
    }
}

static void tell_results(struct lesson_run *run, const struct study *study, double attention_error)
{
    struct page *page = run->page;
    page_table_caption(
        page,
        "Mean scores between which every weight is a number, and the largest error of one where nothing was moved");
    page_row(page, "form|type|works from a mean score of|up to|largest error at 0");
    for (int type = 0; type < 3; ++type) {
        for (enum form form = NAIVE; form < FORMS; ++form) {
            char low[32], high[32];
            limit_text(study->low[type][form], low, sizeof(low));
            limit_text(study->high[type][form], high, sizeof(high));
            page_row(page, "%s|%s|%s|%s|%.2g", form_names[form], clattn_type_name(types[type]), low, high,
                     study->error[type][form][STEPS / 2]);
            page_figure(page, study->high[type][form], "high %s %s", clattn_type_name(types[type]), form_names[form]);
            page_figure(page, study->low[type][form], "low %s %s", clattn_type_name(types[type]), form_names[form]);
        }
    }
    page_table_end(page);
    page_figure(page, attention_error, "attention error");
    page_conclusion(page,
                    "The naive form overflows where scores are about %.0f in float32 and %.0f in float16, and "
                    "loses all rows below %.0f and %.0f; with the maximum subtracted, in two passes or online, no "
                    "shift breaks it, and clattn's attention gives the same scores, moved by +-10,000, with an error "
                    "of %.1g.",
                    study->high[0][NAIVE], study->high[1][NAIVE], study->low[0][NAIVE], study->low[1][NAIVE],
                    attention_error);
}

static void draw(struct lesson_run *run, const struct study *study)
{
    for (int type = 0; type < 2; ++type) {
        char title[64];
        snprintf(title, sizeof(title), "Every step rounded to %s", clattn_type_name(types[type]));
        struct chart_panel *panel =
            chart_add(run->chart, title, "mean score of the row", "largest error of a weight", AXIS_LINEAR, AXIS_LOG);
        panel->y_low = 1e-9;
        panel->y_high = 1;
        for (enum form form = NAIVE; form < FORMS; ++form) {
            chart_line(run->chart, panel, form_names[form], STEPS, study->shift, study->error[type][form], 0);
        }
    }
}

/* These scores, moved far away, as dot products of attention: [1, shift] . [score, 1]. */
static clattn_status study_attention(struct lesson_run *run, const struct study *study, double *error)
{
    float keys[COLUMNS * 2], weights[COLUMNS];
    const float *row = study->scores + (STEPS / 2) * COLUMNS;
    clattn_status status = CLATTN_OK;
    *error = 0;
    for (int sign = -1; sign <= 1 && status == CLATTN_OK; sign += 2) {
        const float query[2] = { 1, (float)sign * 10000 };
        const struct attend call = { .batch = 1,
                                     .rows = 1,
                                     .keys = COLUMNS,
                                     .dim = 2,
                                     .scale = 1,
                                     .query = query,
                                     .key = keys,
                                     .mode = CLATTN_WEIGHTS_SOFTMAX,
                                     .weights = weights };
        for (int j = 0; j < COLUMNS; ++j) {
            keys[2 * j] = row[j];
            keys[2 * j + 1] = 1;
        }
        status = attend(run, &call);
        *error = fmax(*error, status == CLATTN_OK ? row_error(row, weights) : 0);
    }
    return status;
}

static clattn_status study_all(struct lesson_run *run, struct study *study, double *attention_error)
{
    clattn_status status = CLATTN_OK;
    fill_scores(run->seed, study->scores);
    for (int step = 0; step < STEPS; ++step) {
        study->shift[step] = shift_of(step);
    }
    for (int type = 0; type < 3; ++type) {
        for (enum form form = NAIVE; form < FORMS && status == CLATTN_OK; ++form) {
            status = compute(run, types[type], form, study);
            for (int step = 0; step < STEPS && status == CLATTN_OK; ++step) {
                study->error[type][form][step] =
                    row_error(study->scores + step * COLUMNS, study->weights + step * COLUMNS);
            }
            find_limits(study, type, form);
        }
    }
    return status == CLATTN_OK ? study_attention(run, study, attention_error) : status;
}

int lesson_stability(struct lesson_run *run)
{
    struct study *study = calloc(1, sizeof(*study));
    double attention_error = 0;
    clattn_status status = CLATTN_OUT_OF_HOST_MEMORY;
    chart_begin(run->chart, "The same 64 scores, moved: a curve ends where its form breaks", 2);
    page_paragraph(run->page,
                   "Adding a number to all scores does not change softmax, but exp has a range: e^88.7 is the largest "
                   "float32, e^11.09 the largest float16. %d rows of %d scores, each row moved by another %g, "
                   "in three forms, every step rounded to the type.",
                   STEPS, COLUMNS, STEP);
    page_formula(run->page, "e^(s_j) / sum_l e^(s_l)  =  e^(s_j - m) / sum_l e^(s_l - m),   m = max s",
                 OVER(POWER(MI("e"), SUB(MI("s"), MI("j"))), SUM(MI("l")) POWER(MI("e"), SUB(MI("s"), MI("l")))) MO("=")
                     OVER(POWER(MI("e"), SUB(MI("s"), MI("j")) MO("-") MI("m")),
                          SUM(MI("l")) POWER(MI("e"), SUB(MI("s"), MI("l")) MO("-") MI("m")))
                         MO(",") "<mspace width=\"1em\"/>" MI("m") MO("=") FUNCTION_OF("max") MI("s"));
    page_picture(run->page, "The largest error of a weight against how far the scores were moved, a curve a form, in "
                            "float32 and in float16. A curve ends where the form gives infinity or NaN.");
    if (study) {
        study->scores = malloc(sizeof(float) * STEPS * COLUMNS);
        study->weights = malloc(sizeof(float) * STEPS * COLUMNS);
        if (study->scores && study->weights) {
            status = study_all(run, study, &attention_error);
        }
        if (status == CLATTN_OK) {
            draw(run, study);
            tell_results(run, study, attention_error);
        }
        free(study->scores);
        free(study->weights);
    }
    free(study);
    return status == CLATTN_OK ? 0 : lesson_failed(run, status);
}
