/* Where the rows of a call in host memory go; the twin of target_of in cl/cache/append.cl. */
#include "operation/append_values.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"

static int64_t slot_of(const struct operands *operands, int64_t b, int64_t i)
{
    const struct turn_sequence sequence = turning_sequence(operands, b, 0);
    const int64_t *stride = operands->tensor[APPEND_SLOTS].stride;
    return operand_int(operands, APPEND_SLOTS, sequence.pack * stride[0] + (sequence.first_row + i) * stride[2]);
}

/* The row of the sequence's cache; -1: a later row of the call has its place in the ring. */
static int64_t cache_row(const clattn_append_problem *p, int64_t position, int64_t rows_left)
{
    const int64_t turning = p->ring - p->pinned;
    if (p->ring == 0 || position < p->pinned) {
        return position;
    }
    return rows_left > turning ? -1 : p->pinned + (position - p->pinned) % turning;
}

static int32_t page_of(const struct operands *operands, int64_t b, int64_t number)
{
    return operands_page(operands, APPEND_PAGE_TABLE, APPEND_PAGE_STARTS, b, 0, number);
}

struct append_target append_target(const struct append_problem *problem, const struct append_call *call, int64_t b,
                                   int64_t i)
{
    const clattn_append_problem *p = &problem->p;
    const struct operands *operands = &call->operands;
    const int by_slots = operand_is_asked(operands, APPEND_SLOTS);
    const int64_t rows = turning_sequence(operands, b, call->query_len).rows;
    const int64_t row = by_slots ? slot_of(operands, b, i) : cache_row(p, turning_position(operands, b, i), rows - i);
    struct append_target target = { row >= 0, b, row };
    if (row >= 0 && p->page_size > 0) {
        target.pack = by_slots ? row / p->page_size : page_of(operands, b, row / p->page_size);
        target.row = row % p->page_size;
        target.is_written = target.pack >= 0;
    }
    return target;
}

/* ---- what is refused -------------------------------------------------------------------------- */

static clattn_status check_slots(const clattn_append_problem *p, const struct operands *operands, int64_t b,
                                 int64_t rows)
{
    const int64_t most = p->page_size > 0 ? p->pages * p->page_size : p->capacity;
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t slot = slot_of(operands, b, i);
        if (slot >= most) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "slots: row %" PRId64 " of sequence %" PRId64 " has slot %" PRId64 ", beyond the %" PRId64
                             " rows of the cache; a negative slot is not written",
                             i, b, slot, most);
        }
    }
    return CLATTN_OK;
}

/* The pages of rows [first, end) of a sequence's cache. */
static clattn_status check_pages(const clattn_append_problem *p, const struct operands *operands, int64_t b,
                                 int64_t first, int64_t end)
{
    const int64_t needed = end > first ? ceil_div(end, p->page_size) : 0;
    const clattn_status status = needed > 0 ? operands_check_pages(operands, APPEND_PAGE_STARTS, b, needed, "rows", end)
                                            : CLATTN_OK;
    if (status != CLATTN_OK) {
        return status;
    }
    for (int64_t n = first / p->page_size; n < needed; ++n) {
        const int32_t page = page_of(operands, b, n);
        if (page < -1 || page >= p->pages) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "page_table: page %" PRId64 " of sequence %" PRId64 " is %d"
                             "; must be -1, for a hole, or 0 to pages %" PRId64 " - 1",
                             n, b, (int)page, p->pages);
        }
    }
    return CLATTN_OK;
}

static clattn_status check_start(const clattn_append_problem *p, const struct operands *operands, int64_t b,
                                 int64_t rows)
{
    const int64_t start = operand_int(operands, APPEND_STARTS, b), end = start + rows;
    if (start < 0 || (p->ring == 0 && end > p->capacity)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "starts[%" PRId64 "] %" PRId64 ": must be 0 to %" PRId64 ", so that its %" PRId64
                         " new rows end within capacity %" PRId64,
                         b, start, p->ring > 0 ? (int64_t)INT32_MAX : p->capacity - rows, rows, p->capacity);
    }
    if (p->page_size == 0 || rows == 0) {
        return CLATTN_OK;
    }
    return p->ring > 0 ? check_pages(p, operands, b, 0, end < p->ring ? end : p->ring)
                       : check_pages(p, operands, b, start, end);
}

clattn_status append_check_values(const struct any_problem *any, const struct operands *operands)
{
    const struct append_problem *problem = append_problem_of(any);
    const struct append_call *call = append_call_of(operands);
    const clattn_append_problem *p = &problem->p;
    clattn_status status = turning_check_values(&problem->turning, operands, p->batch, call->query_len);
    const int by_slots = operand_is_asked(operands, APPEND_SLOTS); /* may have strides of 0, and any length if empty */
    const int has_values = !by_slots || (call->query_len > 0 && p->kv_heads > 0);
    for (int64_t b = 0; has_values && b < p->batch && status == CLATTN_OK; ++b) {
        const int64_t rows = turning_sequence(operands, b, call->query_len).rows;
        status = by_slots ? check_slots(p, operands, b, rows) : check_start(p, operands, b, rows);
    }
    return status;
}
