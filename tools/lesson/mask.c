/* Causal and padding masks on five tokens, step by step: scores, logits with -inf, weights. */
#include <math.h>
#include <stdio.h>

#include "attend.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"

#define TOKENS 5
#define VALID 4 /* keys that are not padding */
#define DIM 8

enum step { SCORES, CAUSAL_LOGITS, CAUSAL_WEIGHTS, PADDED_WEIGHTS, BOTH_WEIGHTS, STEPS };

static const struct {
    const char *title;
    clattn_weights mode;
    int causal, padded;
} steps[STEPS] = {
    { "1. scores q.k / sqrt(8)", CLATTN_WEIGHTS_SCORES, 0, 0 },
    { "2. causal: later keys get -inf", CLATTN_WEIGHTS_LOGITS, 1, 0 },
    { "3. softmax of that", CLATTN_WEIGHTS_SOFTMAX, 1, 0 },
    { "4. padding: key 4 is hidden", CLATTN_WEIGHTS_SOFTMAX, 0, 1 },
    { "5. causal and padding", CLATTN_WEIGHTS_SOFTMAX, 1, 1 },
};

static void cell_text(double value, clattn_weights mode, char *text, size_t size)
{
    if (isinf(value)) {
        snprintf(text, size, "-inf");
    } else if (mode == CLATTN_WEIGHTS_SOFTMAX) {
        snprintf(text, size, "%.0f %%", 100 * value);
    } else {
        snprintf(text, size, "%.2f", value);
    }
}

static void tell_step(struct page *page, enum step step, const float *values)
{
    page_table_caption(page, "%s", steps[step].title);
    page_row(page, "query \\ key|0|1|2|3|4|%s", steps[step].mode == CLATTN_WEIGHTS_SOFTMAX ? "sum of the row" : "");
    for (int i = 0; i < TOKENS; ++i) {
        char cells[TOKENS][24], sum_text[32] = "";
        double sum = 0;
        for (int j = 0; j < TOKENS; ++j) {
            sum += values[i * TOKENS + j];
            cell_text(values[i * TOKENS + j], steps[step].mode, cells[j], sizeof(cells[j]));
        }
        if (steps[step].mode == CLATTN_WEIGHTS_SOFTMAX) {
            snprintf(sum_text, sizeof(sum_text), "%.4f", sum);
            page_figure(page, sum, "sum %d %d", (int)step, i);
        }
        page_row(page, "%d|%s|%s|%s|%s|%s|%s", i, cells[0], cells[1], cells[2], cells[3], cells[4], sum_text);
    }
    page_table_end(page);
}

static void draw_step(struct chart *chart, enum step step, const float *values)
{
    struct chart_panel *panel = chart_add(chart, steps[step].title, "key", "query", AXIS_LINEAR, AXIS_LINEAR);
    struct chart_heat *heat = chart_numbered_heat(chart, panel, TOKENS, TOKENS);
    for (int i = 0; heat && i < TOKENS; ++i) {
        for (int j = 0; j < TOKENS; ++j) {
            const double value = values[i * TOKENS + j];
            /* Scores from -2 to 2, weights from 0 to 1; what is hidden is crossed out. */
            const double shade = steps[step].mode == CLATTN_WEIGHTS_SOFTMAX ? value : value / 2;
            heat->values[i][j] = isinf(value) || (steps[step].mode == CLATTN_WEIGHTS_SOFTMAX && value == 0) ? NAN
                                                                                                            : shade;
            cell_text(value, steps[step].mode, heat->numbers[i][j], sizeof(heat->numbers[i][j]));
        }
    }
}

int lesson_mask(struct lesson_run *run)
{
    float vectors[2 * TOKENS * DIM], values[STEPS][TOKENS * TOKENS];
    const int32_t length = VALID;
    double largest_sum = 0, smallest_sum = 2, kept = 0;
    int hidden = 0;
    chart_begin(run->chart, "What may not be seen: -inf before softmax is 0 after it", 3);
    sample_normal(run->seed, 500, vectors, 2 * TOKENS * DIM);
    page_paragraph(run->page,
                   "Five tokens, random queries and keys of dimension %d. A mask does not change scores that may "
                   "be seen: it puts -inf in place of the others, exp(-inf) is 0, and the row is shared among what "
                   "is left. The last token is padding in steps 4 and 5.",
                   DIM);
    page_formula(run->page, "p_j = e^(s_j) / (sum over the keys that may be seen of e^(s_l)),   e^(-inf) = 0",
                 SUB(MI("p"), MI("j")) MO("=") OVER(POWER(MI("e"), SUB(MI("s"), MI("j"))),
                                                    SUM(MI("l") MO("&#x2208;") "<mtext>may be seen</mtext>")
                                                        POWER(MI("e"), SUB(MI("s"), MI("l"))))
                     MO(",") "<mspace width=\"1em\"/>" POWER(MI("e"), MO("-") MI("&#x221e;")) MO("=") MN("0"));
    page_picture(run->page,
                 "A map a step: rows are queries, columns keys, darker is more, brown below 0; what is hidden is "
                 "crossed out. "
                 "The causal mask leaves the lower triangle, the padding loses the last column.");
    for (enum step step = SCORES; step < STEPS; ++step) {
        const struct attend call = { .batch = 1,
                                     .rows = TOKENS,
                                     .keys = TOKENS,
                                     .dim = DIM,
                                     .scale = 1 / sqrt((double)DIM),
                                     .query = vectors,
                                     .key = vectors + TOKENS * DIM,
                                     .mode = steps[step].mode,
                                     .weights = values[step],
                                     .causal = steps[step].causal,
                                     .key_lengths = steps[step].padded ? &length : NULL };
        const clattn_status status = attend(run, &call);
        if (status != CLATTN_OK) {
            return lesson_failed(run, status);
        }
        tell_step(run->page, step, values[step]);
        draw_step(run->chart, step, values[step]);
    }
    for (int i = 0; i < TOKENS; ++i) {
        double sum = 0;
        for (int j = 0; j < TOKENS; ++j) {
            sum += values[CAUSAL_WEIGHTS][i * TOKENS + j];
            hidden += isinf(values[CAUSAL_LOGITS][i * TOKENS + j]) != 0;
            kept += j > i ? values[CAUSAL_WEIGHTS][i * TOKENS + j] : 0;
        }
        largest_sum = fmax(largest_sum, sum);
        smallest_sum = fmin(smallest_sum, sum);
    }
    page_figure(run->page, hidden, "hidden");
    page_figure(run->page, kept, "weight on later keys");
    page_conclusion(run->page,
                    "The causal mask hides %d of %d pairs; what they would have had goes to the keys that may be "
                    "seen: the weight on later keys is exactly %g, and each row still sums to 1 (within %.1g).",
                    hidden, TOKENS * TOKENS, kept, fmax(largest_sum - 1, 1 - smallest_sum));
    return 0;
}
