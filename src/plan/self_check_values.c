/* What is in the tensors of a check, and where: so that what a kernel gets wrong shows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/stored_types.h"
#include "plan/self_check.h"

/* Logits spread by these: a key at an edge counts for something where they are even, and what is wrong with maxima and
 * their sums shows where they are not. */
#define EVEN_QUERY_FACTOR 2.0
#define QUERY_FACTOR 6.0
#define PEAKY_QUERY_FACTOR 60.0 /* of every seventh row, whose weight is on a few keys */

#define HOLES_APART 97 /* keys: a hole begins, or ends, blocks of 16, 32, 64, 96 and 128 of them */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* In [-1, 1), different for each turn, tensor and element; the same in every process. */
static double number(const struct check_call *check, int id, int64_t i)
{
    uint64_t x = ((uint64_t)(id + 2 * FORWARD_TENSOR_COUNT * (int)check->turn) << 40) + (uint64_t)i + 1;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static int chance(const struct check_call *check, int id, int64_t i, double of)
{
    return number(check, id + FORWARD_TENSOR_COUNT, i) < 2 * of - 1;
}

/* ---- sequences ------------------------------------------------------------------------------ */

static int has(const struct check_call *check, uint32_t feature)
{
    return (check->problem.p.features & feature) != 0;
}

/* Of packed rows, or keys: none of the sequences has as many as it may, and one of several may have none. */
static int64_t packed_length(const struct check_call *check, int of_keys, int64_t b)
{
    const int64_t most = of_keys ? check->call.key_len : check->call.query_len;
    const int64_t empty = check->turn == (of_keys ? CHECK_TALL : CHECK_FEW)         ? 0
                          : check->turn == CHECK_TALL && check->call.query_len == 1 ? 1
                                                                                    : -1;
    return b == empty && check->problem.p.batch > 1 ? 0 : b == 0 ? most - most / 3 : most - (most > 1);
}

int64_t check_seam(const struct check_call *check, int of_keys, int64_t b)
{
    int64_t sum = 0;
    for (int64_t before = 0; before < b; ++before) {
        sum += packed_length(check, of_keys, before);
    }
    return sum;
}

/* The sequence of a packed row, and the row in it. */
static void find_packed(const struct check_call *check, int of_keys, int64_t row, int64_t *b, int64_t *i)
{
    for (*b = 0, *i = row; *b + 1 < check->problem.p.batch && *i >= packed_length(check, of_keys, *b); ++*b) {
        *i -= packed_length(check, of_keys, *b);
    }
}

static int packs_keys(const struct check_call *check)
{
    return has(check, CLATTN_WITH_VARLEN) && !has(check, CLATTN_WITH_PAGES);
}

static int64_t stored_keys(const struct check_call *check, int64_t b)
{
    const int64_t keys = check->call.key_len;
    return packs_keys(check) ? packed_length(check, 1, b) : keys;
}

/* What key_lengths says; beyond 0 to the keys that there are counts as the nearer. */
static int64_t key_length(const struct check_call *check, int64_t b)
{
    const int64_t keys = stored_keys(check, b);
    switch (check->turn) {
    case CHECK_FEW:
        return b == 0 ? keys - keys / 9 - 1 : -3;
    case CHECK_LONG:
        return b == 0 ? keys - keys / 30 : keys / 3;
    case CHECK_TALL:
        return b == 0 && check->problem.p.batch > 1 ? 0 : keys + 7;
    case CHECK_NONE:
        return b == 0 ? 0 : -5;
    default:
        return b == 0 ? keys - keys / 9 - 1 : keys;
    }
}

static int64_t seen_keys(const struct check_call *check, int64_t b)
{
    const int64_t keys = stored_keys(check, b);
    return has(check, CLATTN_WITH_KEY_LENGTHS) ? max64(min64(key_length(check, b), keys), 0) : keys;
}

/* Where the first row of a sequence stands among the keys, where the problem lets the call say so. */
static int64_t query_offset(const struct check_call *check, int64_t b)
{
    const struct call *call = &check->call;
    const int64_t last = call->key_len - call->query_len;
    return check->turn == CHECK_TILES  ? last - 3 * b
           : check->turn == CHECK_LONG ? last - call->key_len / 8 - b
                                       : -2 - b;
}

/* Keys [*first, *last] that row i of a sequence may see, by its position; *last < *first: none. */
static void span_of_row(const struct check_call *check, int64_t b, int64_t i, int64_t *first, int64_t *last)
{
    const clattn_problem *p = &check->problem.p;
    const int64_t keys = seen_keys(check, b), rows = check->call.query_len;
    const int64_t own_rows = has(check, CLATTN_WITH_VARLEN) ? packed_length(check, 0, b) : rows;
    const int64_t position = i + (p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? keys - own_rows
                                  : p->alignment == CLATTN_ALIGN_OFFSETS    ? query_offset(check, b)
                                                                            : 0);
    *first = p->window_left >= 0 ? max64(position - p->window_left, 0) : 0;
    *last = keys - 1;
    *last = p->causal ? min64(*last, position) : *last;
    *last = p->window_right >= 0 ? min64(*last, position + p->window_right) : *last;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* Pages of one sequence lie apart and in no order. Page 0, which holes are read from, is nobody's. */
int64_t check_page(const struct check_call *check, int64_t n)
{
    static const int64_t steps[] = { 7, 11, 13, 17 };
    const int64_t others = check->problem.p.pages - 1;
    int i = 0;
    while (others % steps[i] == 0 && i < 3) {
        ++i;
    }
    return n * steps[i] % others + 1;
}

/* Where a table of one line has page n of sequence b. */
int64_t check_table_page(const struct check_call *check, int64_t b, int64_t n)
{
    return 2 + b * (check->sequence_pages + 1) + n;
}

static int64_t row_of_key(const clattn_problem *p, int64_t j)
{
    const int64_t pinned = p->always_visible_keys;
    return p->ring > 0 && j >= pinned ? pinned + (j - pinned) % (p->ring - pinned) : j;
}

/* A hole in the middle of what the middle row sees, of one sequence where a page is all it has; of many blocks of keys
 * more of them, at the beginning of some and at the end of others. */
static int is_hole(const struct check_call *check, int64_t b, int64_t n)
{
    const clattn_problem *p = &check->problem.p;
    const int64_t size = p->page_size;
    int64_t first, last;
    if (check->turn == CHECK_LONG && p->ring == 0) {
        const int64_t end = (n + 1) * size - 1; /* the last key of a page of those that have number 90 of 97 */
        return size > HOLES_APART / 2 ? n % 3 == 1 : (end + HOLES_APART - 90) % HOLES_APART < size;
    }
    span_of_row(check, b, check->call.query_len / 2, &first, &last);
    const int64_t middle = row_of_key(p, max64(first + (last - first) / 2, 0)) / size;
    return n == middle && (check->sequence_pages > 1 || b == 0);
}

/* What the table says. Both kinds of holes: pages below 0, and behind the last. */
static double table_entry(const struct check_call *check, const int64_t b, int64_t n)
{
    if (n < 0 || n >= check->sequence_pages || b >= check->problem.p.batch) {
        return 0; /* between the sequences of one line */
    }
    if (is_hole(check, b, n)) {
        return (check->turn == CHECK_LONG ? n : (int64_t)check->turn) % 2 ? (double)check->problem.p.pages : -1;
    }
    return (double)check_page(check, b * check->sequence_pages + n);
}

/* ---- values --------------------------------------------------------------------------------- */

struct index {
    int64_t b, h, i, c, all; /* all: elements before it */
};

/* Ranges that begin and end inside of what a row may see otherwise. Some rows have none, one key, or more than there
 * are; over many blocks of keys, ranges of the first row and of the first head begin later than others. */
static double range_bound(const struct check_call *check, int is_high, const struct index *at)
{
    int64_t b = at->b, i = at->i, first, last;
    if (has(check, CLATTN_WITH_VARLEN)) {
        find_packed(check, 0, at->i, &b, &i);
    }
    span_of_row(check, b, i, &first, &last);
    const int64_t middle = first + (last - first) / 2, quarter = max64(last - first, 0) / 4;
    if (check->turn == CHECK_NONE) {
        return (double)(is_high ? 1 : 3);
    }
    if (check->turn == CHECK_LONG) {
        const int64_t low = first + (at->h % 2 ? quarter / 3 : 2 * quarter) + (i == 0 ? quarter / 2 : 0);
        return (double)(is_high ? last + 1 - (37 * i + 11 * at->h) % 97 % (quarter + 1) : low + i);
    }
    switch (i % 8) {
    case 2:
        return (double)(middle + is_high);
    case 5:
        return (double)(is_high ? middle - 2 : middle + 3);
    case 6:
        return (double)(is_high ? check->call.key_len + 9 : -7);
    default:
        return (double)(is_high ? last + 1 - (i + 5 * at->h + b) % 4 % (quarter + 1)
                                : first + (2 * i + 3 * at->h + b) % 5 % (quarter + 1));
    }
}

static int is_masked(const struct check_call *check, const struct index *at)
{
    const int is_in_block = check->turn == CHECK_LONG && at->c >= 200 && at->c < 430; /* which no row sees */
    return check->turn == CHECK_NONE || is_in_block || (at->i == 1 && check->turn != CHECK_LONG) ||
           !chance(check, TENSOR_MASK, at->all, 0.7);
}

/* The value of a tensor that is no query, key or value. */
static double side_value(const struct check_call *check, int id, const struct index *at)
{
    const struct call *call = &check->call;
    const double any = number(check, id, at->all);
    switch (id) {
    case TENSOR_MASK:
        return is_masked(check, at) ? 0 : 1 + (double)(at->all % 255);
    case TENSOR_BIAS:
        return check->turn == CHECK_NONE || chance(check, id, at->all, 0.1) ? -(double)INFINITY : 2 * any;
    case TENSOR_SLOPES: /* that leave keys at both ends something */
        return (2.0 + (double)(at->h % 3) + 0.5 * (double)at->b) / (double)(call->key_len + call->query_len);
    case TENSOR_SINKS: /* about as much as the keys have, less, more */
        return 4.0 * (double)((at->h + 1) % 3) + any;
    case TENSOR_KEY_LENGTHS:
        return (double)key_length(check, at->c);
    case TENSOR_QUERY_OFFSETS:
        return (double)query_offset(check, at->c);
    case TENSOR_CU_QUERY:
        return (double)check_seam(check, 0, at->c);
    case TENSOR_CU_KEY:
        return (double)check_seam(check, 1, at->c);
    case TENSOR_PAGE_TABLE:
        if (has(check, CLATTN_WITH_PAGE_STARTS)) {
            const int64_t line = at->c - check_table_page(check, 0, 0), length = check->sequence_pages + 1;
            return table_entry(check, line < 0 ? 0 : line / length, line < 0 ? -1 : line % length);
        }
        return table_entry(check, at->b, at->c);
    case TENSOR_PAGE_STARTS:
        return (double)check_table_page(check, at->c, 0);
    case TENSOR_ROW_LOW:
        return range_bound(check, 0, at);
    case TENSOR_ROW_HIGH:
        return range_bound(check, 1, at);
    default: /* scales of keys and of values */
        return 0.01 * (1.5 + any);
    }
}

/* The sequence whose key a stored row is, and the number of that row; -1: it is nobody's. */
static int64_t owner_of(const struct check_call *check, int id, const struct index *at, int64_t *row)
{
    const clattn_problem *p = &check->problem.p;
    int64_t b = at->b;
    *row = at->i;
    if (p->page_size > 0) {
        const int pool = id < TENSOR_COUNT ? 0 : 1 + (id - TENSOR_KEY_POOL_1) % 3;
        const int64_t page = at->b + pool * p->pool_pages, n = page < p->pages ? check->page_of[page] : -1;
        b = n < 0 ? -1 : n / check->sequence_pages;
        *row += n < 0 ? 0 : n % check->sequence_pages * p->page_size;
    } else if (packs_keys(check)) {
        find_packed(check, 1, at->i, &b, row);
    }
    return b;
}

/* Nobody sees it: behind the last key, or in a page without a sequence. */
static int is_unseen(const struct check_call *check, int64_t b, int64_t row)
{
    const clattn_problem *p = &check->problem.p;
    return b < 0 || row >= seen_keys(check, b) || (p->ring > 0 && row >= p->ring);
}

/* Of some values that are seen, one is NaN and one infinite, in columns of their own; where they may be dropped, so are
 * some keys. */
static double not_finite(const struct check_call *check, int first, const struct index *at, int64_t b, int64_t row)
{
    const clattn_problem *p = &check->problem.p;
    const int is_here = check->turn == CHECK_TALL && b == p->batch - 1 && at->h == p->kv_heads - 1;
    if (first == TENSOR_KEY) {
        return check->turn == CHECK_TALL && p->dropout > 0 && row % 5 == 2 && at->c == 0 ? (double)INFINITY : 0;
    }
    return is_here && row == 5 && at->c == 0                   ? (double)NAN
           : is_here && row == 9 && at->c == p->head_dim_v - 1 ? (double)INFINITY
                                                               : 0;
}

static double query_value(const struct check_call *check, const struct index *at, double value)
{
    const struct problem *problem = &check->problem;
    const int is_infinite = check->turn == CHECK_TALL && at->i == check->call.query_len / 2 && at->h == 0 &&
                            at->c == 0 && check->call.query_len > 2 && problem->p.softcap == 0;
    const double factor = (at->i + at->h) % 7 == 3             ? PEAKY_QUERY_FACTOR
                          : (at->i + (int64_t)check->turn) % 2 ? EVEN_QUERY_FACTOR
                                                               : QUERY_FACTOR;
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
    const int has_scales = has(check, first == TENSOR_KEY ? CLATTN_WITH_KEY_SCALES : CLATTN_WITH_VALUE_SCALES);
    const double codes = type != CLATTN_INT8 ? 1 : has_scales ? 100 : 2;
    int64_t stored = 0;
    const int64_t b = first == TENSOR_QUERY ? 0 : owner_of(check, id, &at, &stored);
    if (first != TENSOR_QUERY && is_unseen(check, b, stored)) {
        return CLATTN_OK; /* NaN, as all memory was before */
    }
    for (at.c = 0; at.c < columns; ++at.c, ++at.all) {
        const double value = number(check, id, at.all);
        const int is_finite = first == TENSOR_QUERY || type_is_blocks(type);
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
