/* The keys of a dense call, cut into shuffled pages. */
#include "paged_keys.h"

#include <math.h>

#include "pooled_keys.h"

#define BATCH 2
#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 40
#define HEAD_DIM_V 24
#define UNUSED_PAGES 3

static double length_of(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t key_len = *(const int64_t *)context;
    (void)random;
    return (double)(index[3] == 0 ? key_len : key_len - key_len / 3 - 1);
}

static double nan_value(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)index;
    (void)context;
    return (double)NAN;
}

static void build_dense(const struct exact *e, int64_t query_len, int64_t key_len, struct test_call *dense)
{
    clattn_problem p = exact_problem(e, BATCH, HEADS, KV_HEADS, query_len, key_len, HEAD_DIM, HEAD_DIM_V);
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_KEY_LENGTHS;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    exact_build(dense, &p, 0);
    test_call_fill(dense, TENSOR_KEY_LENGTHS, NULL, length_of, &key_len);
}

/* Where page n of sequence b is: neighbours are apart, and the sequences mixed. */
static int64_t page_of(int64_t pages, int64_t sequence_pages, int64_t b, int64_t n)
{
    const int64_t at = b * sequence_pages + n;
    const int64_t step = pages % 7 ? 7 : 11; /* a prime that does not divide the pages visits each once */
    return (at * step + 1) % pages;
}

static void copy_keys(struct test_call *paged, const struct test_call *dense, enum tensor_id id, int64_t sequence_pages)
{
    const clattn_problem *p = &paged->problem;
    int64_t n[4];
    test_call_shape(dense, id, n);
    test_call_fill(paged, id, NULL, nan_value, NULL);
    for (int64_t at = 0; at < n[0] * n[1] * n[2]; ++at) {
        const int64_t j = at % n[2], h = at / n[2] % n[1], b = at / n[2] / n[1];
        const int64_t page = page_of(p->pages, sequence_pages, b, j / p->page_size);
        if (j < (int64_t)test_call_get(dense, TENSOR_KEY_LENGTHS, 0, 0, 0, b)) {
            for (int64_t c = 0; c < n[3]; ++c) {
                test_call_set(paged, id, page, h, j % p->page_size, c, test_call_get(dense, id, b, h, j, c));
            }
        }
    }
}

static void build_paged(const struct test_call *dense, int64_t page_size, int one_table, struct test_call *paged)
{
    const int64_t sequence_pages = (dense->problem.key_len + page_size - 1) / page_size;
    clattn_problem p = dense->problem;
    p.features |= CLATTN_WITH_PAGES | (one_table ? (uint32_t)CLATTN_WITH_PAGE_STARTS : 0);
    p.page_size = page_size;
    p.pages = BATCH * sequence_pages + UNUSED_PAGES;
    test_call_start(paged, &p);
    paged->values = dense->values;
    paged->table_pages = BATCH * sequence_pages;
    test_call_place_all(paged);
    for (int64_t b = 0; b < BATCH; ++b) {
        exact_copy_entry(paged, b, dense, b, TENSOR_QUERY);
        test_call_set(paged, TENSOR_KEY_LENGTHS, 0, 0, 0, b, test_call_get(dense, TENSOR_KEY_LENGTHS, 0, 0, 0, b));
        for (int64_t n = 0; n < sequence_pages; ++n) {
            test_call_set_page(paged, one_table ? 0 : b, (one_table ? b * sequence_pages : 0) + n,
                               (double)page_of(p.pages, sequence_pages, b, n));
        }
    }
    for (int64_t b = 0; one_table && b <= BATCH; ++b) {
        test_call_set(paged, TENSOR_PAGE_STARTS, 0, 0, 0, b, (double)(b * sequence_pages));
    }
    copy_keys(paged, dense, TENSOR_KEY, sequence_pages);
    copy_keys(paged, dense, TENSOR_VALUE, sequence_pages);
}

int pages_keep_bits(struct exact *e, int64_t query_len, int64_t key_len)
{
    static const int64_t page_sizes[] = { 3, 16 };
    struct test_call dense, paged;
    build_dense(e, query_len, key_len, &dense);
    int status = exact_run(e, &dense);
    for (size_t i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]) && status == 0; ++i) {
        build_paged(&dense, page_sizes[i], i % 2 == 0, &paged);
        status = exact_run(e, &paged);
        for (int64_t b = 0; b < BATCH && status == 0; ++b) {
            status = exact_same_entry(e, &dense, b, &paged, b);
        }
        /* Once more in three buffers, the last of which is not full. */
        paged.pool_pages = i > 0 && status == 0 ? pooled_call_pages(paged.problem.pages, 3, 1) : 0;
        if (paged.pool_pages > 0) {
            status = exact_run(e, &paged);
        }
        for (int64_t b = 0; b < BATCH && status == 0; ++b) {
            status = exact_same_entry(e, &dense, b, &paged, b);
        }
        test_call_free(&paged);
    }
    test_call_free(&dense);
    return status;
}

/* ---- holes ---------------------------------------------------------------------------------- */

/* Number `at` of `every` pages that follow one another is a hole. */
struct holes {
    int64_t page_size, every, at;
};

static int is_hole(const struct holes *holes, int64_t n)
{
    return n % holes->every == holes->at;
}

static double outside_of_holes(struct random *random, const int64_t index[4], const void *context)
{
    const struct holes *holes = context;
    (void)random;
    return !is_hole(holes, index[3] / holes->page_size);
}

int holes_are_a_mask(struct exact *e, int64_t query_len, int64_t key_len)
{
    /* Pages that blocks of 32, 64 or 96 keys end with, and such that blocks begin and end inside of. */
    static const struct holes all_holes[] = { { 16, 6, 5 }, { 64, 3, 1 } };
    struct test_call dense, paged, masked;
    int status = 0;
    build_dense(e, query_len, key_len, &dense);
    for (size_t i = 0; i < sizeof(all_holes) / sizeof(all_holes[0]) && status == 0; ++i) {
        const struct holes *holes = &all_holes[i];
        clattn_problem p = dense.problem;
        p.features |= CLATTN_WITH_MASK;
        exact_build(&masked, &p, 0);
        test_call_fill(&masked, TENSOR_KEY_LENGTHS, NULL, length_of, &key_len);
        test_call_fill(&masked, TENSOR_MASK, NULL, outside_of_holes, holes);
        build_paged(&dense, holes->page_size, 0, &paged);
        for (int64_t n = 0; n < paged.table_pages; ++n) {
            const int64_t b = n % BATCH, page = n / BATCH;
            if (is_hole(holes, page)) {
                test_call_set_page(&paged, b, page, -1);
            }
        }
        status = exact_run(e, &paged) || exact_within_bound(e, &paged, &masked) ? -1 : 0;
        test_call_free(&paged);
        test_call_free(&masked);
    }
    test_call_free(&dense);
    return status;
}

/* ---- holes of rings -------------------------------------------------------------------------- */

#define RING_PAGE 16
#define RING_WINDOW 600 /* more than a split of keys */
#define RING_QUERIES 1  /* so that all of the last split is seen */
#define RING_ROWS (RING_WINDOW + 40)
#define RING_KEYS (RING_ROWS + 60) /* the last of them lie in the first pages */
#define RING_PAGES ((RING_ROWS + RING_PAGE - 1) / RING_PAGE)

/* Page 1 of the first sequence is a hole, behind which blocks of keys go on; page 5 of the others, since what would be
 * pages by the numbers of the first one's last keys are the next one's first. */
static double page_of_ring(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t pages = *(const int64_t *)context, hole = index[0] == 0 ? 1 : 5;
    (void)random;
    return index[3] == hole ? -1 : (double)page_of(pages, RING_PAGES, index[0], index[3]);
}

static double all_keys(struct random *random, const int64_t index[4], const void *context)
{
    (void)random, (void)index, (void)context;
    return RING_KEYS;
}

int holes_of_rings_hide(struct exact *e)
{
    clattn_problem p = exact_problem(e, BATCH, HEADS, KV_HEADS, RING_QUERIES, RING_KEYS, HEAD_DIM, HEAD_DIM_V);
    struct test_call ring;
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_KEY_LENGTHS | CLATTN_WITH_PAGES;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    p.window_left = RING_WINDOW;
    p.window_right = 0;
    p.ring = RING_ROWS;
    p.page_size = RING_PAGE;
    p.pages = BATCH * RING_PAGES;
    exact_build(&ring, &p, 0);
    test_call_fill(&ring, TENSOR_KEY_LENGTHS, NULL, all_keys, NULL);
    test_call_fill(&ring, TENSOR_PAGE_TABLE, NULL, page_of_ring, &p.pages);
    ring.values.scale = 0.1; /* all keys count */
    const int status = exact_run(e, &ring) || exact_within_bound(e, &ring, &ring) ? -1 : 0;
    test_call_free(&ring);
    return status;
}
