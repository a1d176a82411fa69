/* Norms and rotary embedding by their definition. */
#include "reference/reference_rotary.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/visibility.h"

static double table_value(const struct operands *operands, enum turn_tensor table, int64_t pack, int64_t row,
                          int64_t pair)
{
    const struct tensor_place *place = &operands->tensor[table];
    return type_load(CLATTN_FLOAT32, place->data, place_index(place, pack, 0, row, pair));
}

void reference_norm(const struct norms *norms, const struct operands *operands, int weights, int64_t columns,
                    double *row)
{
    const int is_weighted = weights != NO_WEIGHTS && operand_is_asked(operands, weights);
    long double squares = 0; /* which holds the square of any double */
    for (int64_t c = 0; c < columns; ++c) {
        squares += (long double)row[c] * row[c];
    }
    const long double root = sqrtl(squares / (long double)columns + (long double)norms->epsilon);
    for (int64_t c = 0; c < columns; ++c) {
        const double weight = is_weighted ? type_load(CLATTN_FLOAT32, operands->tensor[weights].data,
                                                      operands->tensor[weights].offset + c)
                                          : 1;
        row[c] = (double)(row[c] / root * weight);
    }
}

void reference_turn(const struct turning *turning, const struct operands *operands, int64_t b, int64_t i, double *row)
{
    const int64_t pairs = turning->columns / 2, table_row = turning_table_row(turning, operands, b, i);
    const int64_t pack = turning->features & CLATTN_WITH_TOKEN_TABLES ? turning_sequence(operands, b, 0).pack
                                                                      : (int64_t)0;
    const int halves = turning->pairs == CLATTN_PAIRS_HALVES;
    for (int64_t pair = 0; pair < pairs; ++pair) {
        double *first = row + turning->first_column + (halves ? pair : 2 * pair);
        double *second = first + (halves ? pairs : 1);
        const double cosine = table_value(operands, TURN_COSINE, pack, table_row, pair);
        const double sine = table_value(operands, TURN_SINE, pack, table_row, pair) * (turning->inverse ? -1 : 1);
        const double a = *first, c = *second;
        *first = a * cosine - c * sine;
        *second = a * sine + c * cosine;
    }
}

static void turn_row(const struct rotary_problem *problem, const struct rotary_call *call, int64_t b, int64_t h,
                     int64_t i, double *row)
{
    const struct operands *operands = &call->operands;
    const struct turn_sequence sequence = turning_sequence(operands, b, call->query_len);
    const struct tensor_place *x = &operands->tensor[ROTARY_X], *out = &operands->tensor[ROTARY_OUT];
    const int64_t at = sequence.first_row + i;
    for (int64_t c = 0; c < problem->p.head_dim; ++c) {
        row[c] = type_load(problem->p.type, x->data, place_index(x, sequence.pack, h, at, c));
    }
    if (norms_are_there(&problem->norms)) {
        reference_norm(&problem->norms, operands, ROTARY_NORM_WEIGHT, problem->p.head_dim, row);
    }
    reference_turn(&problem->turning, operands, b, i, row);
    for (int64_t c = 0; c < problem->p.head_dim; ++c) {
        type_store(problem->p.type, out->data, place_index(out, sequence.pack, h, at, c), row[c]);
    }
}

clattn_status reference_rotary(const struct any_problem *any, const struct operands *operands)
{
    const struct rotary_problem *problem = rotary_problem_of(any);
    const struct rotary_call *call = rotary_call_of(operands);
    double *row = malloc((size_t)problem->p.head_dim * sizeof(*row));
    if (!row) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a row");
    }
    const int has_rows = problem->p.heads > 0 && call->query_len > 0; /* else the batch may be of any length */
    for (int64_t b = 0; has_rows && b < problem->p.batch; ++b) {
        const int64_t rows = turning_sequence(operands, b, call->query_len).rows;
        for (int64_t h = 0; h < problem->p.heads; ++h) {
            for (int64_t i = 0; i < rows; ++i) {
                turn_row(problem, call, b, h, i, row);
            }
        }
    }
    free(row);
    return CLATTN_OK;
}
