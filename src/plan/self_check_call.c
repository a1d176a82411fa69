/* The small call that a plan is checked by: sizes with tails, tensors filled so that what a kernel gets wrong shows. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "operation/pools.h"
#include "plan/self_check.h"

/* Multiply-adds of the reference that a check may cost, some 20 ms. */
#define WORK_MOST 1e7

#define QUERY_FACTOR 6.0        /* weights that are neither even nor all on one key */
#define PEAKY_QUERY_FACTOR 60.0 /* of every seventh row, whose weight is on a few keys */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The further buffers of a pool are as its first one. */
static int first_of(int id)
{
    return id < TENSOR_COUNT ? id : id < TENSOR_VALUE_POOL_1 ? TENSOR_KEY : TENSOR_VALUE;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* A window, a ring or a pool of the problem's size would hide what the check is to see; kernels take them as numbers of
 * the call. Kernels are built for a group, not for how many heads or sequences there are. */
static void shrink(clattn_problem *p)
{
    const int64_t group = p->query_heads / p->kv_heads;
    p->batch = min64(p->batch, 2);
    p->kv_heads = min64(p->kv_heads, 2);
    p->query_heads = group * p->kv_heads;
    p->window_left = min64(p->window_left, CHECK_KEYS / 3);
    p->window_right = min64(p->window_right, CHECK_KEYS / 7);
    p->always_visible_keys = min64(p->always_visible_keys, 5);
    p->ring = p->ring > CHECK_KEYS / 2 ? CHECK_KEYS / 2 : p->ring;
}

static int64_t check_keys(const clattn_problem *p, int turn)
{
    return min64(p->key_len, turn == 0 ? CHECK_KEYS : CHECK_FEW_KEYS);
}

static int64_t check_rows(const clattn_problem *p, int turn, int64_t keys)
{
    const double a_row = (double)p->batch * (double)p->query_heads * (double)keys *
                         (double)(p->head_dim + p->head_dim_v);
    const double rows = turn == 0 ? CHECK_ROWS : CHECK_FEW_ROWS;
    const double most = WORK_MOST / a_row < rows ? WORK_MOST / a_row : rows;
    return min64(p->query_len, most < 3 ? 3 : (int64_t)most);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* In [-1, 1), different for each turn, tensor and element; the same in every process. */
static double number(const struct check_call *check, int id, int64_t i)
{
    uint64_t x = ((uint64_t)(id + 2 * TENSOR_COUNT * check->turn) << 40) + (uint64_t)i + 1;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static int chance(const struct check_call *check, int id, int64_t i, double of)
{
    return number(check, id + TENSOR_COUNT, i) < 2 * of - 1;
}

/* Keys of a batch entry that may be seen: another number for each. */
static int64_t key_length(const struct check_call *check, int64_t b)
{
    const int64_t keys = check->call.key_len;
    return b == 0 ? keys - keys / 9 : keys;
}

/* Rows of a packed sequence. */
static int64_t packed_length(int64_t most, int64_t b)
{
    return b == 0 ? most - most / 3 : most;
}

/* Where `b` begins in packed rows. */
static int64_t seam(int64_t most, int64_t b)
{
    int64_t sum = 0;
    for (int64_t before = 0; before < b; ++before) {
        sum += packed_length(most, before);
    }
    return sum;
}

/* Pages of one sequence lie apart and in no order. One of them is not there: of the first turn the second one, where
 * there is more than one; of the second turn the last one of the first sequence, by a number beyond the pool. */
static double page(const struct check_call *check, int64_t i)
{
    const int64_t pages = check->problem.p.pages, step = pages % 7 ? 7 : 11;
    if (check->turn == 0 && pages > 4 && i == 1) {
        return -1;
    }
    if (check->turn > 0 && i == check->sequence_pages - 1) {
        return (double)pages;
    }
    return (double)((i * step + 1) % pages);
}

/* Where the first row of a sequence stands among the keys. */
static double query_offset(const struct check_call *check, int64_t b)
{
    const struct call *call = &check->call;
    return check->turn == 0 ? (double)(call->key_len - call->query_len - 3 * b) : -2.0 - (double)b;
}

/* ---- values --------------------------------------------------------------------------------- */

struct index {
    int64_t b, h, i, c, all; /* all: elements before it */
};

/* The value of a tensor that is no query, key or value. */
static double side_value(const struct check_call *check, int id, const struct index *at)
{
    const struct call *call = &check->call;
    const double keys = (double)call->key_len;
    switch (id) {
    case TENSOR_MASK:
        return at->i != 1 && chance(check, id, at->all, 0.7) ? 1 + (double)(at->all % 255) : 0;
    case TENSOR_BIAS:
        return chance(check, id, at->all, 0.1) ? -(double)INFINITY : 2 * number(check, id, at->all);
    case TENSOR_SLOPES:
        return exp2(-(double)(at->h % 8 + 1));
    case TENSOR_SINKS:
        return 2 * number(check, id, at->all);
    case TENSOR_KEY_LENGTHS:
        return (double)key_length(check, at->c);
    case TENSOR_QUERY_OFFSETS:
        return query_offset(check, at->c);
    case TENSOR_CU_QUERY:
        return (double)seam(call->query_len, at->c);
    case TENSOR_CU_KEY:
        return (double)seam(call->key_len, at->c);
    case TENSOR_PAGE_TABLE:
        return page(check, at->all);
    case TENSOR_PAGE_STARTS:
        return (double)(at->c * check->sequence_pages);
    case TENSOR_ROW_LOW:
        return at->i == 2 ? keys : (double)((at->i + 3 * at->h + at->b) % 11);
    case TENSOR_ROW_HIGH:
        return keys - (double)((at->i + 5 * at->h + at->b) % 17);
    default: /* scales of keys and of values */
        return 0.01 * (1.5 + number(check, id, at->all));
    }
}

/* What column c of a row of queries, keys or values is, before it is stored in its type. */
static double row_value(const struct check_call *check, int id, const struct index *at)
{
    const clattn_problem *p = &check->problem.p;
    const int is_key = first_of(id) == TENSOR_KEY;
    const clattn_type type = is_key ? p->key_type : p->value_type;
    const int has_scales = (p->features & (is_key ? CLATTN_WITH_KEY_SCALES : CLATTN_WITH_VALUE_SCALES)) != 0;
    const double codes = type != CLATTN_INT8 ? 1 : has_scales ? 100 : 2, value = number(check, id, at->all);
    const int is_dense = (p->features & (CLATTN_WITH_PAGES | CLATTN_WITH_VARLEN)) == 0 && p->ring == 0;
    if (id == TENSOR_QUERY) {
        return (at->i % 7 == 3 ? PEAKY_QUERY_FACTOR : QUERY_FACTOR) * value;
    }
    if (is_dense && p->features & CLATTN_WITH_KEY_LENGTHS && type_is_float(type) && at->i >= key_length(check, at->b)) {
        return (double)NAN;
    }
    return codes * (first_of(id) == TENSOR_VALUE ? 0.6 * value + 0.4 : value);
}

static clattn_status fill_row(const struct check_call *check, int id, struct index at, int64_t columns, float *row,
                              void *to)
{
    const clattn_problem *p = &check->problem.p;
    const int first = first_of(id);
    const clattn_type type = first == TENSOR_QUERY ? p->type : first == TENSOR_KEY ? p->key_type : p->value_type;
    for (at.c = 0; at.c < columns; ++at.c, ++at.all) {
        row[at.c] = (float)row_value(check, id, &at);
    }
    return clattn_quantise(type, columns, row, NULL, 0, to);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static void store(const struct operands *operands, int id, void *memory, int64_t i, double value)
{
    const clattn_type type = operands->element[operands->operation->rows[id].element];
    if (type != CLATTN_TYPE_NONE) {
        type_store(type, memory, i, value);
    } else if (operand_bytes(operands, id) == 1) {
        ((unsigned char *)memory)[i] = (unsigned char)value;
    } else {
        ((int32_t *)memory)[i] = (int32_t)value;
    }
}

/* Each tensor has strides of its own: of every other one the heads lie within the rows, rows of queries, keys, values
 * and outputs are apart by more for each, and in the second turn so are the elements of what may have any strides. */
static void choose_strides(const struct check_call *check, const struct operands *operands, int id, const int64_t n[4],
                           int64_t stride[4])
{
    const struct tensor_row *row = &operands->operation->rows[id];
    const int64_t step = check->turn > 0 && row->strides == 4 && !row->columns ? 2 : 1;
    const int64_t columns = n[3] * operand_columns(operands, id) * step;
    const int first = first_of(id);
    const int64_t pitch = columns + (first <= TENSOR_OUT ? (int64_t)first * BLOCK_COLUMNS : 0);
    const int heads_within = first % 2;
    stride[0] = n[1] * n[2] * pitch;
    stride[1] = heads_within ? pitch : n[2] * pitch;
    stride[2] = heads_within ? n[1] * pitch : pitch;
    stride[3] = step;
}

static clattn_status fill(const struct check_call *check, const struct operands *operands, int id, const int64_t n[4],
                          const clattn_host_tensor *to)
{
    const int64_t columns = n[3] * operand_columns(operands, id);
    float *row = malloc((size_t)columns * sizeof(*row) + 1);
    clattn_status status = row ? CLATTN_OK : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    for (int64_t r = 0; r < n[0] * n[1] * n[2] && status == CLATTN_OK; ++r) {
        struct index at = { r / n[2] / n[1], r / n[2] % n[1], r % n[2], 0, r * columns };
        const int64_t first = at.b * to->stride[0] + at.h * to->stride[1] + at.i * to->stride[2];
        if (first_of(id) <= TENSOR_VALUE) {
            const int64_t byte = first / operand_columns(operands, id) * (int64_t)operand_bytes(operands, id);
            status = fill_row(check, id, at, columns, row, (char *)to->data + byte);
            continue;
        }
        for (; at.c < columns; ++at.c, ++at.all) {
            store(operands, id, to->data, first + at.c * to->stride[3], side_value(check, id, &at));
        }
    }
    free(row);
    return status;
}

static clattn_status make_tensor(struct check_call *check, const struct operands *operands, int id)
{
    int64_t n[4];
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    operand_shape(operands, id, n);
    choose_strides(check, operands, id, n, tensor.stride);
    const size_t bytes = (size_t)(n[0] * tensor.stride[0] / operand_columns(operands, id)) *
                         operand_bytes(operands, id);
    check->memory[id] = tensor.data = malloc(bytes + 1);
    if (!tensor.data) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    }
    memcpy((char *)&check->tensors + operation_forward.rows[id].host_at, &tensor, sizeof(tensor));
    memset(tensor.data, 0xff, bytes); /* of what is written, and between rows: NaN */
    return forward_is_output(id) ? CLATTN_OK : fill(check, operands, id, n, &tensor);
}

clattn_status check_call_create(const struct problem *problem, int turn, struct check_call *check)
{
    clattn_call values = CLATTN_CALL_INIT;
    memset(check, 0, sizeof(*check));
    check->problem = *problem;
    check->turn = turn;
    check->tensors = (clattn_host_tensors)CLATTN_HOST_TENSORS_INIT;
    clattn_problem *p = &check->problem.p;
    shrink(p);
    values.key_len = check->call.key_len = check_keys(p, turn);
    values.query_len = check->call.query_len = check_rows(p, turn, values.key_len);
    if (turn > 0) { /* wherever rows begin, the last ones have keys behind the window */
        p->window_left = min64(p->window_left, values.query_len / 2);
    }
    values.mask_key_len = values.bias_key_len = values.key_len - values.key_len / 20;
    values.has_scale = 1;
    values.scale = 0.9 / sqrt((double)p->head_dim);
    if (p->features & CLATTN_WITH_VARLEN) { /* the problem's lengths are those that count */
        p->query_len = values.query_len;
        p->key_len = values.key_len;
    }
    if (p->page_size > 0) {
        check->sequence_pages = groups_of(forward_kept_rows(p, values.key_len), p->page_size);
        const int pools = pools_of(p);
        p->pages = p->batch * check->sequence_pages + 3;
        if (pools > 1) {
            p->pool_pages = groups_of(p->pages, pools);
            p->pages = p->pool_pages * pools;
        }
    }
    const struct forward_lengths lengths = { values.query_len,
                                             values.key_len,
                                             values.mask_key_len,
                                             values.bias_key_len,
                                             seam(values.query_len, p->batch),
                                             seam(values.key_len, p->batch),
                                             p->batch * check->sequence_pages };
    struct operands operands;
    memset(&operands, 0, sizeof(operands));
    forward_measure(p, &lengths, &operands);
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < FORWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        status = operand_is_asked(&operands, id) ? make_tensor(check, &operands, id) : CLATTN_OK;
    }
    return status == CLATTN_OK ? call_from_host(&check->problem, &values, &check->tensors, &check->call) : status;
}

void check_call_free(struct check_call *check)
{
    for (int id = 0; id < FORWARD_TENSOR_COUNT; ++id) {
        free(check->memory[id]);
    }
}
