/* Schedules of ranks by hand: what is not sent because no row sees it, what is refused, what the costs choose, and rows
 * that go into each layout and back. */
#include "operation/ring.h"

#include <string.h>

#include "suite.h"

/* ---- what is not sent --------------------------------------------------------------------------- */

static int64_t count_of(clattn_ring_layout layout, int64_t rank, int64_t window_left, int counts_tasks)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_ring_options options = CLATTN_RING_OPTIONS_INIT;
    clattn_ring *ring;
    clattn_ring_step step;
    int64_t count = 0;
    p.query_len = p.key_len = 64;
    p.head_dim = 4;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    p.window_left = window_left;
    options.ranks = 4;
    options.rank = rank;
    options.layout = layout;
    options.algorithm = CLATTN_RING_KEYS;
    ck_assert_int_eq(clattn_ring_create(&p, &options, &ring), CLATTN_OK);
    for (int64_t n = 0; n < clattn_ring_steps(ring); ++n) {
        ck_assert_int_eq(clattn_ring_step_at(ring, n, &step), CLATTN_OK);
        for (int64_t m = 0; m < step.messages; ++m) {
            count += !counts_tasks && step.message[m].is_send;
        }
        count += counts_tasks ? step.tasks : 0;
    }
    clattn_ring_destroy(ring);
    return count;
}

START_TEST(test_what_no_row_sees_stays)
{
    static const int64_t sends[4] = { 1, 2, 3, 0 }, tasks[4] = { 1, 2, 3, 4 };
    for (int64_t rank = 0; rank < 4; ++rank) {
        /* Causal: shard 0 goes on to rank 3, shard 3 to nobody. */
        ck_assert_int_eq(count_of(CLATTN_RING_CONTIGUOUS, rank, -1, 0), sends[rank]);
        ck_assert_int_eq(count_of(CLATTN_RING_CONTIGUOUS, rank, -1, 1), tasks[rank]);
        /* A window of 16 ends in the shard before, of 17 in the one before that. */
        ck_assert_int_eq(count_of(CLATTN_RING_CONTIGUOUS, rank, 16, 0), rank < 3);
        ck_assert_int_eq(count_of(CLATTN_RING_CONTIGUOUS, rank, 17, 1), rank < 2 ? rank + 1 : 3);
        /* Zigzag: the work is the same for all. */
        ck_assert_int_eq(count_of(CLATTN_RING_ZIGZAG, rank, -1, 1), 9);
    }
}
END_TEST

/* ---- rows ---------------------------------------------------------------------------------------- */

START_TEST(test_rows_go_into_a_layout_and_back)
{
    /* Contiguous pieces begin at 0, 3 and 7; those of zigzag at 0, 1, 3, 5, 7 and 9. */
    static const char *const wanted[] = { "abcdefghijk", "ajkbchidefg", "adgjbehkcfi" };
    char moved[12] = "", back[12] = "";
    for (int layout = 0; layout <= CLATTN_RING_STRIPED; ++layout) {
        ck_assert_int_eq(clattn_ring_permute((clattn_ring_layout)layout, 3, 1, 11, 1, 0, wanted[0], moved), CLATTN_OK);
        ck_assert_str_eq(moved, wanted[layout]);
    }
    for (int layout = 0; layout <= CLATTN_RING_STRIPED; ++layout) {
        for (int64_t ranks = 1; ranks <= 13; ++ranks) {
            int32_t from[3 * 12], to[3 * 12], again[3 * 12];
            for (int i = 0; i < 36; ++i) {
                from[i] = i;
            }
            ck_assert_int_eq(clattn_ring_permute((clattn_ring_layout)layout, ranks, 3, 6, 8, 0, from, to), CLATTN_OK);
            ck_assert_int_eq(clattn_ring_permute((clattn_ring_layout)layout, ranks, 3, 6, 8, 1, to, again), CLATTN_OK);
            ck_assert_mem_eq(from, again, sizeof(from));
        }
    }
    ck_assert_int_eq(clattn_ring_permute(CLATTN_RING_ZIGZAG, 0, 1, 11, 1, 0, moved, back), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_ring_permute((clattn_ring_layout)3, 1, 1, 11, 1, 0, moved, back), CLATTN_INVALID_ARGUMENT);
}
END_TEST

/* ---- what is refused ---------------------------------------------------------------------------- */

static void expect(const clattn_problem *p, const clattn_ring_options *options, clattn_status wanted, const char *said)
{
    clattn_ring *ring = NULL;
    ck_assert_int_eq(clattn_ring_create(p, options, &ring), wanted);
    ck_assert_msg(strstr(clattn_last_error(), said) != NULL, "%s", clattn_last_error());
    ck_assert_ptr_null(ring);
}

START_TEST(test_refused)
{
    static const int32_t offsets[2] = { 0, 1 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    p.batch = 2;
    p.query_heads = p.kv_heads = 3;
    p.query_len = p.key_len = 8;
    p.head_dim = 4;
    p.features = CLATTN_WITH_MASK;
    o.ranks = 2;
    o.rank = 2;
    expect(&p, &o, CLATTN_INVALID_ARGUMENT, "rank 2 of ranks 2");
    o.rank = 1;
    o.algorithm = CLATTN_RING_HEADS;
    expect(&p, &o, CLATTN_UNSUPPORTED, "the mask has rows that lie on one rank");
    p.features = 0;
    expect(&p, &o, CLATTN_UNSUPPORTED, "kv_heads 3 must be a multiple of ranks 2");
    o.algorithm = CLATTN_RING_TREE;
    o.gradients = 1;
    expect(&p, &o, CLATTN_UNSUPPORTED, "has no gradients");
    o.algorithm = CLATTN_RING_KEYS;
    o.layout = CLATTN_RING_STRIPED;
    p.dropout = 0.5;
    expect(&p, &o, CLATTN_UNSUPPORTED, "dropout know places that stripes have not");
    p.dropout = 0;
    p.causal = 1;
    p.window_left = 3;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    expect(&p, &o, CLATTN_INVALID_ARGUMENT, "options.query_offsets: must be given");
    o.query_offsets = offsets;
    expect(&p, &o, CLATTN_UNSUPPORTED, "alike modulo ranks 2");
    p.features = CLATTN_WITH_ROW_RANGES;
    expect(&p, &o, CLATTN_UNSUPPORTED, "CLATTN_WITH_ROW_RANGES is not divided among ranks");
    p.features = CLATTN_WITH_KEY_LISTS;
    p.key_list_rows = p.key_list_keys = 2;
    expect(&p, &o, CLATTN_UNSUPPORTED, "CLATTN_WITH_KEY_LISTS is not divided among ranks");
    p.features = CLATTN_WITH_MASK;
    p.key_list_rows = p.key_list_keys = 0;
    p.mask_bits = 1;
    expect(&p, &o, CLATTN_UNSUPPORTED, "mask_bits: a part's keys may begin inside a byte");
    p.features = 0;
    p.mask_bits = 0;
    p.value_in_key = 1;
    expect(&p, &o, CLATTN_UNSUPPORTED, "value_in_key: is not divided among ranks");
    p.value_in_key = 0;
    p.type = CLATTN_FLOAT64;
    o.layout = CLATTN_RING_ZIGZAG;
    expect(&p, &o, CLATTN_UNSUPPORTED, "type float64");
    o.flop_per_s = -1;
    expect(&p, &o, CLATTN_INVALID_ARGUMENT, "flop_per_s");
}
END_TEST

/* ---- by costs ------------------------------------------------------------------------------------ */

static clattn_ring_algorithm cheapest(int64_t rows, int64_t keys, int64_t heads, double bytes_per_s)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_ring_options o = CLATTN_RING_OPTIONS_INIT;
    clattn_ring *ring;
    p.query_heads = p.kv_heads = heads;
    p.query_len = rows;
    p.key_len = keys;
    p.head_dim = 64;
    o.ranks = 4;
    o.bytes_per_s = bytes_per_s;
    ck_assert_int_eq(clattn_ring_create(&p, &o, &ring), CLATTN_OK);
    ck_assert_ptr_nonnull(strstr(clattn_ring_explain(ring), "estimated"));
    const clattn_ring_algorithm chosen = clattn_ring_chosen(ring);
    clattn_ring_destroy(ring);
    return chosen;
}

START_TEST(test_the_cheapest_is_taken)
{
    ck_assert_int_eq(cheapest(1 << 20, 1 << 20, 3, 1e9), CLATTN_RING_KEYS);  /* hidden behind products */
    ck_assert_int_eq(cheapest(16, 1 << 20, 3, 1e8), CLATTN_RING_QUERIES);    /* few rows */
    ck_assert_int_eq(cheapest(1 << 12, 1 << 12, 4, 3e7), CLATTN_RING_HEADS); /* everything travels once */
    ck_assert_int_eq(cheapest(1 << 12, 1 << 12, 3, 3e7), CLATTN_RING_KEYS);  /* 3 heads do not divide by 4 */
}
END_TEST

/* The pieces of all ranks are all rows, each once, in the order in which permute has them. */
START_TEST(test_pieces_are_what_permute_says)
{
    enum { LENGTH = 11 };
    for (int layout = CLATTN_RING_CONTIGUOUS; layout <= CLATTN_RING_STRIPED; ++layout) {
        for (int64_t ranks = 1; ranks <= 14; ++ranks) {
            int64_t in_order[LENGTH], there[LENGTH], at = 0;
            for (int64_t n = 0; n < LENGTH; ++n) {
                in_order[n] = n;
            }
            ck_assert_int_eq(clattn_ring_permute((clattn_ring_layout)layout, ranks, 1, LENGTH, sizeof(int64_t), 0,
                                                 in_order, there),
                             CLATTN_OK);
            for (int64_t rank = 0; rank < ranks; ++rank) {
                clattn_ring_piece pieces[2];
                int count;
                int64_t place = 0;
                ck_assert_int_eq(clattn_ring_pieces((clattn_ring_layout)layout, ranks, rank, LENGTH, pieces, &count),
                                 CLATTN_OK);
                for (int n = 0; n < count; place += pieces[n++].count) {
                    ck_assert_int_gt(pieces[n].count, 0);
                    ck_assert_int_eq(pieces[n].place, place);
                    for (int64_t i = 0; i < pieces[n].count; ++i) {
                        ck_assert_int_eq(there[at++], pieces[n].first + i * pieces[n].step);
                    }
                }
            }
            ck_assert_int_eq(at, LENGTH);
        }
    }
}
END_TEST

START_TEST(test_pieces_that_there_are_not)
{
    clattn_ring_piece pieces[2];
    int count = 7;
    ck_assert_int_eq(clattn_ring_pieces(CLATTN_RING_ZIGZAG, 4, 4, 8, pieces, &count), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(clattn_ring_pieces(CLATTN_RING_ZIGZAG, 4, 0, -1, pieces, &count), CLATTN_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "length -1"));
    ck_assert_int_eq(clattn_ring_pieces(CLATTN_RING_ZIGZAG, 4, 0, INT64_MAX, pieces, &count), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_ring_pieces((clattn_ring_layout)3, 4, 0, 8, pieces, &count), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_ring_pieces(CLATTN_RING_ZIGZAG, 4, 0, 8, NULL, &count), CLATTN_INVALID_ARGUMENT);
}
END_TEST

SUITE("ring_layouts", test_pieces_are_what_permute_says, test_pieces_that_there_are_not, test_what_no_row_sees_stays,
      test_refused, test_the_cheapest_is_taken, test_rows_go_into_a_layout_and_back)
