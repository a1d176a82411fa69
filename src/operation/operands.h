/* The tensors of one call of an operation: where they are, and how large the operation's extents are in this call.
 * Checks that need no device are here; how large buffers are, plan/enqueue.c asks. */
#ifndef CLATTN_SRC_OPERANDS_H
#define CLATTN_SRC_OPERANDS_H

#include "operation/operation.h"

/* Exactly one of buffer and data is used, by the kind of call. Zero where the tensor is absent. */
struct tensor_place {
    cl_mem buffer;
    void *data;
    int64_t offset;
    int64_t stride[4];
    int64_t low, high; /* the elements that the strides reach are in [low, high); set by operands_check, which also
                        * makes elements of the columns that offset and strides of block types count */
};

struct operands {
    const struct operation *operation;
    int64_t extent[EXTENTS_MAX];       /* by the numbers in the rows; number 0 is 1 */
    uint32_t unknown_extents;          /* bits of those that only the device knows: at most what stands here */
    clattn_type element[ELEMENTS_MAX]; /* types; CLATTN_TYPE_NONE: integers, see element_bytes */
    size_t element_bytes[ELEMENTS_MAX];
    int64_t element_columns[ELEMENTS_MAX]; /* of an element: of block types, of a block; 0: 1 */
    uint64_t asked;                        /* bit n: the problem has tensor n, which must be given; else it must not */
    uint64_t in_place;                     /* bit n: it and another of these may be in one place, exactly */
    uint64_t unread;                       /* bit n: this call writes all of tensor n, which others read too */
    int strided_columns;
    cl_mem workspace;
    struct tensor_place tensor[OPERANDS_MAX]; /* those of the operation; nobody reads the ones behind them */
};

/* Operands of a call, all zero but the operation and the elements that all have. */
void operands_begin(struct operands *operands, const struct operation *operation);

/* The type of one of the operation's own elements; CLATTN_TYPE_NONE: it has none in this call. */
void operands_set_type(struct operands *operands, int element, clattn_type type);

/* Operands of a call that is rehearsed (program/rehearsal.h): all that is asked for is given, and the workspace. Dense,
 * in what only looks like a buffer: no driver may see it. */
void operands_stand_in(struct operands *operands);

/* Each tensor given exactly where it is asked for (one without elements need not be), offsets and strides within the
 * rules, what is written not on top of itself. Extents, elements and asked are set by then; dense strides are set
 * here. */
clattn_status operands_check(struct operands *operands);

/* Weights in host memory are finite, or CLATTN_INVALID_ARGUMENT with the place of the first that is not. */
clattn_status operands_check_finite(const struct operands *operands);

/* int32 values in host memory, or an absent tensor: each of them 0 to `most`, which messages call by its name. */
clattn_status operands_check_lengths(const struct operands *operands, int id, const char *most_name, int64_t most);

/* Seams of packed rows, batch + 1 of them, begin with 0, and no sequence has less than 0 or more than `most` rows. */
clattn_status operands_check_seams(const struct operands *operands, int id, int64_t batch, int64_t most);

/* Where the last sequence ends, by such seams; `unknown` where they cannot be read. */
int64_t operands_last_seam(const struct operands *operands, int id, int64_t batch, int64_t unknown);

/* Page `number` of sequence b, by a page table of the head in host memory: of its own row, or, where `starts`
 * (page_starts) is asked for, of one line for all, from starts[b] on. -1: a hole. */
int32_t operands_page(const struct operands *operands, int table, int starts, int64_t b, int64_t kv_head,
                      int64_t number);

/* A table of one line has the `needed` pages of sequence b, for so many rows, which messages call by `rows_name`. */
clattn_status operands_check_pages(const struct operands *operands, int starts, int64_t b, int64_t needed,
                                   const char *rows_name, int64_t rows);

/* The int32 that is `index` elements behind the first of a tensor in host memory. */
static inline int32_t operand_int(const struct operands *operands, int id, int64_t index)
{
    const struct tensor_place *place = &operands->tensor[id];
    return ((const int32_t *)place->data)[place->offset + index];
}

/* Whether bit `id`, or one behind it, is set: where a loop over tensors goes on. Most calls have the first few rows
 * only. */
static inline int bits_follow(uint64_t bits, int id)
{
    return bits >> id != 0;
}

/* Whether a tensor from `id` on is asked for, which is what a checked call has. */
static inline int operand_follows(const struct operands *operands, int id)
{
    return bits_follow(operands->asked, id);
}

static inline const struct tensor_row *operand_row(const struct operands *operands, int id)
{
    return &operands->operation->rows[id];
}

static inline const char *operand_name(const struct operands *operands, int id)
{
    return operand_row(operands, id)->name;
}

static inline size_t operand_bytes(const struct operands *operands, int id) /* of an element */
{
    return operands->element_bytes[operand_row(operands, id)->element];
}

static inline int operand_is_given(const struct operands *operands, int id)
{
    return ((uintptr_t)operands->tensor[id].buffer | (uintptr_t)operands->tensor[id].data) != 0;
}

static inline int operand_is_asked(const struct operands *operands, int id)
{
    return (operands->asked >> id & 1) != 0;
}

static inline int operand_is_written(const struct operands *operands, int id)
{
    const enum tensor_role role = operand_row(operands, id)->role;
    return role == TENSOR_OUTPUT || role == TENSOR_UPDATED || role == TENSOR_SUMMED;
}

static inline int operand_is_read(const struct operands *operands, int id)
{
    return operand_row(operands, id)->role != TENSOR_OUTPUT && !(operands->unread >> id & 1);
}

int operand_is_empty(const struct operands *operands, int id);
void operand_shape(const struct operands *operands, int id, int64_t shape[4]); /* in elements */
int64_t operand_columns(const struct operands *operands, int id);              /* of an element: of a block, or 1 */

/* The shape as it lies in memory: an axis that is summed (a stride of 0) has one element there, the sum of nothing
 * too, which is 0 and not nothing. */
void operand_stored_shape(const struct operands *operands, int id, int64_t shape[4]);

/* "[5, 384]": the axes that are more than 1, or the last */
#define SHAPE_TEXT_BYTES 128
const char *operand_shape_text(const struct operands *operands, int id, char *text);

/* Whether every place that the strides reach is an element: the axes nest without a gap, in whatever order. */
int operand_is_dense(const struct operands *operands, int id);

/* Whether nothing that is asked for and written has an element: then there is nothing to compute. */
int operands_are_empty(const struct operands *operands);

/* Offsets and strides into the operation's kernel parameters, which are zero. */
void operands_fill(const struct operands *operands, void *params);

/* Offset and strides of these tensors (bits), one behind the other; all zero of a tensor that is absent. Returns how
 * many numbers there are. */
size_t operands_number(const struct operands *operands, uint64_t tensors, int64_t *numbers);

/* factors[0] * factors[1] * ..., -1 where it does not fit 64 bits. */
int64_t product_of_extents(const int64_t *factors, int count);

#endif
