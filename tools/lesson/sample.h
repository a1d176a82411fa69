/* Random samples, and what is estimated from samples. */
#ifndef CLATTN_TOOLS_LESSON_SAMPLE_H
#define CLATTN_TOOLS_LESSON_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* n normal numbers, mean 0, variance 1: those of this seed and stream, on every machine alike. */
void sample_normal(uint64_t seed, uint32_t stream, float *values, size_t n);

struct sampled_variance {
    double value, standard_error;
};

/* The variance of `blocks` independent blocks of `block_size` values each; values of one block may depend
 * on each other, so that the error comes from how much the blocks differ. */
struct sampled_variance sample_variance(const float *values, size_t blocks, size_t block_size);

/* y = slope x + intercept by least squares, each point weighted by 1 / error^2 (error NULL: all alike). */
struct line_fit {
    double slope, slope_error, intercept, r_squared;
};
struct line_fit sample_fit(size_t n, const double *x, const double *y, const double *error);

/* The exponent of y = c x^e: the slope of the logarithms. */
struct line_fit sample_fit_power(size_t n, const double *x, const double *y);

/* Shares of the values in `bins` equal intervals of [low, high), divided by their width. */
void sample_density(const float *values, size_t n, double low, double high, size_t bins, double *density);

#endif
