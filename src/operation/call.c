/* Validation of one call against its problem: lengths, scale, then its tensors. */
#include "operation/call.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/growth.h"
#include "cl/forward/forward_params.h"
#include "operation/field_rules.h"
#include "operation/pools.h"
#include "operation/value_in_key.h"

GROWTH(clattn_call, "call", bias_key_len, mask_first_key, CLATTN_CALL_INIT);

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
    return status;
}

/* Which keys mask and bias are of. */
static clattn_status resolve_masked(const struct problem *problem, const clattn_call *given, struct call *call)
{
    const int64_t first = given->mask_first_key, left = call->key_len - first;
    if (first < 0 || left < 0) {
        return error_set(CLATTN_INVALID_SHAPE, "mask_first_key %" PRId64 ": must be 0 to key_len %" PRId64, first,
                         call->key_len);
    }
    if (first > 0 && !(problem->flags & (CLATTN_FLAG_MASK | CLATTN_FLAG_BIAS))) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "mask_first_key %" PRId64 ": the problem has no mask and no bias, and it would be ignored; "
                         "set CLATTN_WITH_MASK or bias_type, or leave it 0",
                         first);
    }
    call->mask_first_key = first;
    const clattn_status status = resolve_length("mask_key_len", given->mask_key_len, left, &call->mask_key_len);
    return status == CLATTN_OK ? resolve_length("bias_key_len", given->bias_key_len, left, &call->bias_key_len)
                               : status;
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

static clattn_status resolve_scalars(const struct user_code *code, const clattn_call *given, struct call *call)
{
    const int count = code ? code->p.scalar_count : 0;
    for (int i = 0; i < CODE_SCALARS_MOST; ++i) {
        call->code_scalars[i] = given->code_scalars[i];
        if (i >= count && !(given->code_scalars[i] >= 0 && given->code_scalars[i] <= 0)) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "code_scalars[%d] %s: problem.code has %d scalars, and it would be ignored", i,
                             DECIMAL((double)given->code_scalars[i]), count);
        }
    }
    return CLATTN_OK;
}

static clattn_status resolve(const struct problem *problem, const clattn_call *values, struct call *call)
{
    clattn_call given = CLATTN_CALL_INIT;
    clattn_status status = values ? growth_copy(GROWTH_OF(clattn_call), values, &given) : CLATTN_OK;
    if (status == CLATTN_OK) {
        status = resolve_lengths(&problem->p, &given, call);
    }
    if (status == CLATTN_OK) {
        status = resolve_masked(problem, &given, call);
    }
    if (status == CLATTN_OK) {
        status = problem_check_scale(given.has_scale, given.scale);
    }
    if (status == CLATTN_OK) {
        status = resolve_slice(&problem->p, &given, call);
    }
    if (status == CLATTN_OK) {
        status = resolve_scalars(problem->any.code, &given, call);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    call->scale = given.has_scale ? given.scale : 1.0 / sqrt((double)problem->p.head_dim);
    call->dropout_seed = given.dropout_seed;
    call->dropout_offset = given.dropout_offset;
    return CLATTN_OK;
}

/* Where the last sequence ends; seams that the problem does not ask for are refused, and nobody reads their memory. */
static int64_t last_seam(const struct problem *problem, const struct operands *operands, int id, int64_t unknown)
{
    return operand_is_asked(operands, id) ? operands_last_seam(operands, id, problem->p.batch, unknown) : unknown;
}

clattn_status call_measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct problem *problem = attention_problem(any);
    struct call *call = (struct call *)operands;
    clattn_status status = value_in_key_place(&problem->p, operands);
    if (status != CLATTN_OK) {
        return status;
    }
    forward_drop_batch_strides(&problem->p, operands);
    status = resolve(problem, values, call);
    if (status != CLATTN_OK) {
        return status;
    }
    operands->asked = forward_asked(&problem->p, any->code);
    const struct forward_lengths lengths = {
        call->query_len,
        call->key_len,
        call->mask_key_len,
        call->bias_key_len,
        last_seam(problem, operands, TENSOR_CU_QUERY, -1),
        last_seam(problem, operands, TENSOR_CU_KEY, -1),
        last_seam(problem, operands, TENSOR_PAGE_STARTS, problem->p.batch > 0 && call->key_len > 0),
    };
    forward_measure(&problem->p, any->code, &lengths, operands);
    return CLATTN_OK;
}

int32_t call_page(const struct operands *operands, int64_t b, int64_t kv_head, int64_t n)
{
    return operands_page(operands, TENSOR_PAGE_TABLE, TENSOR_PAGE_STARTS, b, kv_head, n);
}

/* A sequence of `length` keys has its pages in the one line for all; all of them are of the pool, or holes. */
static clattn_status check_pages_of(const struct problem *problem, const struct operands *operands, int64_t b,
                                    int64_t length)
{
    const int64_t rows = forward_kept_rows(&problem->p, length);
    const int64_t needed = ceil_div(rows, problem->p.page_size);
    const clattn_status status = operands_check_pages(operands, TENSOR_PAGE_STARTS, b, needed, "keys", length);
    if (status != CLATTN_OK) {
        return status;
    }
    const int64_t tables = operands->tensor[TENSOR_PAGE_TABLE].stride[1] != 0 ? problem->p.kv_heads : 1;
    for (int64_t at = 0; at < tables * needed; ++at) {
        const int64_t head = at / needed, n = at % needed;
        const int32_t page = call_page(operands, b, head, n);
        if (page < -1 || page >= problem->p.pages) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "page_table[%" PRId64 ", %" PRId64 "] %d: must be -1, for a hole, or 0 to pages %" PRId64
                             " - 1; the table of key/value head %" PRId64,
                             b, n, (int)page, problem->p.pages, head);
        }
    }
    return CLATTN_OK;
}

static clattn_status check_pages(const struct problem *problem, const struct operands *operands)
{
    clattn_status status = CLATTN_OK;
    if (!operands->tensor[TENSOR_PAGE_TABLE].data) {
        return CLATTN_OK;
    }
    for (int64_t b = 0; b < problem->p.batch && status == CLATTN_OK; ++b) {
        status = check_pages_of(problem, operands, b, operand_int(operands, TENSOR_KEY_LENGTHS, b));
    }
    return status;
}

clattn_status call_check_values(const struct any_problem *any, const struct operands *operands)
{
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    clattn_status status = operands_check_seams(operands, TENSOR_CU_QUERY, p->batch, p->query_len);
    if (status == CLATTN_OK) {
        status = operands_check_seams(operands, TENSOR_CU_KEY, p->batch, p->key_len);
    }
    if (status == CLATTN_OK) {
        status = operands_check_lengths(operands, TENSOR_KEY_LENGTHS, "key_len", attention_call(operands)->key_len);
    }
    return status == CLATTN_OK ? check_pages(problem, operands) : status;
}
