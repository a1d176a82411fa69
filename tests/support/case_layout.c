/* Layouts are a table; past keys are laid before the new ones. */
#include "case_layout.h"

#include <string.h>

#include "case_codes.h"
#include "case_meta.h"

static const struct layout layouts[] = {
    { "BHSD", 4, 0, 1, 2, 3 },
    { "BSHD", 4, 0, 2, 1, 3 },
    { "BS(HD)", 3, 0, -1, 1, 2 },
    { "THD", 3, -1, 1, 0, 2 },
};

const struct layout *layout_find(const char *name)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); ++i) {
        if (strcmp(layouts[i].name, name) == 0) {
            return &layouts[i];
        }
    }
    return NULL;
}

const struct layout *layout_of_pool(const char *name)
{
    return strcmp(name, "pages NHD") == 0   ? layout_find("BSHD")
           : strcmp(name, "pages HND") == 0 ? layout_find("BHSD")
                                            : NULL;
}

int layout_shape(const struct layout *layout, const struct tensor *tensor, int64_t heads, int64_t shape[4])
{
    if (tensor->dims != layout->dims) {
        return -1;
    }
    shape[0] = layout->batch < 0 ? 1 : tensor->shape[layout->batch];
    shape[1] = layout->head < 0 ? heads : tensor->shape[layout->head];
    shape[2] = tensor->shape[layout->row];
    shape[3] = tensor->shape[layout->column];
    if (layout->head < 0) {
        if (heads <= 0 || shape[3] % heads != 0) {
            return -1;
        }
        shape[3] /= heads;
    }
    return 0;
}

void layout_strides(const struct layout *layout, const int64_t shape[4], int64_t stride[4])
{
    if (layout->row < (layout->head < 0 ? layout->column : layout->head)) {
        clattn_strides_bshd(shape[1], shape[2], shape[3], stride);
    } else {
        clattn_strides_bhsd(shape[1], shape[2], shape[3], stride);
    }
}

static int64_t longest(const struct tensor *seams)
{
    int64_t most = 0;
    for (int64_t i = 0; i + 1 < tensor_count(seams); ++i) {
        int64_t length = (int64_t)(tensor_load(seams, i + 1) - tensor_load(seams, i));
        most = length > most ? length : most;
    }
    return most;
}

/* An extent of the shape that meta.json tells, where the files do not. */
static int64_t shape_of(const struct attention_case *c, const char *name)
{
    return (int64_t)meta_number(meta_field(c->meta, "shape", name), 0);
}

/* The layout of keys and values: those of a pool have one of their own. */
static const struct layout *key_layout_of(const struct attention_case *c, const struct layout *layout)
{
    const struct layout *pool = layout_of_pool(meta_text(meta_field(c->meta, NULL, "kv_layout")));
    return pool ? pool : layout;
}

int case_values_in_keys(const struct attention_case *c)
{
    return meta_is_true(meta_field(c->meta, "params", "value_in_key"));
}

void case_leave_values(struct attention_case *c)
{
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    const char *op = meta_text(meta_field(c->meta, NULL, "op"));
    if (!case_values_in_keys(c) || strcmp(op, "attention") != 0) {
        return;
    }
    c->problem.value_in_key = 1;
    c->problem.value_type = CLATTN_TYPE_NONE;
    c->problem.features &= ~(uint32_t)CLATTN_WITH_VALUE_SCALES;
    c->problem.value_scale_rows = c->problem.value_scale_columns = 0;
    c->tensors.value = none.value;
    c->tensors.value_scales = none.value_scales;
    c->tensors.value_zero_points = none.value_zero_points;
    c->tensors.value_tensor_scale = none.value_tensor_scale;
}

int case_read_shape(struct attention_case *c, const struct layout *layout, struct failure *failure)
{
    struct case_shape *s = &c->shape;
    const struct layout *key_layout = key_layout_of(c, layout);
    int64_t q_heads = shape_of(c, "q_heads"), kv_heads = shape_of(c, "kv_heads");
    int64_t q[4], k[4], v[4];
    const int in_keys = case_values_in_keys(c);
    if (layout_shape(layout, &c->input[CASE_Q], q_heads, q) != 0 ||
        layout_shape(key_layout, &c->input[CASE_K], kv_heads, k) != 0 ||
        layout_shape(key_layout, &c->input[in_keys ? CASE_K : CASE_V], kv_heads, v) != 0) {
        return failure_misuse(failure, "q, k, v: their shapes do not fit layout %s", layout->name);
    }
    k[3] = case_columns(c->problem.key_type, k[3]);
    if (in_keys) {
        c->problem.value_type = c->problem.key_type;
        v[3] = shape_of(c, "v_head_dim");
    } else {
        v[3] = case_columns(c->problem.value_type, v[3]);
    }
    *s = (struct case_shape){ q[0], q[1], k[1], q[2], k[2], 0, q[3], v[3], q[2], k[2], 0, 0, s->ring };
    if (c->input[CASE_PAGE_TABLE].data) {
        s->pages = k[0];
        s->page_size = k[2];
        s->new_keys = shape_of(c, "kv_len");
    }
    if (s->ring) {
        s->new_keys = shape_of(c, "kv_len");
    }
    if (c->input[CASE_PAST_KEY].data) {
        s->past_keys = c->input[CASE_PAST_KEY].shape[2];
    }
    if (c->input[CASE_CU_QUERY].data) {
        s->batch = tensor_count(&c->input[CASE_CU_QUERY]) - 1;
        s->query_len = longest(&c->input[CASE_CU_QUERY]);
        s->new_keys = s->page_size ? s->new_keys : longest(&c->input[CASE_CU_KEY]);
    }
    clattn_problem *p = &c->problem;
    p->batch = s->batch;
    p->query_heads = s->query_heads;
    p->kv_heads = s->kv_heads;
    p->query_len = s->query_len;
    p->key_len = s->past_keys + s->new_keys;
    p->head_dim = s->head_dim;
    p->head_dim_v = s->head_dim_v;
    p->page_size = s->page_size;
    p->pages = s->pages;
    p->ring = s->ring;
    return 0;
}

/* Past keys before the new ones of each head, as [batch, heads, keys, columns]. */
static int concatenate(const struct attention_case *c, const struct layout *layout, const struct tensor *past,
                       const struct tensor *new_rows, int64_t columns, struct tensor *joined, struct failure *failure)
{
    const struct case_shape *s = &c->shape;
    const int64_t shape[4] = { s->batch, s->kv_heads, s->past_keys + s->new_keys, columns };
    const int64_t new_shape[4] = { s->batch, s->kv_heads, s->new_keys, columns };
    int64_t stride[4];
    layout_strides(layout, new_shape, stride);
    if (s->past_keys > 0 && tensor_count(past) != s->batch * s->kv_heads * s->past_keys * columns) {
        return failure_misuse(failure, "past_key, past_value: do not fit k and v");
    }
    if (tensor_create(joined, new_rows->type, 4, shape, "past and new keys", failure) != 0) {
        return -1;
    }
    int64_t to = 0, from_past = 0;
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t n = 0; n < s->past_keys * columns; ++n) {
                tensor_store(joined, to++, tensor_load(past, from_past++));
            }
            for (int64_t n = 0; n < s->new_keys * columns; ++n) {
                tensor_store(joined, to++,
                             tensor_load(new_rows,
                                         b * stride[0] + h * stride[1] + n / columns * stride[2] + n % columns));
            }
        }
    }
    return 0;
}

int case_place_inputs(struct attention_case *c, const struct layout *layout, int join, struct failure *failure)
{
    const struct case_shape *s = &c->shape;
    clattn_host_tensors *t = &c->tensors;
    const int64_t q[4] = { 1, s->query_heads, s->packed_queries, s->head_dim };
    const int64_t k[4] = { 1, s->kv_heads, s->packed_keys, s->head_dim };
    const int64_t v[4] = { 1, s->kv_heads, s->packed_keys, s->head_dim_v };
    t->query.data = c->input[CASE_Q].data;
    t->key.data = c->input[CASE_K].data;
    t->value.data = c->input[case_values_in_keys(c) ? CASE_K : CASE_V].data;
    layout_strides(layout, q, t->query.stride);
    layout_strides(key_layout_of(c, layout), k, t->key.stride);
    layout_strides(key_layout_of(c, layout), case_values_in_keys(c) ? k : v, t->value.stride);
    if (!join) {
        return 0;
    }
    if (c->input[CASE_K].type == TENSOR_UINT8 || c->input[CASE_V].type == TENSOR_UINT8) {
        return failure_misuse(failure, "past_key, past_value: of codes are not joined");
    }
    if (!c->input[CASE_PAST_KEY].data != !c->input[CASE_PAST_VALUE].data) {
        return failure_misuse(failure, "past_key, past_value: one is there without the other");
    }
    if (concatenate(c, layout, &c->input[CASE_PAST_KEY], &c->input[CASE_K], s->head_dim, &c->key, failure) != 0 ||
        concatenate(c, layout, &c->input[CASE_PAST_VALUE], &c->input[CASE_V], s->head_dim_v, &c->value, failure) != 0) {
        return -1;
    }
    t->key.data = c->key.data;
    t->value.data = c->value.data;
    clattn_strides_bhsd(s->kv_heads, c->key.shape[2], s->head_dim, t->key.stride);
    clattn_strides_bhsd(s->kv_heads, c->key.shape[2], s->head_dim_v, t->value.stride);
    return 0;
}
