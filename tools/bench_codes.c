#include "bench_codes.h"

#include "insides.h"
#include "problem_options.h"

/* Keys or values of a problem. */
struct stored {
    clattn_type type;
    int64_t columns;
    int64_t scale_columns; /* that share a scale; 0: none */
    enum bench_tensor scales, zero_points, tensor_scale;
};

static struct stored stored_of(const clattn_problem *p, int of_keys)
{
    struct stored of = { of_keys ? p->key_type : p->value_type,
                         of_keys ? p->head_dim : p->head_dim_v,
                         0,
                         of_keys ? BENCH_KEY_SCALES : BENCH_VALUE_SCALES,
                         of_keys ? BENCH_KEY_ZERO_POINTS : BENCH_VALUE_ZERO_POINTS,
                         of_keys ? BENCH_KEY_TENSOR_SCALE : BENCH_VALUE_TENSOR_SCALE };
    of.type = of.type ? of.type : p->type;
    if (type_makes_scales(of.type)) {
        of.scale_columns = type_scale_columns(of.type) > 0 ? type_scale_columns(of.type) : of.columns;
    }
    return of;
}

static int is_of_keys(enum bench_tensor id)
{
    return id == BENCH_KEY || id == BENCH_KEY_SCALES || id == BENCH_KEY_ZERO_POINTS || id == BENCH_KEY_TENSOR_SCALE;
}

static int is_codes(clattn_type type)
{
    return type >= CLATTN_INT8;
}

int bench_is_codes(const clattn_problem *problem, enum bench_tensor id)
{
    return (id == BENCH_KEY || id == BENCH_VALUE) && is_codes(stored_of(problem, id == BENCH_KEY).type);
}

struct bench_extents bench_cache_extents(const clattn_problem *p, enum bench_tensor id)
{
    const struct stored of = stored_of(p, is_of_keys(id));
    const int64_t packs = p->page_size > 0 ? p->pages : p->batch;
    const int64_t rows = p->page_size > 0 ? p->page_size : problem_kept_rows(p);
    const int64_t groups = of.scale_columns > 0 ? (of.columns + of.scale_columns - 1) / of.scale_columns : 0;
    struct bench_extents extents = { !p->value_in_key || is_of_keys(id),
                                     TENSOR_FLOAT32,
                                     { packs, p->kv_heads, rows, groups } };
    if (id == BENCH_KEY || id == BENCH_VALUE) {
        extents.type = is_codes(of.type) ? TENSOR_UINT8 : tensor_type_of_storage(of.type);
        extents.shape[3] = is_codes(of.type) ? (int64_t)clattn_row_bytes(of.type, of.columns) : of.columns;
    } else if (id == of.scales) {
        extents.there &= groups > 0;
        extents.type = type_of_scales(of.type) == CLATTN_FLOAT32 ? TENSOR_FLOAT32 : TENSOR_UINT8;
    } else if (id == of.zero_points) {
        extents.there &= type_has_zero_points(of.type);
    } else {
        extents.there &= type_has_tensor_scale(of.type);
        extents.shape[0] = extents.shape[1] = extents.shape[2] = extents.shape[3] = 1;
    }
    return extents;
}

static int fill_row(const struct stored *of, struct bench_data *data, enum bench_tensor id, int64_t i,
                    const float *numbers, struct failure *failure)
{
    struct tensor *tensor = &data->tensor[id], *scales = &data->tensor[of->scales];
    char *codes = (char *)tensor->data + i * tensor->shape[3];
    clattn_status status;
    if (of->scale_columns == 0) {
        status = clattn_quantise(of->type, of->columns, numbers, NULL, 0, codes);
    } else {
        const int64_t at = i * scales->shape[3];
        float *zero_points = data->tensor[of->zero_points].data;
        const clattn_row_scales made = { (char *)scales->data + (size_t)at * tensor_type_size(scales->type),
                                         zero_points ? zero_points + at : NULL, of->scale_columns, 1 };
        status = clattn_quantise_row(of->type, of->columns, numbers, 1, &made, codes);
    }
    return status == CLATTN_OK ? 0 : failure_of_library(failure, EXIT_FAILED, clattn_last_error());
}

int bench_fill_codes(const clattn_problem *problem, struct bench_data *data, enum bench_tensor id,
                     struct failure *failure)
{
    const struct stored of = stored_of(problem, id == BENCH_KEY);
    const struct tensor *tensor = &data->tensor[id];
    const int64_t rows = tensor_count(tensor) / (tensor->shape[3] ? tensor->shape[3] : 1), shape[] = { of.columns };
    const uint64_t seed = (uint64_t)id + 1;
    struct tensor row = TENSOR_INIT;
    int result = tensor_create(&row, TENSOR_FLOAT32, 1, shape, "a row", failure);
    if (data->tensor[of.tensor_scale].data) {
        *(float *)data->tensor[of.tensor_scale].data = 1;
    }
    for (int64_t i = 0; i < rows && result == 0; i++) {
        bench_data_fill_normal(&row, seed + 7919 * (uint64_t)i);
        result = fill_row(&of, data, id, i, row.data, failure);
    }
    tensor_free(&row);
    return result;
}
