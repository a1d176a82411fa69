/* The terms that are added to a score, one after the other, in the order of the formula in clattn.h. */
#include "reference/score_terms.h"

#include <math.h>
#include <stdlib.h>

#include "base/stored_types.h"

/* A slope beyond this counts as this, in kernels too (cl/pair/score_terms.clh): its product with every
 * distance stays in the range of float32. */
#define SLOPE_MOST 0x1p95

double bias_of_pair(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct tensor_place *bias = &call->operands.tensor[TENSOR_BIAS];
    const int64_t column = j - call->mask_first_key;
    if (column < 0 || column >= call->bias_key_len) {
        return column < 0 ? 0 : -(double)INFINITY;
    }
    return type_load(problem->p.bias_type, bias->data, place_index(bias, b, h, i, column));
}

/* Slope times distance (ALiBi, Press et al., 2021). */
static long double alibi_of(const struct problem *problem, const struct call *call, const struct sequence *sequence,
                            int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct tensor_place *place = &call->operands.tensor[TENSOR_SLOPES];
    const double slope = type_load(problem->p.slopes_type, place->data, place_index(place, b, h, 0, 0));
    const double counted = slope > SLOPE_MOST    ? SLOPE_MOST
                           : slope < -SLOPE_MOST ? -SLOPE_MOST
                                                 : slope; /* a NaN stays */
    return (long double)counted * (long double)llabs(i + sequence->offset - j);
}

void add_terms(const struct problem *problem, const struct call *call, const struct sequence *sequence, int64_t b,
               int64_t h, int64_t i, int64_t j, long double *score, long double *magnitude)
{
    if (problem->flags & CLATTN_FLAG_BIAS) {
        const long double bias = bias_of_pair(problem, call, b, h, i, j);
        *score += bias;
        *magnitude += fabsl(bias);
    }
    if (problem->flags & CLATTN_FLAG_SLOPES) {
        const long double alibi = alibi_of(problem, call, sequence, b, h, i, j);
        *score -= alibi;
        *magnitude += fabsl(alibi);
    }
}
