#include "check_row.h"

#include <math.h>

#include "insides.h"

/* How far `got` is from `wanted`, as a share of the tolerance; the same infinity or NaN is right. */
static double share(double got, double wanted, double tolerance)
{
    double error = fabs(got - wanted);
    if (got == wanted || (isnan(got) && isnan(wanted))) {
        return 0;
    }
    if (isnan(error) || isnan(tolerance)) {
        return INFINITY;
    }
    return error / tolerance;
}

static double half_unit(clattn_type type, double magnitude)
{
    int bits = type == CLATTN_FLOAT16 ? 11 : 8, least = type == CLATTN_FLOAT16 ? -24 : -133, exponent;
    if (type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64) {
        return 0;
    }
    if (!(magnitude > 0) || isinf(magnitude)) {
        return ldexp(0.5, least);
    }
    frexp(magnitude, &exponent);
    return ldexp(0.5, exponent - bits > least ? exponent - bits : least);
}

struct check_rounding check_rounding_of(const clattn_plan *plan)
{
    return (struct check_rounding){ clattn_plan_weight_rounding(plan), clattn_plan_factor_rounding(plan),
                                    clattn_plan_sum_roundings(plan) };
}

struct check_row check_row_of(const clattn_problem *problem, double magnitude, double keys,
                              const struct check_rounding *rounding)
{
    struct check_row row;
    row.out_type = problem->out_type ? problem->out_type : problem->type;
    row.unit = problem->type == CLATTN_FLOAT64 ? ldexp(1, -53) : ldexp(1, -24);
    row.terms = sqrt((double)problem->head_dim) * magnitude + 8;
    row.of_sums = sum_bound(keys, rounding->sums);
    row.of_logits = rounding->factors > 0 ? 2 * rounding->factors * magnitude : 0;
    row.rounding = rounding->weights + 2 * row.of_logits + rounding->factors;
    return row;
}

void check_out(const struct check_row *row, double got, double wanted, double spread, struct check *check)
{
    double tolerance = (4 * row->unit * (row->terms + row->of_sums) + row->rounding) * spread;
    tolerance += half_unit(row->out_type, fabs(wanted) + tolerance);
    check->out_share = fmax(check->out_share, share(got, wanted, tolerance));
    check->largest_error = fmax(check->largest_error, share(got, wanted, 1));
}

void check_lse(const struct check_row *row, double got, double wanted, struct check *check)
{
    const double tolerance = 4 * ldexp(1, -24) * (row->terms + row->of_sums / 2 + fabs(wanted)) + row->of_logits;
    check->lse_share = fmax(check->lse_share, share(got, wanted, tolerance));
}
