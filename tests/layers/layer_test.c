/* Counts, comparison, and what a failure says. */
#include "layer_test.h"

#include <inttypes.h>

static uint64_t number(const char *text, uint64_t otherwise)
{
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static int parse(struct layer_test *test, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--seed") == 0) {
            test->seed = number(value, 1);
        } else if (value && strcmp(argv[i], "--count") == 0) {
            test->count = number(value, 1);
        } else if (value && strcmp(argv[i], "--index") == 0) {
            test->first = number(value, 0);
            test->count = 1;
        } else {
            return -1;
        }
    }
    return 0;
}

int layer_test_start(struct layer_test *test, const char *program, int argc, char **argv, uint64_t usual_count)
{
    memset(test, 0, sizeof(*test));
    test->program = program;
    test->seed = number(getenv("CLATTN_TEST_SEED"), 1);
    test->count = number(getenv("CLATTN_TEST_LAYER_CALLS"), usual_count);
    if (parse(test, argc, argv) != 0) {
        fprintf(stderr, "usage: %s [--seed N] [--count N | --index N]\n", program);
        return 2;
    }
    if (clattn_context_open(NULL, NULL, &test->context) != CLATTN_OK) {
        printf("no device: %s\n0 passed, 0 failed, 1 skipped\n", clattn_last_error());
        return 77;
    }
    return 0;
}

int layer_test_end(struct layer_test *test)
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

void layer_test_note(struct layer_test *test, int good, const char *what)
{
    test->passed += good;
    test->failed += !good;
    if (!good) {
        printf("FAIL %s: %s\n", what, clattn_last_error());
    }
}

void layer_test_refused(struct layer_test *test, clattn_status got, clattn_status status, const char *part)
{
    const int good = got == status && strstr(clattn_last_error(), part) != NULL;
    if (!good) {
        printf("expected %s with \"%s\", got %s\n", clattn_status_name(status), part, clattn_status_name(got));
    }
    layer_test_note(test, good, part);
}

/* ---- values ----------------------------------------------------------------------------------- */

void *layer_test_normal(struct random *random, clattn_type type, int64_t count, double scale)
{
    void *data = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; data && i < count; ++i) {
        type_store(type, data, i, scale * random_normal(random));
    }
    return data;
}

void *layer_test_poison(int64_t count)
{
    const size_t bytes = (size_t)(count + 1) * 8;
    void *data = malloc(bytes);
    return data ? memset(data, 0xff, bytes) : NULL;
}

double layer_test_tolerance(clattn_type type)
{
    return type == CLATTN_FLOAT64    ? 1e-12
           : type == CLATTN_FLOAT16  ? 4.0 / 2048
           : type == CLATTN_BFLOAT16 ? 4.0 / 256
                                     : 1e-5;
}

double layer_test_size(clattn_type type, const void *data, int64_t count)
{
    double most = 1e-30;
    for (int64_t i = 0; i < count; ++i) {
        const double size = fabs(type_load(type, data, i));
        most = size > most ? size : most;
    }
    return most;
}

/* ---- comparison ------------------------------------------------------------------------------- */

void layer_test_compare(struct layer_worst *worst, const struct layer_output *output)
{
    const int64_t *n = output->shape;
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; ++i) {
        const double got = type_load(output->type, output->got, i);
        const double expected = type_load(output->type, output->expected, i);
        const double share = isnan(got) && isnan(expected)   ? 0
                             : isnan(got) || isnan(expected) ? INFINITY
                                                             : fabs(got - expected) / output->allowed;
        if (share > worst->share) {
            *worst = (struct layer_worst){
                share,        got,
                expected,     output->name,
                output->axes, { i / (n[1] * n[2] * n[3]), i / (n[2] * n[3]) % n[1], i / n[3] % n[2], i % n[3] }
            };
        }
    }
}

void layer_test_judge(struct layer_test *test, uint64_t index, clattn_type type, clattn_status status,
                      const struct layer_worst *worst, const char *problem)
{
    const int good = status == CLATTN_OK && worst->share <= 1;
    test->largest[type] = fmax(test->largest[type], status == CLATTN_OK ? worst->share : INFINITY);
    test->passed += good;
    test->failed += !good;
    if (good) {
        return;
    }
    if (status != CLATTN_OK) {
        printf("FAIL %s: %s\n", clattn_status_name(status), clattn_last_error());
    } else {
        printf("FAIL %s", worst->name);
        for (int axis = 4 - worst->axes; axis < 4; ++axis) {
            printf("%s%" PRId64, axis == 4 - worst->axes ? "[" : ", ", worst->at[axis]);
        }
        printf("] is %.9g, not %.9g: %.3g times what is allowed\n", worst->got, worst->expected, worst->share);
    }
    printf("     %s\n     again: %s --seed %" PRIu64 " --index %" PRIu64 "\n", problem, test->program, test->seed,
           index);
}
