/* What is in the tensors of a check, and where: so that what a kernel gets wrong shows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "self_check/self_check_call.h"

/* Logits spread by these: a key at an edge counts for something where they are even, and what is wrong with maxima and
 * their sums shows where they are not. */
#define EVEN_QUERY_FACTOR 2.0
#define QUERY_FACTOR 6.0
#define PEAKY_QUERY_FACTOR 60.0  /* of every seventh row, whose weight is on a few keys */
#define ONE_KEY_QUERY_FACTOR 1e3 /* of every second of these: without its maximum the row's weights are infinite */

/* From the first key to the last, of some rows in calls of several blocks of keys: their maxima move from block to
 * block, and what was summed before counts for less. */
#define RISING_LOGITS 60.0

double check_number(const struct check_call *check, int id, int64_t i)
{
    uint64_t x = ((uint64_t)(id + 2 * FORWARD_TENSOR_COUNT * (int)check->turn) << 40) + (uint64_t)i + 1;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static int chance(const struct check_call *check, int id, int64_t i, double of)
{
    return check_number(check, id + FORWARD_TENSOR_COUNT, i) < 2 * of - 1;
}

/* ---- values --------------------------------------------------------------------------------- */

struct index {
    int64_t b, h, i, c, all; /* all: elements before it */
};

static int is_masked(const struct check_call *check, const struct index *at)
{
    const int64_t key = at->c * (check->problem.p.mask_bits ? 8 : 1);
    const int is_in_block = check->turn == CHECK_LONG && key >= 200 && key < 430; /* which no row sees */
    const int is_chosen = (at->i == 1 && check->turn != CHECK_LONG) || !chance(check, TENSOR_MASK, at->all, 0.7);
    return check->turn == CHECK_NONE || is_in_block || (is_chosen && check->turn != CHECK_EQUAL);
}

/* The value of a tensor that is no query, key or value. */
static double side_value(const struct check_call *check, int id, const struct index *at)
{
    const struct call *call = &check->call;
    const int is_equal = check->turn == CHECK_EQUAL;
    const double any = is_equal ? 0 : check_number(check, id, at->all);
    switch (id) {
    case TENSOR_MASK:
        return is_masked(check, at) ? 0 : 1 + (double)(at->all % 255);
    case TENSOR_BIAS:
        return check->turn == CHECK_NONE || (chance(check, id, at->all, 0.1) && !is_equal) ? -(double)INFINITY
                                                                                           : 2 * any;
    case TENSOR_SLOPES: /* that leave keys at both ends something */
        return is_equal ? 0
                        : (2.0 + (double)(at->h % 3) + 0.5 * (double)at->b) / (double)(call->key_len + call->query_len);
    case TENSOR_SINKS: /* about as much as the keys have, less, more */
        return 4.0 * (double)((at->h + 1) % 3) + any;
    case TENSOR_KEY_LENGTHS:
        return (double)check_key_length(check, at->c);
    case TENSOR_QUERY_OFFSETS:
        return (double)check_query_offset(check, at->c);
    case TENSOR_CU_QUERY:
        return (double)check_seam(check, 0, at->c);
    case TENSOR_CU_KEY:
        return (double)check_seam(check, 1, at->c);
    case TENSOR_PAGE_TABLE:
        if (check_asks(check, CLATTN_WITH_PAGE_STARTS)) {
            const int64_t line = at->c - check_table_page(check, 0, 0), length = check->sequence_pages + 1;
            return check_table_entry(check, line < 0 ? 0 : line / length, line < 0 ? -1 : line % length);
        }
        return check_table_entry(check, at->b, at->c);
    case TENSOR_PAGE_STARTS:
        return (double)check_table_page(check, at->c, 0);
    case TENSOR_BLOCK_MASK:
        return check->turn == CHECK_NONE || (at->all % 5 == 3 && !is_equal) ? CLATTN_BLOCK_EMPTY
               : at->all % 2                                                ? CLATTN_BLOCK_FULL
                                                                            : CLATTN_BLOCK_PARTIAL;
    case TENSOR_KEY_LISTS: /* all keys, from another one on in each list, in some of them a few less */
        return check->turn == CHECK_NONE || at->c >= call->key_len - (is_equal ? 0 : at->i % 4)
                   ? -1
                   : (double)((at->c + at->i + at->h) % call->key_len);
    case TENSOR_ROW_LOW:
        return check_range_bound(check, 0, at->b, at->h, at->i);
    case TENSOR_ROW_HIGH:
        return check_range_bound(check, 1, at->b, at->h, at->i);
    case TENSOR_KEY_ZERO_POINTS:
    case TENSOR_VALUE_ZERO_POINTS:
        return 3 * any;
    case TENSOR_KEY_SCALES:
    case TENSOR_VALUE_SCALES:
    case TENSOR_KEY_TENSOR_SCALE:
    case TENSOR_VALUE_TENSOR_SCALE:
        return 0.01 * (1.5 + any);
    default: /* what is added to scores */
        return 2 * any;
    }
}

/* The sequence whose key a stored row is, and the number of that row; -1: it is nobody's. */
static int64_t owner_of(const struct check_call *check, int id, const struct index *at, int64_t *row)
{
    const clattn_problem *p = &check->problem.p;
    int64_t b = at->b;
    *row = at->i;
    if (p->page_size > 0) {
        const int pool = id < ALL_TENSOR_COUNT ? 0 : 1 + (id - TENSOR_KEY_POOL_1) % 3;
        const int64_t page = at->b + pool * p->pool_pages, n = page < p->pages ? check->page_of[page] : -1;
        b = n < 0 ? -1 : n / check->sequence_pages;
        *row += n < 0 ? 0 : n % check->sequence_pages * p->page_size;
    } else if (check_packs_keys(check)) {
        check_find_packed(check, 1, at->i, &b, row);
    }
    return b;
}

/* Nobody sees it: behind the last key, or in a page without a sequence. */
static int is_unseen(const struct check_call *check, int64_t b, int64_t row)
{
    const clattn_problem *p = &check->problem.p;
    return b < 0 || row >= check_seen_keys(check, b) || (p->ring > 0 && row >= p->ring);
}

/* The column that makes the logits of lost keys -infinity: negative in queries, infinite in these keys. */
#define LOST_COLUMN 1

/* One of some values that are seen is NaN and one infinite, in columns of their own; where they may be dropped, so are
 * some keys, and where hardly one is kept all of them. */
static double not_finite(const struct check_call *check, int first, const struct index *at, int64_t b, int64_t row)
{
    const clattn_problem *p = &check->problem.p;
    const int is_dropped = check->turn == CHECK_DROPPED, is_tall = check->turn == CHECK_TALL;
    const int is_here = (is_tall || is_dropped) && b == p->batch - 1 && at->h == p->kv_heads - 1;
    if (first == TENSOR_KEY) {
        const int is_one = is_dropped || (is_tall && p->dropout > 0 && row % 5 == 2);
        const int is_lost = at->c == LOST_COLUMN && check_is_lost_key(check, b, at->h, row);
        return (is_one && at->c == 0) || is_lost ? (double)INFINITY : 0;
    }
    return is_here && row == 5 && at->c == 0                   ? (double)NAN
           : is_here && row == 9 && at->c == p->head_dim_v - 1 ? (double)INFINITY
                                                               : 0;
}

/* Every third of few rows; a few of many, at both ends, where a mask or a range may leave them little. */
static int is_rising(const struct check_call *check, const struct index *at)
{
    const int64_t from_last = check->call.query_len - 1 - at->i;
    return check->turn == CHECK_LONG
               ? (at->i + at->h) % 3 == 1
               : check->turn == CHECK_TILES && ((at->i + at->h) % 14 == 3 || (from_last + at->h) % 14 == 3);
}

/* One row in the call with infinite values, where a few rows have several keys; otherwise one head of several. */
static int has_infinite_logits(const struct check_call *check, const struct index *at)
{
    const int64_t rows = check->call.query_len, heads = check->problem.p.query_heads;
    return check->of_gradients ? 0
           : rows > 2          ? check->turn == CHECK_TALL && at->i == rows / 2 && at->h == 0
                               : check->turn == CHECK_FEW && at->i == 0 && at->h == heads - 1 && heads > 1;
}

static double query_factor(const struct check_call *check, const struct index *at)
{
    const int64_t row = at->i + at->h;
    if (row % 7 == 3) {
        return row % 14 == 3 ? PEAKY_QUERY_FACTOR : ONE_KEY_QUERY_FACTOR;
    }
    return (at->i + (int64_t)check->turn) % 2 ? EVEN_QUERY_FACTOR : QUERY_FACTOR;
}

static double query_value(const struct check_call *check, const struct index *at, double value)
{
    const struct problem *problem = &check->problem;
    const int is_infinite = at->c == 0 && problem->p.softcap == 0 && has_infinite_logits(check, at);
    const double factor = query_factor(check, at);
    value = check->turn == CHECK_LONG && at->c == LOST_COLUMN ? -fabs(value) : value;
    if (is_rising(check, at)) {
        return at->c == 0 ? RISING_LOGITS * sqrt((double)problem->p.head_dim) : EVEN_QUERY_FACTOR * value;
    }
    return is_infinite ? (double)INFINITY : factor * value;
}

static clattn_type type_of(const clattn_problem *p, int first)
{
    return first == TENSOR_QUERY ? p->type : first == TENSOR_KEY ? p->key_type : p->value_type;
}

static clattn_status fill_row(const struct check_call *check, int id, struct index at, int64_t columns, float *row,
                              void *to)
{
    const clattn_problem *p = &check->problem.p;
    const int first = check_first_of(id);
    const clattn_type type = type_of(p, first);
    const int has_scales = check_asks(check, first == TENSOR_KEY ? CLATTN_WITH_KEY_SCALES : CLATTN_WITH_VALUE_SCALES);
    const int is_byte = type == CLATTN_INT8 || type == CLATTN_U8;
    const double codes = !is_byte ? (type_makes_scales(type) ? 6 : 1) : has_scales ? 100 : 2;
    int64_t stored = 0;
    const int64_t b = first == TENSOR_QUERY ? 0 : owner_of(check, id, &at, &stored);
    if (first != TENSOR_QUERY && is_unseen(check, b, stored)) {
        return CLATTN_OK; /* NaN, as all memory was before */
    }
    for (at.c = 0; at.c < columns; ++at.c, ++at.all) {
        if (check->turn == CHECK_EQUAL) {
            row[at.c] = (float)(codes * check_equal_value(check, first, stored, at.c));
            continue;
        }
        const int rises = first == TENSOR_KEY && at.c == 0 && check->turn != CHECK_TALL;
        const double value = rises ? (double)stored / (double)check->call.key_len : check_number(check, id, at.all);
        const int is_finite = first == TENSOR_QUERY || type_is_blocks(type) || check->of_gradients;
        const double special = is_finite ? 0 : not_finite(check, first, &at, b, stored);
        row[at.c] = (float)(first == TENSOR_QUERY               ? query_value(check, &at, value)
                            : special != 0                      ? special
                            : first == TENSOR_VALUE && at.c % 2 ? codes * (0.6 * value + 0.4)
                                                                : codes * value);
    }
    return clattn_quantise(type, columns, row, NULL, 0, to);
}

/* ---- all of a tensor ------------------------------------------------------------------------ */

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

clattn_status check_fill(const struct check_call *check, const struct operands *operands, int id, const int64_t n[4],
                         const clattn_host_tensor *to)
{
    const int64_t of_block = operand_columns(operands, id), columns = n[3] * of_block;
    const int is_stepped = check_first_of(id) <= TENSOR_VALUE && to->stride[3] > 1;
    const int64_t bytes = (int64_t)operand_bytes(operands, id);
    char *packed = malloc((size_t)columns * (sizeof(double) + sizeof(float)));
    float *row = packed ? (float *)(packed + (size_t)columns * sizeof(double)) : NULL;
    clattn_status status = packed ? CLATTN_OK : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    for (int64_t r = 0; r < n[0] * n[1] * n[2] && status == CLATTN_OK; ++r) {
        struct index at = { r / n[2] / n[1], r / n[2] % n[1], r % n[2], 0, r * columns };
        const int64_t first = to->offset + at.b * to->stride[0] + at.h * to->stride[1] + at.i * to->stride[2];
        if (check_first_of(id) > TENSOR_VALUE) {
            for (; at.c < columns; ++at.c, ++at.all) {
                store(operands, id, to->data, first + at.c * to->stride[3], side_value(check, id, &at));
            }
            continue;
        }
        char *place = (char *)to->data + first / of_block * bytes;
        if (is_stepped) {
            memset(packed, 0xff, (size_t)(columns * bytes));
        }
        status = fill_row(check, id, at, columns, row, is_stepped ? packed : place);
        for (int64_t c = 0; is_stepped && c < columns; ++c) {
            memcpy(place + c * to->stride[3] * bytes, packed + c * bytes, (size_t)bytes);
        }
    }
    free(packed);
    return status;
}
