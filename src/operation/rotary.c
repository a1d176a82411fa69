/* Validation of rotary embedding. */
#include "operation/rotary.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/growth.h"
#include "base/text.h"
#include "operation/field_rules.h"
#include "operation/rows.h"

/* ---- tensors ---------------------------------------------------------------------------------- */

enum rotary_extent {
    EXTENT_ONE,
    EXTENT_BATCH,
    EXTENT_PACKS, /* varlen: 1, sequences follow one another on the row axis; else the batch */
    EXTENT_HEADS,
    EXTENT_QUERY_ROWS, /* varlen: of all sequences, where the seams can be read; else query_len */
    EXTENT_HEAD_DIM,
    EXTENT_TABLE_PACKS, /* tables with a row for each row of the tensors: PACKS, else 1 */
    EXTENT_TABLE_ROWS,
    EXTENT_TABLE_COLUMNS,
    EXTENT_SEAMS,
    ROTARY_EXTENTS
};

enum rotary_element { ELEMENT_TYPE = OWN_ELEMENTS, ROTARY_ELEMENTS };

static const struct tensor_row tensor_rows[ROTARY_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_rotary_tensors, clattn_rotary_host_tensors,                 \
               clattn_rotary_params),
    CLATTN_ROTARY_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(ROTARY_TENSOR_COUNT, ROTARY_EXTENTS, ROTARY_ELEMENTS);

/* ---- problem ---------------------------------------------------------------------------------- */

static int equal(const struct any_problem *a, const struct any_problem *b)
{
    const clattn_rotary_problem *x = &rotary_problem_of(a)->p, *y = &rotary_problem_of(b)->p;
    return x->type == y->type && x->pairs == y->pairs && x->batch == y->batch && x->heads == y->heads &&
           x->query_len == y->query_len && x->head_dim == y->head_dim && x->first_column == y->first_column &&
           x->columns == y->columns && x->positions == y->positions && x->features == y->features &&
           x->inverse == y->inverse && x->strided_columns == y->strided_columns && x->norm_epsilon == y->norm_epsilon;
}

static void describe(const struct any_problem *any, struct text *text)
{
    const clattn_rotary_problem *p = &rotary_problem_of(any)->p;
    text_append(text, "batch %" PRId64 ", heads %" PRId64 ", %" PRId64 " rows, head_dim %" PRId64 ", %s, ", p->batch,
                p->heads, p->query_len, p->head_dim, clattn_type_name(p->type));
    turning_describe(&rotary_problem_of(any)->turning, text);
    norms_describe(&rotary_problem_of(any)->norms, text);
}

static clattn_status check_problem(const struct rotary_problem *problem)
{
    const clattn_rotary_problem *p = &problem->p;
    const uint32_t known = (uint32_t)CLATTN_WITH_VARLEN | CLATTN_WITH_POSITIONS | CLATTN_WITH_STARTS |
                           CLATTN_WITH_TOKEN_TABLES | CLATTN_WITH_NORM | CLATTN_WITH_NORM_WEIGHTS;
    clattn_status status = check_type(p->type);
    if (status != CLATTN_OK) {
        return status;
    }
    if (p->features & ~known) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features 0x%x: rotary does not know bits 0x%x", p->features,
                         p->features & ~known);
    }
    if (p->features & CLATTN_WITH_STARTS && p->features & (CLATTN_WITH_POSITIONS | CLATTN_WITH_TOKEN_TABLES)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_STARTS beside CLATTN_WITH_POSITIONS or "
                                                  "CLATTN_WITH_TOKEN_TABLES would be ignored; set one");
    }
    const struct dimension dimensions[] = {
        { "batch", p->batch, 0 },
        { "heads", p->heads, 0 },
        { "query_len", p->query_len, 0 },
        { "head_dim", p->head_dim, 2 },
    };
    status = check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    const struct dimension rows = { "batch * query_len", status == CLATTN_OK ? p->batch * p->query_len : 0, 0 };
    if (status == CLATTN_OK) {
        status = check_dimensions(&rows, 1);
    }
    if (status == CLATTN_OK) {
        status = norms_check(&problem->norms, p->inverse);
    }
    return status == CLATTN_OK ? turning_check(&problem->turning, p->head_dim) : status;
}

static clattn_status resolve(struct any_problem *any)
{
    struct rotary_problem *problem = (struct rotary_problem *)any;
    clattn_rotary_problem *p = &problem->p;
    p->inverse = p->inverse != 0;
    p->strided_columns = p->strided_columns != 0;
    problem->turning = (struct turning){ p->pairs,   p->inverse,   p->first_column,
                                         p->columns, p->positions, p->features | CLATTN_WITH_ROTARY };
    problem->norms = (struct norms){ p->features, p->norm_epsilon };
    turning_resolve(&problem->turning, p->head_dim);
    p->columns = problem->turning.columns;
    return check_problem(problem);
}

/* ---- calls ------------------------------------------------------------------------------------ */

#define ALWAYS 1
#define FEATURE(name) ((features & CLATTN_WITH_##name) != 0)
#define WEIGHT_OF(norm) (FEATURE(norm) && FEATURE(NORM_WEIGHTS))
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << ROTARY_##id : 0)
static uint32_t asked_of(uint32_t features)
{
    return 0u CLATTN_ROTARY_TENSORS(ASKED_OF_ROW);
}

static clattn_status measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct rotary_problem *problem = rotary_problem_of(any);
    const clattn_rotary_problem *p = &problem->p;
    struct rotary_call *call = (struct rotary_call *)operands;
    const clattn_status status = turning_query_len(values, p->query_len, &call->query_len);
    if (status != CLATTN_OK) {
        return status;
    }
    const struct turn_extents turn = turning_extents(&problem->turning, operands, p->batch, call->query_len);
    const int64_t extents[ROTARY_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_PACKS] = turn.packs,
        [EXTENT_HEADS] = p->heads,
        [EXTENT_QUERY_ROWS] = turn.rows,
        [EXTENT_HEAD_DIM] = p->head_dim,
        [EXTENT_TABLE_PACKS] = turn.table_packs,
        [EXTENT_TABLE_ROWS] = turn.table_rows,
        [EXTENT_TABLE_COLUMNS] = problem->turning.columns / 2,
        [EXTENT_SEAMS] = p->batch + 1,
    };
    memcpy(operands->extent, extents, sizeof(extents));
    if (turn.rows_are_unknown) {
        operands->unknown_extents = 1u << EXTENT_QUERY_ROWS |
                                    (p->features & CLATTN_WITH_TOKEN_TABLES ? 1u << EXTENT_TABLE_ROWS : 0);
    }
    operands_set_type(operands, ELEMENT_TYPE, p->type);
    operands->asked = asked_of(problem->turning.features);
    operands->in_place = 1u << ROTARY_X | 1u << ROTARY_OUT;
    operands->strided_columns = p->strided_columns;
    return CLATTN_OK;
}

static clattn_status check_values(const struct any_problem *any, const struct operands *operands)
{
    const struct rotary_problem *problem = rotary_problem_of(any);
    /* Without heads nothing is turned, and the batch may be of any length. */
    return problem->p.heads > 0 ? turning_check_values(&problem->turning, operands, problem->p.batch,
                                                       rotary_call_of(operands)->query_len)
                                : CLATTN_OK;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH(clattn_rotary_problem, "problem", positions, norm_epsilon, CLATTN_ROTARY_PROBLEM_INIT);
GROWTH(clattn_rotary_tensors, "tensors", sine, norm_weight, CLATTN_ROTARY_TENSORS_INIT);
GROWTH(clattn_rotary_host_tensors, "tensors", sine, norm_weight, CLATTN_ROTARY_HOST_TENSORS_INIT);
CALL_HAS_ROOM(struct rotary_call);

const struct operation operation_rotary = {
    .name = "rotary",
    .rows = tensor_rows,
    .count = ROTARY_TENSOR_COUNT,
    PROBLEM_OF(struct rotary_problem, clattn_rotary_problem),
    .resolve = resolve,
    .equal = equal,
    .describe = describe,
    .tensors = { TENSORS_OF(clattn_rotary_tensors, clattn_rotary_host_tensors, ROTARY_TENSOR_COUNT, 0) },
    .measure = measure,
    .check_values = check_values,
    .reference = reference_rotary,
};
