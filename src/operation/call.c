/* Validation of one call against its problem: lengths, scale, then its tensors. */
#include "operation/call.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "cl/forward_params.h"

GROWTH(clattn_call, "call", bias_key_len, whole_heads, CLATTN_CALL_INIT);
GROWTH(clattn_tensors, "tensors", out, row_high, CLATTN_TENSORS_INIT);
GROWTH(clattn_host_tensors, "tensors", out, row_high, CLATTN_HOST_TENSORS_INIT);

static clattn_status resolve_length(const char *name, int64_t given, int64_t most, int64_t *length)
{
    *length = given == -1 ? most : given;
    if (*length < 0 || *length > most) {
        return error_set(CLATTN_INVALID_SHAPE, "%s %" PRId64 ": must be -1 or 0 to %" PRId64, name, given, most);
    }
    return CLATTN_OK;
}

static clattn_status resolve_lengths(const clattn_problem *p, const clattn_call *given, struct call *call)
{
    clattn_status status = resolve_length("query_len", given->query_len, p->query_len, &call->query_len);
    if (status == CLATTN_OK) {
        status = resolve_length("key_len", given->key_len, p->key_len, &call->key_len);
    }
    if (status == CLATTN_OK) {
        status = resolve_length("mask_key_len", given->mask_key_len, call->key_len, &call->mask_key_len);
    }
    if (status == CLATTN_OK) {
        status = resolve_length("bias_key_len", given->bias_key_len, call->key_len, &call->bias_key_len);
    }
    return status;
}

/* Where the call stands in a larger problem. */
static clattn_status resolve_slice(const clattn_problem *p, const clattn_call *given, struct call *call)
{
    const struct dimension dimensions[] = {
        { "first_batch", given->first_batch, 0 }, { "first_head", given->first_head, 0 },
        { "first_row", given->first_row, 0 },     { "first_key", given->first_key, 0 },
        { "whole_heads", given->whole_heads, 0 },
    };
    clattn_status status = check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    if (status != CLATTN_OK) {
        return status;
    }
    const int64_t whole_heads = given->whole_heads ? given->whole_heads : p->query_heads;
    if (given->first_head + p->query_heads > whole_heads) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "first_head %" PRId64 ": heads %" PRId64 " to %" PRId64 " are beyond whole_heads %" PRId64
                         "; set whole_heads to the query heads of the whole problem",
                         given->first_head, given->first_head, given->first_head + p->query_heads - 1, whole_heads);
    }
    call->first_plane = (uint32_t)given->first_batch * (uint32_t)whole_heads + (uint32_t)given->first_head;
    call->first_row = (uint32_t)given->first_row;
    call->first_key = (uint32_t)given->first_key;
    call->whole_heads = (uint32_t)whole_heads;
    return CLATTN_OK;
}

static clattn_status resolve_values(const struct problem *problem, const clattn_call *values, struct call *call)
{
    clattn_call given = CLATTN_CALL_INIT;
    clattn_status status = values ? growth_copy(GROWTH_OF(clattn_call), values, &given) : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = resolve_lengths(&problem->p, &given, call);
    }
    if (status == CLATTN_OK) {
        status = problem_check_scale(given.has_scale, given.scale);
    }
    if (status == CLATTN_OK) {
        status = resolve_slice(&problem->p, &given, call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    call->scale = given.has_scale ? given.scale : 1.0 / sqrt((double)problem->p.head_dim);
    call->dropout_seed = given.dropout_seed;
    call->dropout_offset = given.dropout_offset;
    return CLATTN_OK;
}

/* Where the last sequence ends, by seams that can be read; `unknown` where they cannot. */
static int64_t last_seam(const struct problem *problem, const struct operands *operands, enum tensor_id seams,
                         int64_t unknown)
{
    const struct tensor_place *place = &operands->tensor[seams];
    if (!place->data || place->offset < 0) { /* negative: operands_check refuses it */
        return unknown;
    }
    const int64_t rows = operand_int(operands, (int)seams, problem->p.batch);
    return rows > 0 ? rows : 0;
}

static clattn_status check_call(const struct problem *problem, const clattn_call *values, struct call *call)
{
    struct operands *operands = &call->operands;
    clattn_status status = resolve_values(problem, values, call);
    if (status != CLATTN_OK) {
        return status;
    }
    const struct forward_lengths lengths = {
        call->query_len,
        call->key_len,
        call->mask_key_len,
        call->bias_key_len,
        last_seam(problem, operands, TENSOR_CU_QUERY, -1),
        last_seam(problem, operands, TENSOR_CU_KEY, -1),
        last_seam(problem, operands, TENSOR_PAGE_STARTS, problem->p.batch > 0 && call->key_len > 0),
    };
    forward_measure(&problem->p, &lengths, operands);
    return operands_check(operands);
}

clattn_status call_from_device(const struct problem *problem, const clattn_call *values, const clattn_tensors *tensors,
                               struct call *call)
{
    clattn_tensors known;
    memset(call, 0, sizeof(*call));
    clattn_status status = growth_copy(GROWTH_OF(clattn_tensors), tensors, &known);
    if (status != CLATTN_OK) {
        return status;
    }
    call->operands.operation = &operation_forward;
    operands_read_device(&call->operands, &known);
    call->operands.workspace = known.workspace;
    forward_drop_batch_strides(&problem->p, &call->operands);
    return check_call(problem, values, call);
}

clattn_status call_from_host(const struct problem *problem, const clattn_call *values,
                             const clattn_host_tensors *tensors, struct call *call)
{
    clattn_host_tensors known;
    memset(call, 0, sizeof(*call));
    clattn_status status = growth_copy(GROWTH_OF(clattn_host_tensors), tensors, &known);
    if (status != CLATTN_OK) {
        return status;
    }
    call->operands.operation = &operation_forward;
    operands_read_host(&call->operands, &known);
    forward_drop_batch_strides(&problem->p, &call->operands);
    return check_call(problem, values, call);
}

static clattn_status check_seams(const struct problem *problem, const struct operands *operands, enum tensor_id id,
                                 int64_t most)
{
    const struct tensor_place *place = &operands->tensor[id];
    if (!place->data) {
        return CLATTN_OK;
    }
    const int32_t *seams = (const int32_t *)place->data + place->offset;
    const char *name = operand_name(operands, (int)id);
    if (seams[0] != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s[0] %d: must be 0", name, (int)seams[0]);
    }
    for (int64_t b = 0; b < problem->p.batch; ++b) {
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

int32_t call_page(const struct operands *operands, int64_t b, int64_t n)
{
    const int64_t *stride = operands->tensor[TENSOR_PAGE_TABLE].stride;
    const int64_t index = operand_is_asked(operands, TENSOR_PAGE_STARTS)
                              ? (operand_int(operands, TENSOR_PAGE_STARTS, b) + n) * stride[3]
                              : b * stride[0] + n * stride[3];
    return operand_int(operands, TENSOR_PAGE_TABLE, index);
}

/* Of a sequence of `length` keys: one line for all must have its pages; all of them are of the pool, or holes. */
static clattn_status check_pages_of(const struct problem *problem, const struct operands *operands, int64_t b,
                                    int64_t length)
{
    const int64_t needed = (length + problem->p.page_size - 1) / problem->p.page_size;
    if (operand_is_asked(operands, TENSOR_PAGE_STARTS)) {
        const int32_t start = operand_int(operands, TENSOR_PAGE_STARTS, b);
        const int32_t next = operand_int(operands, TENSOR_PAGE_STARTS, b + 1);
        if (start < 0 || (int64_t)next - start < needed) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "page_starts[%" PRId64 "] %d, and %d after it: sequence %" PRId64 " needs %" PRId64
                             " pages for its %" PRId64 " keys",
                             b, (int)start, (int)next, b, needed, length);
        }
    }
    for (int64_t n = 0; n < needed; ++n) {
        const int32_t page = call_page(operands, b, n);
        if (page < -1 || page >= problem->p.pages) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "page_table[%" PRId64 ", %" PRId64 "] %d: must be -1, for a hole, or 0 to pages %" PRId64
                             " - 1",
                             b, n, (int)page, problem->p.pages);
        }
    }
    return CLATTN_OK;
}

static clattn_status check_pages(const struct problem *problem, const struct call *call)
{
    const struct operands *operands = &call->operands;
    clattn_status status = CLATTN_OK;
    if (!operands->tensor[TENSOR_PAGE_TABLE].data) {
        return CLATTN_OK;
    }
    for (int64_t b = 0; b < problem->p.batch && status == CLATTN_OK; ++b) {
        status = check_pages_of(problem, operands, b, operand_int(operands, TENSOR_KEY_LENGTHS, b));
    }
    return status;
}

clattn_status call_check_host_values(const struct problem *problem, const struct call *call)
{
    clattn_status status = check_seams(problem, &call->operands, TENSOR_CU_QUERY, problem->p.query_len);
    if (status == CLATTN_OK) {
        status = check_seams(problem, &call->operands, TENSOR_CU_KEY, problem->p.key_len);
    }
    if (status == CLATTN_OK) {
        status = operands_check_lengths(&call->operands, TENSOR_KEY_LENGTHS, "key_len", call->key_len);
    }
    if (status == CLATTN_OK) {
        status = check_pages(problem, call);
    }
    return status;
}
