/* The table of sums of weights; validation of its problems and calls. */
#include "operation/key_sums.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "operation/forward_rows.h"
#include "operation/pools.h"

static const struct tensor_row tensor_rows[KEY_SUMS_TENSOR_COUNT] = {
#define FORWARD_ROW(id, field, axes, element, access, place, asked_by)                                                 \
    PLACED_ROW(field, axes, element, IN, place, clattn_tensors, clattn_host_tensors),
#define TEXT_ROW(number) CODE_ROW(number),
#define POOL_ROW(id, name_, field, axes, element, pool)                                                                \
    TENSOR_ROW(field, axes, element, IN, POOL, clattn_tensors, clattn_host_tensors, clattn_pools),
#define OWN_ROW(field, axes) PLACED_ROW(field, axes, WEIGHTS, OUT, STRIDED, clattn_key_sums, clattn_host_key_sums)
    CLATTN_FORWARD_TENSORS(FORWARD_ROW) CLATTN_CODE_TENSORS(TEXT_ROW) CLATTN_POOL_TENSORS(POOL_ROW)
        OWN_ROW(key_sums, (BATCH, QUERY_HEADS, ONE, KEY_LEN)),
    OWN_ROW(max_logit, (BATCH, QUERY_HEADS, ONE, ONE)),
#undef FORWARD_ROW
#undef TEXT_ROW
#undef POOL_ROW
#undef OWN_ROW
};

ROWS_HAVE_ROOM(KEY_SUMS_TENSOR_COUNT, FORWARD_EXTENTS, FORWARD_ELEMENTS);

#define BIT(id) (1ull << TENSOR_##id)
#define UNLOOKED                                                                                                       \
    (BIT(VALUE) | BIT(OUT) | BIT(WEIGHTS) | BIT(SINKS) | BIT(VALUE_SCALES) | BIT(VALUE_ZERO_POINTS) |                  \
     BIT(VALUE_TENSOR_SCALE) | BIT(VALUE_POOL_1) | BIT(VALUE_POOL_2) | BIT(VALUE_POOL_3))
_Static_assert(KEY_SUMS_TENSOR_COUNT <= 64, "`unlooked` has a bit for each tensor");

/* ---- problem ---------------------------------------------------------------------------------- */

static clattn_status check_fields(const struct key_sums_problem *k)
{
    const uint32_t known = CLATTN_KEY_SUMS | CLATTN_MAX_LOGIT;
    if (k->p.outputs == 0 || k->p.outputs & ~known) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "outputs 0x%x: must be one or more of CLATTN_KEY_SUMS and CLATTN_MAX_LOGIT", k->p.outputs);
    }
    if (k->p.last_rows < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "last_rows %" PRId64 ": must be 0, for all rows, or more",
                         k->p.last_rows);
    }
    if (k->p.last_rows > 0 && !(k->p.outputs & CLATTN_KEY_SUMS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "last_rows %" PRId64 ": outputs 0x%x have no CLATTN_KEY_SUMS, and it would be ignored; leave "
                         "it 0",
                         k->p.last_rows, k->p.outputs);
    }
    if (k->attention.p.weights != CLATTN_WEIGHTS_NONE) {
        return error_set(CLATTN_UNSUPPORTED,
                         "weights %d: the weights themselves are the forward call's; set CLATTN_WEIGHTS_NONE",
                         (int)k->attention.p.weights);
    }
    return CLATTN_OK;
}

/* Values, dropout and sinks say nothing of weights, whose lse is given: problems that differ in them are one. */
static void leave_values(struct key_sums_problem *k)
{
    clattn_problem *p = &k->attention.p;
    const uint32_t features = CLATTN_WITH_VALUE_SCALES | CLATTN_WITH_SINKS | CLATTN_WITH_LSE;
    p->features &= ~features;
    p->features |= k->p.outputs & CLATTN_KEY_SUMS ? CLATTN_WITH_LSE : 0u;
    p->value_type = p->out_type = p->type;
    p->value_scale_rows = p->value_scale_columns = 0;
    p->head_dim_v = 1;
    p->value_in_key = 0;
    p->sinks_type = CLATTN_TYPE_NONE;
    p->dropout = 0;
    p->allow_tf32 = 0;
    p->allow_rounded_weights = 0;
    p->matmul = CLATTN_MATMUL_AUTO;
    k->attention.flags = forward_flags(p, k->attention.any.code);
}

static clattn_status resolve(struct any_problem *any)
{
    struct key_sums_problem *k = (struct key_sums_problem *)any;
    if (!k->p.forward) {
        return error_set(CLATTN_INVALID_ARGUMENT, "forward: must point to the forward's problem");
    }
    clattn_status status = problem_init(&k->attention, k->p.forward);
    if (status != CLATTN_OK) {
        return status;
    }
    k->attention.any.operation = &operation_key_sums;
    k->p.forward = NULL;
    status = check_fields(k);
    if (status == CLATTN_OK) {
        leave_values(k);
    }
    return status;
}

static int equal(const struct any_problem *a, const struct any_problem *b)
{
    const struct key_sums_problem *x = key_sums_problem(a), *y = key_sums_problem(b);
    return attention_problem_equal(a, b) && x->p.outputs == y->p.outputs && x->p.last_rows == y->p.last_rows;
}

static void describe(const struct any_problem *any, struct text *text)
{
    const struct key_sums_problem *k = key_sums_problem(any);
    attention_problem_describe(any, text);
    if (k->p.outputs & CLATTN_KEY_SUMS && k->p.last_rows > 0) {
        text_append(text, "; sums of weights of the last %" PRId64 " rows", k->p.last_rows);
    } else if (k->p.outputs & CLATTN_KEY_SUMS) {
        text_append(text, "; sums of weights of all rows");
    }
    text_append(text, "%s", k->p.outputs & CLATTN_MAX_LOGIT ? "; largest logit of each head" : "");
}

/* ---- calls ------------------------------------------------------------------------------------ */

static clattn_status measure(const struct any_problem *problem, const void *values, struct operands *operands)
{
    const clattn_status status = call_measure(problem, values, operands);
    operands->asked &= ~UNLOOKED;
    if (!key_sums_wants(problem, CLATTN_KEY_SUMS)) { /* the forward call may have it */
        memset(&operands->tensor[TENSOR_LSE], 0, sizeof(operands->tensor[TENSOR_LSE]));
    }
    operands->asked |= key_sums_wants(problem, CLATTN_KEY_SUMS) ? 1ull << SUMS_KEY_SUMS : 0;
    operands->asked |= key_sums_wants(problem, CLATTN_MAX_LOGIT) ? 1ull << SUMS_MAX_LOGIT : 0;
    return status;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH_ELSEWHERE(clattn_tensors);
GROWTH_ELSEWHERE(clattn_host_tensors);
GROWTH(clattn_key_sums_problem, "problem", outputs, strategy, CLATTN_KEY_SUMS_PROBLEM_INIT);
GROWTH(clattn_key_sums, "sums", key_sums, max_logit, CLATTN_KEY_SUMS_INIT);
GROWTH(clattn_host_key_sums, "sums", key_sums, max_logit, CLATTN_HOST_KEY_SUMS_INIT);

const struct operation operation_key_sums = {
    .name = "sums of weights",
    .rows = tensor_rows,
    .count = KEY_SUMS_TENSOR_COUNT,
    .workspace_function = "clattn_plan_workspace",
    PROBLEM_OF(struct key_sums_problem, clattn_key_sums_problem),
    .resolve = resolve,
    .equal = equal,
    .describe = describe,
    .flags = attention_problem_flags,
    .describe_flags = forward_flags_describe,
    .tensors = { TENSORS_OF(clattn_tensors, clattn_host_tensors, FORWARD_TENSOR_COUNT, 0),
                 TENSORS_OF(clattn_key_sums, clattn_host_key_sums, KEY_SUMS_TENSOR_COUNT - FORWARD_TENSOR_COUNT,
                            offsetof(clattn_key_sums, workspace)) },
    .unlooked = UNLOOKED,
    .measure = measure,
    .check_places = pools_check_places,
    .check_values = call_check_values,
    .reference = reference_key_sums,
};
