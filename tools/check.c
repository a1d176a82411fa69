#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check_keys.h"
#include "check_row.h"
#include "check_text.h"
#include "insides.h"

/* The weights of one piece of work are at most so many numbers. */
#define PIECE_MAX ((int64_t)1 << 22)

/* One batch entry, its tensors as dense doubles, without the packing of sequences. */
struct entry {
    clattn_context *context;
    const clattn_problem *problem;
    const clattn_call *call;
    const clattn_host_tensors *tensors;
    struct check_rounding rounding;
    int64_t index, query_first, key_first, query_len, key_len, offset;
    double *key, *value;           /* [kv_heads, key_len, ...] */
    double *query, *out, *weights; /* of a piece of rows: [query_heads, rows, ...] */
    double *magnitude;             /* A_j of each weight of a problem with a text; else NULL */
    float *lse;
};

/* ---- reading the caller's tensors ---- */

static int64_t position(const clattn_host_tensor *tensor, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return tensor->offset + b * tensor->stride[0] + h * tensor->stride[1] + i * tensor->stride[2] +
           c * tensor->stride[3];
}

static double load(const clattn_host_tensor *tensor, clattn_type type, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return type_load(type, tensor->data, position(tensor, b, h, i, c));
}

static int32_t integer(const clattn_host_tensor *tensor, int64_t index)
{
    return ((const int32_t *)tensor->data)[tensor->offset + index];
}

static void read_queries(const struct entry *entry, int64_t first, int64_t rows, double *to)
{
    const clattn_problem *p = entry->problem;
    const int64_t batch = p->features & CLATTN_WITH_VARLEN ? 0 : entry->index;
    for (int64_t h = 0; h < p->query_heads; h++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < p->head_dim; c++) {
                *to++ = load(&entry->tensors->query, p->type, batch, h, entry->query_first + first + i, c);
            }
        }
    }
}

/* ---- one batch entry ---- */

static void find_entry(struct entry *entry)
{
    const clattn_problem *problem = entry->problem;
    const clattn_host_tensors *tensors = entry->tensors;
    int64_t b = entry->index;
    entry->query_len = entry->call->query_len < 0 ? problem->query_len : entry->call->query_len;
    entry->key_len = entry->call->key_len < 0 ? problem->key_len : entry->call->key_len;
    if (problem->features & CLATTN_WITH_VARLEN) {
        entry->query_first = integer(&tensors->cu_query, b);
        entry->key_first = integer(&tensors->cu_key, b);
        entry->query_len = integer(&tensors->cu_query, b + 1) - entry->query_first;
        entry->key_len = integer(&tensors->cu_key, b + 1) - entry->key_first;
    }
    if (problem->features & CLATTN_WITH_KEY_LENGTHS && integer(&tensors->key_lengths, b) < entry->key_len) {
        entry->key_len = integer(&tensors->key_lengths, b);
    }
    if (problem->alignment == CLATTN_ALIGN_BOTTOM_RIGHT) {
        entry->offset = entry->key_len - entry->query_len;
    }
    if (problem->alignment == CLATTN_ALIGN_OFFSETS) {
        entry->offset = integer(&tensors->query_offsets, b);
    }
}

static double *doubles(int64_t count)
{
    return malloc((size_t)(count > 0 ? count : 1) * sizeof(double));
}

static int fill_entry(struct entry *entry, int64_t piece_rows, struct failure *failure)
{
    const clattn_problem *p = entry->problem;
    int64_t rows = p->query_heads * piece_rows;
    entry->key = doubles(p->kv_heads * entry->key_len * p->head_dim);
    entry->value = doubles(p->kv_heads * entry->key_len * p->head_dim_v);
    entry->query = doubles(rows * p->head_dim);
    entry->out = doubles(rows * p->head_dim_v);
    entry->weights = doubles(rows * entry->key_len);
    entry->lse = malloc((size_t)(rows + 1) * sizeof(float));
    entry->magnitude = p->code ? doubles(rows * entry->key_len) : NULL;
    if ((p->code && !entry->magnitude) || !entry->key || !entry->value || !entry->query || !entry->out ||
        !entry->weights || !entry->lse) {
        return failure_failed(failure, "check: out of memory");
    }
    const struct check_keys keys = { p, entry->tensors, entry->index, entry->key_first, entry->key_len };
    check_read_keys(&keys, entry->key);
    check_read_values(&keys, entry->value);
    return 0;
}

static void free_entry(struct entry *entry)
{
    free(entry->key);
    free(entry->value);
    free(entry->query);
    free(entry->out);
    free(entry->weights);
    free(entry->magnitude);
    free(entry->lse);
}

/* ---- the reference for a piece of rows ---- */

/* Strides of an output must not be 0, even where there are no keys. */
static void dense(clattn_host_tensor *tensor, void *data, int64_t rows, int64_t columns)
{
    tensor->data = data;
    tensor->stride[2] = columns > 0 ? columns : 1;
    tensor->stride[1] = rows * tensor->stride[2];
    tensor->stride[3] = 1;
}

/* A mask or bias from row `first` of the entry on. */
static void shift(clattn_host_tensor *to, const clattn_host_tensor *from, int64_t b, int64_t first)
{
    *to = *from;
    to->offset = position(from, b, 0, first, 0);
    to->stride[0] = 0;
}

/* sum_d |scale q_d k_jd| of a row of the piece. */
static double product_magnitude(const struct entry *entry, int64_t h, int64_t j, int64_t row)
{
    const clattn_problem *p = entry->problem;
    const int64_t kv_head = h / (p->query_heads / p->kv_heads);
    const double *query = entry->query + row * p->head_dim;
    const double *key = entry->key + (kv_head * entry->key_len + j) * p->head_dim;
    double sum = 0;
    for (int64_t c = 0; c < p->head_dim; c++) {
        sum += fabs(query[c] * key[c]);
    }
    return sum * fabs(entry->call->has_scale ? entry->call->scale : 1 / sqrt((double)p->head_dim));
}

static void fill_magnitudes(struct entry *entry, int64_t rows)
{
    const int64_t keys = entry->key_len;
    for (int64_t row = 0; row < entry->problem->query_heads * rows; row++) {
        for (int64_t j = 0; j < keys; j++) {
            entry->magnitude[row * keys + j] = product_magnitude(entry, row / rows, j, row);
        }
    }
}

/* Masks end where the keys of an entry do, which may be fewer than the call's. */
static void set_masked_keys(const struct entry *entry, clattn_call *call)
{
    const int64_t left = entry->key_len - call->mask_first_key;
    call->mask_first_key = left < 0 ? entry->key_len : call->mask_first_key;
    call->mask_key_len = call->mask_key_len < left ? call->mask_key_len : -1;
    call->bias_key_len = call->bias_key_len < left ? call->bias_key_len : -1;
}

static int reference(struct entry *entry, int64_t first, int64_t rows, struct failure *failure)
{
    const clattn_host_tensors *given = entry->tensors;
    clattn_problem p = *entry->problem;
    clattn_host_tensors host = CLATTN_HOST_TENSORS_INIT;
    int32_t offset = (int32_t)(entry->offset + first);
    p.type = CLATTN_FLOAT64;
    p.key_type = p.value_type = p.out_type = CLATTN_TYPE_NONE;
    p.value_in_key = 0;
    p.batch = 1;
    p.query_len = rows;
    p.key_len = entry->key_len;
    p.features &= ~(uint32_t)(CLATTN_WITH_VARLEN | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_PAGES |
                              CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES |
                              CLATTN_WITH_BLOCK_MASK); /* the text, which blocks were made of, says it again */
    p.block_mask_rows = p.block_mask_keys = 0;
    p.page_size = p.pages = p.pool_pages = p.ring = 0;
    p.key_scale_rows = p.key_scale_columns = p.value_scale_rows = p.value_scale_columns = 0;
    p.allow_tf32 = 0;
    p.allow_rounded_weights = 0;
    p.features |= CLATTN_WITH_LSE;
    p.weights = CLATTN_WEIGHTS_SOFTMAX;
    p.strategy = NULL;
    if (p.alignment != CLATTN_ALIGN_UNSET) {
        p.alignment = CLATTN_ALIGN_OFFSETS;
    }
    if (p.alignment != CLATTN_ALIGN_UNSET) {
        host.query_offsets.data = &offset;
    }
    clattn_call call = *entry->call;
    call.query_len = call.key_len = -1;
    set_masked_keys(entry, &call);
    read_queries(entry, first, rows, entry->query);
    dense(&host.query, entry->query, rows, p.head_dim);
    dense(&host.key, entry->key, p.key_len, p.head_dim);
    dense(&host.value, entry->value, p.key_len, p.head_dim_v);
    dense(&host.out, entry->out, rows, p.head_dim_v);
    dense(&host.weights, entry->weights, rows, p.key_len);
    dense(&host.lse, entry->lse, rows, 1);
    shift(&host.mask, &given->mask, entry->index, first);
    shift(&host.bias, &given->bias, entry->index, first);
    host.slopes = given->slopes;
    host.slopes.offset += entry->index * given->slopes.stride[0];
    host.sinks = given->sinks;
    if (p.code) {
        memcpy(host.code_tensors, given->code_tensors, sizeof host.code_tensors);
        call.first_batch += entry->index; /* a text is told the numbers of the whole */
        call.first_row += first;
        fill_magnitudes(entry, rows);
        return check_text_forward(entry->context, &p, &call, &host, entry->magnitude, failure);
    }
    if (clattn_reference_forward(&p, &call, &host) != CLATTN_OK) {
        return failure_failed(failure, "check: the reference: %s", clattn_last_error());
    }
    return 0;
}

/* ---- comparing ---- */

/* A_j of the head of this file, of row i and row `row` of the piece; with a text check_text.h has it. */
static double magnitude(const struct entry *entry, int64_t h, int64_t i, int64_t j, int64_t row)
{
    const clattn_problem *p = entry->problem;
    const clattn_host_tensors *t = entry->tensors;
    if (p->code) {
        return entry->magnitude[row * entry->key_len + j];
    }
    double sum = product_magnitude(entry, h, j, row);
    if (p->bias_type != CLATTN_TYPE_NONE) {
        sum += fabs(load(&t->bias, p->bias_type, entry->index, h, i, j));
    }
    if (p->features & CLATTN_WITH_SLOPES) {
        sum += fabs(load(&t->slopes, p->slopes_type ? p->slopes_type : CLATTN_FLOAT32, entry->index, h, 0, 0) *
                    (double)(i + entry->offset - j));
    }
    return sum;
}

/* Row i of head h; `row` is its place in the piece's arrays. */
static void compare_row(const struct entry *entry, int64_t h, int64_t i, int64_t row, double *mixed,
                        struct check *check)
{
    const clattn_problem *p = entry->problem;
    const clattn_host_tensors *t = entry->tensors;
    const double *weights = entry->weights + row * entry->key_len;
    int64_t kv_head = h / (p->query_heads / p->kv_heads);
    int64_t batch = p->features & CLATTN_WITH_VARLEN ? 0 : entry->index;
    const clattn_type out_type = p->out_type ? p->out_type : p->type;
    double average = 0, n = 0;
    memset(mixed, 0, (size_t)p->head_dim_v * sizeof *mixed);
    for (int64_t j = 0; j < entry->key_len; j++) {
        const double *value = entry->value + (kv_head * entry->key_len + j) * p->head_dim_v;
        if (!(weights[j] > 0)) {
            continue;
        }
        n++;
        average += weights[j] * magnitude(entry, h, i, j, row);
        for (int64_t c = 0; c < p->head_dim_v; c++) {
            mixed[c] += weights[j] * fabs(value[c]);
        }
    }
    const struct check_row bound = check_row_of(p, average, n, &entry->rounding);
    for (int64_t c = 0; c < p->head_dim_v; c++) {
        check_out(&bound, load(&t->out, out_type, batch, h, entry->query_first + i, c),
                  entry->out[row * p->head_dim_v + c], mixed[c], check);
    }
    if (p->features & CLATTN_WITH_LSE) {
        check_lse(&bound, load(&t->lse, CLATTN_FLOAT32, batch, h, entry->query_first + i, 0), entry->lse[row], check);
    }
    check->rows_checked++;
}

static int compare_piece(struct entry *entry, int64_t first, int64_t rows, struct check *check, struct failure *failure)
{
    double *mixed = doubles(entry->problem->head_dim_v);
    int result = mixed ? reference(entry, first, rows, failure) : failure_failed(failure, "check: out of memory");
    for (int64_t h = 0; h < entry->problem->query_heads && result == 0; h++) {
        for (int64_t i = 0; i < rows; i++) {
            compare_row(entry, h, first + i, h * rows + i, mixed, check);
        }
    }
    free(mixed);
    return result;
}

/* ---- which rows ---- */

/* Item `index` of `taken` items spread over `all`, the last one included. */
static int64_t spread(int64_t index, int64_t taken, int64_t all)
{
    return taken > 1 ? index * (all - 1) / (taken - 1) : all - 1;
}

static int compare_entry(struct entry *entry, double row_budget, struct check *check, struct failure *failure)
{
    const clattn_problem *p = entry->problem;
    int64_t rows, piece = 1;
    int result = 0;
    find_entry(entry);
    rows = row_budget < (double)entry->query_len ? (int64_t)fmax(row_budget, 1) : entry->query_len;
    if (rows == 0) {
        return 0;
    }
    if (rows == entry->query_len) {
        piece = PIECE_MAX / (p->query_heads * entry->key_len + 1) + 1;
    }
    if (piece > rows) {
        piece = rows;
    }
    if (fill_entry(entry, piece, failure) != 0) {
        return -1;
    }
    if (rows < entry->query_len) {
        for (int64_t i = 0; i < rows && result == 0; i++) {
            result = compare_piece(entry, spread(i, rows, entry->query_len), 1, check, failure);
        }
    } else {
        for (int64_t i = 0; i < rows && result == 0; i += piece) {
            result = compare_piece(entry, i, i + piece < rows ? piece : rows - i, check, failure);
        }
    }
    return result;
}

static int64_t count_rows(const clattn_problem *problem, const clattn_host_tensors *tensors)
{
    int64_t rows = problem->batch * problem->query_len;
    if (problem->features & CLATTN_WITH_VARLEN) {
        rows = integer(&tensors->cu_query, problem->batch);
    }
    return rows * problem->query_heads;
}

/* `call` may be NULL. */
int check_forward(clattn_context *context, const clattn_problem *problem, const clattn_call *call,
                  const clattn_host_tensors *tensors, const clattn_plan *plan, double budget, struct check *check,
                  struct failure *failure)
{
    double row_cost = (double)problem->query_heads * (double)(problem->key_len + 1) *
                      (double)(problem->head_dim + problem->head_dim_v);
    double affordable = fmax(budget / row_cost, 1);
    int64_t entries = affordable < (double)problem->batch ? (int64_t)affordable : problem->batch;
    const clattn_call defaults = CLATTN_CALL_INIT;
    int result = 0;
    memset(check, 0, sizeof *check);
    check->rows_all = count_rows(problem, tensors);
    if (check->rows_all == 0) {
        return 0;
    }
    for (int64_t i = 0; i < entries && result == 0; i++) {
        struct entry entry = { .context = context,
                               .problem = problem,
                               .call = call ? call : &defaults,
                               .tensors = tensors,
                               .rounding = check_rounding_of(plan) };
        entry.index = spread(i, entries, problem->batch);
        result = compare_entry(&entry, affordable / (double)entries, check, failure);
        free_entry(&entry);
    }
    return result;
}
