#include "sentence_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

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

int sentence_is_there(const struct lesson_run *run)
{
    return run->data || access(find_data(run), R_OK) == 0;
}

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
        if (token && cJSON_IsString(token)) {
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
    if (inputs_read(&options, ROLES_FORWARD, &s->inputs, run->failure) != 0 ||
        layer_run_prepare(&options, &s->inputs, CLATTN_MHA_WEIGHTS_HEADS, &s->layer, run->failure) != 0 ||
        read_tokens(s, run->failure) != 0) {
        return -1;
    }
    const clattn_status status = clattn_mha_forward_host(run->context, &s->layer.problem, &s->layer.arrays);
    return status == CLATTN_OK ? 0 : lesson_failed(run, status);
}

struct sentence *sentence_compute(struct lesson_run *run)
{
    struct sentence *s = calloc(1, sizeof(*s));
    if (!s) {
        failure_failed(run->failure, "out of memory");
    } else if (compute(run, s) != 0) {
        sentence_free(s);
        s = NULL;
    }
    return s;
}

void sentence_free(struct sentence *s)
{
    if (s) {
        layer_run_free(&s->layer);
        inputs_free(&s->inputs);
        free(s);
    }
}

double sentence_weight(const struct sentence *s, int64_t head, int query, int key)
{
    return tensor_load(&s->layer.weights, (head * s->count + query) * s->count + key);
}

struct look sentence_strongest(const struct sentence *s, double most)
{
    struct look best = { 0, 0, 0, -1 };
    for (int64_t head = 0; head < s->layer.problem.query_heads; ++head) {
        for (int i = 1; i + 1 < s->count; ++i) {
            for (int j = 1; j + 1 < s->count; ++j) {
                const double weight = sentence_weight(s, head, i, j);
                if (i != j && weight > best.weight && weight <= most) {
                    best = (struct look){ head, i, j, weight };
                }
            }
        }
    }
    return best;
}
