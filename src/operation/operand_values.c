/* Checks of values in host memory, which can be read before anything is computed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/half.h"
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
