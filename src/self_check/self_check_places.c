/* Which keys the rows of a check may see, and where those lie: sequences, pages, ranges. */
#include "base/checked_math.h"
#include "self_check/self_check_call.h"

#define LONG_SPLIT_KEYS 512  /* what kernels for few rows deal out at once, or a multiple of that */
#define SHORT_SPLIT_KEYS 128 /* the same where there are fewer keys */
#define HOLES_APART 97       /* keys: a hole begins, or ends, blocks of 16, 32, 64, 96 and 128 of them */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t check_before_last_split(int64_t keys)
{
    const int64_t split = keys > LONG_SPLIT_KEYS ? LONG_SPLIT_KEYS : SHORT_SPLIT_KEYS;
    return max64((keys - 1) / split * split - 8, keys / 2);
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* Packed rows, or keys, of sequence b: none has as many as it may, and one of several may have none. */
static int64_t packed_length(const struct check_call *check, int of_keys, int64_t b)
{
    const int64_t most = of_keys ? check->call.key_len : check->call.query_len;
    const int is_equal = check->turn == CHECK_EQUAL;
    const int64_t empty = check->turn == (of_keys ? CHECK_TALL : CHECK_FEW)         ? 0
                          : check->turn == CHECK_TALL && check->call.query_len == 1 ? 1
                                                                                    : -1;
    return b == empty && check->problem.p.batch > 1 ? 0
           : is_equal                               ? most
           : b == 0                                 ? most - most / 3
                                                    : most - (most > 1);
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
void check_find_packed(const struct check_call *check, int of_keys, int64_t row, int64_t *b, int64_t *i)
{
    for (*b = 0, *i = row; *b + 1 < check->problem.p.batch && *i >= packed_length(check, of_keys, *b); ++*b) {
        *i -= packed_length(check, of_keys, *b);
    }
}

int check_packs_keys(const struct check_call *check)
{
    return check_asks(check, CLATTN_WITH_VARLEN) && !check_asks(check, CLATTN_WITH_PAGES);
}

static int64_t stored_keys(const struct check_call *check, int64_t b)
{
    const int64_t keys = check->call.key_len;
    return check_packs_keys(check) ? packed_length(check, 1, b) : keys;
}

/* What key_lengths says; beyond 0 to the keys that there are counts as the nearer. */
int64_t check_key_length(const struct check_call *check, int64_t b)
{
    const int64_t keys = stored_keys(check, b);
    switch (check->turn) {
    case CHECK_FEW:
        return b == 0 ? keys - keys / 9 - 1 : -3;
    case CHECK_LONG:
        return b == 0 ? check_before_last_split(keys) : keys / 3;
    case CHECK_TALL:
        return b == 0 && check->problem.p.batch > 1 ? 0 : keys + 7;
    case CHECK_NONE:
        return b == 0 ? 0 : -5;
    case CHECK_EQUAL:
        return keys;
    default: /* a sequence alone ends before the last split, else one reaches into it */
        return b == 0 ? keys - keys / (check->problem.p.batch > 1 ? 9 : 6) - 1 : keys;
    }
}

int64_t check_seen_keys(const struct check_call *check, int64_t b)
{
    const int64_t keys = stored_keys(check, b);
    return check_asks(check, CLATTN_WITH_KEY_LENGTHS) ? max64(min64(check_key_length(check, b), keys), 0) : keys;
}

/* Where the first row of a sequence stands among the keys, where the problem lets the call say so. */
int64_t check_query_offset(const struct check_call *check, int64_t b)
{
    const struct call *call = &check->call;
    const int64_t last = call->key_len - call->query_len;
    return check->turn == CHECK_EQUAL   ? last
           : check->turn == CHECK_TILES ? last - 3 * b
           : check->turn == CHECK_LONG  ? last - call->key_len / 8 - b
                                        : -2 - b;
}

/* Keys [*first, *last] that row i of a sequence may see, by its position; *last < *first: none. */
static void span_of_row(const struct check_call *check, int64_t b, int64_t i, int64_t *first, int64_t *last)
{
    const clattn_problem *p = &check->problem.p;
    const int64_t keys = check_seen_keys(check, b), rows = check->call.query_len;
    const int64_t own_rows = check_asks(check, CLATTN_WITH_VARLEN) ? packed_length(check, 0, b) : rows;
    const int64_t position = i + (p->alignment == CLATTN_ALIGN_BOTTOM_RIGHT ? keys - own_rows
                                  : p->alignment == CLATTN_ALIGN_OFFSETS    ? check_query_offset(check, b)
                                                                            : 0);
    *first = p->window_left >= 0 ? max64(position - p->window_left, 0) : 0;
    *last = keys - 1;
    *last = p->causal ? min64(*last, position) : *last;
    *last = p->window_right >= 0 ? min64(*last, position + p->window_right) : *last;
}

int check_is_lost_key(const struct check_call *check, int64_t b, int64_t kv_head, int64_t j)
{
    const clattn_problem *p = &check->problem.p;
    int64_t first, last;
    if (check->turn != CHECK_LONG || p->ring > 0 || b != p->batch - 1 || kv_head != p->kv_heads - 1) {
        return 0;
    }
    span_of_row(check, b, check->call.query_len / 2, &first, &last);
    return j / LONG_SPLIT_KEYS == last / LONG_SPLIT_KEYS - 1;
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
    if (check->turn == CHECK_EQUAL) {
        return 0;
    }
    if (check->turn == CHECK_LONG && p->ring == 0) {
        const int64_t end = (n + 1) * size - 1; /* the last key of a page of those that have number 90 of 97 */
        return size > HOLES_APART / 2 ? n % 3 == 1 : (end + HOLES_APART - 90) % HOLES_APART < size;
    }
    span_of_row(check, b, check->call.query_len / 2, &first, &last);
    const int64_t middle = row_of_key(p, max64(first + (last - first) / 2, 0)) / size;
    return n == middle && (check->sequence_pages > 1 || b == 0);
}

/* What the table says. Both kinds of holes: pages below 0, and behind the last. */
double check_table_entry(const struct check_call *check, const int64_t b, int64_t n)
{
    if (n < 0 || n >= check->sequence_pages || b >= check->problem.p.batch) {
        return 0; /* between the sequences of one line */
    }
    if (is_hole(check, b, n)) {
        return (check->turn == CHECK_LONG ? n : (int64_t)check->turn) % 2 ? (double)check->problem.p.pages : -1;
    }
    return (double)check_page(check, b * check->sequence_pages + n);
}

/* ---- ranges --------------------------------------------------------------------------------- */

struct row {
    int64_t b, h, i;
};

/* Over many blocks of keys, ranges of the first row and of the first head begin later than others, and those of the
 * first row end before the last split. */
static double long_bound(int is_high, const struct row *at, int64_t first, int64_t last)
{
    const int64_t quarter = max64(last - first, 0) / 4;
    const int64_t low = first + (at->h % 2 ? quarter / 3 : 2 * quarter) + (at->i == 0 ? quarter / 2 : 0);
    const int64_t high = at->i == 0 && at->h % 2 == 0 ? max64(check_before_last_split(last + 1), low + quarter / 2)
                                                      : last + 1 - (37 * at->i + 11 * at->h) % 97 % (quarter + 1);
    return (double)(is_high ? high : low + at->i);
}

/* Both ends are cut by a few keys; some rows have none, one key, a few of the first, or more than there are. Not by a
 * power of 2: then the first rows of tiles would be alike, by which some kernels go. */
static double narrow_bound(const struct check_call *check, int is_high, const struct row *at, int64_t first,
                           int64_t last)
{
    const int64_t middle = first + (last - first) / 2, quarter = max64(last - first, 0) / 4;
    switch (at->i % 7) {
    case 2:
        return (double)(middle + is_high);
    case 4:
        return (double)(is_high ? first + quarter / 2 + 1 : first);
    case 5:
        return (double)(is_high ? middle - 2 : middle + 3);
    case 6:
        return (double)(is_high ? check->call.key_len + 9 : -7);
    default:
        return (double)(is_high ? last + 1 - (at->i + 5 * at->h + at->b) % 4 % (quarter + 1)
                                : first + (2 * at->i + 3 * at->h + at->b) % 5 % (quarter + 1));
    }
}

/* Which keys a kernel reads at all, and where it need not ask, it finds by the first and the last end of its rows' and
 * heads' ranges, and the same of where they begin. What is wrong with one of these shows only where nothing else bounds
 * the keys. So of a key/value head, in turn, nothing cuts where ranges begin, or nothing where they end, or both are
 * cut: in each call other heads and sequences have their turn. */
double check_range_bound(const struct check_call *check, int is_high, int64_t b, int64_t h, int64_t row)
{
    const int64_t group = problem_group(&check->problem.p);
    struct row at = { b, h, row };
    int64_t first, last;
    if (check_asks(check, CLATTN_WITH_VARLEN)) {
        check_find_packed(check, 0, row, &at.b, &at.i);
    }
    span_of_row(check, at.b, at.i, &first, &last);
    if (check->turn == CHECK_NONE || check->turn == CHECK_EQUAL) {
        return check->turn == CHECK_EQUAL ? (double)(is_high * check->call.key_len) : is_high ? 1 : 3;
    }
    if (check->turn == CHECK_LONG) {
        return long_bound(is_high, &at, first, last);
    }
    const int64_t keys = max64(last - first + 1, 0), few = 2 * keys / 5 + 1;
    const int is_first_head = group > 1 && h % group == 0, is_first_row = group == 1 && at.i == 0 && h % 2 == 0;
    const int64_t turn = check->turn == CHECK_TALL ? 2 : check->turn;
    switch ((turn + h / group + 2 * at.b) % 3) {
    case 0: /* the first head's, or the first row's, end before others' */
        return !is_high                        ? (double)(at.i % 2 ? -7 : first)
               : is_first_head || is_first_row ? (double)(last + 1 - keys / 2 - 37 * at.i % (keys / 10 + 1))
                                               : (double)(last + 1 - (37 * at.i + 11 * h) % few);
    case 1: /* the first head's begin before others', the first row's after them */
        return is_high         ? (double)(check->call.key_len + 9)
               : is_first_head ? -7
               : is_first_row  ? (double)(first + keys / 2)
                               : (double)(first + (29 * at.i + 13 * h) % few);
    default:
        return narrow_bound(check, is_high, &at, first, last);
    }
}
