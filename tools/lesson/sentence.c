/* "money bank grows" through the first attention layer of a sentence encoder: every step with its shape, and
 * what each head looks at. */
#include <math.h>
#include <stdio.h>

#include "lesson_list.h"
#include "mathml.h"
#include "sentence_data.h"

/* Largest difference from what the file stored; NaN where it stored nothing of that shape. */
static double difference(const struct tensor *got, const struct tensor *stored)
{
    double most = 0;
    if (!stored->data || tensor_count(got) != tensor_count(stored)) {
        return NAN;
    }
    for (int64_t i = 0; i < tensor_count(got); ++i) {
        most = fmax(most, fabs(tensor_load(got, i) - tensor_load(stored, i)));
    }
    return most;
}

static void tell_steps(struct page *page, const struct sentence *s)
{
    const clattn_mha_problem *p = &s->layer.problem;
    const int n = s->count, heads = (int)p->query_heads, dim = (int)p->head_dim;
    page_table_caption(page, "The layer, step by step");
    page_row(page, "step|how|shape");
    page_row(page, "embeddings x|one row a token|[%d, %d]", n, (int)p->model_dim);
    page_row(page, "queries|x Wq^T + bq|[%d, %d]", n, heads * dim);
    page_row(page, "keys|x Wk^T + bk|[%d, %d]", n, (int)p->kv_heads * dim);
    page_row(page, "values|x Wv^T + bv|[%d, %d]", n, (int)(p->kv_heads * p->head_dim_v));
    page_row(page, "heads|the columns, cut into %d|[%d, %d, %d]", heads, heads, n, dim);
    page_row(page, "scores|queries keys^T / sqrt(%d)|[%d, %d, %d]", dim, heads, n, n);
    page_row(page, "weights|softmax of each row|[%d, %d, %d]", heads, n, n);
    page_row(page, "heads' results|weights values|[%d, %d, %d]", heads, n, (int)p->head_dim_v);
    page_row(page, "side by side|no copy, strides|[%d, %d]", n, heads * (int)p->head_dim_v);
    page_row(page, "output y|Wo and bo|[%d, %d]", n, (int)p->out_dim);
    page_table_end(page);
}

static void tell_average(struct page *page, const struct sentence *s)
{
    page_table_caption(page, "Weights, averaged over the heads (rows look, columns are looked at)");
    for (int i = -1; i < s->count; ++i) {
        char line[512];
        int used = snprintf(line, sizeof(line), "%s", i < 0 ? "" : s->tokens[i]);
        for (int j = 0; j < s->count && j < PAGE_COLUMNS_MAX - 1; ++j) {
            double sum = 0;
            for (int64_t head = 0; i >= 0 && head < s->layer.problem.query_heads; ++head) {
                sum += sentence_weight(s, head, i, j) / (double)s->layer.problem.query_heads;
            }
            char number[16];
            snprintf(number, sizeof(number), "%.1f %%", 100 * sum);
            used += snprintf(line + used, sizeof(line) - (size_t)used, "|%.20s", i < 0 ? s->tokens[j] : number);
        }
        page_row(page, "%s", line);
    }
    page_table_end(page);
}

static void tell_results(struct page *page, const struct sentence *s)
{
    const double y = difference(&s->layer.y, &s->inputs.tensor[ROLE_Y]);
    const double weights = difference(&s->layer.weights, &s->inputs.tensor[ROLE_WEIGHTS]);
    const struct look look = sentence_strongest(s, 1);
    tell_steps(page, s);
    tell_average(page, s);
    page_figure(page, y, "y difference");
    page_figure(page, weights, "weights difference");
    page_figure(page, look.weight, "strongest look");
    if (!isnan(y) && !isnan(weights)) {
        page_paragraph(page,
                       "Computed in float64 elsewhere and stored in the file: y differs by at most %.2g, the "
                       "weights by %.2g.",
                       y, weights);
    }
    if (s->count >= 4) {
        page_conclusion(page,
                        "Each head asks its own question: in head %d, \"%s\" gives %.0f %% of its weight to \"%s\", "
                        "and so what leaves the layer in the place of a word holds some of the words around it.",
                        (int)look.head, s->tokens[look.query], 100 * look.weight, s->tokens[look.key]);
    }
}

static void draw(struct chart *chart, const struct sentence *s)
{
    for (int64_t head = 0; head < s->layer.problem.query_heads; ++head) {
        char title[32];
        snprintf(title, sizeof(title), "head %d", (int)head);
        struct chart_panel *panel =
            chart_add(chart, title, "key: is looked at", "query: looks", AXIS_LINEAR, AXIS_LINEAR);
        struct chart_heat *heat = chart_heat(chart, panel, s->count, s->count);
        for (int i = 0; heat && i < s->count; ++i) {
            snprintf(heat->row_labels[i], sizeof(heat->row_labels[i]), "%s", s->tokens[i]);
            snprintf(heat->column_labels[i], sizeof(heat->column_labels[i]), "%s", s->tokens[i]);
            for (int j = 0; j < s->count; ++j) {
                heat->values[i][j] = sentence_weight(s, head, i, j);
                snprintf(heat->numbers[i][j], sizeof(heat->numbers[i][j]), "%.0f",
                         100 * sentence_weight(s, head, i, j));
            }
        }
    }
}

int lesson_sentence(struct lesson_run *run)
{
    struct sentence *s = sentence_compute(run);
    if (!s) {
        return -1;
    }
    char title[160];
    snprintf(title, sizeof(title), "Attention weights of \"%.80s\" in %%, head by head",
             s->inputs.text ? s->inputs.text : "a sentence");
    chart_begin(run->chart, title, 3);
    page_paragraph(run->page,
                   "The sentence \"%.200s\" in the first layer of all-MiniLM-L6-v2, a sentence encoder: %d tokens, "
                   "%d heads. Everything below is one call of clattn_mha_forward_host.",
                   s->inputs.text ? s->inputs.text : "", s->count, (int)s->layer.problem.query_heads);
    page_formula(run->page, "y = [head_1, ..., head_h] Wo^T + bo,   head_k = softmax(Q_k K_k^T / sqrt(d)) V_k",
                 MI("y") MO("=") "<mo>[</mo>" SUB(MI("head"), MN("1")) MO(",") MO("&#x2026;") MO(",")
                     SUB(MI("head"), MI("h")) "<mo>]</mo>" POWER(SUB(MI("W"), MI("o")), MI("T")) MO("+")
                         SUB(MI("b"), MI("o")));
    page_picture(run->page, "A map a head: rows are the tokens that look, columns those that are looked at, numbers "
                            "per cent of the row. Some heads look at the neighbour, some at the marks at the ends.");
    draw(run->chart, s);
    tell_results(run->page, s);
    sentence_free(s);
    return 0;
}
