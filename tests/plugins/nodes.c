/* The formula of ggml_flash_attn_ext, without a thought for speed. */
#include "nodes.h"

#include "ggml-cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local unsigned state;

/* Uniform in [-1, 1). */
static float random_value(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 2147483648.0f;
}

static struct ggml_tensor *cache(struct ggml_context *context, enum ggml_type type, int64_t columns,
                                 const struct node_case *of)
{
    if (!of->is_permuted) {
        return ggml_new_tensor_4d(context, type, columns, of->keys, of->kv_heads, of->batch);
    }
    struct ggml_tensor *rows_first = ggml_new_tensor_4d(context, type, columns, of->kv_heads, of->keys, of->batch);
    return ggml_permute(context, rows_first, 0, 2, 1, 3);
}

void node_new(struct node *node, const struct node_case *of)
{
    const struct ggml_init_params parameters = { 1 << 20, NULL, true };
    struct ggml_context *c = ggml_init(parameters);
    memset(node, 0, sizeof(*node));
    node->context = c;
    node->q = ggml_new_tensor_4d(c, GGML_TYPE_F32, of->head_dim, of->rows, of->heads, of->batch);
    node->k = cache(c, of->key_type, of->head_dim, of);
    node->v = cache(c, of->value_type, of->head_dim_v, of);
    if (of->mask != MASK_NONE) {
        node->mask = ggml_new_tensor_4d(c, GGML_TYPE_F16, of->keys, of->rows, of->mask_heads, of->mask_batch);
    }
    const float scale = 1.0f / sqrtf((float)of->head_dim);
    node->out = ggml_flash_attn_ext(c, node->q, node->k, node->v, node->mask, scale, of->max_bias, of->softcap);
    if (of->mask >= MASK_CHOSEN) {
        const int64_t bound = of->mask == MASK_CHOSEN_WRONG ? 1 : (of->keys + 7) / 8;
        ggml_flash_attn_ext_set_n_kv_max(node->out, (int32_t)bound);
    }
    if (of->has_sinks) {
        node->sinks = ggml_new_tensor_1d(c, GGML_TYPE_F32, of->heads);
        ggml_flash_attn_ext_add_sinks(node->out, node->sinks);
    }
    node->graph = ggml_new_graph(c);
    ggml_build_forward_expand(node->graph, node->out);
}

/* ---- inputs ------------------------------------------------------------------------------------ */

static void *row_of(const struct ggml_tensor *t, int64_t i, int64_t h, int64_t b)
{
    return (char *)t->data + (size_t)i * t->nb[1] + (size_t)h * t->nb[2] + (size_t)b * t->nb[3];
}

static void fill_tensor(struct ggml_tensor *t, float size)
{
    float *values = malloc((size_t)t->ne[0] * sizeof(*values));
    for (int64_t n = 0; n < ggml_nrows(t); ++n) {
        for (int64_t c = 0; c < t->ne[0]; ++c) {
            values[c] = size * random_value();
        }
        void *row = row_of(t, n % t->ne[1], n / t->ne[1] % t->ne[2], n / t->ne[1] / t->ne[2]);
        if (t->type == GGML_TYPE_F32) {
            memcpy(row, values, (size_t)t->ne[0] * sizeof(*values));
        } else {
            ggml_quantize_chunk(t->type, values, row, 0, 1, t->ne[0], NULL);
        }
    }
    free(values);
}

static int64_t used_keys(const struct node_case *of)
{
    return of->mask == MASK_PADDED ? of->keys - of->keys / 4 : of->keys;
}

static float mask_value(const struct node_case *of, int64_t i, int64_t j)
{
    const int64_t position = used_keys(of) - of->rows + i;
    const float causal = j <= position ? 0 : -INFINITY;
    switch (of->mask) {
    case MASK_WINDOW:
        return j > position - 20 ? causal : -INFINITY;
    case MASK_BLIND:
        return i % 3 == 0 ? -INFINITY : causal;
    case MASK_NOBODY:
        return -INFINITY;
    case MASK_HOLES:
        return j % 5 == 2 ? -INFINITY : causal;
    case MASK_NUMBERS:
        return (i + 3 * j) % 7 == 0 ? -INFINITY : 2 * random_value();
    case MASK_DISTANCE:
        return causal + (float)(j - position);
    case MASK_STEEP:
        return causal + 2 * (float)(j - position);
    case MASK_SAME:
        return j <= position - i ? (float)(j - position + i) : -INFINITY;
    case MASK_LATE:
        return j >= i ? 0 : -INFINITY;
    case MASK_BOTH_WAYS:
        return -fabsf((float)(j - position));
    case MASK_CHOSEN:
    case MASK_CHOSEN_WRONG:
        return i % 7 != 3 && (j + 5 * i) % 8 == 2 ? 0 : -INFINITY;
    case MASK_CHOSEN_NUMBERS:
        return (j + 5 * i) % 8 == 2 ? 2 * random_value() : -INFINITY;
    default:
        return causal;
    }
}

static void fill_mask(struct ggml_tensor *mask, const struct node_case *of)
{
    for (int64_t n = 0; n < ggml_nrows(mask); ++n) {
        ggml_fp16_t *row = (ggml_fp16_t *)mask->data + n * mask->ne[0];
        for (int64_t j = 0; j < mask->ne[0]; ++j) {
            row[j] = ggml_fp32_to_fp16(mask_value(of, n % mask->ne[1], j));
        }
    }
}

/* What nobody sees of a cache is what an allocator left there: float16 and blocks of such bytes are NaN. */
static void poison(struct ggml_tensor *t, int64_t first)
{
    for (int64_t b = 0; b < t->ne[3]; ++b) {
        for (int64_t h = 0; h < t->ne[2]; ++h) {
            for (int64_t j = first; j < t->ne[1]; ++j) {
                memset(row_of(t, j, h, b), 0xff, ggml_row_size(t->type, t->ne[0]));
            }
        }
    }
}

void node_fill(struct node *node, const struct node_case *of, unsigned seed)
{
    state = seed;
    fill_tensor(node->q, 4);
    fill_tensor(node->k, 2);
    fill_tensor(node->v, 1);
    if (node->mask) {
        fill_mask(node->mask, of);
    }
    if (node->sinks) {
        fill_tensor(node->sinks, 2);
    }
    poison(node->k, used_keys(of));
    poison(node->v, used_keys(of));
    memset(node->out->data, 0xff, ggml_nbytes(node->out));
}

/* ---- the answer -------------------------------------------------------------------------------- */

static void read_row(const struct ggml_tensor *t, int64_t i, int64_t h, int64_t b, float *values)
{
    const void *row = row_of(t, i, h, b);
    if (t->type == GGML_TYPE_F32) {
        memcpy(values, row, (size_t)t->ne[0] * sizeof(*values));
    } else {
        ggml_get_type_traits(t->type)->to_float(row, values, t->ne[0]);
    }
}

/* ALiBi's slope of a head, as ggml defines it. */
static double slope_of(const struct node_case *of, int64_t h)
{
    const double power = exp2(floor(log2((double)of->heads)));
    if (of->max_bias <= 0) {
        return 1;
    }
    return (double)h < power ? pow(2, -of->max_bias * (double)(h + 1) / power)
                             : pow(2, -of->max_bias / 2 * (2 * ((double)h - power) + 1) / power);
}

static double logit_of(const struct node *node, const struct node_case *of, const float *q, const float *k, int64_t i,
                       int64_t j, int64_t h, int64_t b)
{
    double s = 0;
    if (node->mask) {
        const ggml_fp16_t *row = row_of(node->mask, i, h % of->mask_heads, b % of->mask_batch);
        s = slope_of(of, h) * (double)ggml_fp16_to_fp32(row[j]);
    }
    if (isinf(s)) {
        return s; /* keys that are hidden may have NaN */
    }
    double dot = 0;
    for (int64_t c = 0; c < of->head_dim; ++c) {
        dot += (double)q[c] * (double)k[c];
    }
    dot *= (double)(1.0f / sqrtf((float)of->head_dim));
    return s + (of->softcap > 0 ? of->softcap * tanh(dot / of->softcap) : dot);
}

/* Softmax of the logits, in place; of none that are seen: zeros. */
static void softmax(double *logits, int64_t keys, const float *sink)
{
    double most = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
        most = fmax(most, logits[j]);
    }
    for (int64_t j = 0; j < keys; ++j) {
        logits[j] = isinf(logits[j]) ? 0 : exp(logits[j] - most);
        sum += logits[j];
    }
    sum += sink ? exp(*sink - most) : 0;
    for (int64_t j = 0; j < keys && sum > 0; ++j) {
        logits[j] /= sum;
    }
}

/* The difference of one row. */
static double row_error(const struct node *node, const struct node_case *of, const float *keys, const float *values,
                        double *weights, int64_t i, int64_t h, int64_t b)
{
    const float *q = row_of(node->q, i, h, b), *out = row_of(node->out, h, i, b);
    for (int64_t j = 0; j < of->keys; ++j) {
        weights[j] = logit_of(node, of, q, keys + j * of->head_dim, i, j, h, b);
    }
    softmax(weights, of->keys, node->sinks ? (const float *)node->sinks->data + h : NULL);
    double error = 0;
    for (int64_t c = 0; c < of->head_dim_v; ++c) {
        double expected = 0;
        for (int64_t j = 0; j < of->keys; ++j) {
            expected += weights[j] > 0 ? weights[j] * (double)values[j * of->head_dim_v + c] : 0;
        }
        const double difference = fabs(expected - (double)out[c]);
        error = isfinite(difference) ? fmax(error, difference) : INFINITY;
    }
    return error;
}

double node_error(const struct node *node, const struct node_case *of)
{
    float *keys = malloc((size_t)(of->keys * of->head_dim) * sizeof(*keys));
    float *values = malloc((size_t)(of->keys * of->head_dim_v) * sizeof(*values));
    double *weights = malloc((size_t)of->keys * sizeof(*weights));
    double error = 0;
    for (int64_t n = 0; n < of->heads * of->batch; ++n) {
        const int64_t h = n % of->heads, b = n / of->heads, g = h / (of->heads / of->kv_heads);
        for (int64_t j = 0; j < of->keys; ++j) {
            read_row(node->k, j, g, b, keys + j * of->head_dim);
            read_row(node->v, j, g, b, values + j * of->head_dim_v);
        }
        for (int64_t i = 0; i < of->rows; ++i) {
            error = fmax(error, row_error(node, of, keys, values, weights, i, h, b));
        }
    }
    free(keys);
    free(values);
    free(weights);
    return error;
}
