/* What attention is: queries, keys and values of a real sentence, and one row computed by hand, beside the device's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lesson_list.h"
#include "mathml.h"
#include "sentence_head.h"

#define SHOWN 3 /* numbers of a row in the tables */

/* The row by hand, in float64. */
struct by_hand {
    double dot[CHART_HEAT_MAX], score[CHART_HEAT_MAX], power[CHART_HEAT_MAX], weight[CHART_HEAT_MAX], sum;
    double out[SENTENCE_DIM_MAX];
};

static void compute_by_hand(const struct sentence_head *head, struct by_hand *row)
{
    const float *query = head->query + head->look.query * head->dim;
    for (int j = 0; j < head->count; ++j) {
        row->dot[j] = 0;
        for (int c = 0; c < head->dim; ++c) {
            row->dot[j] += (double)query[c] * (double)head->key[j * head->dim + c];
        }
        row->score[j] = row->dot[j] / sqrt(head->dim);
        row->power[j] = exp(row->score[j]);
        row->sum += row->power[j];
    }
    for (int j = 0; j < head->count; ++j) {
        row->weight[j] = row->power[j] / row->sum;
        for (int c = 0; c < head->dim; ++c) {
            row->out[c] += row->weight[j] * (double)head->value[j * head->dim + c];
        }
    }
}

static void tell_what(struct page *page, const struct sentence_head *head)
{
    const struct sentence *s = head->sentence;
    page_paragraph(
        page,
        "Attention lets each token of a text gather from the others what it needs. The text here is \"%.80s\", "
        "%d tokens: the model, a sentence encoder (all-MiniLM-L6-v2), puts its own marks at both ends. Each "
        "token comes as a row of %d numbers.",
        s->inputs.text ? s->inputs.text : "", s->count, (int)s->layer.problem.model_dim);
    page_paragraph(page,
                   "Three matrices, which training found, make three shorter rows of each: its query, which says what "
                   "the token looks for; its key, by which it is found; and its value, which it hands over where it is "
                   "found. A query is compared with every key by a dot product, a sum of %d products. Softmax makes of "
                   "these scores weights that are positive and sum to 1, and the result is the mean of the values with "
                   "these weights. In one formula, with a row of Q, K and V a token:",
                   head->dim);
    page_formula(page, "out = softmax(Q K^T / sqrt(d)) V",
                 MI("out") MO("=") FUNCTION("softmax") PAREN(OVER(MI("Q") TRANSPOSED("K"), ROOT(MI("d")))) MI("V"));
    page_paragraph(
        page,
        "The model does it with %d sets of matrices at once, its heads. Below is head %d, d = %d, and the row "
        "of \"%s\".",
        (int)s->layer.problem.query_heads, (int)head->look.head, head->dim, s->tokens[head->look.query]);
}

static void tell_scores(struct page *page, const struct sentence_head *head, const struct by_hand *row)
{
    const float *query = head->query + head->look.query * head->dim;
    page_table_caption(page, "From the query of \"%s\", [%.2f, %.2f, %.2f, ...], to its weights",
                       head->sentence->tokens[head->look.query], (double)query[0], (double)query[1], (double)query[2]);
    page_row(page, "token|its key, %d numbers|query . key|/ sqrt(%d)|e^score|weight", head->dim, head->dim);
    for (int j = 0; j < head->count; ++j) {
        const float *key = head->key + j * head->dim;
        page_row(page, "%s|[%.2f, %.2f, %.2f, ...]|%.2f|%.3f|%.3f|%.1f %%", head->sentence->tokens[j], (double)key[0],
                 (double)key[1], (double)key[2], row->dot[j], row->score[j], row->power[j], 100 * row->weight[j]);
    }
    page_row(page, "sum||||%.3f|100.0 %%", row->sum);
    page_table_end(page);
}

static void tell_values(struct page *page, const struct sentence_head *head, const struct by_hand *row)
{
    const float *device = head->out + head->look.query * head->dim;
    page_table_caption(page, "From weights to the result: the first %d of its %d numbers", SHOWN, head->dim);
    page_row(page, "token|value, 1st|2nd|3rd|weight * value, 1st|2nd|3rd");
    for (int j = 0; j < head->count; ++j) {
        const float *value = head->value + j * head->dim;
        const double weight = row->weight[j], v[SHOWN] = { (double)value[0], (double)value[1], (double)value[2] };
        page_row(page, "%s|%.3f|%.3f|%.3f|%.4f|%.4f|%.4f", head->sentence->tokens[j], v[0], v[1], v[2], weight * v[0],
                 weight * v[1], weight * v[2]);
    }
    page_row(page, "sum, by hand||||%.4f|%.4f|%.4f", row->out[0], row->out[1], row->out[2]);
    page_row(page, "the device||||%.4f|%.4f|%.4f", (double)device[0], (double)device[1], (double)device[2]);
    page_table_end(page);
}

static void conclude(struct page *page, const struct sentence_head *head, const struct by_hand *row)
{
    const int i = head->look.query;
    double of_weights = 0, of_out = 0;
    for (int j = 0; j < head->count; ++j) {
        of_weights = fmax(of_weights, fabs(row->weight[j] - (double)head->weights[i * head->count + j]));
    }
    for (int c = 0; c < head->dim; ++c) {
        of_out = fmax(of_out, fabs(row->out[c] - (double)head->out[i * head->dim + c]));
    }
    page_figure(page, of_weights, "weights by hand");
    page_figure(page, of_out, "out by hand");
    page_conclusion(
        page,
        "\"%s\" took %.0f %% of what it carries on from \"%s\", because their query and key point the same "
        "way. The device gives the same weights (to %.1g) and the same result (to %.1g). Everything else "
        "in these lessons is about these few lines: what to divide by, what to leave out, and how to compute "
        "it for many rows at once.",
        head->sentence->tokens[i], 100 * row->weight[head->look.key], head->sentence->tokens[head->look.key],
        of_weights, of_out);
}

static void draw(struct lesson_run *run, const struct sentence_head *head)
{
    struct chart_panel *panel = chart_add(run->chart, "weights of the head in %", "key: is looked at", "query: looks",
                                          AXIS_LINEAR, AXIS_LINEAR);
    struct chart_heat *heat = chart_heat(run->chart, panel, head->count, head->count);
    for (int i = 0; heat && i < head->count; ++i) {
        snprintf(heat->row_labels[i], sizeof(heat->row_labels[i]), "%s", head->sentence->tokens[i]);
        snprintf(heat->column_labels[i], sizeof(heat->column_labels[i]), "%s", head->sentence->tokens[i]);
        for (int j = 0; j < head->count; ++j) {
            const double weight = (double)head->weights[i * head->count + j];
            heat->values[i][j] = weight;
            snprintf(heat->numbers[i][j], sizeof(heat->numbers[i][j]), "%.0f", 100 * weight);
        }
    }
    page_picture(
        run->page,
        "The weights of the whole head, a row for each token that looks. The row of \"%s\" is the one that was "
        "computed above; each row sums to 100 %%.",
        head->sentence->tokens[head->look.query]);
}

static int tell_head(struct lesson_run *run, struct sentence_head *head)
{
    struct by_hand row = { .sum = 0 };
    const clattn_status status = sentence_head_compute(run, head);
    if (status != CLATTN_OK) {
        return lesson_failed(run, status);
    }
    compute_by_hand(head, &row);
    chart_begin(run->chart, "Who looks at whom", 1);
    tell_what(run->page, head);
    tell_scores(run->page, head, &row);
    tell_values(run->page, head, &row);
    draw(run, head);
    conclude(run->page, head, &row);
    return 0;
}

int lesson_row(struct lesson_run *run)
{
    struct sentence *s = sentence_compute(run);
    struct sentence_head *head = s ? sentence_head_choose(run, s, SHOWN) : NULL;
    const int result = head ? tell_head(run, head) : -1;
    free(head);
    sentence_free(s);
    return result;
}
