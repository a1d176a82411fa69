/* Softmax of two scores, and of random scores against dimension: entropy and the largest weight. */
#include <math.h>
#include <stdlib.h>

#include "attend.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define KEYS 64
#define ROWS 64
#define BATCH 25 /* 64 * 64 * 25 = 102,400 weights */
#define DIMENSIONS 11

static const int dimensions[DIMENSIONS] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };

/* softmax([a, b]) as attention: a query of 1 and keys a, b. */
static clattn_status pair(struct lesson_run *run, float a, float b, float weights[2])
{
    const float query[1] = { 1 }, keys[2] = { a, b };
    const struct attend call = { .batch = 1,
                                 .rows = 1,
                                 .keys = 2,
                                 .dim = 1,
                                 .scale = 1,
                                 .query = query,
                                 .key = keys,
                                 .mode = CLATTN_WEIGHTS_SOFTMAX,
                                 .weights = weights };
    return attend(run, &call);
}

struct saturation {
    double dimension[DIMENSIONS], entropy[2][DIMENSIONS], largest[2][DIMENSIONS]; /* unscaled, scaled */
};

/* Means over all rows. */
static void measure(const float *weights, double *entropy, double *largest)
{
    *entropy = *largest = 0;
    for (int row = 0; row < ROWS * BATCH; ++row) {
        double most = 0;
        for (int key = 0; key < KEYS; ++key) {
            const double p = weights[row * KEYS + key];
            *entropy -= p > 0 ? p * log2(p) : 0;
            most = p > most ? p : most;
        }
        *largest += most;
    }
    *entropy /= ROWS * BATCH;
    *largest /= ROWS * BATCH;
}

static clattn_status study_dimension(struct lesson_run *run, struct saturation *study, int index)
{
    const int dimension = dimensions[index];
    const size_t count = (size_t)BATCH * (ROWS + KEYS) * (size_t)dimension;
    float *vectors = malloc(count * sizeof(*vectors));
    float *weights = malloc(sizeof(*weights) * BATCH * ROWS * KEYS);
    clattn_status status = vectors && weights ? CLATTN_OK : CLATTN_OUT_OF_HOST_MEMORY;
    if (status == CLATTN_OK) {
        sample_normal(run->seed, 100 + (uint32_t)index, vectors, count);
    }
    study->dimension[index] = dimension;
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; ++scaled) {
        const struct attend call = { .batch = BATCH,
                                     .rows = ROWS,
                                     .keys = KEYS,
                                     .dim = dimension,
                                     .scale = scaled ? 1 / sqrt((double)dimension) : 1,
                                     .query = vectors,
                                     .key = vectors + (size_t)BATCH * ROWS * (size_t)dimension,
                                     .mode = CLATTN_WEIGHTS_SOFTMAX,
                                     .weights = weights };
        status = attend(run, &call);
        if (status == CLATTN_OK) {
            measure(weights, &study->entropy[scaled][index], &study->largest[scaled][index]);
        }
    }
    free(vectors);
    free(weights);
    return status;
}

static clattn_status tell_pairs(struct lesson_run *run, float last[2])
{
    static const float pairs[3][2] = { { 4, 5 }, { 1, 10 }, { 1, 10 } };
    clattn_status status = CLATTN_OK;
    page_row(run->page, "scores|first weight|second weight");
    for (int i = 0; i < 3 && status == CLATTN_OK; ++i) {
        const float divisor = i == 2 ? 1.7320508f : 1;
        status = pair(run, pairs[i][0] / divisor, pairs[i][1] / divisor, last);
        page_row(run->page, "[%g, %g]%s|%.4g %%|%.5g %%", pairs[i][0], pairs[i][1], i == 2 ? " / sqrt(3)" : "",
                 100 * (double)last[0], 100 * (double)last[1]);
        page_figure(run->page, 100 * (double)last[0], "pair %d first", i);
        page_figure(run->page, 100 * (double)last[1], "pair %d second", i);
    }
    page_table_end(run->page);
    return status;
}

static void tell_results(struct lesson_run *run, const struct saturation *study)
{
    struct page *page = run->page;
    const int last = DIMENSIONS - 1;
    page_table_caption(page, "Means over all rows: how evenly a row of %d weights looks, and the largest of them",
                       KEYS);
    page_row(page, "dimension|entropy, unscaled|largest weight|entropy, scaled|largest weight");
    for (int i = 0; i < DIMENSIONS; ++i) {
        page_row(page, "%d|%.3f bit|%.1f %%|%.3f bit|%.1f %%", dimensions[i], study->entropy[0][i],
                 100 * study->largest[0][i], study->entropy[1][i], 100 * study->largest[1][i]);
    }
    page_table_end(page);
    page_figure(page, study->entropy[0][last], "entropy unscaled");
    page_figure(page, study->entropy[1][last], "entropy scaled");
    page_figure(page, study->entropy[1][2], "entropy scaled at 4");
    page_conclusion(page,
                    "Without scaling, the %d weights of a row carry %.2f bit at dimension %d and the largest "
                    "is %.0f %%: softmax has become a choice of one. With 1/sqrt(n) they carry %.2f bit (%.2f at "
                    "most are possible) and the largest is %.0f %%, at dimension 4 as at %d.",
                    KEYS, study->entropy[0][last], dimensions[last], 100 * study->largest[0][last],
                    study->entropy[1][last], log2(KEYS), 100 * study->largest[1][last], dimensions[last]);
}

static void draw(struct lesson_run *run, const struct saturation *study)
{
    struct chart_panel *panel =
        chart_add(run->chart, "Entropy of a row of 64 weights", "dimension n", "entropy (bit)", AXIS_LOG, AXIS_LINEAR);
    panel->y_low = 0;
    panel->y_high = 7.5;
    chart_line(run->chart, panel, "unscaled", DIMENSIONS, study->dimension, study->entropy[0], 1);
    chart_line(run->chart, panel, "times 1/sqrt(n)", DIMENSIONS, study->dimension, study->entropy[1], 1);
    panel = chart_add(run->chart, "Largest weight of a row", "dimension n", "mean of the largest weight", AXIS_LOG,
                      AXIS_LINEAR);
    panel->y_low = 0;
    panel->y_high = 1.25;
    chart_line(run->chart, panel, "unscaled", DIMENSIONS, study->dimension, study->largest[0], 1);
    chart_line(run->chart, panel, "times 1/sqrt(n)", DIMENSIONS, study->dimension, study->largest[1], 1);
}

int lesson_saturation(struct lesson_run *run)
{
    struct saturation study;
    float last[2];
    chart_begin(run->chart, "What large scores do to softmax", 2);
    page_paragraph(run->page, "Softmax looks at differences: a difference of 1 shares the weight, a difference of 9 "
                              "gives it all to one key, and nothing that the other key holds is read any more.");
    page_formula(run->page, "p_j = e^(s_j) / sum_l e^(s_l)",
                 SUB(MI("p"), MI("j")) MO("=")
                     OVER(POWER(MI("e"), SUB(MI("s"), MI("j"))), SUM(MI("l")) POWER(MI("e"), SUB(MI("s"), MI("l")))));
    page_picture(run->page, "Left: how evenly a row looks, in bit, against the dimension. Right: its largest weight. "
                            "Unscaled, both run to a choice of one key; scaled, they do not move.");
    page_table_caption(run->page, "Two scores, and the weights that softmax makes of them");
    clattn_status status = tell_pairs(run, last);
    page_paragraph(run->page,
                   "Rows of %d random keys, %d weights at each dimension. Entropy: 6 bit is a row that looks at "
                   "all keys alike, 0 bit one that looks at a single key.",
                   KEYS, ROWS * KEYS * BATCH);
    for (int i = 0; i < DIMENSIONS && status == CLATTN_OK; ++i) {
        status = study_dimension(run, &study, i);
    }
    if (status != CLATTN_OK) {
        return lesson_failed(run, status);
    }
    draw(run, &study);
    tell_results(run, &study);
    return 0;
}
