#define _XOPEN_SOURCE 700
#include "trials.h"

#include <stdlib.h>
#include <string.h>

#include "offline/null_driver.h"
#include "operation/operands.h"

#define MEMORY_MAX 4096          /* elements of a tensor, for the reference */
#define EXTENTS_MAX_PRODUCT 2e10 /* of all extents, most of which say the same again */

/* ---- edits ---- */

static void edit_fields(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial)
{
    unsigned number;
    while ((number = fuzz_byte(bytes)) != 0) {
        const struct field *field = &kind->fields[number % kind->field_count];
        char *at = (char *)trial + field->at;
        if (field->is_real) {
            const double real = fuzz_real(bytes);
            memcpy(at, &real, sizeof(real));
        } else if (field->is_name) {
            const char *name = fuzz_strategy(fuzz_byte(bytes));
            memcpy(at, &name, sizeof(name));
        } else {
            const int64_t value = fuzz_number(bytes); /* little-endian: its first bytes are the smaller fields */
            memcpy(at, &value, field->bytes);
        }
    }
}

/* Each tensor that is asked for, dense, its extents' product at most 2^62. */
static void give_tensors(struct trial *trial, const struct operands *operands)
{
    const struct operation *operation = operands->operation;
    for (int id = 0; id < operation->count; ++id) {
        char *public = (char *)&trial->device + operation->rows[id].device_at;
        int64_t shape[4], step = operand_columns(operands, id);
        if (!operand_is_asked(operands, id)) {
            continue;
        }
        clattn_tensor tensor = { null_driver_buffer(), 0, { 0 } };
        operand_shape(operands, id, shape);
        for (int axis = 3; axis >= 0; --axis) {
            tensor.stride[axis] = axis == 3 ? 1 : step;
            step *= shape[axis] > 0 && shape[axis] < 65536 ? shape[axis] : 1;
            step = step < (int64_t)1 << 40 ? step : 1;
        }
        if (operation->rows[id].field == FIELD_TENSOR) {
            memcpy(public, &tensor, sizeof(tensor));
        } else {
            const clattn_array array = { tensor.buffer, 0 };
            memcpy(public, &array, sizeof(array));
        }
    }
}

static void edit_tensors(struct fuzz_bytes *bytes, struct trial *trial, const struct operation *operation)
{
    unsigned number;
    while ((number = fuzz_byte(bytes)) != 0) {
        const struct tensor_row *row = &operation->rows[number % (unsigned)operation->count];
        const unsigned axis = fuzz_byte(bytes) % 6;
        const int64_t value = fuzz_number(bytes);
        char *public = (char *)&trial->device + row->device_at;
        if (axis == 5) {
            memset(public, 0, sizeof(cl_mem)); /* not given */
        } else if (axis == 4) {
            memcpy(public + offsetof(clattn_tensor, offset), &value, sizeof(value));
        } else if (row->field == FIELD_TENSOR) {
            memcpy(public + offsetof(clattn_tensor, stride) + axis * sizeof(value), &value, sizeof(value));
        }
    }
}

/* ---- what must hold ---- */

/* By 128 bits, and without the library's own arithmetic. */
static void look_at_reach(const struct operands *operands, int id)
{
    const struct tensor_place *place = &operands->tensor[id];
    __extension__ typedef __int128 wide;
    wide low = place->offset, high = place->offset;
    int64_t shape[4];
    if (!operand_is_given(operands, id) || operand_is_empty(operands, id)) {
        return;
    }
    operand_shape(operands, id, shape);
    for (int axis = 0; axis < 4; ++axis) {
        const wide reach = (wide)place->stride[axis] * (shape[axis] - 1);
        *(reach < 0 ? &low : &high) += reach;
    }
    fuzz_must(place->low == low && place->high == high + 1, "what strides reach is what was checked");
}

static void look_at_call(const struct operands *operands)
{
    for (int id = 0; id < operands->operation->count; ++id) {
        look_at_reach(operands, id);
        fuzz_must(operand_is_asked(operands, id) || !operand_is_given(operands, id), "nothing is ignored");
    }
}

/* ---- the reference ---- */

static int is_small(const struct operands *operands)
{
    for (int id = 0; id < operands->operation->count; ++id) {
        const struct tensor_place *place = &operands->tensor[id];
        if (operand_is_given(operands, id) && (place->low < 0 || place->high > MEMORY_MAX)) {
            return 0;
        }
    }
    double work = 1;
    for (int extent = 1; extent < EXTENTS_MAX; ++extent) {
        work *= operands->extent[extent] > 1 ? (double)operands->extent[extent] : 1;
    }
    return work < EXTENTS_MAX_PRODUCT;
}

static void fill(struct fuzz_bytes *bytes, unsigned char *memory, size_t size)
{
    for (size_t i = 0; i < size; ++i) { /* small integers, which lengths, seams and pages are */
        memory[i] = (unsigned char)(i % 4 == 0 && bytes->at < bytes->end ? fuzz_byte(bytes) : 0);
    }
}

void trial_compute(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial,
                   const struct operands *operands)
{
    void *memory[OPERANDS_MAX] = { 0 };
    const struct operation *operation = operands->operation;
    if (!is_small(operands)) {
        return;
    }
    for (int id = 0; id < operation->count; ++id) {
        const struct tensor_place *place = &operands->tensor[id];
        if (!operand_is_given(operands, id)) {
            continue;
        }
        const size_t size = (size_t)place->high * operand_bytes(operands, id);
        const int64_t columns = operand_columns(operands, id);
        clattn_host_tensor tensor = { 0 };
        tensor.data = memory[id] = malloc(size + !size);
        fuzz_must(memory[id] != NULL, "there is memory");
        fill(bytes, memory[id], size);
        tensor.offset = place->offset * columns;
        for (int axis = 0; axis < 4; ++axis) {
            tensor.stride[axis] = axis == 3 ? place->stride[3] : place->stride[axis] * columns;
        }
        memcpy((char *)&trial->host + operation->rows[id].host_at, &tensor,
               operation->rows[id].field == FIELD_TENSOR ? sizeof(tensor) : sizeof(tensor.data));
    }
    (void)kind->reference(trial);
    for (int id = 0; id < operation->count; ++id) {
        free(memory[id]);
    }
}

/* ---- all of it ---- */

void trial_start(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial)
{
    memset(trial, 0, sizeof(*trial));
    kind->start(trial);
    edit_fields(bytes, kind, trial);
}

const struct operands *trial_call(struct fuzz_bytes *bytes, const struct kind *kind, struct trial *trial)
{
    const struct operands *operands = NULL;
    if (kind->look(trial, &operands) != CLATTN_OK && !operands) {
        fuzz_must(clattn_last_error()[0] != 0, "a refused problem says why");
        return NULL;
    }
    give_tensors(trial, operands);
    edit_tensors(bytes, trial, operands->operation);
    if (kind->look(trial, &operands) != CLATTN_OK) {
        fuzz_must(clattn_last_error()[0] != 0, "a refused call says why");
        return NULL;
    }
    look_at_call(operands);
    return operands;
}
