/* Append by its definition, row by row: normed and turned in float64, rounded to float32 where they are quantised. */
#include "operation/append.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/reference_rotary.h"
#include "reference/stored_rows.h"
#include "reference/visibility.h"

/* One row on its way. */
struct row {
    const struct append_problem *problem;
    const struct append_call *call;
    int64_t b, i;
    double *values; /* room for the longest row, and behind it as floats */
    float *floats;
};

static void read_row(const struct row *row, enum append_tensor from, int64_t h, int64_t columns)
{
    const struct turn_sequence sequence = turning_sequence(&row->call->operands, row->b, row->call->query_len);
    const struct tensor_place *place = &row->call->operands.tensor[from];
    for (int64_t c = 0; c < columns; ++c) {
        row->values[c] = type_load(row->problem->p.type, place->data,
                                   place_index(place, sequence.pack, h, sequence.first_row + row->i, c));
    }
}

static void norm_row(const struct row *row, uint32_t norm, int weights, int64_t columns)
{
    if (row->problem->norms.features & norm) {
        reference_norm(&row->problem->norms, &row->call->operands, weights, columns, row->values);
    }
}

static void turn_row(const struct row *row)
{
    if (row->problem->turning.features & CLATTN_WITH_ROTARY) {
        reference_turn(&row->problem->turning, &row->call->operands, row->b, row->i, row->values);
    }
}

static void write_query(const struct row *row, int64_t h)
{
    const struct turn_sequence sequence = turning_sequence(&row->call->operands, row->b, row->call->query_len);
    const struct tensor_place *place = &row->call->operands.tensor[APPEND_QUERY_OUT];
    for (int64_t c = 0; c < row->problem->p.head_dim; ++c) {
        type_store(row->problem->p.type, place->data,
                   place_index(place, sequence.pack, h, sequence.first_row + row->i, c), row->values[c]);
    }
}

/* What differs between keys and values. */
struct cache {
    enum append_tensor rows, scales, made_scales, zero_points, tensor_scale;
    clattn_type type;
    int64_t columns, scale_rows, scale_columns;
};

static struct code_scale scale_of(const struct row *row, const struct cache *cache, const struct append_target *to,
                                  int64_t h, int64_t c)
{
    const struct operands *operands = &row->call->operands;
    const struct tensor_place *place = &operands->tensor[cache->scales];
    if (!operand_is_asked(operands, (int)cache->scales)) {
        return (struct code_scale){ 1, 0 };
    }
    const float *scales = place->data;
    return (
        struct code_scale){ scales[place_index(place, to->pack, h, cache->scale_rows ? to->row / cache->scale_rows : 0,
                                               cache->scale_columns ? c / cache->scale_columns : 0)],
                            0 };
}

/* Makes the scale of the columns that begin with c, and stores it. */
static struct code_scale make_scale(const struct row *row, const struct cache *cache, const struct append_target *to,
                                    int64_t h, int64_t c)
{
    const struct operands *operands = &row->call->operands;
    const struct tensor_place *place = &operands->tensor[cache->made_scales];
    const struct tensor_place *zeros = &operands->tensor[cache->zero_points];
    const int64_t share = cache->scale_columns ? cache->scale_columns : cache->columns;
    const int64_t count = share < cache->columns - c ? share : cache->columns - c;
    const struct code_scale made = type_make_scale(cache->type, row->floats + c, count,
                                                   tensor_scale_of(operands, (int)cache->tensor_scale), place->data,
                                                   place_index(place, to->pack, h, to->row, c / share));
    if (type_has_zero_points(cache->type)) {
        ((float *)zeros->data)[place_index(zeros, to->pack, h, to->row, c / share)] = made.zero_point;
    }
    return made;
}

static clattn_status write_row(const struct row *row, const struct cache *cache, const struct append_target *to,
                               int64_t h)
{
    const clattn_append_problem *p = &row->problem->p;
    int64_t pack = to->pack;
    const int pool = pools_find(p->pool_pages, &pack);
    const struct tensor_place *place = &row->call->operands.tensor[append_pool(cache->rows, pool)];
    for (int64_t c = 0; c < cache->columns; ++c) {
        row->floats[c] = (float)row->values[c];
    }
    if (type_is_blocks(cache->type)) { /* the place counts in blocks */
        uint8_t *block = (uint8_t *)place->data +
                         place_index(place, pack, h, to->row, 0) * (int64_t)clattn_type_size(cache->type);
        type_store_blocks(cache->type, cache->columns, row->floats, block); /* what devices cannot refuse is stored */
        return CLATTN_OK;
    }
    const int64_t of_element = clattn_type_columns(cache->type);
    const int is_made = type_makes_scales(cache->type);
    struct code_scale by = { 1, 0 };
    for (int64_t c = 0; c < cache->columns; ++c) {
        if (is_made && (cache->scale_columns ? c % cache->scale_columns : c) == 0) {
            by = make_scale(row, cache, to, h, c);
        } else if (!is_made) {
            by = scale_of(row, cache, to, h, c);
        }
        const double value = type_takes_scales(cache->type) ? type_code(cache->type, row->floats[c], by)
                                                            : row->values[c];
        const int64_t element = place_index(place, pack, h, to->row, c / of_element);
        type_store(cache->type, place->data, element * of_element + c % of_element, value);
    }
    return CLATTN_OK;
}

static clattn_status append_row(const struct row *row)
{
    const clattn_append_problem *p = &row->problem->p;
    const struct cache keys = {
        APPEND_KEY_CACHE, APPEND_KEY_SCALES, APPEND_KEY_SCALES_OUT, APPEND_KEY_ZERO_POINTS, APPEND_KEY_TENSOR_SCALE,
        p->key_type,      p->head_dim,       p->key_scale_rows,     p->key_scale_columns
    };
    const struct cache values = {
        APPEND_VALUE_CACHE,        APPEND_VALUE_SCALES, APPEND_VALUE_SCALES_OUT, APPEND_VALUE_ZERO_POINTS,
        APPEND_VALUE_TENSOR_SCALE, p->value_type,       p->head_dim_v,           p->value_scale_rows,
        p->value_scale_columns
    };
    const struct append_target to = append_target(row->problem, row->call, row->b, row->i);
    clattn_status status = CLATTN_OK;
    for (int64_t h = 0; h < p->query_heads; ++h) {
        read_row(row, APPEND_QUERY, h, p->head_dim);
        norm_row(row, CLATTN_WITH_QUERY_NORM, APPEND_QUERY_NORM_WEIGHT, p->head_dim);
        turn_row(row);
        write_query(row, h);
    }
    for (int64_t h = 0; h < p->kv_heads && to.is_written && status == CLATTN_OK; ++h) {
        read_row(row, APPEND_KEY, h, p->head_dim);
        norm_row(row, CLATTN_WITH_KEY_NORM, APPEND_KEY_NORM_WEIGHT, p->head_dim);
        turn_row(row);
        status = write_row(row, &keys, &to, h);
        read_row(row, APPEND_VALUE, h, p->head_dim_v);
        norm_row(row, CLATTN_WITH_VALUE_NORM, NO_WEIGHTS, p->head_dim_v);
        status = status == CLATTN_OK ? write_row(row, &values, &to, h) : status;
    }
    return status;
}

clattn_status reference_append(const struct any_problem *any, const struct operands *operands)
{
    const struct append_problem *problem = append_problem_of(any);
    const struct append_call *call = append_call_of(operands);
    const clattn_append_problem *p = &problem->p;
    const size_t columns = (size_t)(p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v);
    struct row row = { problem, call, 0, 0, malloc(columns * (sizeof(double) + sizeof(float))), NULL };
    clattn_status status = CLATTN_OK;
    if (!row.values) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a row");
    }
    row.floats = (float *)(row.values + columns);
    /* Without rows the batch may be of any length. */
    const int has_rows = p->query_heads + p->kv_heads > 0 && call->query_len > 0;
    for (row.b = 0; has_rows && row.b < p->batch; ++row.b) {
        const int64_t rows = turning_sequence(operands, row.b, call->query_len).rows;
        for (row.i = 0; row.i < rows && status == CLATTN_OK; ++row.i) {
            status = append_row(&row);
        }
    }
    free(row.values);
    return status;
}
