/* The formulas are those of modeling_rope_utils in Hugging Face's transformers, which the models were made with; all
 * steps are in float64. */
#include "reference/rotary_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/growth.h"

#define PI 3.14159265358979323846

GROWTH(clattn_rotary_scaling, "scaling", factor, magnitude, CLATTN_ROTARY_SCALING_INIT);

/* ---- rules ------------------------------------------------------------------------------------ */

static int uses_original_positions(clattn_rotary_scaling_kind kind)
{
    return kind == CLATTN_SCALING_DYNAMIC || kind == CLATTN_SCALING_YARN || kind == CLATTN_SCALING_LLAMA3 ||
           kind == CLATTN_SCALING_LONGROPE;
}

static clattn_status check_number(const char *name, double value, double above)
{
    if (!(value > above) || !isfinite(value)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scaling.%s %s: must be a finite number above %s", name,
                         DECIMAL(value), DECIMAL(above));
    }
    return CLATTN_OK;
}

static clattn_status check_factors(const char *name, const double *factors, int64_t count)
{
    if (!factors) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scaling.%s: must not be NULL, longrope has %" PRId64 " of them",
                         name, count);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (!(factors[i] > 0) || !isfinite(factors[i])) {
            return error_set(CLATTN_INVALID_ARGUMENT, "scaling.%s[%" PRId64 "] %s: must be a finite number above 0",
                             name, i, DECIMAL(factors[i]));
        }
    }
    return CLATTN_OK;
}

/* What only one kind has. */
static clattn_status check_kind(const clattn_rotary_scaling *s, int64_t columns)
{
    clattn_status status = CLATTN_OK;
    const int is_ntk = s->kind == CLATTN_SCALING_NTK || s->kind == CLATTN_SCALING_DYNAMIC;
    if (is_ntk && columns < 4) {
        return error_set(CLATTN_INVALID_SHAPE, "columns %" PRId64 ": must be at least 4 for ntk and dynamic", columns);
    }
    if (s->sequence_length < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scaling.sequence_length %" PRId64 ": must be >= 0",
                         s->sequence_length);
    }
    if (s->kind == CLATTN_SCALING_YARN) {
        status = check_number("beta_slow", s->beta_slow, 0);
        status = status == CLATTN_OK ? check_number("beta_fast", s->beta_fast, 0) : status;
    } else if (s->kind == CLATTN_SCALING_LLAMA3) {
        status = check_number("low_frequency_factor", s->low_frequency_factor, 0);
        status = status == CLATTN_OK
                     ? check_number("high_frequency_factor", s->high_frequency_factor, s->low_frequency_factor)
                     : status;
    } else if (s->kind == CLATTN_SCALING_LONGROPE) {
        status = check_factors("short_factor", s->short_factor, columns / 2);
        status = status == CLATTN_OK ? check_factors("long_factor", s->long_factor, columns / 2) : status;
    }
    return status;
}

static clattn_status check_scaling(const clattn_rotary_scaling *s, int64_t columns)
{
    if ((int)s->kind < CLATTN_SCALING_NONE || (int)s->kind > CLATTN_SCALING_LONGROPE) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scaling.kind %d: is not a clattn_rotary_scaling_kind", (int)s->kind);
    }
    clattn_status status = check_number("base", s->base, 1);
    if (status == CLATTN_OK && s->kind != CLATTN_SCALING_NONE) {
        status = check_number("factor", s->factor, 0);
    }
    if (status == CLATTN_OK && uses_original_positions(s->kind) && s->original_positions < 2) {
        status = error_set(CLATTN_INVALID_ARGUMENT,
                           "scaling.original_positions %" PRId64 ": must be at least 2, the length of the model's "
                           "training sequences",
                           s->original_positions);
    }
    if (status == CLATTN_OK && (!isfinite(s->magnitude) || s->magnitude < 0)) {
        status = error_set(CLATTN_INVALID_ARGUMENT,
                           "scaling.magnitude %s: must be 0, for that of the kind, or a positive number",
                           DECIMAL(s->magnitude));
    }
    return status == CLATTN_OK ? check_kind(s, columns) : status;
}

/* ---- frequencies ------------------------------------------------------------------------------ */

/* The base that ntk and dynamic stretch, so that the slowest pair turns `factor` times as slowly. */
static double base_of(const clattn_rotary_scaling *s, double n)
{
    const double most = (double)s->original_positions;
    const double length = (double)s->sequence_length > most ? (double)s->sequence_length : most;
    switch (s->kind) {
    case CLATTN_SCALING_NTK:
        return s->base * pow(s->factor, n / (n - 2));
    case CLATTN_SCALING_DYNAMIC:
        return s->base * pow(s->factor * length / most - (s->factor - 1), n / (n - 2));
    default:
        return s->base;
    }
}

/* The pair, as a number that need not be whole, that turns `turns` times in the original positions. */
static double pair_that_turns(const clattn_rotary_scaling *s, double n, double turns)
{
    return n * log((double)s->original_positions / (2 * PI * turns)) / (2 * log(s->base));
}

static double yarn(const clattn_rotary_scaling *s, double n, int64_t i, double frequency)
{
    double low = pair_that_turns(s, n, s->beta_fast), high = pair_that_turns(s, n, s->beta_slow);
    if (s->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, n - 1);
    high += low < high || low > high ? 0 : 0.001; /* a ramp has a length */
    const double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return frequency * (1 - ramp) + frequency / s->factor * ramp;
}

static double llama3(const clattn_rotary_scaling *s, double frequency)
{
    const double most = (double)s->original_positions, wavelength = 2 * PI / frequency;
    const double low = s->low_frequency_factor, high = s->high_frequency_factor;
    if (wavelength > most / low) {
        return frequency / s->factor;
    }
    if (wavelength < most / high) {
        return frequency;
    }
    const double smooth = (most / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

static double frequency_of(const clattn_rotary_scaling *s, int64_t columns, int64_t i)
{
    const double n = (double)columns, frequency = pow(base_of(s, n), -2 * (double)i / n);
    switch (s->kind) {
    case CLATTN_SCALING_LINEAR:
        return frequency / s->factor;
    case CLATTN_SCALING_YARN:
        return yarn(s, n, i, frequency);
    case CLATTN_SCALING_LLAMA3:
        return llama3(s, frequency);
    case CLATTN_SCALING_LONGROPE:
        return frequency / (s->sequence_length > s->original_positions ? s->long_factor : s->short_factor)[i];
    default:
        return frequency;
    }
}

static double magnitude_of(const clattn_rotary_scaling *s)
{
    if (s->magnitude > 0) {
        return s->magnitude;
    }
    const double grown = s->factor > 1 ? log(s->factor) : 0;
    return s->kind == CLATTN_SCALING_YARN       ? 0.1 * grown + 1
           : s->kind == CLATTN_SCALING_LONGROPE ? sqrt(1 + grown / log((double)s->original_positions))
                                                : 1;
}

/* ---- tables ----------------------------------------------------------------------------------- */

static clattn_status check_rows(int64_t columns, int64_t rows, const int64_t *positions)
{
    if (columns < 2 || columns % 2 || columns > INT32_MAX) {
        return error_set(CLATTN_INVALID_SHAPE, "columns %" PRId64 ": must be even, 2 to %d", columns, INT32_MAX - 1);
    }
    if (rows < 0 || rows > INT32_MAX) {
        return error_set(CLATTN_INVALID_SHAPE, "rows %" PRId64 ": must be 0 to %d", rows, INT32_MAX);
    }
    for (int64_t r = 0; positions && r < rows; ++r) {
        if (positions[r] < -INT32_MAX || positions[r] > INT32_MAX) {
            return error_set(CLATTN_INVALID_ARGUMENT, "positions[%" PRId64 "] %" PRId64 ": must be within +-%d", r,
                             positions[r], INT32_MAX);
        }
    }
    return CLATTN_OK;
}

clattn_status rotary_table(const clattn_rotary_scaling *given, int64_t columns, int64_t rows, const int64_t *positions,
                           float *cosine, float *sine)
{
    clattn_rotary_scaling scaling;
    clattn_status status = growth_copy(GROWTH_OF(clattn_rotary_scaling), given, &scaling);
    if (status == CLATTN_OK) {
        status = check_rows(columns, rows, positions);
    }
    if (status == CLATTN_OK) {
        status = check_scaling(&scaling, columns);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    const int64_t pairs = columns / 2;
    const double magnitude = magnitude_of(&scaling);
    for (int64_t i = 0; i < pairs; ++i) {
        const double frequency = frequency_of(&scaling, columns, i);
        for (int64_t r = 0; r < rows; ++r) {
            const double angle = (double)(positions ? positions[r] : r) * frequency;
            cosine[r * pairs + i] = (float)(cos(angle) * magnitude);
            sine[r * pairs + i] = (float)(sin(angle) * magnitude);
        }
    }
    return CLATTN_OK;
}
