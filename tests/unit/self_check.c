/* The small calls of the self-check, without a device: whether what each feature hides would show. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/reference.h"
#include "reference/stored_rows.h"
#include "self_check/self_check_call.h"

#include "suite.h"

#define HEAD_DIM 16

/* Problems in which some rows do not see what others do, if there are several. */
static const struct {
    const char *name;
    int causal;
    int64_t window_left;
    uint32_t features;
    clattn_type bias_type;
    int64_t always_visible_keys;
} hiding[] = {
    { "causal", 1, -1, 0, CLATTN_TYPE_NONE, 0 },
    { "window", 0, 9, 0, CLATTN_TYPE_NONE, 0 },
    { "pinned", 1, 9, 0, CLATTN_TYPE_NONE, 20 },
    { "mask", 0, -1, CLATTN_WITH_MASK, CLATTN_TYPE_NONE, 0 },
    { "bias", 0, -1, 0, CLATTN_FLOAT32, 0 },
    { "ranges", 0, -1, CLATTN_WITH_ROW_RANGES, CLATTN_TYPE_NONE, 0 },
    { "causal ranges", 1, -1, CLATTN_WITH_ROW_RANGES, CLATTN_TYPE_NONE, 0 },
};
enum { HIDING = sizeof(hiding) / sizeof(hiding[0]) };

static const int64_t lengths[][2] = { { 2, 40 }, { 3, 100 }, { 4, 299 }, { 2, 2000 }, { 70, 149 }, { 300, 2000 } };
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void make_problem(struct problem *problem, int kind, const int64_t length[2], int64_t group)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = CLATTN_FLOAT32;
    p.batch = p.kv_heads = 1;
    p.query_heads = group;
    p.query_len = length[0];
    p.key_len = length[1];
    p.head_dim = p.head_dim_v = HEAD_DIM;
    p.causal = hiding[kind].causal;
    p.window_left = hiding[kind].window_left;
    p.features = hiding[kind].features;
    p.bias_type = hiding[kind].bias_type;
    p.always_visible_keys = hiding[kind].always_visible_keys;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    ck_assert_int_eq(problem_init(problem, &p), CLATTN_OK);
}

static void begin(const struct problem *problem, enum check_turn turn, struct check_call *check)
{
    ck_assert_msg(check_call_create(problem, turn, 0, check) == CLATTN_OK, "turn %d: %s", (int)turn,
                  clattn_last_error());
}

static int is_seen(const struct check_call *check, int64_t h, int64_t i, int64_t j)
{
    const struct sequence sequence = sequence_of(&check->problem, &check->call, 0);
    return key_is_allowed(&check->problem, &check->call, &sequence, 0, h, i, j);
}

static int is_finite(const struct check_call *check, int64_t j)
{
    double row[HEAD_DIM];
    int finite = 1;
    load_row(&check->call, TENSOR_VALUE, 0, 0, j, HEAD_DIM, row);
    for (int c = 0; c < HEAD_DIM; ++c) {
        finite &= isfinite(row[c]) != 0;
    }
    return finite;
}

/* Values that are no numbers, which row (h, i) must not see and another one of the group sees. */
static int hidden_from(const struct check_call *check, int64_t h, int64_t i)
{
    int found = 0;
    for (int64_t j = 0; j < check->call.key_len; ++j) {
        int others = 0;
        for (int64_t n = 0; n < check->problem.p.query_heads * check->call.query_len; ++n) {
            others |= is_seen(check, n / check->call.query_len, n % check->call.query_len, j);
        }
        found += others && !is_seen(check, h, i, j) && !is_finite(check, j);
    }
    return found;
}

START_TEST(test_some_rows_do_not_see_what_is_not_finite)
{
    for (int n = 0; n < HIDING * LENGTHS; ++n) {
        struct problem problem;
        int turns = 0;
        make_problem(&problem, n % HIDING, lengths[n / HIDING], 1);
        for (enum check_turn turn = CHECK_TILES; turn < CHECK_TURNS; ++turn) {
            struct check_call check;
            int found = 0;
            if (!check_has_turn(&problem, turn, 0)) {
                continue;
            }
            begin(&problem, turn, &check);
            for (int64_t i = 0; i < check.call.query_len; ++i) {
                found += hidden_from(&check, 0, i);
            }
            ck_assert_msg(turn != CHECK_TILES || !found, "%s: the one head of tiles is not finite",
                          hiding[n % HIDING].name);
            turns += found > 0;
            check_call_free(&check);
        }
        ck_assert_msg(turns > 0, "%s, %d rows, %d keys: all that is hidden from some rows is finite",
                      hiding[n % HIDING].name, (int)lengths[n / HIDING][0], (int)lengths[n / HIDING][1]);
    }
}
END_TEST

/* Without finite outputs nothing else could be told from a call. */
START_TEST(test_most_outputs_are_finite)
{
    for (int n = 0; n < HIDING * LENGTHS; ++n) {
        struct problem problem;
        make_problem(&problem, n % HIDING, lengths[n / HIDING], 2);
        for (enum check_turn turn = CHECK_TILES; turn < CHECK_NONE; ++turn) {
            struct check_call check;
            if (!check_has_turn(&problem, turn, 0)) {
                continue;
            }
            begin(&problem, turn, &check);
            const int64_t rows = 2 * check.call.query_len;
            double *out = calloc((size_t)(rows * HEAD_DIM), sizeof(*out));
            const struct reference_detail detail = { .out = out };
            int64_t finite = 0;
            ck_assert_int_eq(reference_forward_detail(&check.problem, &check.call, &detail), CLATTN_OK);
            for (int64_t at = 0; at < rows * HEAD_DIM; ++at) {
                finite += isfinite(out[at]) != 0;
            }
            ck_assert_msg(2 * finite > rows * HEAD_DIM, "%s, turn %d: %d of %d outputs are finite",
                          hiding[n % HIDING].name, (int)turn, (int)finite, (int)(rows * HEAD_DIM));
            free(out);
            check_call_free(&check);
        }
    }
}
END_TEST

/* What kernels make of the ranges of many rows and heads: keys [low, high) are all that any of them sees, and
 * [all_low, all_high) are seen by each. */
struct bounds {
    int64_t low, high, all_low, all_high;
};

static int64_t range_of(const struct check_call *check, enum tensor_id id, int64_t h, int64_t i)
{
    const struct tensor_place *place = &check->call.operands.tensor[id];
    return ((const int32_t *)place->data)[place_index(place, 0, h, i, 0)];
}

static struct bounds bounds_of(const struct check_call *check, int64_t heads)
{
    struct bounds bounds = { INT32_MAX, 0, 0, INT32_MAX };
    for (int64_t n = 0; n < heads * check->call.query_len; ++n) {
        const int64_t low = range_of(check, TENSOR_ROW_LOW, n % heads, n / heads);
        const int64_t high = range_of(check, TENSOR_ROW_HIGH, n % heads, n / heads);
        bounds.low = low < high && low < bounds.low ? low : bounds.low;
        bounds.high = low < high && high > bounds.high ? high : bounds.high;
        bounds.all_low = low > bounds.all_low ? low : bounds.all_low;
        bounds.all_high = high < bounds.all_high ? high : bounds.all_high;
    }
    return bounds;
}

/* The mistakes that a kernel can make with them, which some row's keys must show. */
enum mistake { FIRST_HEAD_ENDS, FIRST_HEAD_ALL_SEE, NO_END, NO_BEGINNING, BEHIND_THE_LAST_KEY, MISTAKES };

static int shows(const struct check_call *check, enum mistake mistake, int64_t h, int64_t i, int64_t j)
{
    const struct bounds all = bounds_of(check, check->problem.p.query_heads), first = bounds_of(check, 1);
    const int64_t keys = check->call.key_len, position = keys - check->call.query_len + i;
    const int sees = is_seen(check, h, i, j);
    switch (mistake) {
    case FIRST_HEAD_ENDS:
        return sees && j >= first.high;
    case FIRST_HEAD_ALL_SEE: /* in a block of all keys up to the last that any row sees */
        return !sees && first.all_low <= 0 && first.all_high >= all.high && j < all.high;
    case NO_END:
        return !sees && all.all_low <= 0 && j < all.high;
    case NO_BEGINNING:
        return !sees && all.all_high >= keys && j < all.high;
    default:
        return j > position && j < range_of(check, TENSOR_ROW_HIGH, h, i);
    }
}

static int mistake_shows(const struct problem *problem, enum mistake mistake)
{
    int found = 0;
    for (enum check_turn turn = CHECK_TILES; turn < CHECK_NONE && !found; ++turn) {
        struct check_call check;
        if (!check_has_turn(problem, turn, 0)) {
            continue;
        }
        begin(problem, turn, &check);
        const int64_t rows = check.call.query_len, keys = check.call.key_len;
        for (int64_t n = 0; n < check.problem.p.query_heads * rows * keys && !found; ++n) {
            found = shows(&check, mistake, n / keys / rows, n / keys % rows, n % keys);
        }
        check_call_free(&check);
    }
    return found;
}

START_TEST(test_ranges_show_what_is_wrong_with_their_bounds)
{
    const int64_t shapes[][3] = { { 2, 40, 1 }, { 70, 149, 1 }, { 3, 100, 2 }, { 70, 140, 3 }, { 1, 250, 4 } };
    for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); ++n) {
        struct problem free_rows, causal;
        make_problem(&free_rows, 5, shapes[n], shapes[n][2]);
        make_problem(&causal, 6, shapes[n], shapes[n][2]);
        for (int mistake = FIRST_HEAD_ENDS; mistake < MISTAKES; ++mistake) {
            const int is_of_heads = mistake == FIRST_HEAD_ENDS || mistake == FIRST_HEAD_ALL_SEE;
            const int is_causal = mistake == BEHIND_THE_LAST_KEY;
            ck_assert_msg((is_of_heads && shapes[n][2] == 1) || (is_causal && shapes[n][0] == 1) ||
                              mistake_shows(is_causal ? &causal : &free_rows, (enum mistake)mistake),
                          "%d rows, %d keys, group %d: nothing shows mistake %d", (int)shapes[n][0], (int)shapes[n][1],
                          (int)shapes[n][2], mistake);
        }
    }
}
END_TEST

/* Over many keys some splits lie between those of keys that are always visible and the window. */
START_TEST(test_splits_are_left_out_behind_pinned_keys)
{
    static const int64_t split_keys[] = { 128, 512 };
    const int64_t length[2] = { 3, 4096 };
    for (int64_t pinned = 1; pinned < 2000; pinned *= 5) {
        struct problem problem;
        struct check_call check;
        make_problem(&problem, 2, length, 1);
        problem.p.window_left = 300;
        problem.p.always_visible_keys = pinned;
        begin(&problem, CHECK_LONG, &check);
        const clattn_problem *p = &check.problem.p;
        const int64_t first = check.call.key_len - check.call.query_len - p->window_left;
        for (size_t n = 0; n < 2; ++n) {
            const int64_t splits = (p->always_visible_keys + split_keys[n] - 1) / split_keys[n];
            ck_assert_int_gt(first / split_keys[n], splits);
        }
        check_call_free(&check);
    }
}
END_TEST

/* A kernel leaves out tiles between those of keys that are always visible and the window of a block of rows, but not
 * the second of them. */
START_TEST(test_pinned_keys_reach_beyond_a_tile)
{
    const int64_t length[2] = { 45, 200 }, tile_keys = 64; /* one block of rows */
    struct problem problem;
    struct check_call check;
    make_problem(&problem, 2, length, 1);
    problem.p.always_visible_keys = 109;
    problem.p.window_left = 40;
    begin(&problem, CHECK_TILES, &check);
    const clattn_problem *p = &check.problem.p;
    const int64_t window_low = check.call.key_len - check.call.query_len - p->window_left;
    ck_assert_int_gt(p->always_visible_keys, tile_keys);
    ck_assert_int_gt(window_low, p->always_visible_keys);
    check_call_free(&check);
}
END_TEST

/* Some row sees keys, has dropped all of them, and their sum is no number: out is 0. */
START_TEST(test_some_rows_drop_all_keys)
{
    const int64_t length[2] = { 5, 40 };
    for (int kind = 0; kind < HIDING; ++kind) {
        struct problem problem;
        struct check_call check;
        double out[4 * HEAD_DIM], lse[4];
        int64_t allowed[4];
        int found = 0;
        make_problem(&problem, kind, length, 1);
        ck_assert(!check_has_turn(&problem, CHECK_DROPPED, 0));
        problem.p.dropout = 0.1;
        ck_assert(check_has_turn(&problem, CHECK_DROPPED, 0));
        begin(&problem, CHECK_DROPPED, &check);
        ck_assert_int_le(check.call.query_len, 4);
        const struct reference_detail detail = { .out = out, .lse = lse, .allowed_keys = allowed };
        ck_assert_int_eq(reference_forward_detail(&check.problem, &check.call, &detail), CLATTN_OK);
        for (int64_t i = 0; i < check.call.query_len; ++i) {
            found += allowed[i] > 0 && !isfinite(lse[i]) && out[i * HEAD_DIM + 1] == 0;
        }
        ck_assert_msg(found > 0, "%s: no row drops all of its keys", hiding[kind].name);
        check_call_free(&check);
    }
}
END_TEST

/* Keys behind the last that a length counts, in all of their elements. */
START_TEST(test_what_nobody_sees_is_no_number)
{
    struct problem problem;
    int64_t found = 0;
    make_problem(&problem, 0, lengths[1], 1);
    problem.p.features |= CLATTN_WITH_KEY_LENGTHS;
    for (enum check_turn turn = CHECK_TILES; turn < CHECK_TURNS; ++turn) {
        struct check_call check;
        if (!check_has_turn(&problem, turn, 0)) {
            continue;
        }
        begin(&problem, turn, &check);
        for (int64_t j = check_seen_keys(&check, 0); j < check.call.key_len; ++j, ++found) {
            double row[2 * HEAD_DIM];
            load_row(&check.call, TENSOR_KEY, 0, 0, j, HEAD_DIM, row);
            load_row(&check.call, TENSOR_VALUE, 0, 0, j, HEAD_DIM, row + HEAD_DIM);
            for (int c = 0; c < 2 * HEAD_DIM; ++c) {
                ck_assert_msg(!isfinite(row[c]), "turn %d, key %d: column %d is %g", (int)turn, (int)j, c, row[c]);
            }
        }
        check_call_free(&check);
    }
    ck_assert_msg(found > 0, "all keys are seen");
}
END_TEST

typedef void call_expected(const struct check_call *check);

static void expect_of_each_turn(const clattn_problem *p, call_expected *expect)
{
    struct problem problem;
    ck_assert_msg(problem_init(&problem, p) == CLATTN_OK, "%s", clattn_last_error());
    for (enum check_turn turn = CHECK_TILES; turn < CHECK_TURNS; ++turn) {
        struct check_call check;
        if (check_has_turn(&problem, turn, 0)) {
            begin(&problem, turn, &check);
            expect(&check);
            check_call_free(&check);
        }
    }
}

static void expect_memory_of_keys(const struct check_call *check)
{
    const struct sequence sequence = sequence_of(&check->problem, &check->call, 0);
    for (int64_t j = 0; j < sequence.stored_keys; ++j) {
        const struct stored_place place = { &check->problem, &check->call, &sequence, 0, 0, j };
        int64_t b, row;
        if (stored_row_find(&place, &b, &row)) {
            const int64_t at = place_index(&check->call.operands.tensor[TENSOR_KEY], b, 0, row, HEAD_DIM - 1);
            ck_assert_msg(at < check->elements[TENSOR_KEY], "ring of %d, turn %d, key %d: row %d has no memory",
                          (int)check->problem.p.ring, (int)check->turn, (int)j, (int)row);
        }
    }
}

/* A ring that keeps all keys, or only some: the call's memory has the row of each key that kernels and the reference
 * read, which go by the problem's flags. */
START_TEST(test_rings_have_a_row_for_each_key)
{
    static const int64_t rings[] = { 20, 40, 100, 101, 1000 };
    for (size_t n = 0; n < sizeof(rings) / sizeof(rings[0]); ++n) {
        struct problem problem;
        make_problem(&problem, 1, lengths[1], 1);
        clattn_problem p = problem.p;
        p.ring = rings[n];
        p.causal = 1;
        expect_of_each_turn(&p, expect_memory_of_keys);
    }
}
END_TEST

static void expect_pools_alike(const struct check_call *check)
{
    const struct tensor_place *of = check->call.operands.tensor;
    ck_assert_mem_eq(of[TENSOR_KEY].stride, of[TENSOR_KEY_POOL_1].stride, sizeof(of->stride));
}

/* Kernels know strides of a pool's first buffer only; columns may be apart, where the problem says so. */
START_TEST(test_buffers_of_a_pool_lie_alike)
{
    struct problem problem;
    make_problem(&problem, 0, lengths[1], 1);
    clattn_problem p = problem.p;
    p.features |= CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    p.page_size = 16;
    p.pages = 20;
    p.pool_pages = 10;
    p.strided_columns = 1;
    expect_of_each_turn(&p, expect_pools_alike);
}
END_TEST

SUITE("self_check", test_some_rows_do_not_see_what_is_not_finite, test_most_outputs_are_finite,
      test_ranges_show_what_is_wrong_with_their_bounds, test_splits_are_left_out_behind_pinned_keys,
      test_pinned_keys_reach_beyond_a_tile, test_some_rows_drop_all_keys, test_what_nobody_sees_is_no_number,
      test_rings_have_a_row_for_each_key, test_buffers_of_a_pool_lie_alike)
