/* usage: paged_cases [--cases FOLDER] [--case NAME] [--strategy S,S...] [--type T,T...]
 *                    [--choose all|cover] [--device D]
 *
 * Every case of attention in tests/cases (FOLDER; else below srcdir) whose keys are not packed, not in pages and no
 * ring: its keys and values are cut into pages of 1, 3 and 16 keys, which lie in an order of chance in a pool with
 * others that hold NaN, and what the table has behind a sequence's length is no page. Outputs must be those of the
 * unpaged call to the last bit, and again with the pool in 2, 3 and 4 buffers. Then the table's first and last page
 * change places: outputs that stay the same in most cases would mean that nobody looks into the table. --choose cover:
 * the cases that stand for all (support/case_cover.h), where a strategy compiles for each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/case_call.h"
#include "support/case_cover.h"
#include "support/case_list.h"
#include "support/device_call.h"
#include "support/device_options.h"
#include "support/pooled_keys.h"

#define PATH_BYTES 4096
#define UNUSED_PAGES 2
#define NO_PAGE 0x7ffffff0

static const int64_t page_sizes[] = { 1, 3, 16 };

struct run {
    const char *cases, *only; /* only: NULL for all */
    struct device_options options;
    clattn_context *context;
    int covers;
    int passed, failed, skipped;
    int swapped, noticed; /* tables whose pages changed places; outputs that changed with them */
};

/* ---- a case in pages ---- */

static int64_t length_of(const struct test_call *dense, int64_t b)
{
    const int64_t keys = dense->values.key_len < 0 ? dense->problem.key_len : dense->values.key_len;
    return dense->problem.features & CLATTN_WITH_KEY_LENGTHS
               ? (int64_t)test_call_get(dense, TENSOR_KEY_LENGTHS, 0, 0, 0, b)
               : keys;
}

static int64_t pages_of(int64_t keys, int64_t page_size)
{
    return (keys + page_size - 1) / page_size;
}

/* Pages of the pool in an order of chance (Fisher and Yates). */
static int64_t *shuffled(int64_t count, uint64_t seed)
{
    struct random random = random_start(seed, 0);
    int64_t *order = malloc((size_t)count * sizeof(*order));
    if (!order) {
        fprintf(stderr, "tests: out of memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < count; ++i) {
        const int64_t other = random_between(&random, 0, i);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

static double nan_value(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)index;
    (void)context;
    return (double)NAN;
}

static double element_of(struct random *random, const int64_t index[4], const void *context)
{
    const struct test_call *from = ((const struct test_call *const *)context)[0];
    const enum tensor_id id = *((const enum tensor_id *const *)context)[1];
    (void)random;
    return test_call_get(from, id, index[0], index[1], index[2], index[3]);
}

static void copy_keys(struct test_call *paged, const struct test_call *dense, enum tensor_id id, const int64_t *order,
                      int64_t sequence_pages)
{
    const int64_t page_size = paged->problem.page_size;
    int64_t n[4];
    test_call_shape(dense, id, n);
    test_call_fill(paged, id, NULL, nan_value, NULL);
    for (int64_t at = 0; at < n[0] * n[1] * n[2]; ++at) {
        const int64_t j = at % n[2], h = at / n[2] % n[1], b = at / n[2] / n[1];
        for (int64_t c = 0; c < n[3] && j < length_of(dense, b); ++c) {
            test_call_set(paged, id, order[b * sequence_pages + j / page_size], h, j % page_size, c,
                          test_call_get(dense, id, b, h, j, c));
        }
    }
}

/* The table; `swaps`: with the first and last page of each sequence in each other's place. */
static void write_table(struct test_call *paged, const struct test_call *dense, const int64_t *order,
                        int64_t sequence_pages, int swaps)
{
    for (int64_t b = 0; b < dense->problem.batch; ++b) {
        const int64_t needed = pages_of(length_of(dense, b), paged->problem.page_size);
        for (int64_t n = 0; n < sequence_pages; ++n) {
            const int64_t from = swaps && (n == 0 || n == needed - 1) ? needed - 1 - n : n;
            test_call_set_page(paged, b, n,
                               n < needed ? (double)order[b * sequence_pages + from] : (double)(NO_PAGE - n));
        }
    }
}

static void build_paged(const struct test_call *dense, int64_t page_size, const int64_t *order, int64_t sequence_pages,
                        struct test_call *paged)
{
    clattn_problem p = dense->problem;
    p.features |= CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    p.page_size = page_size;
    p.pages = p.batch * sequence_pages + UNUSED_PAGES;
    test_call_start(paged, &p);
    paged->values = dense->values;
    paged->table_pages = p.batch * sequence_pages;
    test_call_place_all(paged);
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const enum tensor_id one = (enum tensor_id)id;
        const void *const context[2] = { dense, &one };
        if (test_call_has(dense, one) && id != TENSOR_KEY && id != TENSOR_VALUE && !forward_is_output(id)) {
            test_call_fill(paged, one, NULL, element_of, context);
        }
    }
    for (int64_t b = 0; b < p.batch; ++b) {
        test_call_set(paged, TENSOR_KEY_LENGTHS, 0, 0, 0, b, (double)length_of(dense, b));
    }
    write_table(paged, dense, order, sequence_pages, 0);
    copy_keys(paged, dense, TENSOR_KEY, order, sequence_pages);
    copy_keys(paged, dense, TENSOR_VALUE, order, sequence_pages);
}

/* ---- running and comparing ---- */

/* 1: computed; 0: the strategy declines it; -1: it failed. */
static int compute(struct run *run, struct test_call *test, const char *strategy, const char *name)
{
    strategy_set(&test->problem, strategy);
    clattn_status status = test_call_validate(test);
    if (status == CLATTN_OK) {
        test_call_reset_outputs(test);
        status = device_call_run(run->context, test, NULL);
    }
    if (status == CLATTN_OK || status == CLATTN_UNSUPPORTED) {
        return status == CLATTN_OK;
    }
    printf("FAIL %s, %s, pages of %lld: %s\n", name, strategy_label(strategy), (long long)test->problem.page_size,
           clattn_last_error());
    ++run->failed;
    return -1;
}

static int same_outputs(const struct test_call *one, const struct test_call *other)
{
    int same = 1;
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct test_array *a = &one->arrays[id], *b = &other->arrays[id];
        same = same && (!forward_is_output(id) || !a->data ||
                        (a->count == b->count && memcmp(a->data, b->data, (size_t)a->count * a->element_bytes) == 0));
    }
    return same;
}

/* Whether some sequence has pages that can change places. */
static int can_swap(const struct test_call *dense, int64_t page_size)
{
    int can = 0;
    for (int64_t b = 0; b < dense->problem.batch; ++b) {
        can = can || pages_of(length_of(dense, b), page_size) > 2;
    }
    return can && dense->problem.query_len > 0;
}

/* The pool in several buffers, the last of them not full where it can be. */
static void run_pools(struct run *run, const struct test_call *dense, struct test_call *paged, int pools,
                      const char *strategy, const char *name)
{
    paged->pool_pages = pooled_call_pages(paged->problem.pages, pools, 1);
    if (paged->pool_pages > 0) {
        const int computed = compute(run, paged, strategy, name);
        run->skipped += computed == 0;
        if (computed == 1 && same_outputs(dense, paged)) {
            ++run->passed;
        } else if (computed == 1) {
            printf("FAIL %s, %s: pages of %lld in %d buffers give other bits than in one\n", name,
                   strategy_label(strategy), (long long)paged->problem.page_size, pools);
            ++run->failed;
        }
    }
    paged->pool_pages = 0;
}

static void run_paged(struct run *run, const struct test_call *dense, int64_t page_size, int pools,
                      const char *strategy, const char *name)
{
    const int64_t sequence_pages = pages_of(dense->problem.key_len, page_size);
    int64_t *order = shuffled(dense->problem.batch * sequence_pages + UNUSED_PAGES, (uint64_t)page_size);
    struct test_call paged;
    build_paged(dense, page_size, order, sequence_pages, &paged);
    const int computed = compute(run, &paged, strategy, name);
    run->skipped += computed == 0;
    if (computed == 1 && same_outputs(dense, &paged)) {
        ++run->passed;
    } else if (computed == 1) {
        printf("FAIL %s, %s: pages of %lld give other bits than none; again: tests/paged_cases --case %s --strategy "
               "%s\n",
               name, strategy_label(strategy), (long long)page_size, name, strategy_label(strategy));
        ++run->failed;
    }
    if (computed == 1) {
        run_pools(run, dense, &paged, pools, strategy, name);
    }
    if (computed == 1 && can_swap(dense, page_size)) {
        write_table(&paged, dense, order, sequence_pages, 1);
        run->swapped += compute(run, &paged, strategy, name) == 1;
        run->noticed += !same_outputs(dense, &paged);
    }
    test_call_free(&paged);
    free(order);
}

static int takes_pages(const clattn_problem *p)
{
    return !(p->features & (CLATTN_WITH_VARLEN | CLATTN_WITH_PAGES)) && p->ring == 0;
}

static void run_case(struct run *run, const char *name, clattn_type type)
{
    char folder[PATH_BYTES];
    struct failure failure;
    struct test_call dense;
    snprintf(folder, sizeof(folder), "%s/%s", run->cases, name);
    if (case_call_create(&dense, folder, type, &failure) != 0) {
        printf("FAIL %s: %s\n", name, failure.text);
        ++run->failed;
        return;
    }
    for (int s = 0; s < run->options.n_strategies && takes_pages(&dense.problem); ++s) {
        const char *strategy = run->options.strategies[s];
        const int computed = compute(run, &dense, strategy, name);
        run->skipped += computed == 0;
        for (size_t i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]) && computed == 1; ++i) {
            run_paged(run, &dense, page_sizes[i], 2 + (int)i, strategy, name);
        }
    }
    test_call_free(&dense);
}

/* ---- which cases ---- */

/* chosen[i]: a bit for each type in which case i stands for others. */
static void choose(struct run *run, char **names, int n, unsigned char *chosen)
{
    uint64_t *traits = calloc((size_t)n + 1, sizeof(*traits));
    for (int i = 0; i < n; ++i) {
        char folder[PATH_BYTES];
        struct failure failure;
        struct test_call test;
        chosen[i] = (1 << OPTIONS_TYPES_MAX) - 1;
        snprintf(folder, sizeof(folder), "%s/%s", run->cases, names[i]);
        if (run->covers && case_call_create(&test, folder, CLATTN_FLOAT32, &failure) == 0) {
            traits[i] = takes_pages(&test.problem) ? case_traits(&test) : 0;
            test_call_free(&test);
        }
    }
    if (run->covers) {
        case_cover(traits, n, run->options.n_types, CASES_COVER, chosen);
    }
    free(traits);
}

static void run_all(struct run *run)
{
    char **names;
    const int n = case_list_attention(run->cases, run->only, &names);
    if (n < 0) {
        return; /* nothing passed */
    }
    unsigned char *chosen = calloc((size_t)n + 1, 1);
    choose(run, names, n, chosen);
    for (int i = 0; i < n; ++i) {
        for (int t = 0; t < run->options.n_types; ++t) {
            if (chosen[i] >> t & 1) {
                run_case(run, names[i], run->options.types[t]);
            }
        }
        free(names[i]);
    }
    free(chosen);
    free(names);
}

int main(int argc, char **argv)
{
    static struct run run;
    static char folder[PATH_BYTES];
    const char *srcdir = getenv("srcdir"), *which = "all";
    const struct device_option more[] = {
        { "cases", &run.cases }, { "case", &run.only }, { "choose", &which }, { NULL, NULL }
    };
    snprintf(folder, sizeof(folder), "%s/tests/cases", srcdir && *srcdir ? srcdir : ".");
    run.cases = folder;
    if (device_options_parse_more(argc, argv, "plain", "float32", more, &run.options) != 0) {
        return device_options_usage("paged_cases");
    }
    run.covers = strcmp(which, "cover") == 0;
    run.context = device_options_open(&run.options);
    if (!run.context) {
        return 1;
    }
    run_all(&run);
    printf("pages that changed places: %d, of which %d were noticed\n", run.swapped, run.noticed);
    if (!run.only && 2 * run.noticed <= run.swapped) {
        printf("FAIL: most outputs stay the same whatever the table says\n");
        ++run.failed;
    }
    clattn_context_destroy(run.context);
    printf("%d passed, %d failed, %d skipped\n", run.passed, run.failed, run.skipped);
    return run.failed > 0 || run.passed == 0;
}
