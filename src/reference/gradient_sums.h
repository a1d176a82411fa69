/* Sums of a gradient's terms in the reference, with what the error bound of docs/numbers.md needs of them: one for each
 * element that the gradient's strides reach, so that strides of 0 add what they should. */
#ifndef CLATTN_SRC_GRADIENT_SUMS_H
#define CLATTN_SRC_GRADIENT_SUMS_H

#include "operation/call.h"

/* A sum of terms of value t, magnitude y >= |t| and error factor w (in units of rounding): */
struct gradient_sum {
    long double sum;        /* of t */
    long double squares[3]; /* of (w y)^2, of w y^2 and of y^2: the sum of ((w + r) y)^2 for any r. Float64's
                             * smallest magnitudes count too: a double would be 0 */
    long double sizes[2];   /* of w y and of y */
    double terms, common;   /* how many; an error that all of a row's terms share, added as it is */
    double floor;           /* an absolute error: weights that exp may flush to zero */
};

struct gradient_sums {
    const struct tensor_place *place; /* NULL: not asked for */
    int64_t count;
    struct gradient_sum *sums; /* [place->high - place->low] */
};

clattn_status gradient_sums_create(struct gradient_sums *sums, const struct operands *operands, int id);
void gradient_sums_free(struct gradient_sums *sums);

/* Writes the sums to the gradient, or adds them to it as it asks: each element once, also where strides of 0 lead to it
 * from many indices. */
void gradient_sums_write(const struct gradient_sums *sums, const struct operands *operands, int id);

/* The element (b, h, i, c). */
struct gradient_sum *gradient_sum_of(const struct gradient_sums *sums, int64_t b, int64_t h, int64_t i, int64_t c);

/* Inline: it is most of what the reference does. */
static inline void gradient_sum_add(struct gradient_sum *sum, long double term, double magnitude, double factor,
                                    double floor)
{
    const long double square = (long double)magnitude * magnitude;
    sum->sum += term;
    sum->squares[0] += factor * factor * square;
    sum->squares[1] += factor * square;
    sum->squares[2] += square;
    sum->sizes[0] += factor * magnitude;
    sum->sizes[1] += magnitude;
    sum->terms += 1;
    sum->floor += floor;
}

/* What an error is counted in where those of terms are independent: the root of the sum of ((w + sqrt(terms)) y)^2, and
 * (sqrt(terms) + 8) |sum|, and what terms share. In units of rounding. */
double gradient_sum_unit(const struct gradient_sum *sum);

/* The bound's factor, as in docs/numbers.md. */
#define GRADIENT_C 2.0

/* What a plan rounds: clattn_plan_weight_rounding, the relative error of weights and dZ as they are multiplied; and
 * clattn_plan_sum_roundings, where terms may be alike, whose errors then are too. 0: they are each pair's own, and add
 * as squares. */
struct gradient_rounding {
    double weights, sums;
};

/* The factor that `got`, stored in `type` and computed in float64 or float32, would need in place of GRADIENT_C; 0
 * where nothing is known. `before`: what the sum was added to, 0 where it was not. */
double gradient_sum_need(const struct gradient_sum *sum, clattn_type type, int is_float64,
                         struct gradient_rounding rounding, double before, double got);

#endif
