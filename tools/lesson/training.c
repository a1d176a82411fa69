/* A layer that trains: the same one twice, on the same batches, with and without the division of scores by the square
 * root of the dimension. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../progress.h"
#include "lesson_list.h"
#include "mathml.h"
#include "trainer.h"

#define STEPS 200
#define POINTS 40    /* of a curve: means of STEPS / POINTS steps */
#define ROWS_TOLD 10 /* of the table: means of their points */
#define LEARNED 0.99 /* share of right symbols from which on a layer counts as having learned */

/* [0]: without the root; [1]: with it. */
struct study {
    double step[POINTS], loss[2][POINTS], right[2][POINTS], final_loss[2], final_right[2];
    float weights[2][TRAINER_LENGTH * TRAINER_LENGTH];
    double mirrored[2]; /* the mean weight of a row on the place that it should look at */
};

static clattn_status train(struct study *study, int scaled, struct trainer *trainer)
{
    const int each = STEPS / POINTS;
    clattn_status status = CLATTN_OK;
    for (int n = 0; n < STEPS && status == CLATTN_OK; ++n) {
        double loss, right;
        progress_steps((unsigned)(scaled * STEPS + n), 2 * STEPS);
        status = trainer_step(trainer, &loss, &right);
        study->step[n / each] = n / each * each + 0.5 * each;
        study->loss[scaled][n / each] += loss / each;
        study->right[scaled][n / each] += right / each;
    }
    if (status == CLATTN_OK) {
        status = trainer_test(trainer, &study->final_loss[scaled], &study->final_right[scaled]);
    }
    if (status == CLATTN_OK) {
        status = trainer_look(trainer, study->weights[scaled]);
    }
    for (int i = 0; i < TRAINER_LENGTH; ++i) {
        study->mirrored[scaled] += (double)study->weights[scaled][i * TRAINER_LENGTH + TRAINER_LENGTH - 1 - i] /
                                   TRAINER_LENGTH;
    }
    return status;
}

static int study_both(struct lesson_run *run, struct study *study)
{
    struct trainer *trainer = malloc(sizeof(*trainer));
    clattn_status status = trainer ? CLATTN_OK : CLATTN_OUT_OF_HOST_MEMORY;
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; ++scaled) {
        status = trainer_create(trainer, run->context, run->seed, scaled ? 1 / sqrt(TRAINER_DIM) : 1);
        if (status == CLATTN_OK) {
            status = train(study, scaled, trainer);
        }
        trainer_free(trainer);
    }
    free(trainer);
    return status == CLATTN_OK ? 0 : lesson_failed(run, status);
}

/* The first step of the point from which on all is right; STEPS: there is none. */
static double learned_at(const struct study *study, int scaled)
{
    int point = POINTS;
    while (point > 0 && study->right[scaled][point - 1] >= LEARNED) {
        --point;
    }
    return point < POINTS ? study->step[point] - 0.5 * STEPS / POINTS : STEPS;
}

/* Places whose rows give the one that they should look at less than half of their weight. */
static int stuck_places(const struct study *study, int scaled)
{
    int stuck = 0;
    for (int i = 0; i < TRAINER_LENGTH; ++i) {
        stuck += study->weights[scaled][i * TRAINER_LENGTH + TRAINER_LENGTH - 1 - i] < 0.5f;
    }
    return stuck;
}

static double mean_of(const double *points, int row)
{
    const int each = POINTS / ROWS_TOLD;
    double sum = 0;
    for (int n = 0; n < each; ++n) {
        sum += points[row * each + n] / each;
    }
    return sum;
}

static void introduce(struct page *page)
{
    page_paragraph(page,
                   "Training is the layer, a loss, and gradients, many times over. The task: sequences of %d random "
                   "symbols out of %d, to be written backwards. Each symbol comes as %d random numbers, its place as "
                   "%d more; a head of %d numbers must find out that place i has to look at place %d - i, and its "
                   "values and Wo, which symbol it found there.",
                   TRAINER_LENGTH, TRAINER_SYMBOLS, TRAINER_CODE, TRAINER_CODE, TRAINER_DIM, TRAINER_LENGTH - 1);
    page_formula(page, "loss = -mean ln softmax(y)_right,   W becomes W - rate * Adam(dloss / dW)",
                 MI("loss") MO("=") MO("-") FUNCTION_OF("mean") FUNCTION_OF("ln")
                     SUB(GROUP(FUNCTION("softmax") PAREN(MI("y"))), "<mtext>right</mtext>")
                         MO(",") "<mspace width=\"1em\"/>" MI("W") MO("&#x2190;") MI("W")
                             MO("-") "<mtext>rate</mtext>" MO("&#x22c5;") FUNCTION("Adam")
                                 PAREN(OVER(MI("d") MI("loss"), MI("d") MI("W"))));
    page_paragraph(page,
                   "A step is one call of clattn_mha_enqueue, which makes y of a batch of %d sequences, and one of "
                   "clattn_mha_backward_enqueue, which makes of the loss's derivative at y those at Wq, Wk, Wv and "
                   "Wo. Two layers begin with the same weights and see the same batches; one divides its scores by "
                   "sqrt(%d), the other does not.",
                   TRAINER_BATCH, TRAINER_DIM);
}

static void tell_results(struct page *page, const struct study *study)
{
    const int each = STEPS / ROWS_TOLD;
    page_table_caption(page, "The loss, and the share of symbols that are right; ln(%d) = %.2f is guessing",
                       TRAINER_SYMBOLS, log(TRAINER_SYMBOLS));
    page_row(page, "steps|loss, undivided|divided|right, undivided|divided");
    for (int row = 0; row < ROWS_TOLD; ++row) {
        page_row(page, "%d to %d|%.3f|%.3f|%.1f %%|%.1f %%", row * each + 1, (row + 1) * each,
                 mean_of(study->loss[0], row), mean_of(study->loss[1], row), 100 * mean_of(study->right[0], row),
                 100 * mean_of(study->right[1], row));
    }
    page_row(page, "a new batch|%.3f|%.3f|%.1f %%|%.1f %%", study->final_loss[0], study->final_loss[1],
             100 * study->final_right[0], 100 * study->final_right[1]);
    page_table_end(page);
    for (int scaled = 0; scaled < 2; ++scaled) {
        const char *kind = scaled ? "divided" : "undivided";
        page_figure(page, study->final_loss[scaled], "loss %s", kind);
        page_figure(page, study->final_right[scaled], "right %s", kind);
        page_figure(page, study->mirrored[scaled], "mirrored %s", kind);
        page_figure(page, learned_at(study, scaled), "learned %s", kind);
        page_figure(page, stuck_places(study, scaled), "stuck %s", kind);
    }
}

/* "had learned after 35 steps" */
static void append_end(char *text, size_t size, const struct study *study, int scaled)
{
    const int stuck = stuck_places(study, scaled);
    if (learned_at(study, scaled) < STEPS) {
        snprintf(text, size, "had learned after %.0f steps", learned_at(study, scaled));
    } else {
        snprintf(text, size, "has %.0f %% after %d steps: %d of its %d places still look elsewhere",
                 100 * study->final_right[scaled], STEPS, stuck, TRAINER_LENGTH);
    }
}

static void conclude(struct page *page, const struct study *study)
{
    char undivided[160], divided[160];
    append_end(undivided, sizeof(undivided), study, 0);
    append_end(divided, sizeof(divided), study, 1);
    page_conclusion(
        page,
        "Divided by sqrt(%d), the layer %s. Undivided, it began with scores %.0f times as large, and %s. A "
        "row that has chosen a key before it learned which one gets next to no gradient back, as the lesson "
        "before this one measured.",
        TRAINER_DIM, divided, sqrt(TRAINER_DIM), undivided);
}

static void draw_weights(struct chart *chart, const struct study *study, int scaled)
{
    struct chart_panel *panel =
        chart_add(chart, scaled ? "Weights in % at the end, divided" : "Weights in % at the end, undivided",
                  "key: place that is looked at", "query: place that looks", AXIS_LINEAR, AXIS_LINEAR);
    struct chart_heat *heat = chart_numbered_heat(chart, panel, TRAINER_LENGTH, TRAINER_LENGTH);
    for (int i = 0; heat && i < TRAINER_LENGTH; ++i) {
        for (int j = 0; j < TRAINER_LENGTH; ++j) {
            const double weight = (double)study->weights[scaled][i * TRAINER_LENGTH + j];
            heat->values[i][j] = weight;
            if (weight >= 0.005) { /* the others are 0, and empty tells that better */
                snprintf(heat->numbers[i][j], sizeof(heat->numbers[i][j]), "%.0f", 100 * weight);
            }
        }
    }
}

static void draw(struct lesson_run *run, const struct study *study)
{
    static const char *const labels[2] = { "undivided", "divided by sqrt(d)" };
    struct chart *chart = run->chart;
    struct chart_panel *loss = chart_add(chart, "Loss", "step", "mean of -ln p", AXIS_LINEAR, AXIS_LOG);
    for (int scaled = 0; scaled < 2; ++scaled) {
        chart_line(chart, loss, labels[scaled], POINTS, study->step, study->loss[scaled], 0);
    }
    struct chart_panel *right = chart_add(chart, "Symbols that are right", "step", "share", AXIS_LINEAR, AXIS_LINEAR);
    for (int scaled = 0; scaled < 2; ++scaled) {
        right->y_high = 1.05; /* from 0 on */
        chart_line(chart, right, labels[scaled], POINTS, study->step, study->right[scaled], 0);
    }
    draw_weights(chart, study, 0);
    draw_weights(chart, study, 1);
}

int lesson_training(struct lesson_run *run)
{
    struct study *study = calloc(1, sizeof(*study));
    if (!study) {
        return failure_failed(run->failure, "out of memory");
    }
    char title[96];
    snprintf(title, sizeof(title), "One layer of attention, d = %d, learns to write backwards", TRAINER_DIM);
    chart_begin(run->chart, title, 2);
    introduce(run->page);
    page_picture(run->page,
                 "Above: the loss and the share of right symbols, step by step, of both layers. Below: whom each place "
                 "of one sequence looks at in the end. The diagonal from lower left to upper right is the solution.");
    const int result = study_both(run, study);
    if (result == 0) {
        tell_results(run->page, study);
        draw(run, study);
        conclude(run->page, study);
    }
    free(study);
    return result;
}
