/* The life of a schedule, and sums of partial results. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/growth.h"
#include "operation/problem.h"
#include "operation/ring.h"

GROWTH(clattn_ring_options, "options", algorithm, latency_s, CLATTN_RING_OPTIONS_INIT);

/* ---- making one -------------------------------------------------------------------------------- */

static clattn_status read_options(const clattn_ring_options *given, clattn_ring_options *o)
{
    clattn_status status = growth_copy(GROWTH_OF(clattn_ring_options), given, o);
    if (status == CLATTN_OK) {
        status = ring_check_layout(o->layout, o->ranks, o->rank);
    }
    if (status == CLATTN_OK && (o->algorithm < CLATTN_RING_AUTO || o->algorithm > CLATTN_RING_HEADS)) {
        status = error_set(CLATTN_INVALID_ARGUMENT, "algorithm %d: is no clattn_ring_algorithm", (int)o->algorithm);
    }
    const struct {
        const char *name;
        double *value, usual;
    } speeds[] = { { "flop_per_s", &o->flop_per_s, 1e11 },
                   { "bytes_per_s", &o->bytes_per_s, 1.25e9 },
                   { "latency_s", &o->latency_s, 5e-5 } };
    for (size_t n = 0; n < sizeof(speeds) / sizeof(speeds[0]) && status == CLATTN_OK; ++n) {
        if (!isfinite(*speeds[n].value) || *speeds[n].value < 0) {
            return error_set(CLATTN_INVALID_ARGUMENT, "%s: must be finite and not below 0; 0 is a usual one",
                             speeds[n].name);
        }
        *speeds[n].value = *speeds[n].value > 0 ? *speeds[n].value : speeds[n].usual;
    }
    return status;
}

/* What the problem asks for is given. */
static clattn_status check_given(const clattn_problem *p, const clattn_ring_options *o)
{
    const struct {
        const char *name, *asked_by;
        int is_asked;
        const int32_t *values;
    } given[] = { { "key_lengths", "CLATTN_WITH_KEY_LENGTHS", (p->features & CLATTN_WITH_KEY_LENGTHS) != 0,
                    o->key_lengths },
                  { "query_offsets", "CLATTN_ALIGN_OFFSETS", p->alignment == CLATTN_ALIGN_OFFSETS, o->query_offsets } };
    for (size_t n = 0; n < sizeof(given) / sizeof(given[0]); ++n) {
        if (given[n].is_asked != (given[n].values != NULL) && p->batch > 0) {
            return error_set(CLATTN_INVALID_ARGUMENT, "options.%s: must %sbe given %s %s", given[n].name,
                             given[n].is_asked ? "" : "not ", given[n].is_asked ? "with" : "without",
                             given[n].asked_by);
        }
    }
    return CLATTN_OK;
}

/* Lengths and places of all sequences, which every rank knows. */
static clattn_status read_places(clattn_ring *ring)
{
    const clattn_problem *p = &ring->whole;
    const clattn_ring_options *o = &ring->options;
    const size_t bytes = (size_t)(p->batch > 0 ? p->batch : 1) * sizeof(int64_t);
    ring->offset = malloc(bytes);
    ring->length = malloc(bytes);
    if (!ring->offset || !ring->length) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a schedule");
    }
    for (int64_t b = 0; b < p->batch; ++b) {
        const int64_t length = o->key_lengths ? o->key_lengths[b] : p->key_len;
        ring->length[b] = length < 0 ? 0 : length > p->key_len ? p->key_len : length;
        ring->offset[b] = p->alignment == CLATTN_ALIGN_OFFSETS        ? o->query_offsets[b]
                          : p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? ring->length[b] - p->query_len
                                                                      : 0;
        if (ring->offset[b] + p->query_len > INT32_MAX || ring->offset[b] - p->key_len < INT32_MIN) {
            return error_set(CLATTN_UNSUPPORTED,
                             "query_offsets[%" PRId64 "] %" PRId64 ": rows of a part would stand beyond 2^31", b,
                             ring->offset[b]);
        }
    }
    return CLATTN_OK;
}

/* A copy that points to nothing of the caller's. */
static clattn_status read_problem(const clattn_problem *given, clattn_ring *ring)
{
    struct problem problem;
    clattn_status status = problem_init(&problem, given);
    if (status != CLATTN_OK) {
        return status;
    }
    if (problem.any.code || problem.any.strategy_name[0]) {
        status = error_set(CLATTN_UNSUPPORTED, "%s: is not for parts; leave it NULL",
                           problem.any.code ? "code" : "strategy");
    }
    ring->whole = problem.p;
    problem_release(&problem.any);
    return status;
}

static clattn_status fill(clattn_ring *ring, const clattn_problem *whole, const clattn_ring_options *options)
{
    clattn_status status = read_options(options, &ring->options);
    if (status == CLATTN_OK) {
        status = read_problem(whole, ring);
    }
    if (status == CLATTN_OK) {
        status = check_given(&ring->whole, &ring->options);
    }
    if (status == CLATTN_OK) {
        status = read_places(ring);
    }
    ring->options.key_lengths = ring->options.query_offsets = NULL;
    if (status == CLATTN_OK) {
        status = ring_choose(ring);
    }
    if (status == CLATTN_OK) {
        status = ring_build(ring);
    }
    return status == CLATTN_OK ? ring_explain(ring) : status;
}

void ring_free(clattn_ring *ring)
{
    if (ring) {
        free(ring->offset);
        free(ring->length);
        free(ring->list.step);
        free(ring->list.message);
        free(ring->list.task);
        free(ring->explain);
        free(ring);
    }
}

clattn_status ring_new(const clattn_problem *whole, const clattn_ring_options *options, clattn_ring **result)
{
    clattn_ring *ring = calloc(1, sizeof(*ring));
    if (!ring) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a schedule");
    }
    const clattn_status status = fill(ring, whole, options);
    if (status != CLATTN_OK) {
        ring_free(ring);
        return status;
    }
    *result = ring;
    return CLATTN_OK;
}

/* ---- sums -------------------------------------------------------------------------------------- */

/* What two results weigh in their sum, whose lse is returned. Neither is -inf alone where the other is not. */
static double weigh(double lse, double added, double weights[2])
{
    const double top = lse > added ? lse : added, low = lse > added ? added : lse;
    const double sum = top + log1p(exp(low - top));
    weights[0] = exp(lse - sum);
    weights[1] = exp(added - sum);
    return sum;
}

/* One row; `single` or `wide` is what is added. */
static void merge_row(int64_t columns, const float *single, const double *wide, double added, double *out, double *lse)
{
    double weights[2] = { 0, 1 };
    if (added == (double)-INFINITY) {
        return;
    }
    const int is_first = *lse == (double)-INFINITY;
    *lse = is_first ? added : weigh(*lse, added, weights);
    for (int64_t c = 0; c < columns; ++c) {
        const double value = single ? (double)single[c] : wide[c];
        out[c] = is_first ? value : weights[0] * out[c] + weights[1] * value;
    }
}

void ring_merge(int64_t rows, int64_t columns, const float *out, const float *lse, double *sum_out, double *sum_lse)
{
    for (int64_t i = 0; i < rows; ++i) {
        merge_row(columns, out + i * columns, NULL, (double)lse[i], sum_out + i * columns, &sum_lse[i]);
    }
}

void ring_merge_sums(int64_t rows, int64_t columns, const double *out, const double *lse, double *sum_out,
                     double *sum_lse)
{
    for (int64_t i = 0; i < rows; ++i) {
        merge_row(columns, NULL, out + i * columns, lse[i], sum_out + i * columns, &sum_lse[i]);
    }
}
