#include "sample.h"

#include <math.h>

#include "../insides.h"

void sample_normal(uint64_t seed, uint32_t stream, float *values, size_t n)
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    for (size_t i = 0; i < n; i += 4) {
        const uint32_t counter[4] = { (uint32_t)(i / 4), (uint32_t)((uint64_t)i >> 34), stream, 0 };
        uint32_t bits[4];
        philox_4x32_10(counter, key, bits);
        for (size_t pair = 0; pair < 2; ++pair) { /* Box and Muller, 1958 */
            const float size = sqrtf(-2 * logf(((float)(bits[2 * pair] >> 8) + 0.5f) / 16777216.0f));
            const float angle = 6.2831853f * ((float)(bits[2 * pair + 1] >> 8) / 16777216.0f);
            if (i + 2 * pair < n) {
                values[i + 2 * pair] = size * cosf(angle);
            }
            if (i + 2 * pair + 1 < n) {
                values[i + 2 * pair + 1] = size * sinf(angle);
            }
        }
    }
}

struct sampled_variance sample_variance(const float *values, size_t blocks, size_t block_size)
{
    const size_t n = blocks * block_size;
    double mean = 0, sum = 0, sum_of_squares = 0;
    for (size_t i = 0; i < n; ++i) {
        mean += values[i];
    }
    mean /= (double)n;
    for (size_t block = 0; block < blocks; ++block) {
        double of_block = 0;
        for (size_t i = 0; i < block_size; ++i) {
            const double difference = values[block * block_size + i] - mean;
            of_block += difference * difference;
        }
        of_block /= (double)block_size;
        sum += of_block;
        sum_of_squares += of_block * of_block;
    }
    const double variance = sum / (double)blocks;
    const double spread = sum_of_squares / (double)blocks - variance * variance;
    return (struct sampled_variance){ variance, sqrt(fmax(spread, 0) / (double)(blocks - 1)) };
}

struct line_fit sample_fit(size_t n, const double *x, const double *y, const double *error)
{
    double w_sum = 0, x_mean = 0, y_mean = 0, xx = 0, xy = 0, yy = 0, left = 0;
    struct line_fit fit;
    for (size_t i = 0; i < n; ++i) {
        const double w = error ? 1 / (error[i] * error[i]) : 1;
        w_sum += w;
        x_mean += w * x[i];
        y_mean += w * y[i];
    }
    x_mean /= w_sum;
    y_mean /= w_sum;
    for (size_t i = 0; i < n; ++i) {
        const double w = error ? 1 / (error[i] * error[i]) : 1;
        xx += w * (x[i] - x_mean) * (x[i] - x_mean);
        xy += w * (x[i] - x_mean) * (y[i] - y_mean);
        yy += w * (y[i] - y_mean) * (y[i] - y_mean);
    }
    fit.slope = xy / xx;
    fit.intercept = y_mean - fit.slope * x_mean;
    for (size_t i = 0; i < n; ++i) {
        const double w = error ? 1 / (error[i] * error[i]) : 1;
        const double difference = y[i] - fit.slope * x[i] - fit.intercept;
        left += w * difference * difference;
    }
    fit.r_squared = 1 - left / yy;
    fit.slope_error = error ? 1 / sqrt(xx) : n > 2 ? sqrt(left / (double)(n - 2) / xx) : 0;
    return fit;
}

struct line_fit sample_fit_power(size_t n, const double *x, const double *y)
{
    double log_x[64], log_y[64];
    n = n < 64 ? n : 64;
    for (size_t i = 0; i < n; ++i) {
        log_x[i] = log(x[i]);
        log_y[i] = log(y[i]);
    }
    return sample_fit(n, log_x, log_y, NULL);
}

void sample_density(const float *values, size_t n, double low, double high, size_t bins, double *density)
{
    const double width = (high - low) / (double)bins;
    for (size_t i = 0; i < bins; ++i) {
        density[i] = 0;
    }
    for (size_t i = 0; i < n; ++i) {
        const double place = ((double)values[i] - low) / width;
        if (place >= 0 && place < (double)bins) {
            density[(size_t)place] += 1 / ((double)n * width);
        }
    }
}
