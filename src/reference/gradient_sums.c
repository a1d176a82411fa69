#include "reference/gradient_sums.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/sum_bound.h"
#include "reference/visibility.h"

clattn_status gradient_sums_create(struct gradient_sums *sums, const struct operands *operands, int id)
{
    memset(sums, 0, sizeof(*sums));
    if (!operand_is_asked(operands, id) || operand_is_empty(operands, id)) {
        return CLATTN_OK;
    }
    sums->place = &operands->tensor[id];
    sums->count = sums->place->high - sums->place->low;
    sums->sums = calloc((size_t)sums->count, sizeof(*sums->sums));
    return sums->sums ? CLATTN_OK : error_set(CLATTN_OUT_OF_HOST_MEMORY, "reference: no memory for a gradient's sums");
}

void gradient_sums_free(struct gradient_sums *sums)
{
    free(sums->sums);
    memset(sums, 0, sizeof(*sums));
}

struct gradient_sum *gradient_sum_of(const struct gradient_sums *sums, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return &sums->sums[place_index(sums->place, b, h, i, c) - sums->place->low];
}

void gradient_sums_write(const struct gradient_sums *sums, const struct operands *operands, int id)
{
    const clattn_type type = operands->element[operands->operation->rows[id].element];
    int64_t shape[4];
    operand_stored_shape(operands, id, shape);
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
        const int64_t i = n / shape[3], h = i / shape[2];
        const int64_t at = place_index(sums->place, h / shape[1], h % shape[1], i % shape[2], n % shape[3]);
        const long double sum = sums->sums[at - sums->place->low].sum;
        const int adds = operand_is_read(operands, id);
        type_store(type, sums->place->data, at,
                   adds ? (double)(type_load(type, sums->place->data, at) + sum) : (double)sum);
    }
}

double gradient_sum_unit(const struct gradient_sum *sum)
{
    const double root = sqrt(sum->terms);
    const long double squares = sum->squares[0] + 2 * root * sum->squares[1] + sum->terms * sum->squares[2];
    return (double)sqrtl(squares) + (root + 8) * (double)fabsl(sum->sum) + sum->common;
}

/* The unit for any terms: the sum of (w + 2 c) y, and 8 |sum|; the bound's factor is half of the c's own. */
static double unit_of_any(const struct gradient_sum *sum, double roundings)
{
    const long double sizes = sum->sizes[0] + 2 * sum_bound(sum->terms, roundings) * sum->sizes[1];
    return (double)sizes + 8 * (double)fabsl(sum->sum) + sum->common;
}

/* Half a unit in the last place of numbers up to `size`. */
static double half_ulp(clattn_type type, double size)
{
    const int digits = type == CLATTN_FLOAT16 ? 11 : type == CLATTN_BFLOAT16 ? 8 : FLT_MANT_DIG;
    const int least = type == CLATTN_FLOAT16 ? -13 : -125;
    int exponent;
    frexp(size, &exponent);
    return type == CLATTN_FLOAT64 ? 0 : ldexp(0.5, (exponent < least ? least : exponent) - digits);
}

static double largest_of(clattn_type type)
{
    return type == CLATTN_FLOAT16 ? 65504.0 : type == CLATTN_FLOAT64 ? DBL_MAX : FLT_MAX;
}

double gradient_sum_need(const struct gradient_sum *sum, clattn_type type, int is_float64,
                         struct gradient_rounding rounding, double before, double got)
{
    const double u = is_float64 ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2;
    const double want = before + (double)sum->sum;
    const double unit = u * (rounding.sums > 0 ? unit_of_any(sum, rounding.sums) : gradient_sum_unit(sum));
    if (!isfinite(want)) {
        return isfinite(got) ? (double)INFINITY : 0;
    }
    if (!isfinite(unit)) {
        return 0; /* nothing is known */
    }
    /* What is rounded in each pair for itself, and, where pairs have the same weight, in all alike. */
    const double rounded = (double)((rounding.sums > 0 ? sum->sizes[1] : sqrtl(sum->squares[2])) + fabsl(sum->sum));
    const double floor = sum->floor + (rounding.weights > 0 ? GRADIENT_C * rounding.weights * rounded : 0);
    const double bound = GRADIENT_C * unit + floor;
    const double stored = half_ulp(type, fabs(want) + bound) + u * (fabs(want) + fabs(before)) * (before != 0);
    if (isinf(got) && fabs(want) + bound + stored > largest_of(type)) {
        return 0;
    }
    if (!isfinite(got)) {
        return (double)INFINITY;
    }
    const double excess = fabs(got - want) - floor - (unit > 0 || before != 0 ? stored : 0);
    return excess <= 0 ? 0 : unit > 0 ? excess / unit : (double)INFINITY;
}
