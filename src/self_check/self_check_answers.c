/* The outputs of a checked call against the float64 reference, by the bound of docs/numbers.md with a margin: what a
 * broken compiler makes of a kernel is far beyond it. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "reference/reference.h"
#include "reference/sum_bound.h"
#include "reference/visibility.h"
#include "self_check/self_check_call.h"

#define BOUND_C 16.0      /* the tests hold the kernels to 4, */
#define EQUAL_BOUND_C 4.0 /* as does the turn of equal terms: its sums are all that is rounded */
#define LARGEST_VALUE 4.0 /* |v| of a check */

struct answers {
    const struct check_rounding *rounding;
    const struct check_call *check;
    struct reference_detail detail;
    double unit, least; /* unit roundoff of what is computed in; what exp may flush to zero */
    struct text *bad;
    int64_t b, h, i; /* the row, and */
    int64_t at, row; /* where it is in the detail and in outputs */
};

/* Half a unit in the last place of a stored number of such a size. */
static double storage_rounding(clattn_type type, double size)
{
    return type == CLATTN_FLOAT16    ? ldexp(size, -11) + ldexp(1, -24)
           : type == CLATTN_BFLOAT16 ? ldexp(size, -8) + (double)FLT_MIN
           : type == CLATTN_FLOAT32  ? ldexp(size, -24) + (double)FLT_MIN
                                     : 0;
}

/* An output that is not finite may be any that is not: 0 times infinity, where a weight vanishes. */
static int is_good(int id, double got, double want, double bound, clattn_type type)
{
    if (!isfinite(want)) {
        return got == want || (!isfinite(got) && (isnan(want) || id == TENSOR_OUT));
    }
    bound = isnan(bound) ? 0 : bound; /* of a row that keeps nothing, whose logits are not finite */
    return fabs(got - want) <= bound + storage_rounding(type, fabs(want) + bound); /* not of a NaN */
}

void check_says_wrong(const struct operands *operands, int id, const int64_t at[4], double got, double want,
                      struct text *bad)
{
    if (bad->length == 0) {
        text_append(bad,
                    "a known answer came out wrong: %s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                    "] is %s, should be %s",
                    operand_name(operands, id), at[0], at[1], at[2], at[3], DECIMAL_SHORT(9, got),
                    DECIMAL_SHORT(9, want));
    }
}

static void judge(struct answers *a, int id, int64_t column, double want, double bound)
{
    const struct operands *operands = &a->check->call.operands;
    const struct tensor_place *place = &operands->tensor[id];
    const clattn_type type = operands->element[operands->operation->rows[id].element];
    const int64_t entry = a->check->problem.p.features & CLATTN_WITH_VARLEN && id != TENSOR_WEIGHTS ? 0 : a->b;
    const int64_t row = id == TENSOR_WEIGHTS ? a->i : a->row;
    const double got = type_load(type, place->data, place_index(place, entry, a->h, row, column));
    if (!is_good(id, got, want, bound, type)) {
        const int64_t at[4] = { a->b, a->h, a->i, column };
        check_says_wrong(operands, id, at, got, want, a->bad);
    }
}

static double bound_c(const struct answers *a)
{
    return a->check->turn == CHECK_EQUAL ? EQUAL_BOUND_C : BOUND_C;
}

/* A row's unit of the error bound, with what its sums add. */
static double row_unit(const struct answers *a, double of_sums)
{
    return sqrt((double)a->check->problem.p.head_dim) * a->detail.magnitude[a->at] + of_sums + 8;
}

static double of_sums(const struct answers *a)
{
    return sum_bound((double)a->detail.allowed_keys[a->at], a->rounding->sums);
}

static void judge_out(struct answers *a)
{
    const clattn_problem *p = &a->check->problem.p;
    const double keys = (double)a->detail.allowed_keys[a->at], factor = a->rounding->factors;
    const double logits = factor > 0 ? 2 * factor * a->detail.magnitude[a->at] : 0;
    const double share = bound_c(a) * a->unit * row_unit(a, of_sums(a)) + a->rounding->weights + 2 * logits + factor;
    const double floor = keys * a->least * LARGEST_VALUE / (1 - p->dropout);
    for (int64_t c = 0; c < p->head_dim_v; ++c) {
        const int64_t at = a->at * p->head_dim_v + c;
        judge(a, TENSOR_OUT, c, a->detail.out[at], keys > 0 ? share * a->detail.value_spread[at] + floor : 0);
    }
    if (p->features & CLATTN_WITH_LSE) {
        const double lse = a->detail.lse[a->at];
        judge(a, TENSOR_LSE, 0, lse,
              isfinite(lse) ? bound_c(a) * a->unit * (row_unit(a, of_sums(a) / 2) + fabs(lse)) + logits : 0);
    }
}

static void judge_weights(struct answers *a)
{
    const clattn_problem *p = &a->check->problem.p;
    const int64_t keys = a->check->call.key_len;
    for (int64_t j = 0; j < keys; ++j) {
        const double want = a->detail.weights[a->at * keys + j];
        const double magnitude = a->detail.weights_magnitude[a->at * keys + j], root = sqrt((double)p->head_dim);
        double bound = bound_c(a) * a->unit * (root + 8) * magnitude + a->least;
        if (p->weights == CLATTN_WEIGHTS_SOFTMAX) {
            bound = bound_c(a) * a->unit * want *
                    (root * magnitude + row_unit(a, of_sums(a) / 2) + fabs(a->detail.lse[a->at]));
            bound = want > 0 ? bound + a->least : 0;
        }
        judge(a, TENSOR_WEIGHTS, j, want, bound);
    }
}

static void judge_rows(struct answers *a)
{
    const struct call *call = &a->check->call;
    const clattn_problem *p = &a->check->problem.p;
    for (int64_t n = 0; n < p->batch * p->query_heads * call->query_len; ++n) {
        a->i = n % call->query_len;
        a->h = n / call->query_len % p->query_heads;
        a->b = n / call->query_len / p->query_heads;
        a->at = n;
        const struct sequence sequence = sequence_of(&a->check->problem, call, a->b);
        a->row = sequence.query_row + a->i;
        if (a->i < sequence.query_len) {
            judge_out(a);
        }
        if (p->weights != CLATTN_WEIGHTS_NONE) {
            judge_weights(a);
        }
    }
}

/* Elements of outputs, which were judged, become what is between them; then nothing else must be left. */
void check_gaps(const struct operands *operands, int id, int64_t elements, struct text *bad)
{
    const struct tensor_place *place = &operands->tensor[id];
    const size_t bytes = operand_bytes(operands, id), all = (size_t)elements * bytes;
    unsigned char *memory = place->data;
    int64_t n[4];
    operand_stored_shape(operands, id, n);
    for (int64_t r = 0; r < n[0] * n[1] * n[2] * n[3]; ++r) {
        const int64_t row = r / n[3];
        memset(memory + (size_t)place_index(place, row / n[2] / n[1], row / n[2] % n[1], row % n[2], 0) * bytes +
                   (size_t)(r % n[3] * place->stride[3]) * bytes,
               0xff, bytes);
    }
    for (size_t i = 0; i < all && bad->length == 0; ++i) {
        if (memory[i] != 0xff) {
            text_append(bad, "a known answer was written beside the elements of %s", operand_name(operands, id));
        }
    }
}

static void free_detail(struct reference_detail *d)
{
    double *const parts[] = { d->out, d->lse, d->magnitude, d->value_spread, d->weights, d->weights_magnitude };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
        free(parts[i]);
    }
    free(d->allowed_keys);
}

clattn_status check_answers(const struct check_rounding *rounding, const struct check_call *check, struct text *bad)
{
    const clattn_problem *p = &check->problem.p;
    const int is_wide = p->type == CLATTN_FLOAT64, has_weights = p->weights != CLATTN_WEIGHTS_NONE;
    const size_t rows = (size_t)(p->batch * p->query_heads * check->call.query_len);
    const size_t columns = (size_t)p->head_dim_v, keys = (size_t)check->call.key_len;
    struct answers a = { .rounding = rounding, .check = check, .bad = bad };
    a.unit = is_wide ? DBL_EPSILON / 2 : (double)FLT_EPSILON / 2;
    a.least = 2 * (is_wide ? DBL_MIN : (double)FLT_MIN);
    a.detail = (struct reference_detail){
        .out = calloc(rows * columns, sizeof(double)),
        .lse = calloc(rows, sizeof(double)),
        .magnitude = calloc(rows, sizeof(double)),
        .value_spread = calloc(rows * columns, sizeof(double)),
        .allowed_keys = calloc(rows, sizeof(int64_t)),
        .weights = has_weights ? calloc(rows * keys, sizeof(double)) : NULL,
        .weights_magnitude = has_weights ? calloc(rows * keys, sizeof(double)) : NULL,
    };
    const struct reference_detail *d = &a.detail;
    const int is_whole = d->out && d->lse && d->magnitude && d->value_spread && d->allowed_keys &&
                         (!has_weights || (d->weights && d->weights_magnitude));
    clattn_status status = is_whole
                               ? reference_forward_detail(&check->problem, &check->call, d)
                               : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the answers of a self-check");
    if (status == CLATTN_OK) {
        judge_rows(&a);
        for (int id = 0; id < FORWARD_TENSOR_COUNT; ++id) {
            if (check->memory[id] && forward_is_output(id)) {
                check_gaps(&check->call.operands, id, check->elements[id], bad);
            }
        }
    }
    free_detail(&a.detail);
    return status;
}
