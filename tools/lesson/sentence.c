/* "money bank grows" through the first attention layer of a sentence encoder: every step with its shape, and
 * what each head looks at. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "../layer_run.h"
#include "clattn_layers.h"
#include "lesson_list.h"

#ifndef CLATTN_DATA_DIR
#define CLATTN_DATA_DIR "."
#endif
#define FILE_NAME "money-bank-grows-layer0.safetensors"

/* The layer: --data, else from a source tree, else where it was installed. */
static const char *find_data(const struct lesson_run *run)
{
    static const char in_tree[] = "examples/data/" FILE_NAME;
    return run->data ? run->data : access(in_tree, R_OK) == 0 ? in_tree : CLATTN_DATA_DIR "/" FILE_NAME;
}

struct sentence {
    struct inputs inputs;
    struct layer_run layer;
    char tokens[CHART_HEAT_MAX][24];
    int count;
};

static int read_tokens(struct sentence *s, struct failure *failure)
{
    cJSON *list = s->inputs.tokens ? cJSON_Parse(s->inputs.tokens) : NULL;
    const int64_t rows = s->layer.problem.rows;
    s->count = (int)rows;
    if (s->layer.problem.batch != 1 || rows < 1 || rows > CHART_HEAT_MAX || s->layer.problem.query_heads > 12 ||
        s->layer.problem.parts & CLATTN_MHA_CROSS) {
        cJSON_Delete(list);
        return failure_misuse(failure, "--data: the lesson takes one sentence of 1 to %d tokens and up to 12 heads",
                              CHART_HEAT_MAX);
    }
    for (int i = 0; i < s->count; ++i) {
        const cJSON *token = cJSON_IsArray(list) ? cJSON_GetArrayItem(list, i) : NULL;
        if (cJSON_IsString(token)) {
            snprintf(s->tokens[i], sizeof(s->tokens[i]), "%.20s", token->valuestring);
        } else {
            snprintf(s->tokens[i], sizeof(s->tokens[i]), "token %d", i);
        }
    }
    cJSON_Delete(list);
    return 0;
}

static int compute(struct lesson_run *run, struct sentence *s)
{
    struct options options;
    memset(&options, 0, sizeof(options));
    options.operand = find_data(run);
    if (!run->data && access(options.operand, R_OK) != 0) {
        return failure_misuse(run->failure, "--data: is missing; clattn is not installed, and here is no "
                                            "examples/data/" FILE_NAME);
    }
    if (inputs_read(&options, &s->inputs, run->failure) != 0 ||
        layer_run_prepare(&options, &s->inputs, CLATTN_MHA_WEIGHTS_HEADS, &s->layer, run->failure) != 0 ||
        read_tokens(s, run->failure) != 0) {
        return -1;
    }
    const clattn_status status = clattn_mha_forward_host(run->context, &s->layer.problem, &s->layer.arrays);
    return status == CLATTN_OK ? 0 : lesson_failed(run, status);
}

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

static double weight_of(const struct sentence *s, int64_t head, int query, int key)
{
    return tensor_load(&s->layer.weights, (head * s->count + query) * s->count + key);
}

static void tell_steps(struct page *page, const struct sentence *s)
{
    const clattn_mha_problem *p = &s->layer.problem;
    const int n = s->count, heads = (int)p->query_heads, dim = (int)p->head_dim;
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
    page_paragraph(page, "Weights, averaged over the heads (rows look, columns are looked at):");
    for (int i = -1; i < s->count; ++i) {
        char line[512];
        int used = snprintf(line, sizeof(line), "%s", i < 0 ? "" : s->tokens[i]);
        for (int j = 0; j < s->count && j < PAGE_COLUMNS_MAX - 1; ++j) {
            double sum = 0;
            for (int64_t head = 0; i >= 0 && head < s->layer.problem.query_heads; ++head) {
                sum += weight_of(s, head, i, j) / (double)s->layer.problem.query_heads;
            }
            char number[16];
            snprintf(number, sizeof(number), "%.1f %%", 100 * sum);
            used += snprintf(line + used, sizeof(line) - (size_t)used, "|%.20s", i < 0 ? s->tokens[j] : number);
        }
        page_row(page, "%s", line);
    }
    page_table_end(page);
}

/* The strongest look from one word to another: not at itself, not at or from the marks at both ends. */
struct look {
    int64_t head;
    int query, key;
    double weight;
};

static struct look strongest(const struct sentence *s)
{
    struct look best = { 0, 0, 0, -1 };
    for (int64_t head = 0; head < s->layer.problem.query_heads; ++head) {
        for (int i = 1; i + 1 < s->count; ++i) {
            for (int j = 1; j + 1 < s->count; ++j) {
                const double weight = weight_of(s, head, i, j);
                if (i != j && weight > best.weight) {
                    best = (struct look){ head, i, j, weight };
                }
            }
        }
    }
    return best;
}

static void tell(struct page *page, const struct sentence *s)
{
    const double y = difference(&s->layer.y, &s->inputs.tensor[ROLE_Y]);
    const double weights = difference(&s->layer.weights, &s->inputs.tensor[ROLE_WEIGHTS]);
    const struct look look = strongest(s);
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
                heat->values[i][j] = weight_of(s, head, i, j);
                snprintf(heat->numbers[i][j], sizeof(heat->numbers[i][j]), "%.0f", 100 * weight_of(s, head, i, j));
            }
        }
    }
}

int lesson_sentence(struct lesson_run *run)
{
    struct sentence *s = calloc(1, sizeof(*s));
    if (!s) {
        return failure_failed(run->failure, "out of memory");
    }
    const int result = compute(run, s);
    if (result == 0) {
        char title[160];
        snprintf(title, sizeof(title), "Attention weights of \"%.80s\" in %%, head by head",
                 s->inputs.text ? s->inputs.text : "a sentence");
        chart_begin(run->chart, title, 4);
        page_paragraph(run->page,
                       "The sentence \"%.200s\" in the first layer of all-MiniLM-L6-v2, a sentence encoder: %d tokens, "
                       "%d heads. Everything below is one call of clattn_mha_forward_host.",
                       s->inputs.text ? s->inputs.text : "", s->count, (int)s->layer.problem.query_heads);
        draw(run->chart, s);
        tell(run->page, s);
    }
    layer_run_free(&s->layer);
    inputs_free(&s->inputs);
    free(s);
    return result;
}
