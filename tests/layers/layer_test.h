/* What the tests of layers share: arrays of random values in a storage type, counts, and comparison.
 * Included by tests/layers only. */
#ifndef CLATTN_TESTS_LAYERS_LAYER_TEST_H
#define CLATTN_TESTS_LAYERS_LAYER_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn.h"
#include "base/half.h"
#include "support/random.h"

struct layer_test {
    clattn_context *context;
    uint64_t seed;
    int passed, failed;
    double largest[CLATTN_FLOAT64 + 1]; /* error as a share of what is allowed, by type */
};

static inline void layer_test_note(struct layer_test *test, int good, const char *what)
{
    test->passed += good;
    test->failed += !good;
    if (!good) {
        printf("failed: %s (seed %llu): %s\n", what, (unsigned long long)test->seed, clattn_last_error());
    }
}

/* The call must fail with `status`, and the message must say `part`. */
static inline void layer_test_refused(struct layer_test *test, clattn_status got, clattn_status status,
                                      const char *part)
{
    const int good = got == status && strstr(clattn_last_error(), part) != NULL;
    if (!good) {
        printf("expected %s with \"%s\", got %s\n", clattn_status_name(status), part,
               clattn_status_name(got));
    }
    layer_test_note(test, good, part);
}

/* count + 1 elements, so that an empty array is a pointer too. */
static inline void *layer_test_normal(struct random *random, clattn_type type, int64_t count, double scale)
{
    void *data = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; data && i < count; ++i) {
        type_store(type, data, i, scale * random_normal(random));
    }
    return data;
}

/* The largest difference as a share of `allowed`; NaN where only one side is NaN counts as infinite. */
static inline double layer_test_share(clattn_type type, const void *got, const void *expected,
                                      int64_t count, double allowed)
{
    double most = 0;
    for (int64_t i = 0; i < count; ++i) {
        const double a = type_load(type, got, i), b = type_load(type, expected, i);
        const double share = isnan(a) && isnan(b) ? 0 : isnan(a) || isnan(b) ? INFINITY : fabs(a - b) / allowed;
        most = share > most ? share : most;
    }
    return most;
}

static inline double layer_test_size(clattn_type type, const void *data, int64_t count)
{
    double most = 1e-30;
    for (int64_t i = 0; i < count; ++i) {
        const double size = fabs(type_load(type, data, i));
        most = size > most ? size : most;
    }
    return most;
}

/* Of the largest value: rounding of a chain of float32 sums; for 16-bit storage, of its intermediates. */
static inline double layer_test_tolerance(clattn_type type)
{
    return type == CLATTN_FLOAT64    ? 1e-12
           : type == CLATTN_FLOAT16  ? 4.0 / 2048
           : type == CLATTN_BFLOAT16 ? 4.0 / 256
                                     : 1e-5;
}

static inline uint64_t layer_test_calls(uint64_t usual)
{
    const char *calls = getenv("CLATTN_TEST_LAYER_CALLS");
    return calls ? strtoull(calls, NULL, 10) : usual;
}

static inline int layer_test_start(struct layer_test *test)
{
    const char *seed = getenv("CLATTN_TEST_SEED");
    memset(test, 0, sizeof(*test));
    test->seed = seed ? strtoull(seed, NULL, 10) : 1;
    if (clattn_context_open(NULL, NULL, &test->context) != CLATTN_OK) {
        printf("no device: %s\n0 passed, 0 failed, 1 skipped\n", clattn_last_error());
        return 77;
    }
    return 0;
}

static inline int layer_test_end(struct layer_test *test)
{
    for (int type = CLATTN_FLOAT32; type <= CLATTN_FLOAT64; ++type) {
        if (test->largest[type] > 0) {
            printf("%s: largest error %.3g of what is allowed\n", clattn_type_name((clattn_type)type),
                   test->largest[type]);
        }
    }
    clattn_context_destroy(test->context);
    printf("%d passed, %d failed, 0 skipped\n", test->passed, test->failed);
    return test->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
