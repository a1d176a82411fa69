/* Scales may be shared along any axis: an axis of one is broadcast. */
#include "case_codes.h"

#include <string.h>

#include "base/stored_types.h"
#include "case_layout.h"

static const cJSON *param(const struct attention_case *c, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(c->meta, "params"), name);
}

static int64_t param_number(const struct attention_case *c, const char *name)
{
    return cJSON_IsNumber(param(c, name)) ? (int64_t)param(c, name)->valuedouble : 0;
}

static clattn_type type_named(const cJSON *name, clattn_type missing)
{
    for (int type = CLATTN_FLOAT32; type < STORED_TYPES; ++type) {
        if (cJSON_IsString(name) && strcmp(name->valuestring, clattn_type_name((clattn_type)type)) == 0) {
            return (clattn_type)type;
        }
    }
    return missing;
}

void case_read_types(struct attention_case *c)
{
    c->problem.key_type = type_named(param(c, "key_type"), c->problem.type);
    c->problem.value_type = type_named(param(c, "value_type"), c->problem.type);
    c->shape.ring = param_number(c, "ring");
}

int64_t case_columns(clattn_type type, int64_t elements)
{
    const int64_t of_element = clattn_type_columns(type);
    return of_element > 1 ? elements / (int64_t)clattn_type_size(type) * of_element : elements;
}

static void place(const struct tensor *scales, clattn_host_tensor *to)
{
    int64_t dense = 1;
    to->data = scales->data;
    for (int axis = 3; axis >= 0; --axis) {
        to->stride[axis] = scales->shape[axis] > 1 ? dense : 0;
        dense *= scales->shape[axis];
    }
}

void case_place_scales(struct attention_case *c)
{
    clattn_problem *p = &c->problem;
    clattn_host_tensors *t = &c->tensors;
    const struct {
        enum case_input input;
        clattn_host_tensor *place;
    } beside[] = { { CASE_KEY_SCALES, &t->key_scales },
                   { CASE_VALUE_SCALES, &t->value_scales },
                   { CASE_KEY_ZERO_POINTS, &t->key_zero_points },
                   { CASE_VALUE_ZERO_POINTS, &t->value_zero_points } };
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); ++i) {
        if (c->input[beside[i].input].data) {
            place(&c->input[beside[i].input], beside[i].place);
        }
    }
    t->key_tensor_scale.data = c->input[CASE_KEY_TENSOR_SCALE].data;
    t->value_tensor_scale.data = c->input[CASE_VALUE_TENSOR_SCALE].data;
    if (t->key_scales.data) {
        p->features |= CLATTN_WITH_KEY_SCALES;
        p->key_scale_rows = param_number(c, "key_scale_rows");
        p->key_scale_columns = param_number(c, "key_scale_columns");
    }
    if (t->value_scales.data) {
        p->features |= CLATTN_WITH_VALUE_SCALES;
        p->value_scale_rows = param_number(c, "value_scale_rows");
        p->value_scale_columns = param_number(c, "value_scale_columns");
    } else if (case_values_in_keys(c) && c->input[CASE_KEY_SCALES].data) {
        p->features |= CLATTN_WITH_VALUE_SCALES;
        p->value_scale_rows = p->key_scale_rows;
        p->value_scale_columns = p->key_scale_columns;
        t->value_scales = t->key_scales;
        t->value_zero_points = t->key_zero_points;
        t->value_tensor_scale = t->key_tensor_scale;
    }
}

/* Keys, or values, that are quantised: float32 [batch, heads, rows, columns], by scales that the case has. */
struct quantising {
    const struct tensor *from;
    clattn_type type;
    const clattn_host_tensor *scales, *tensor_scale;
    int64_t scale_rows, scale_columns;
    const struct tensor *lengths; /* rows from there on are read back as 0 */
    struct tensor *to, *back;     /* back: what the codes stand for */
};

#define COLUMNS_MOST 1024

/* Codes, by the scales of row (b, h, i), or, where the type makes scales of values, by those. */
static clattn_status quantise_row(const struct quantising *q, const int64_t at[3], const float *values, void *row,
                                  float *back)
{
    const int64_t columns = q->from->shape[3], i = q->scale_rows ? at[2] / q->scale_rows : 0;
    const clattn_host_tensor *s = q->scales;
    const int is_made = type_makes_scales(q->type);
    float scales[COLUMNS_MOST], zeros[COLUMNS_MOST];
    clattn_row_scales by = { scales, type_has_zero_points(q->type) ? zeros : NULL, q->scale_columns, 1 };
    if (!type_takes_scales(q->type) || (!is_made && !s->data) || columns > COLUMNS_MOST) {
        const clattn_status status = clattn_quantise(q->type, columns, values, NULL, 0, row);
        return status == CLATTN_OK ? clattn_dequantise(q->type, columns, row, NULL, 0, back) : status;
    }
    if (!is_made) {
        by.scales = (float *)s->data + at[0] * s->stride[0] + at[1] * s->stride[1] + i * s->stride[2];
        by.columns = s->stride[3] ? q->scale_columns : 0;
    }
    by.tensor_scale = q->tensor_scale->data ? *(const float *)q->tensor_scale->data : 1;
    const clattn_status status = clattn_quantise_row(q->type, columns, values, is_made, &by, row);
    return status == CLATTN_OK ? clattn_dequantise_row(q->type, columns, row, &by, back) : status;
}

static int quantise(const struct quantising *q, struct failure *failure)
{
    const int is_float = type_is_float(q->type);
    int64_t shape[4], at[3], n = 0;
    memcpy(shape, q->from->shape, sizeof(shape));
    const int64_t columns = shape[3], row_bytes = (int64_t)clattn_row_bytes(q->type, columns);
    const enum tensor_type stored = is_float                 ? tensor_type_of_storage(q->type)
                                    : q->type == CLATTN_INT8 ? TENSOR_INT8
                                                             : TENSOR_UINT8;
    if (tensor_create(q->back, TENSOR_FLOAT32, 4, shape, "values", failure) != 0) {
        return -1;
    }
    shape[3] = is_float ? columns : row_bytes;
    if (tensor_create(q->to, stored, 4, shape, "codes", failure) != 0) {
        return -1;
    }
    for (at[0] = 0; at[0] < shape[0]; ++at[0]) {
        for (at[1] = 0; at[1] < shape[1]; ++at[1]) {
            for (at[2] = 0; at[2] < shape[2]; ++at[2], ++n) {
                if (quantise_row(q, at, (const float *)q->from->data + n * columns, (char *)q->to->data + n * row_bytes,
                                 (float *)q->back->data + n * columns) != CLATTN_OK) {
                    return failure_failed(failure, "%s", clattn_last_error());
                }
                const int is_past = q->lengths->data && (double)at[2] >= tensor_load(q->lengths, at[0]);
                for (int64_t i = 0; is_past && i < columns; ++i) {
                    ((float *)q->back->data)[n * columns + i] = 0;
                }
            }
        }
    }
    return 0;
}

int case_quantise(struct attention_case *c, struct failure *failure)
{
    const clattn_problem *p = &c->problem;
    const clattn_host_tensors *t = &c->tensors;
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(c->meta, "outputs");
    const struct tensor *lengths = &c->input[CASE_KEY_LENGTHS];
    const struct quantising keys = {
        &c->input[CASE_KEY_F32], p->key_type, &t->key_scales,   &t->key_tensor_scale, p->key_scale_rows,
        p->key_scale_columns,    lengths,     &c->quantised[0], &c->dequantised[0]
    };
    const struct quantising values = {
        &c->input[CASE_VALUE_F32], p->value_type, &t->value_scales, &t->value_tensor_scale, p->value_scale_rows,
        p->value_scale_columns,    lengths,       &c->quantised[1], &c->dequantised[1]
    };
    int status = 0;
    if (cJSON_GetObjectItemCaseSensitive(outputs, "key_quantised")) {
        status = quantise(&keys, failure);
    }
    if (status == 0 && cJSON_GetObjectItemCaseSensitive(outputs, "value_quantised")) {
        status = quantise(&values, failure);
    }
    return status;
}
