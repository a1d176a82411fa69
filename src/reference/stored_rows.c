/* From the number of a key to its row, and from codes to values. */
#include "reference/stored_rows.h"

#include <string.h>

#include "base/stored_types.h"
#include "operation/pools.h"

void load_row(const struct call *call, int id, int64_t b, int64_t head, int64_t row, int64_t columns, double *to)
{
    const struct tensor_place *place = &call->operands.tensor[id];
    const clattn_type type = call->operands.element[call->operands.operation->rows[id].element];
    const int64_t block = clattn_type_columns(type);
    if (block > 1) { /* the place counts blocks */
        for (int64_t c = 0; c < columns; ++c) {
            to[c] = type_load(type, place->data, place_index(place, b, head, row, 0) * block + c);
        }
        return;
    }
    for (int64_t c = 0; c < columns; ++c) {
        to[c] = type_load(type, place->data, place_index(place, b, head, row, c));
    }
}

float tensor_scale_of(const struct operands *operands, int id)
{
    const struct tensor_place *place = &operands->tensor[id];
    return operand_is_asked(operands, id) ? ((const float *)place->data)[place->offset] : 1.0f;
}

/* The codes of a row become values. */
static void scale_row(const struct stored_place *at, enum tensor_id id, int64_t b, int64_t row, int64_t columns,
                      double *values)
{
    const clattn_problem *p = &at->problem->p;
    const int of_keys = id == TENSOR_KEY;
    const uint32_t flag = of_keys ? CLATTN_FLAG_KEY_SCALES : CLATTN_FLAG_VALUE_SCALES;
    const struct tensor_place *scales = &at->call->operands.tensor[of_keys ? TENSOR_KEY_SCALES : TENSOR_VALUE_SCALES];
    const int64_t rows = of_keys ? p->key_scale_rows : p->value_scale_rows;
    const int64_t share = of_keys ? p->key_scale_columns : p->value_scale_columns;
    const clattn_type type = of_keys ? p->key_type : p->value_type;
    const struct tensor_place *zeros =
        &at->call->operands.tensor[of_keys ? TENSOR_KEY_ZERO_POINTS : TENSOR_VALUE_ZERO_POINTS];
    const float tensor_scale =
        tensor_scale_of(&at->call->operands, of_keys ? TENSOR_KEY_TENSOR_SCALE : TENSOR_VALUE_TENSOR_SCALE);
    for (int64_t c = 0; c < columns && at->problem->flags & flag; ++c) {
        const int64_t i = rows ? row / rows : 0, group = share ? c / share : 0;
        struct code_scale by = { 0, 0 };
        by.scale = type_scale(type, scales->data, place_index(scales, b, at->kv_head, i, group), tensor_scale);
        if (type_has_zero_points(type)) {
            by.zero_point = ((const float *)zeros->data)[place_index(zeros, b, at->kv_head, i, group)];
        }
        values[c] = type_scaled(values[c], by);
    }
}

int stored_row_find(const struct stored_place *at, int64_t *b, int64_t *row)
{
    const struct problem *problem = at->problem;
    *row = key_row_of(problem, at->j);
    *b = problem->flags & CLATTN_FLAG_VARLEN ? 0 : at->b;
    if (problem->flags & CLATTN_FLAG_PAGES) {
        *b = key_page(problem, at->call, at->b, at->kv_head, at->j);
        *row %= problem->p.page_size;
    } else {
        *row += at->sequence->key_row;
    }
    return *b >= 0 && key_is_kept(problem, at->sequence, at->j);
}

void load_stored_row(const struct stored_place *at, enum tensor_id id, int64_t columns, double *to)
{
    int64_t b, row;
    if (!stored_row_find(at, &b, &row)) {
        memset(to, 0, (size_t)columns * sizeof(*to));
        return;
    }
    int64_t pack = b; /* of scales, which one tensor has for all pages */
    const int tensor = at->problem->flags & CLATTN_FLAG_POOLS ? pools_tensor_of(&at->problem->p, id, &pack) : (int)id;
    load_row(at->call, tensor, pack, at->kv_head, row, columns, to);
    scale_row(at, id, b, row, columns, to);
}
