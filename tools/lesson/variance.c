/* Dot products of random vectors: their variance is the dimension, and what to divide them by. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define SAMPLES 100000
#define BINS 120
#define DIMENSIONS 14

static const int dimensions[DIMENSIONS] = { 1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1000, 1024 };

/* What the scores are multiplied by. */
enum scaling { RAW, ROOT, FULL, SCALINGS };

struct study {
    double dimension[DIMENSIONS], variance[SCALINGS][DIMENSIONS], error[SCALINGS][DIMENSIONS];
    struct chart_panel *raw, *scaled; /* histograms */
};

/* Scores of `blocks` times side queries and side keys of random numbers, by the device. */
struct scores {
    size_t blocks, side;
    float *values; /* blocks * side * side; owned */
};

static clattn_status compute_scores(struct lesson_run *run, int dimension, double scale, const float *vectors,
                                    struct scores *scores)
{
    const struct attend call = {
        .batch = (int64_t)scores->blocks,
        .rows = (int64_t)scores->side,
        .keys = (int64_t)scores->side,
        .dim = dimension,
        .scale = scale,
        .query = vectors,
        .key = vectors + scores->blocks * scores->side * (size_t)dimension,
        .mode = CLATTN_WEIGHTS_SCORES,
        .weights = scores->values,
    };
    return attend(run, &call);
}

static double scale_of(enum scaling scaling, int dimension)
{
    return scaling == RAW ? 1 : scaling == ROOT ? 1 / sqrt((double)dimension) : 1 / (double)dimension;
}

static void draw_histogram(struct lesson_run *run, struct chart_panel *panel, int dimension, double limit,
                           const struct scores *scores)
{
    double density[BINS], middle[BINS];
    char label[32];
    for (int i = 0; i < BINS; ++i) {
        middle[i] = -limit + (i + 0.5) * 2 * limit / BINS;
    }
    sample_density(scores->values, scores->blocks * scores->side * scores->side, -limit, limit, BINS, density);
    snprintf(label, sizeof(label), "dimension %d", dimension);
    chart_line(run->chart, panel, label, BINS, middle, density, 0);
}

static clattn_status study_dimension(struct lesson_run *run, struct study *study, int index)
{
    const int dimension = dimensions[index];
    /* Blocks of side x side pairs need fewer random numbers; of small dimensions every pair has its own. */
    struct scores scores = { 0, (size_t)(dimension + 15) / 16, NULL };
    scores.blocks = (SAMPLES + scores.side * scores.side - 1) / (scores.side * scores.side);
    scores.blocks = scores.blocks < 25 ? 25 : scores.blocks;
    const size_t count = 2 * scores.blocks * scores.side * (size_t)dimension;
    float *vectors = malloc(count * sizeof(*vectors));
    scores.values = malloc(scores.blocks * scores.side * scores.side * sizeof(*scores.values));
    clattn_status status = vectors && scores.values ? CLATTN_OK : CLATTN_OUT_OF_HOST_MEMORY;
    if (status == CLATTN_OK) {
        sample_normal(run->seed, (uint32_t)index, vectors, count);
    }
    study->dimension[index] = dimension;
    for (enum scaling scaling = RAW; scaling < SCALINGS && status == CLATTN_OK; ++scaling) {
        status = compute_scores(run, dimension, scale_of(scaling, dimension), vectors, &scores);
        if (status != CLATTN_OK) {
            break;
        }
        const struct sampled_variance estimate =
            sample_variance(scores.values, scores.blocks, scores.side * scores.side);
        study->variance[scaling][index] = estimate.value;
        study->error[scaling][index] = estimate.standard_error;
        if (scaling != FULL && (dimension == 3 || dimension == 100 || dimension == 1000)) {
            draw_histogram(run, scaling == RAW ? study->raw : study->scaled, dimension, scaling == RAW ? 50 : 5,
                           &scores);
        }
    }
    free(vectors);
    free(scores.values);
    return status;
}

static void tell_results(struct lesson_run *run, const struct study *study)
{
    struct page *page = run->page;
    double worst = 0;
    page_table_caption(page,
                       "The dot products' variance, its standard error, and what is left of it after each scaling");
    page_row(page, "dimension n|variance|standard error|after 1/sqrt(n)|after 1/n");
    for (int i = 0; i < DIMENSIONS; ++i) {
        page_row(page, "%d|%.4g|%.2g|%.4f|%.5f", dimensions[i], study->variance[RAW][i], study->error[RAW][i],
                 study->variance[ROOT][i], study->variance[FULL][i]);
        const double away = fabs(study->variance[ROOT][i] - 1) / study->error[ROOT][i];
        worst = away > worst ? away : worst;
        page_figure(page, away, "scaled %d", dimensions[i]);
    }
    page_table_end(page);
    const struct line_fit fit = sample_fit(DIMENSIONS, study->dimension, study->variance[RAW], study->error[RAW]);
    page_figure(page, fit.slope, "slope");
    page_figure(page, fit.slope_error, "slope error");
    page_figure(page, fit.r_squared, "r squared");
    page_paragraph(page, "Fitted line: variance = %.4f n %c %.3f, slope %.4f +- %.4f, R^2 = %.4f.", fit.slope,
                   fit.intercept < 0 ? '-' : '+', fabs(fit.intercept), fit.slope, fit.slope_error, fit.r_squared);
    page_conclusion(page,
                    "The variance of a dot product grows with the dimension, by %.4f +- %.4f a dimension; divided "
                    "by the square root of the dimension it is 1 at every dimension (at most %.1f standard errors "
                    "away), and divided by the dimension itself it falls to %.2g: all weights would be alike.",
                    fit.slope, fit.slope_error, worst, study->variance[FULL][DIMENSIONS - 1]);
}

static void draw(struct lesson_run *run, const struct study *study)
{
    struct chart_panel *panel = chart_add(run->chart, "Variance against dimension", "dimension n",
                                          "variance of the scores", AXIS_LOG, AXIS_LOG);
    chart_line(run->chart, panel, "q . k", DIMENSIONS, study->dimension, study->variance[RAW], 1);
    chart_line(run->chart, panel, "q . k / sqrt(n)", DIMENSIONS, study->dimension, study->variance[ROOT], 1);
    chart_line(run->chart, panel, "q . k / n", DIMENSIONS, study->dimension, study->variance[FULL], 1);
}

int lesson_variance(struct lesson_run *run)
{
    struct study study;
    chart_begin(run->chart, "Dot products of random vectors, and what to divide them by", 3);
    page_paragraph(run->page,
                   "Queries and keys with normal random components, mean 0 and variance 1: at least %d "
                   "dot products at each dimension, computed on the device, unscaled, times 1/sqrt(n) and times "
                   "1/n.",
                   SAMPLES);
    page_formula(run->page, "Var(q . k) = sum_c Var(q_c k_c) = n,   Var(q . k / sqrt(n)) = 1",
                 FUNCTION("Var") PAREN(MI("q") MO("&#x22c5;") MI("k")) MO("=") SUM(MI("c")) FUNCTION("Var")
                     PAREN(SUB(MI("q"), MI("c")) SUB(MI("k"), MI("c"))) MO("=") MI("n")
                         MO(",") "<mspace width=\"1em\"/>" FUNCTION("Var")
                             PAREN(OVER(MI("q") MO("&#x22c5;") MI("k"), ROOT(MI("n")))) MO("=") MN("1"));
    page_picture(run->page, "How widely the dot products spread at a few dimensions, unscaled and times 1/sqrt(n), and "
                            "their variance against the dimension: it grows as n, stays 1, or falls as 1/n.");
    study.raw = chart_add(run->chart, "Unscaled scores", "q . k", "density", AXIS_LINEAR, AXIS_LINEAR);
    study.scaled =
        chart_add(run->chart, "Scores times 1/sqrt(n)", "q . k / sqrt(n)", "density", AXIS_LINEAR, AXIS_LINEAR);
    for (int i = 0; i < DIMENSIONS; ++i) {
        const clattn_status status = study_dimension(run, &study, i);
        if (status != CLATTN_OK) {
            return lesson_failed(run, status);
        }
    }
    draw(run, &study);
    tell_results(run, &study);
    return 0;
}
