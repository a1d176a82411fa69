#include "reference/gradient_detail.h"

#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"

clattn_status gradient_detail_create(const struct operands *operands, int first, struct gradient_detail *detail)
{
    memset(detail, 0, sizeof(*detail));
    for (int id = first; id < operands->operation->count; ++id) {
        if (operand_is_written(operands, id) && operand_is_asked(operands, id) && !operand_is_empty(operands, id)) {
            const int64_t count = operands->tensor[id].high - operands->tensor[id].low;
            detail->value[id] = numbers_allocate(count);
            detail->unit[id] = numbers_allocate(count);
            if (!detail->value[id] || !detail->unit[id]) {
                return numbers_no_memory();
            }
        }
    }
    return CLATTN_OK;
}

void gradient_detail_free(struct gradient_detail *detail)
{
    for (int id = 0; id < OPERANDS_MAX; ++id) {
        free(detail->value[id]);
        free(detail->unit[id]);
    }
    memset(detail, 0, sizeof(*detail));
}

struct numbers gradient_detail_rows(const struct gradient_detail *detail, int id, int64_t first_row, int64_t rows,
                                    int64_t columns)
{
    const struct numbers found = {
        detail->value[id] + first_row * columns, detail->unit[id] + first_row * columns, rows, columns, columns, 1
    };
    return found;
}

void gradient_detail_store(const struct gradient_detail *detail, const struct operands *operands, clattn_type type)
{
    for (int id = 0; id < operands->operation->count; ++id) {
        const struct tensor_place *place = &operands->tensor[id];
        for (int64_t n = 0; detail->value[id] && n < place->high - place->low; ++n) {
            const double before = operand_is_read(operands, id) ? type_load(type, place->data, place->low + n) : 0;
            type_store(type, place->data, place->low + n, before + detail->value[id][n]);
        }
    }
}
