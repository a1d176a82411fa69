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
    if (c->input[CASE_KEY_SCALES].data) {
        p->features |= CLATTN_WITH_KEY_SCALES;
        p->key_scale_rows = param_number(c, "key_scale_rows");
        p->key_scale_columns = param_number(c, "key_scale_columns");
        place(&c->input[CASE_KEY_SCALES], &c->tensors.key_scales);
    }
    if (c->input[CASE_VALUE_SCALES].data) {
        p->features |= CLATTN_WITH_VALUE_SCALES;
        p->value_scale_rows = param_number(c, "value_scale_rows");
        p->value_scale_columns = param_number(c, "value_scale_columns");
        place(&c->input[CASE_VALUE_SCALES], &c->tensors.value_scales);
    } else if (case_values_in_keys(c) && c->input[CASE_KEY_SCALES].data) {
        p->features |= CLATTN_WITH_VALUE_SCALES;
        p->value_scale_rows = p->key_scale_rows;
        p->value_scale_columns = p->key_scale_columns;
        c->tensors.value_scales = c->tensors.key_scales;
    }
}

/* `from`: float32 [batch, heads, rows, columns]. */
static int quantise(const struct tensor *from, clattn_type type, const clattn_host_tensor *scales, int64_t scale_rows,
                    int64_t scale_columns, struct tensor *to, struct failure *failure)
{
    const int is_float = type_is_float(type);
    int64_t shape[4], at = 0;
    memcpy(shape, from->shape, sizeof(shape));
    const int64_t columns = shape[3], row_bytes = (int64_t)clattn_row_bytes(type, columns);
    shape[3] = is_float ? columns : row_bytes;
    const enum tensor_type stored = is_float              ? tensor_type_of_storage(type)
                                    : type == CLATTN_INT8 ? TENSOR_INT8
                                                          : TENSOR_UINT8;
    if (tensor_create(to, stored, 4, shape, "codes", failure) != 0) {
        return -1;
    }
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t i = 0; i < shape[2]; ++i, ++at) {
                const float *of_row = (const float *)scales->data;
                if (of_row) {
                    of_row += b * scales->stride[0] + h * scales->stride[1];
                    of_row += (scale_rows ? i / scale_rows : 0) * scales->stride[2];
                }
                if (clattn_quantise(type, columns, (const float *)from->data + at * columns, of_row,
                                    scales->stride[3] ? scale_columns : 0,
                                    (char *)to->data + at * row_bytes) != CLATTN_OK) {
                    return failure_failed(failure, "%s", clattn_last_error());
                }
            }
        }
    }
    return 0;
}

int case_quantise(struct attention_case *c, struct failure *failure)
{
    const clattn_problem *p = &c->problem;
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(c->meta, "outputs");
    int status = 0;
    if (cJSON_GetObjectItemCaseSensitive(outputs, "key_quantised")) {
        status = quantise(&c->input[CASE_KEY_F32], p->key_type, &c->tensors.key_scales, p->key_scale_rows,
                          p->key_scale_columns, &c->quantised[0], failure);
    }
    if (status == 0 && cJSON_GetObjectItemCaseSensitive(outputs, "value_quantised")) {
        status = quantise(&c->input[CASE_VALUE_F32], p->value_type, &c->tensors.value_scales, p->value_scale_rows,
                          p->value_scale_columns, &c->quantised[1], failure);
    }
    return status;
}
