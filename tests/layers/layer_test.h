/* What the tests of layers share: arrays of random values in a storage type, comparison with a reference, counts, and
 * what a failure says. Included by tests/layers only. */
#ifndef CLATTN_TESTS_LAYERS_LAYER_TEST_H
#define CLATTN_TESTS_LAYERS_LAYER_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "clattn_layers.h"
#include "support/random.h"

struct layer_test {
    const char *program; /* for the command that repeats a call: "tests/layers/mha" */
    clattn_context *context;
    uint64_t seed, first, count; /* random calls [first, first + count) of the seed */
    int passed, failed;
    double largest[CLATTN_FLOAT64 + 1]; /* error as a share of what is allowed, by type */
};

/* A context, and options --seed N, --count N, --index N, for which CLATTN_TEST_SEED and CLATTN_TEST_LAYER_CALLS stand
 * in; `argc` 0: none. Returns 0, or the exit status: there is no device, or the options were wrong. */
int layer_test_start(struct layer_test *test, const char *program, int argc, char **argv, uint64_t usual_count);

/* Prints the largest errors and the counts; returns the exit status. */
int layer_test_end(struct layer_test *test);

void layer_test_note(struct layer_test *test, int good, const char *what);

/* The call must fail with `status`, and the message must say `part`. */
void layer_test_refused(struct layer_test *test, clattn_status got, clattn_status status, const char *part);

/* count + 1 elements, so that an empty array is a pointer too. */
void *layer_test_normal(struct random *random, clattn_type type, int64_t count, double scale);

/* count + 1 elements of any type, all NaN, for outputs. */
void *layer_test_poison(int64_t count);

/* As a share of the largest value: rounding of a chain of float32 sums; for 16-bit storage, of its intermediates. */
double layer_test_tolerance(clattn_type type);

/* The largest magnitude; a little more than 0 where there is none. */
double layer_test_size(clattn_type type, const void *data, int64_t count);

/* An output of a call beside the reference's, both of `type`; the shape's first axes are 1 where it has fewer. */
struct layer_output {
    const char *name;
    clattn_type type;
    int axes;
    int64_t shape[4];
    const void *got, *expected;
    double allowed; /* of a difference */
};

/* Where a call's outputs differ most: the difference as a share of what is allowed, infinite where only one of both is
 * NaN. */
struct layer_worst {
    double share, got, expected;
    const char *name; /* NULL: nothing differs */
    int axes;
    int64_t at[4];
};
void layer_test_compare(struct layer_worst *worst, const struct layer_output *output);

/* Counts random call `index` of `type`, which ended with `status`. A failure prints the element, the problem, and the
 * command that repeats the call. */
void layer_test_judge(struct layer_test *test, uint64_t index, clattn_type type, clattn_status status,
                      const struct layer_worst *worst, const char *problem);

#endif
