#include "heat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "labels.h"

#define TOKENS_MAX_BYTES (1 << 20) /* parsed, they take some thirty times as much */

/* ---- labels ---- */

/* The tokens of one batch entry: a list of strings, or a list of such lists. NULL where there are
 * none; *failure is set where the text is something else. */
static const cJSON *tokens_of(const cJSON *tokens, int64_t entry, struct failure *failure)
{
    const cJSON *token;
    const cJSON *list = tokens;
    if (!cJSON_IsArray(tokens)) {
        goto malformed;
    }
    if (cJSON_IsArray(tokens->child)) {
        list = cJSON_GetArrayItem(tokens, (int)entry);
    }
    if (!list) {
        return NULL;
    }
    cJSON_ArrayForEach(token, list) if (!cJSON_IsString(token)) goto malformed;
    if (!cJSON_IsArray(list)) {
        goto malformed;
    }
    return list;
malformed:
    failure_misuse(failure, "metadata tokens: must be a JSON list of strings, or a list of such lists, one "
                            "a batch entry");
    return NULL;
}

/* n labels: tokens from `first` on, else positions. */
static char **make_labels(const cJSON *tokens, int64_t first, int64_t n)
{
    char **labels = calloc((size_t)n + 1, sizeof *labels);
    const cJSON *token = tokens ? cJSON_GetArrayItem(tokens, (int)first) : NULL;
    for (int64_t i = 0; labels && i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)(first + i));
        labels[i] = utf8_clean(token ? token->valuestring : number);
        if (token) {
            token = token->next;
        }
        if (!labels[i]) {
            while (i > 0) {
                free(labels[--i]);
            }
            free(labels);
            return NULL;
        }
    }
    return labels;
}

static int label(struct heat *heat, const struct inputs *inputs, int64_t entry, int64_t first_row, int64_t first_column,
                 struct failure *failure)
{
    cJSON *parsed;
    const cJSON *tokens = NULL;
    int64_t n;
    if (inputs->tokens && strlen(inputs->tokens) > TOKENS_MAX_BYTES) {
        return failure_misuse(failure, "tokens: %zu bytes: must be at most %d", strlen(inputs->tokens),
                              TOKENS_MAX_BYTES);
    }
    parsed = inputs->tokens ? cJSON_Parse(inputs->tokens) : NULL;
    failure->text[0] = 0;
    if (inputs->tokens) {
        tokens = tokens_of(parsed, entry, failure);
    }
    heat->has_sentences = parsed && cJSON_IsArray(parsed) && cJSON_IsArray(parsed->child);
    n = tokens ? cJSON_GetArraySize(tokens) : 0;
    heat->has_tokens = n > 0 && n >= first_column + heat->columns && n >= first_row + heat->rows;
    if (!heat->has_tokens) {
        tokens = NULL;
    }
    if (!failure->text[0]) {
        heat->row_label = make_labels(tokens, first_row, heat->rows);
        heat->column_label = make_labels(tokens, first_column, heat->columns);
        if (!heat->row_label || !heat->column_label) {
            failure_failed(failure, "out of memory");
        }
    }
    cJSON_Delete(parsed);
    return failure->text[0] ? -1 : 0;
}

/* ---- values ---- */

static void average(struct heat *heat, const struct attention *attention, int64_t entry, int64_t first_head,
                    int64_t n_heads)
{
    const struct tensor *weights = &attention->weights;
    const int64_t *stride = attention->host.weights.stride;
    for (int64_t i = 0; i < heat->rows; i++) {
        for (int64_t j = 0; j < heat->columns; j++) {
            double sum = 0;
            for (int64_t h = first_head; h < first_head + n_heads; h++) {
                sum += tensor_load(weights, entry * stride[0] + h * stride[1] + i * stride[2] + j);
            }
            sum /= (double)n_heads;
            heat->value[i * heat->columns + j] = sum;
            if (sum > heat->largest) {
                heat->largest = sum;
            }
        }
    }
}

static void describe(struct heat *heat, const struct attention *attention, int64_t entry, int64_t head)
{
    const clattn_problem *problem = &attention->problem;
    char *to = heat->what;
    size_t left = sizeof heat->what;
    int used = 0;
    if (problem->batch > 1) {
        used = snprintf(to, left, "%s %lld of %lld, ",
                        attention->sequences  ? "sequence"
                        : heat->has_sentences ? "sentence"
                                              : "layer",
                        (long long)entry, (long long)problem->batch);
    }
    if (head >= 0) {
        snprintf(to + used, left - (size_t)used, "head %lld of %lld", (long long)head, (long long)problem->query_heads);
    } else if (problem->query_heads > 1) {
        snprintf(to + used, left - (size_t)used, "average of its %lld heads", (long long)problem->query_heads);
    } else {
        snprintf(to + used, left - (size_t)used, "its one head");
    }
}

static int choose(const struct options *options, const clattn_problem *problem, int64_t *entry, int64_t *head,
                  struct failure *failure)
{
    *entry = 0;
    *head = -1;
    return option_integer(options, OPTION_LAYER, 0, problem->batch - 1, entry, failure) != 0 ||
                   option_integer(options, OPTION_HEAD, 0, problem->query_heads - 1, head, failure) != 0
               ? -1
               : 0;
}

int heat_check(const struct options *options, const clattn_problem *problem, struct failure *failure)
{
    int64_t entry, head;
    return choose(options, problem, &entry, &head, failure);
}

int heat_make(const struct options *options, const struct inputs *inputs, const struct attention *attention,
              struct heat *heat, struct failure *failure)
{
    const clattn_problem *problem = &attention->problem;
    int64_t entry, head, first_row = 0, first_column = 0;
    memset(heat, 0, sizeof *heat);
    if (choose(options, problem, &entry, &head, failure) != 0) {
        return -1;
    }
    heat->rows = problem->query_len;
    heat->columns = problem->key_len;
    if (attention->sequences) {
        const int32_t *cu_q = attention->host.cu_query.data, *cu_k = attention->host.cu_key.data;
        first_row = cu_q[entry];
        first_column = cu_k[entry];
        heat->rows = cu_q[entry + 1] - first_row;
        heat->columns = cu_k[entry + 1] - first_column;
    }
    if (problem->batch < 1 || problem->query_heads < 1 || heat->rows < 1 || heat->columns < 1) {
        return failure_misuse(failure,
                              "--%s: there are no weights to draw: the batch, the heads, the queries "
                              "or the keys are none",
                              option_name(options->value[OPTION_SHOW] ? OPTION_SHOW : OPTION_PLOT));
    }
    heat->value = calloc((size_t)(heat->rows * heat->columns), sizeof *heat->value);
    if (!heat->value) {
        return failure_failed(failure, "out of memory");
    }
    average(heat, attention, entry, head < 0 ? 0 : head, head < 0 ? problem->query_heads : 1);
    if (label(heat, inputs, entry, first_row, first_column, failure) != 0) {
        return -1;
    }
    describe(heat, attention, entry, head);
    return 0;
}

void heat_free(struct heat *heat)
{
    for (int64_t i = 0; heat->row_label && i < heat->rows; i++) {
        free(heat->row_label[i]);
    }
    for (int64_t i = 0; heat->column_label && i < heat->columns; i++) {
        free(heat->column_label[i]);
    }
    free(heat->row_label);
    free(heat->column_label);
    free(heat->value);
    memset(heat, 0, sizeof *heat);
}
