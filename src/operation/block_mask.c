/* The table of making a mask of blocks: attention's rows, of which one is written. */
#include "operation/block_mask.h"

#include "base/error.h"
#include "base/text.h"
#include "cl/forward/forward_params.h"
#include "operation/call.h"
#include "operation/forward_rows.h"

static const struct tensor_row tensor_rows[ALL_TENSOR_COUNT] = {
#define ROLE_OF(id) (TENSOR_##id == TENSOR_BLOCK_MASK ? TENSOR_OUTPUT : TENSOR_INPUT)
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    MEMBER_ROW(field, field, axes, element, ROLE_OF(id), PLACED_##place, clattn_tensors, clattn_host_tensors, none),
    CLATTN_FORWARD_TENSORS(ROW)
#undef ROW
#define ROW(number) CODE_ROW(number),
        CLATTN_CODE_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(ALL_TENSOR_COUNT, FORWARD_EXTENTS, FORWARD_ELEMENTS);

/* What a text is asked with, beside its own tensors. */
#define LOOKED_AT                                                                                                      \
    (1ull << TENSOR_BLOCK_MASK | 1ull << TENSOR_KEY_LENGTHS | 1ull << TENSOR_QUERY_OFFSETS | 1ull << TENSOR_CU_QUERY | \
     1ull << TENSOR_CU_KEY)
#define TENSORS_OF_ATTENTION ((1ull << TENSOR_COUNT) - 1)
_Static_assert(ALL_TENSOR_COUNT <= 64, "`unlooked` has a bit for each tensor");

static clattn_status resolve(struct any_problem *any)
{
    const clattn_status status = problem_resolve(any);
    if (status != CLATTN_OK) {
        return status;
    }
    const uint32_t flags = attention_problem(any)->flags;
    if (!(flags & CLATTN_FLAG_BLOCK_MASK)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: need CLATTN_WITH_BLOCK_MASK, with block_mask_rows and block_mask_keys",
                         attention_problem(any)->p.features);
    }
    return flags & CLATTN_FLAG_MASK_TEXT
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "code: must be a text with clattn_mask (CLATTN_CODE_MASK), which says what blocks are");
}

static clattn_status measure(const struct any_problem *problem, const void *values, struct operands *operands)
{
    const clattn_status status = call_measure(problem, values, operands);
    operands->asked &= LOOKED_AT | ~(uint64_t)TENSORS_OF_ATTENTION;
    return status;
}

static clattn_status check_values(const struct any_problem *any, const struct operands *operands)
{
    const clattn_problem *p = &attention_problem(any)->p;
    clattn_status status = operands_check_seams(operands, TENSOR_CU_QUERY, p->batch, p->query_len);
    if (status == CLATTN_OK) {
        status = operands_check_seams(operands, TENSOR_CU_KEY, p->batch, p->key_len);
    }
    return status == CLATTN_OK
               ? operands_check_lengths(operands, TENSOR_KEY_LENGTHS, "key_len", attention_call(operands)->key_len)
               : status;
}

static void describe(const struct any_problem *problem, struct text *text)
{
    text_append(text, "what blocks of a mask are: ");
    attention_problem_describe(problem, text);
}

GROWTH_ELSEWHERE(clattn_problem);
GROWTH_ELSEWHERE(clattn_tensors);
GROWTH_ELSEWHERE(clattn_host_tensors);

const struct operation operation_block_mask = {
    .name = "block masks",
    .rows = tensor_rows,
    .count = ALL_TENSOR_COUNT,
    .workspace_function = "clattn_plan_workspace",
    PROBLEM_OF(struct problem, clattn_problem),
    .resolve = resolve,
    .equal = attention_problem_equal,
    .describe = describe,
    .flags = attention_problem_flags,
    .describe_flags = forward_flags_describe,
    .tensors = { TENSORS_OF(clattn_tensors, clattn_host_tensors, ALL_TENSOR_COUNT, 0) },
    .unlooked = TENSORS_OF_ATTENTION & ~LOOKED_AT,
    .measure = measure,
    .check_values = check_values,
    .reference = reference_block_mask,
};
