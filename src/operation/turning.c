/* The rules on what is turned, and the values that tell by how much. */
#include "operation/turning.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/growth.h"
#include "base/text.h"
#include "operation/field_rules.h"

#define AGREES(cl, c) _Static_assert((unsigned)(cl) == (unsigned)(c), #cl " must equal " #c)
AGREES(CLATTN_CL_PAIRS_INTERLEAVED, CLATTN_PAIRS_INTERLEAVED);
AGREES(CLATTN_CL_PAIRS_HALVES, CLATTN_PAIRS_HALVES);
AGREES(CLATTN_CL_WITH_VARLEN, CLATTN_WITH_VARLEN);
AGREES(CLATTN_CL_WITH_POSITIONS, CLATTN_WITH_POSITIONS);
AGREES(CLATTN_CL_WITH_STARTS, CLATTN_WITH_STARTS);
AGREES(CLATTN_CL_WITH_TOKEN_TABLES, CLATTN_WITH_TOKEN_TABLES);
AGREES(CLATTN_CL_WITH_ROTARY, CLATTN_WITH_ROTARY);

GROWTH(clattn_cache_call, "call", query_len, query_len, CLATTN_CACHE_CALL_INIT);

void turning_resolve(struct turning *turning, int64_t head_dim)
{
    if (turning->features & CLATTN_WITH_ROTARY && turning->columns == 0 && turning->first_column <= head_dim) {
        turning->columns = head_dim - turning->first_column;
    }
}

static clattn_status check_columns(const struct turning *t, int64_t head_dim)
{
    if (t->pairs != CLATTN_PAIRS_INTERLEAVED && t->pairs != CLATTN_PAIRS_HALVES) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "pairs %d: must be CLATTN_PAIRS_INTERLEAVED or CLATTN_PAIRS_HALVES, as the model has them; it "
                         "is never guessed",
                         (int)t->pairs);
    }
    const struct dimension dimensions[] = { { "first_column", t->first_column, 0 }, { "columns", t->columns, 1 } };
    clattn_status status = check_dimensions(dimensions, 2);
    if (status != CLATTN_OK) {
        return status;
    }
    if (t->columns % 2) {
        return error_set(CLATTN_INVALID_SHAPE, "columns %" PRId64 ": must be even, they are turned in pairs",
                         t->columns);
    }
    if (t->first_column + t->columns > head_dim) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "first_column %" PRId64 ", columns %" PRId64 ": end beyond head_dim %" PRId64, t->first_column,
                         t->columns, head_dim);
    }
    return CLATTN_OK;
}

/* One of three tells where a row stands. */
static clattn_status check_places(const struct turning *t)
{
    const int by_positions = (t->features & CLATTN_WITH_POSITIONS) != 0;
    const int by_tables = (t->features & CLATTN_WITH_TOKEN_TABLES) != 0;
    if (by_positions && by_tables) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_POSITIONS and CLATTN_WITH_TOKEN_TABLES both "
                                                  "say by which row of the tables a row is turned; set one");
    }
    if (!by_positions && !by_tables && !(t->features & CLATTN_WITH_STARTS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features: nothing says where rows stand; set CLATTN_WITH_POSITIONS, CLATTN_WITH_STARTS or "
                         "CLATTN_WITH_TOKEN_TABLES");
    }
    if (by_tables && t->positions != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "positions %" PRId64 ": must be 0 with CLATTN_WITH_TOKEN_TABLES, whose tables have a row for "
                         "each row of the tensors",
                         t->positions);
    }
    const struct dimension rows = { "positions", t->positions, by_tables ? 0 : 1 };
    return check_dimensions(&rows, 1);
}

clattn_status turning_check(const struct turning *turning, int64_t head_dim)
{
    if (!(turning->features & CLATTN_WITH_ROTARY)) {
        const uint32_t needless = turning->features & (CLATTN_WITH_POSITIONS | CLATTN_WITH_TOKEN_TABLES);
        if (needless || turning->pairs || turning->columns || turning->first_column || turning->positions ||
            turning->inverse) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "features 0x%x: without CLATTN_WITH_ROTARY nothing is turned, and pairs, first_column, "
                             "columns, positions, inverse, CLATTN_WITH_POSITIONS and CLATTN_WITH_TOKEN_TABLES would be "
                             "ignored; set it, or leave them 0",
                             turning->features);
        }
        return CLATTN_OK;
    }
    const clattn_status status = check_columns(turning, head_dim);
    return status == CLATTN_OK ? check_places(turning) : status;
}

clattn_status turning_query_len(const clattn_cache_call *given, int64_t most, int64_t *query_len)
{
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    const clattn_status status = given ? growth_copy(GROWTH_OF(clattn_cache_call), given, &call) : CLATTN_OK;
    if (status != CLATTN_OK) {
        return status;
    }
    *query_len = call.query_len == -1 ? most : call.query_len;
    if (*query_len < 0 || *query_len > most) {
        return error_set(CLATTN_INVALID_SHAPE, "query_len %" PRId64 ": must be -1 or 0 to %" PRId64, call.query_len,
                         most);
    }
    return CLATTN_OK;
}

void turning_fill(const struct turning *turning, int64_t batch, int64_t query_len, clattn_turn_params *params)
{
    params->table_rows = turning->positions;
    params->batch = (int)batch;
    params->query_len = (int)query_len;
}

struct turn_extents turning_extents(const struct turning *turning, const struct operands *operands, int64_t batch,
                                    int64_t query_len)
{
    const int is_packed = (turning->features & CLATTN_WITH_VARLEN) != 0;
    const int by_token = (turning->features & CLATTN_WITH_TOKEN_TABLES) != 0;
    const int64_t packed = is_packed ? operands_last_seam(operands, TURN_CU_QUERY, batch, -1) : -1;
    struct turn_extents extents = { is_packed ? batch > 0 : batch, packed >= 0 ? packed : query_len, 1,
                                    turning->positions, is_packed && packed < 0 };
    if (by_token) {
        extents.table_packs = extents.packs;
        extents.table_rows = extents.rows;
    }
    return extents;
}

void turning_describe(const struct turning *turning, struct text *text)
{
    text_append(text, "%s, ", turning->pairs == CLATTN_PAIRS_HALVES ? "halves" : "interleaved");
    text_append(text, "%" PRId64 " columns from %" PRId64 " on%s, by %s", turning->columns, turning->first_column,
                turning->inverse ? ", back" : "",
                turning->features & CLATTN_WITH_TOKEN_TABLES ? "tables of each row"
                : turning->features & CLATTN_WITH_POSITIONS  ? "positions"
                                                             : "starts");
    if (turning->features & CLATTN_WITH_VARLEN) {
        text_append(text, ", varlen");
    }
}

/* ---- values in host memory -------------------------------------------------------------------- */

struct turn_sequence turning_sequence(const struct operands *operands, int64_t b, int64_t query_len)
{
    struct turn_sequence sequence = { 0, query_len, b };
    if (operand_is_asked(operands, TURN_CU_QUERY)) {
        sequence.first_row = operand_int(operands, TURN_CU_QUERY, b);
        sequence.rows = operand_int(operands, TURN_CU_QUERY, b + 1) - sequence.first_row;
        sequence.pack = 0;
    }
    return sequence;
}

int64_t turning_position(const struct operands *operands, int64_t b, int64_t i)
{
    return (int64_t)operand_int(operands, TURN_STARTS, b) + i;
}

int64_t turning_table_row(const struct turning *turning, const struct operands *operands, int64_t b, int64_t i)
{
    const struct turn_sequence sequence = turning_sequence(operands, b, 0);
    const int64_t *stride = operands->tensor[TURN_POSITIONS].stride, row = sequence.first_row + i;
    return turning->features & CLATTN_WITH_TOKEN_TABLES ? row
           : turning->features & CLATTN_WITH_POSITIONS
               ? operand_int(operands, TURN_POSITIONS, sequence.pack * stride[0] + row * stride[2])
               : turning_position(operands, b, i);
}

static clattn_status check_positions(const struct turning *turning, const struct operands *operands, int64_t b,
                                     int64_t rows)
{
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t position = turning_table_row(turning, operands, b, i);
        if (position < 0 || position >= turning->positions) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s: row %" PRId64 " of sequence %" PRId64 " stands at %" PRId64
                             ", outside of the tables; must be 0 to positions %" PRId64 " - 1",
                             turning->features & CLATTN_WITH_POSITIONS ? "positions" : "starts", i, b, position,
                             turning->positions);
        }
    }
    return CLATTN_OK;
}

clattn_status turning_check_values(const struct turning *turning, const struct operands *operands, int64_t batch,
                                   int64_t query_len)
{
    const int by_position = turning->features & CLATTN_WITH_ROTARY && !(turning->features & CLATTN_WITH_TOKEN_TABLES);
    clattn_status status = operands_check_seams(operands, TURN_CU_QUERY, batch, query_len);
    const int has_rows = by_position && query_len > 0; /* else the batch may be of any length */
    for (int64_t b = 0; has_rows && b < batch && status == CLATTN_OK; ++b) {
        status = check_positions(turning, operands, b, turning_sequence(operands, b, query_len).rows);
    }
    return status;
}
