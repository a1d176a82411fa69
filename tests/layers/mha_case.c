#include "mha_case.h"

#include "program/gemm.h"

void *mha_case_keep(struct mha_case *c, void *data)
{
    c->owned[c->n_owned++] = data;
    return data;
}

void mha_case_choose(struct mha_case *c, struct random *random, const clattn_context *context)
{
    static const clattn_type types[4] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16, CLATTN_FLOAT64 };
    clattn_mha_problem *p = &c->problem;
    cl_device_fp_config fp64 = 0;
    clGetDeviceInfo(clattn_context_device(context), CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(fp64), &fp64, NULL);
    p->type = random_chance(random, 0.5) ? CLATTN_FLOAT32 : types[random_between(random, 1, fp64 ? 3 : 2)];
    p->batch = random_between(random, random_chance(random, 0.05) ? 0 : 1, 3);
    p->rows = random_between(random, random_chance(random, 0.05) ? 0 : 1, 40);
    p->kv_heads = random_between(random, 1, 3);
    p->query_heads = p->kv_heads * random_between(random, 1, 3);
    p->head_dim = random_between(random, 1, 20);
    p->head_dim_v = random_chance(random, 0.3) ? random_between(random, 1, 20) : 0;
    p->model_dim = random_between(random, 1, 90);
    p->out_dim = random_chance(random, 0.5) ? random_between(random, 1, 40) : 0;
    p->parts = random_chance(random, 0.5) ? CLATTN_MHA_BIASES : 0;
    if (random_chance(random, 0.4)) {
        p->parts |= CLATTN_MHA_PACKED;
    } else {
        p->parts ^= (uint32_t)random_between(random, 0, 15) << 2;
    }
    if (random_chance(random, 0.4)) {
        p->parts |= CLATTN_MHA_CROSS;
        p->context_rows = random_between(random, 0, 40);
        p->context_dim = p->parts & CLATTN_MHA_PACKED ? 0 : random_between(random, 1, 60);
    }
    p->features = (random_chance(random, 0.3) ? CLATTN_WITH_MASK : 0) |
                  (random_chance(random, 0.3) ? CLATTN_WITH_KEY_LENGTHS : 0);
    p->causal = random_chance(random, 0.3);
    p->alignment = p->causal ? random_chance(random, 0.5) ? CLATTN_ALIGN_TOP_LEFT : CLATTN_ALIGN_BOTTOM_RIGHT
                             : CLATTN_ALIGN_UNSET;
    p->weights = (clattn_mha_weights)random_between(random, 0, 2);
    p->has_scale = random_chance(random, 0.2);
    p->scale = p->has_scale ? -0.3 : 0;
    p->projection = random_chance(random, 0.5) ? CLATTN_PROJECTION_AUTO : CLATTN_PROJECTION_TILES;
    p->strategy = "plain";
    if (p->type == CLATTN_FLOAT32 && random_chance(random, 0.05) && gemm_is_built()) {
        p->projection = CLATTN_PROJECTION_CLBLAST;
    }
}

struct mha_counts mha_case_counts(const struct mha_case *c)
{
    const clattn_mha_problem *p = &c->problem;
    const int cross = (p->parts & CLATTN_MHA_CROSS) != 0, packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t keys = cross ? p->context_rows : p->rows, dv = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t context_dim = p->context_dim ? p->context_dim : p->model_dim;
    const int64_t out_dim = p->out_dim ? p->out_dim : p->model_dim;
    const int64_t q = p->query_heads * p->head_dim, k = p->kv_heads * p->head_dim, v = p->kv_heads * dv;
    const int64_t first = packed ? q + k + v : q;
    const struct mha_counts counts = {
        .x = p->batch * p->rows * p->model_dim,
        .context = cross ? p->batch * keys * context_dim : 0,
        .y = p->batch * p->rows * out_dim,
        .wq = first * p->model_dim,
        .wk = packed ? 0 : k * context_dim,
        .wv = packed ? 0 : v * context_dim,
        .wo = out_dim * p->query_heads * dv,
        .bq = first,
        .bk = packed ? 0 : k,
        .bv = packed ? 0 : v,
        .bo = out_dim,
    };
    return counts;
}

static void fill_arrays(struct random *random, struct mha_case *c)
{
    const clattn_mha_problem *p = &c->problem;
    clattn_mha_host_arrays *a = &c->arrays;
    const struct mha_counts n = mha_case_counts(c);
    const int cross = (p->parts & CLATTN_MHA_CROSS) != 0, packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t keys = cross ? p->context_rows : p->rows;
    const double sharp = 1.6 / sqrt((double)p->model_dim);
    const double soft = 1.6 / sqrt((double)(p->context_dim ? p->context_dim : p->model_dim));
    const struct {
        const void **to;
        int64_t count;
        int is_given;
        double scale;
    } inputs[] = {
        { &a->x, n.x, 1, 1 },
        { &a->context, n.context, cross, 1 },
        { &a->wq, n.wq, 1, sharp },
        { &a->wk, n.wk, !packed, soft },
        { &a->wv, n.wv, !packed, soft },
        { &a->wo, n.wo, 1, 0.3 },
        { &a->bq, n.bq, (p->parts & CLATTN_MHA_BIAS_QUERY) != 0, 0.5 },
        { &a->bk, n.bk, !packed && p->parts & CLATTN_MHA_BIAS_KEY, 0.5 },
        { &a->bv, n.bv, !packed && p->parts & CLATTN_MHA_BIAS_VALUE, 0.5 },
        { &a->bo, n.bo, (p->parts & CLATTN_MHA_BIAS_OUT) != 0, 0.5 },
    };
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); ++i) {
        if (inputs[i].is_given) {
            *inputs[i].to = mha_case_keep(c, layer_test_normal(random, p->type, inputs[i].count, inputs[i].scale));
        }
    }
    c->y_count = n.y;
    c->weights_count = p->batch * (p->weights == CLATTN_MHA_WEIGHTS_AVERAGE ? 1 : p->query_heads) * p->rows * keys;
    for (int i = 0; i < 2; ++i) {
        c->y[i] = layer_test_poison(c->y_count);
        c->weights[i] = layer_test_poison(c->weights_count);
    }
}

static void fill_masks(struct random *random, struct mha_case *c)
{
    const clattn_mha_problem *p = &c->problem;
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    if (p->features & CLATTN_WITH_MASK) {
        const int by_head = random_chance(random, 0.5);
        uint8_t *mask = malloc((size_t)(p->query_heads * p->rows * keys) + 1);
        for (int64_t i = 0; i < p->query_heads * p->rows * keys; ++i) {
            mask[i] = (uint8_t)random_chance(random, 0.7);
        }
        const int64_t stride[4] = { 0, by_head ? p->rows * keys : 0, keys, 1 };
        c->arrays.mask.data = mha_case_keep(c, mask);
        memcpy(c->arrays.mask.stride, stride, sizeof(stride));
    }
    if (p->features & CLATTN_WITH_KEY_LENGTHS) {
        int32_t *lengths = calloc((size_t)p->batch + 1, sizeof(*lengths));
        for (int64_t b = 0; b < p->batch; ++b) {
            lengths[b] = (int32_t)random_between(random, 0, keys);
        }
        c->arrays.key_lengths = mha_case_keep(c, lengths);
    }
}

void mha_case_fill(struct mha_case *c, struct random *random)
{
    fill_arrays(random, c);
    fill_masks(random, c);
}

void mha_case_describe(const struct mha_case *c, char *text, size_t bytes)
{
    static const char *const projections[] = { "any projection", "lanes", "tiles", "clblast" };
    const clattn_mha_problem *p = &c->problem;
    snprintf(text, bytes,
             "%s, %s, %s, batch %d, rows %d, context_rows %d, model_dim %d, context_dim %d, %d(%d) heads, head_dim %d, "
             "head_dim_v %d, out_dim %d, parts %#x, features %#x, causal %d, alignment %d, weights %d, scale %g (%d)",
             c->way, clattn_type_name(p->type), projections[p->projection], (int)p->batch, (int)p->rows,
             (int)p->context_rows, (int)p->model_dim, (int)p->context_dim, (int)p->query_heads, (int)p->kv_heads,
             (int)p->head_dim, (int)p->head_dim_v, (int)p->out_dim, (unsigned)p->parts, (unsigned)p->features,
             p->causal, (int)p->alignment, (int)p->weights, p->scale, p->has_scale);
}

void mha_case_free(struct mha_case *c)
{
    for (int i = 0; i < c->n_owned; ++i) {
        free(c->owned[i]);
    }
    for (int i = 0; i < 2; ++i) {
        free(c->y[i]);
        free(c->weights[i]);
    }
}

void mha_case_upload(const struct mha_case *c, struct upload *upload, clattn_mha_arrays *arrays)
{
    const clattn_mha_problem *p = &c->problem;
    const clattn_mha_host_arrays *h = &c->arrays;
    const struct mha_counts n = mha_case_counts(c);
    const int64_t keys = p->parts & CLATTN_MHA_CROSS ? p->context_rows : p->rows;
    const size_t size = clattn_type_size(p->type);
    const struct {
        clattn_array *to;
        const void *data;
        int64_t count;
    } inputs[] = {
        { &arrays->x, h->x, n.x },    { &arrays->context, h->context, n.context },
        { &arrays->wq, h->wq, n.wq }, { &arrays->wk, h->wk, n.wk },
        { &arrays->wv, h->wv, n.wv }, { &arrays->wo, h->wo, n.wo },
        { &arrays->bq, h->bq, n.bq }, { &arrays->bk, h->bk, n.bk },
        { &arrays->bv, h->bv, n.bv }, { &arrays->bo, h->bo, n.bo },
    };
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); ++i) {
        *inputs[i].to = upload_put(upload, inputs[i].data, inputs[i].count, size);
    }
    const clattn_array mask = upload_put(upload, h->mask.data, p->query_heads * p->rows * keys, 1);
    arrays->mask.buffer = mask.buffer;
    arrays->mask.offset = mask.offset;
    memcpy(arrays->mask.stride, h->mask.stride, sizeof(arrays->mask.stride));
    arrays->key_lengths = upload_put(upload, h->key_lengths, p->batch, 4);
}
