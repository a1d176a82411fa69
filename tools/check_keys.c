#include "check_keys.h"

#include "insides.h"

/* A tensor, and what lies beside its codes. */
struct stored {
    const clattn_host_tensor *tensor, *scales, *zero_points, *tensor_scale;
    clattn_type type;
    int64_t columns, scale_rows, scale_columns;
    int has_scales;
};

static int64_t position(const clattn_host_tensor *tensor, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return tensor->offset + b * tensor->stride[0] + h * tensor->stride[1] + i * tensor->stride[2] +
           c * tensor->stride[3];
}

static struct code_scale scale_of(const struct stored *of, int64_t b, int64_t h, int64_t row, int64_t column)
{
    const int64_t rows = type_scale_columns(of->type) > 0 ? 1 : of->scale_rows;
    const int64_t share = type_scale_columns(of->type) > 0 ? type_scale_columns(of->type) : of->scale_columns;
    const int64_t i = rows > 0 ? row / rows : 0, group = share > 0 ? column / share : 0;
    const float whole = of->tensor_scale->data ? *(const float *)of->tensor_scale->data : 1.0f;
    const float *zero_points = of->zero_points->data;
    return (struct code_scale){
        type_scale(of->type, of->scales->data, position(of->scales, b, h, i, group), whole),
        zero_points ? zero_points[position(of->zero_points, b, h, i, group)] : 0.0f,
    };
}

/* Where a ring has key j. */
static int64_t ring_row(const clattn_problem *p, int64_t j)
{
    const int64_t pinned = p->always_visible_keys;
    return p->ring > 0 && j >= pinned ? pinned + (j - pinned) % (p->ring - pinned) : j;
}

static void read_row(const struct stored *of, int64_t b, int64_t h, int64_t row, double *to)
{
    for (int64_t c = 0; c < of->columns; c++) {
        to[c] = type_load(of->type, of->tensor->data, position(of->tensor, b, h, row, c));
        to[c] = of->has_scales ? type_scaled(to[c], scale_of(of, b, h, row, c)) : to[c];
    }
}

static void read_key(const struct check_keys *keys, const struct stored *of, double *to)
{
    const clattn_problem *p = keys->problem;
    const clattn_host_tensor *table = &keys->tensors->page_table;
    for (int64_t h = 0; h < p->kv_heads; h++) {
        for (int64_t j = 0; j < keys->key_len; j++, to += of->columns) {
            const int64_t kept = ring_row(p, j);
            int64_t batch = p->features & CLATTN_WITH_VARLEN ? 0 : keys->index, row = keys->key_first + kept;
            if (p->page_size > 0) {
                const int32_t *pages = table->data;
                batch = pages[table->offset + keys->index * table->stride[0] + kept / p->page_size * table->stride[3]];
                row = kept % p->page_size;
            }
            read_row(of, batch, h, row, to);
        }
    }
}

/* The fields of the problem and of its tensors by which keys, or values, are told. */
#define STORED(NAME, name, dim)                                                                                        \
    {                                                                                                                  \
        &t->name, &t->name##_scales, &t->name##_zero_points, &t->name##_tensor_scale,                                  \
            p->name##_type ? p->name##_type : p->type, p->dim, p->name##_scale_rows, p->name##_scale_columns,          \
            (p->features & CLATTN_WITH_##NAME##_SCALES) != 0                                                           \
    }

static struct stored stored_of(const struct check_keys *keys, int of_value)
{
    const clattn_problem *p = keys->problem;
    const clattn_host_tensors *t = keys->tensors;
    struct stored of[] = { STORED(KEY, key, head_dim), STORED(VALUE, value, head_dim_v) };
    if (p->value_in_key) {
        of[1] = of[0];
        of[1].columns = p->head_dim_v;
    }
    return of[of_value];
}

void check_read_keys(const struct check_keys *keys, double *to)
{
    const struct stored of = stored_of(keys, 0);
    read_key(keys, &of, to);
}

void check_read_values(const struct check_keys *keys, double *to)
{
    const struct stored of = stored_of(keys, 1);
    read_key(keys, &of, to);
}
