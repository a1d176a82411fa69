/* Checks of values in host memory, which can be read before anything is computed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "operation/operands.h"

/* "[3, 17]": the indices of dense element i on the axes that the tensor has. */
static const char *index_text(const struct operands *operands, int id, int64_t i, char *text, size_t bytes)
{
    const struct tensor_row *row = &operands->operation->rows[id];
    int64_t shape[4], index[4];
    size_t length = 0;
    operand_shape(operands, id, shape);
    for (int axis = 3; axis >= 0; --axis) {
        index[axis] = i % shape[axis];
        i /= shape[axis];
    }
    for (int axis = 0; axis < 4; ++axis) {
        if (row->axis[axis] != 0) {
            length += (size_t)snprintf(text + length, bytes - length, "%s%" PRId64, length ? ", " : "[", index[axis]);
        }
    }
    snprintf(text + length, bytes - length, "]");
    return text;
}

static clattn_status check_finite(const struct operands *operands, int id)
{
    const struct tensor_place *place = &operands->tensor[id];
    const clattn_type type = operands->element[operands->operation->rows[id].element];
    clattn_status status = CLATTN_OK;
    for (int64_t i = place->low; i < place->high && status == CLATTN_OK; ++i) {
        const double value = type_load(type, place->data, i);
        if (!isfinite(value)) {
            char shape[SHAPE_TEXT_BYTES], at[SHAPE_TEXT_BYTES];
            status = error_set(CLATTN_INVALID_ARGUMENT, "%s%s of %s is %s: weights must be finite",
                               operand_name(operands, id), index_text(operands, id, i - place->low, at, sizeof(at)),
                               operand_shape_text(operands, id, shape), isnan(value) ? "NaN" : "infinite");
        }
    }
    return status;
}

clattn_status operands_check_finite(const struct operands *operands)
{
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < operands->operation->count && status == CLATTN_OK; ++id) {
        if (operands->operation->rows[id].role == TENSOR_WEIGHT && operands->tensor[id].data) {
            status = check_finite(operands, id);
        }
    }
    return status;
}

clattn_status operands_check_lengths(const struct operands *operands, int id, const char *most_name, int64_t most)
{
    const struct tensor_place *place = &operands->tensor[id];
    int64_t shape[4];
    operand_shape(operands, id, shape);
    for (int64_t b = 0; place->data && b < shape[3]; ++b) {
        const int32_t length = operand_int(operands, id, b);
        if (length < 0 || length > most) {
            return error_set(CLATTN_INVALID_ARGUMENT, "%s[%" PRId64 "] %d: must be 0 to %s %" PRId64,
                             operand_name(operands, id), b, (int)length, most_name, most);
        }
    }
    return CLATTN_OK;
}

clattn_status operands_check_seams(const struct operands *operands, int id, int64_t batch, int64_t most)
{
    const struct tensor_place *place = &operands->tensor[id];
    if (!place->data) {
        return CLATTN_OK;
    }
    const int32_t *seams = (const int32_t *)place->data + place->offset;
    const char *name = operand_name(operands, id);
    if (seams[0] != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s[0] %d: must be 0", name, (int)seams[0]);
    }
    for (int64_t b = 0; b < batch; ++b) {
        int64_t length = (int64_t)seams[b + 1] - seams[b];
        if (length < 0 || length > most) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s[%" PRId64 "] %d: gives sequence %" PRId64 " %" PRId64
                             " rows; must be 0 to the problem's %" PRId64,
                             name, b + 1, (int)seams[b + 1], b, length, most);
        }
    }
    return CLATTN_OK;
}

int64_t operands_last_seam(const struct operands *operands, int id, int64_t batch, int64_t unknown)
{
    const struct tensor_place *place = &operands->tensor[id];
    if (!place->data || place->offset < 0) { /* negative: operands_check refuses it */
        return unknown;
    }
    const int64_t rows = operand_int(operands, id, batch);
    return rows > 0 ? rows : 0;
}

int32_t operands_page(const struct operands *operands, int table, int starts, int64_t b, int64_t kv_head,
                      int64_t number)
{
    const int64_t *stride = operands->tensor[table].stride;
    const int64_t entry = operand_is_asked(operands, starts) ? (operand_int(operands, starts, b) + number) * stride[3]
                                                             : b * stride[0] + number * stride[3];
    return operand_int(operands, table, entry + kv_head * stride[1]);
}

clattn_status operands_check_pages(const struct operands *operands, int starts, int64_t b, int64_t needed,
                                   const char *rows_name, int64_t rows)
{
    if (!operand_is_asked(operands, starts)) {
        return CLATTN_OK;
    }
    const int32_t start = operand_int(operands, starts, b), next = operand_int(operands, starts, b + 1);
    if (start >= 0 && (int64_t)next - start >= needed) {
        return CLATTN_OK;
    }
    return error_set(CLATTN_INVALID_ARGUMENT,
                     "page_starts[%" PRId64 "] %d, and %d after it: sequence %" PRId64 " needs %" PRId64
                     " pages for its %" PRId64 " %s",
                     b, (int)start, (int)next, b, needed, rows, rows_name);
}
