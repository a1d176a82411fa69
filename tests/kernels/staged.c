/* usage: staged [--seed N] [--count N]
 *
 * Each kernel of the staged strategy by itself against its host twin in float64, in every tile shape and
 * storage type that the device has room for, on random calls with random chunks. Prints the seed; a failure
 * prints kernel, options and number of the call. Environment: CLATTN_TEST_SEED stands in for --seed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run.h"
#include "strategy/staged_tiles.h"
#include "support/random_call.h"
#include "twins.h"

#define WORK_LIMIT 60000

struct totals {
    clattn_context *context;
    uint64_t seed, count;
    int64_t passed, failed, skipped;
    double worst; /* part of the bound that was needed, of all kernels */
};

/* A kernel as built for a test, and the function that prepares its inputs and judges what it made. */
struct subject {
    const char *name;
    struct kernel *kernel;
    struct tile_kernel tile; /* tiles only */
    size_t items;            /* kernels that walk along rows */
    clattn_type heads_type;  /* of slopes and sinks; CLATTN_TYPE_NONE: the kernel reads none */
    twin_prepare *prepare;
    twin_judge *judge;
    char options[96];
};

static void launch_size(const struct subject *subject, const struct kernel_run *run, size_t global[3], size_t local[3])
{
    const size_t rows = (size_t)run->chunk.rows, planes = (size_t)run->chunk.planes;
    local[0] = local[1] = local[2] = 1;
    global[2] = planes;
    if (subject->tile.kernel) {
        const struct tile_kernel *tile = &subject->tile;
        const size_t columns =
            (size_t)(strcmp(subject->name, "score") == 0 ? run->given.params.key_len : run->given.params.head_dim_v);
        const size_t width = (size_t)tile->group_columns, height = (size_t)tile->group_rows;
        local[0] = tile->local[0];
        local[1] = tile->local[1];
        global[0] = (columns + width - 1) / width * local[0];
        global[1] = (rows + height - 1) / height * local[1];
    } else if (strcmp(subject->name, "repair") == 0) {
        local[0] = global[0] = subject->items;
        global[1] = rows;
    } else {
        local[0] = subject->items;
        global[0] = rows * subject->items;
        global[1] = planes;
        global[2] = 1;
    }
}

static int has_type(const clattn_problem *problem, uint32_t feature, clattn_type type, clattn_type wanted)
{
    return !(problem->features & feature) || wanted == CLATTN_TYPE_NONE || (type ? type : CLATTN_FLOAT32) == wanted;
}

/* Whether the subject computes such calls. Packed sequences and 16-bit types do not reach repair: CLBlast takes
 * neither. A mask of blocks needs a program for its size of blocks, and a subject is one program: random_calls tests
 * those. Lists of keys staged does not take. */
static int is_for(const struct subject *subject, const clattn_problem *problem)
{
    const int packed = (problem->features & CLATTN_WITH_VARLEN) != 0;
    return !(strcmp(subject->name, "repair") == 0 && packed) &&
           !(problem->features & (CLATTN_WITH_BLOCK_MASK | CLATTN_WITH_KEY_LISTS)) &&
           has_type(problem, CLATTN_WITH_SLOPES, problem->slopes_type, subject->heads_type) &&
           has_type(problem, CLATTN_WITH_SINKS, problem->sinks_type, subject->heads_type);
}

/* One random call. */
static void run_one(struct totals *totals, const struct subject *subject, clattn_type type, uint64_t index)
{
    const struct random_call_options options = { .type = type, .work_limit = WORK_LIMIT, .dense = 1 };
    struct test_call test;
    struct kernel_run run;
    enum value_family family;
    struct random random = random_start(totals->seed, index + 1000000);
    clattn_status status = random_call_create(&test, totals->seed, index, &options, &family);
    if (status != CLATTN_OK || !is_for(subject, &test.problem)) {
        totals->failed += status != CLATTN_OK;
        test_call_free(&test);
        return;
    }
    if (kernel_run_begin(&run, totals->context, &test, &random)) {
        struct verdict_of_kernel verdict = { 0, 0, "" };
        size_t global[3], local[3];
        launch_size(subject, &run, global, local);
        subject->prepare(&run, &random);
        struct kernel_inputs inputs;
        status = kernel_inputs_copy(&inputs, &run);
        if (status == CLATTN_OK) {
            status = kernel_run_launch(&run, subject->kernel, global, local);
        }
        if (status == CLATTN_OK) {
            subject->judge(&run, &inputs, &verdict);
        }
        kernel_inputs_free(&inputs);
        if (type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64) { /* else half an ulp of storage */
            totals->worst = fmax(totals->worst, verdict.needed);
        }
        if (status != CLATTN_OK || verdict.wrong > 0) {
            char line[512];
            problem_describe(&test.checked.any, line, sizeof(line));
            printf("FAIL %s (%s), call %" PRIu64 ": %" PRId64 " wrong; %s\n     %s\n", subject->name, subject->options,
                   index, verdict.wrong, status == CLATTN_OK ? verdict.first : clattn_last_error(), line);
            ++totals->failed;
        } else {
            ++totals->passed;
        }
    }
    kernel_run_end(&run);
    test_call_free(&test);
}

static void run_subject(struct totals *totals, const struct subject *subject, clattn_type type)
{
    for (uint64_t n = 0; n < totals->count; ++n) {
        run_one(totals, subject, type, n);
    }
}

/* A subject that did not build is a failure, one that the device has no room for is skipped. */
static void run_built(struct totals *totals, const struct subject *subject, clattn_type type, clattn_status built,
                      size_t items)
{
    size_t limit = 0;
    if (built == CLATTN_OK) {
        built = kernel_work_group_limit(subject->kernel, &limit);
    }
    if (built != CLATTN_OK) {
        printf("FAIL %s (%s): %s\n", subject->name, subject->options, clattn_last_error());
        ++totals->failed;
    } else if (items > limit) {
        ++totals->skipped;
    } else {
        run_subject(totals, subject, type);
    }
}

static void test_tiles(struct totals *totals, const char *file, const char *name, clattn_type type,
                       twin_prepare *prepare, twin_judge *judge)
{
    struct ask ask = { .context = totals->context };
    int tried = 0;
    for (size_t i = 0; i < staged_tile_shape_count; ++i) {
        const struct tile_shape *shape = &staged_tile_shapes[i];
        struct subject subject = { .name = name, .prepare = prepare, .judge = judge };
        /* All shapes once; other types only in the first, which has the widest vectors, and the last two. */
        if (!staged_shape_fits(&ask, shape, type)) {
            ++totals->skipped;
            continue;
        }
        if (type != CLATTN_FLOAT32 && tried++ > 0 && i + 2 < staged_tile_shape_count) {
            continue;
        }
        char types[24];
        snprintf(types, sizeof(types), "-D TYPE=%d", (int)type);
        snprintf(subject.options, sizeof(subject.options), "%s, tile shape %zu", clattn_type_name(type), i);
        clattn_status built = staged_build_shape(&ask, shape, file, name, type, types, &subject.tile);
        subject.kernel = subject.tile.kernel;
        run_built(totals, &subject, type, built, subject.tile.local[0] * subject.tile.local[1]);
    }
}

static void test_rows(struct totals *totals, const char *file, const char *name, clattn_type type, int vector,
                      size_t items, twin_prepare *prepare, twin_judge *judge)
{
    /* In float64 slopes and sinks are of either type, each in one of the programs. */
    const clattn_type heads = type == CLATTN_FLOAT64 && items > 1 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    struct subject subject = { .name = name, .items = items, .heads_type = heads, .prepare = prepare, .judge = judge };
    snprintf(subject.options, sizeof(subject.options),
             "-D TYPE=%d -D VEC=%d -D ITEMS=%zu -D SLOPES_TYPE=%d -D SINKS_TYPE=%d", (int)type, vector, items,
             (int)heads, (int)heads);
    if (items > totals->context->device.work_group_limit) {
        ++totals->skipped;
        return;
    }
    clattn_status built = program_kernel(totals->context, file, subject.options, name, &subject.kernel);
    run_built(totals, &subject, type, built, items);
}

static void test_type(struct totals *totals, clattn_type type)
{
    struct ask ask = { .context = totals->context };
    const int wide = staged_vector_bytes(&ask) / (type == CLATTN_FLOAT64 ? 8 : 4);
    test_tiles(totals, "staged/staged_score.cl", "score", type, prepare_score, judge_score);
    test_tiles(totals, "staged/staged_mix.cl", "mix_values", type, prepare_mix, judge_mix);
    test_rows(totals, "staged/staged_softmax.cl", "softmax", type, wide > 1 ? wide : 1, 1, prepare_softmax,
              judge_softmax);
    test_rows(totals, "staged/staged_softmax.cl", "softmax", type, 1, 16, prepare_softmax, judge_softmax);
    test_rows(totals, "staged/staged_scale_mask.cl", "scale_mask", type, 1, 1, prepare_scale_mask, judge_scale_mask);
    test_rows(totals, "staged/staged_scale_mask.cl", "scale_mask", type, 1, 8, prepare_scale_mask, judge_scale_mask);
    if (type == CLATTN_FLOAT32 || type == CLATTN_FLOAT64) {
        test_rows(totals, "staged/staged_repair.cl", "repair", type, 1, 1, prepare_repair, judge_repair);
        test_rows(totals, "staged/staged_repair.cl", "repair", type, 1, 8, prepare_repair, judge_repair);
    }
}

static int parse(int argc, char **argv, struct totals *totals)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0    ? &totals->seed
                           : strcmp(argv[i], "--count") == 0 ? &totals->count
                                                             : NULL;
        if (!number || i + 1 == argc) {
            fprintf(stderr, "usage: staged [--seed N] [--count N]\n");
            return -1;
        }
        *number = strtoull(argv[i + 1], NULL, 10);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("CLATTN_TEST_SEED");
    struct totals totals = { .count = 40 };
    totals.seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    if (parse(argc, argv, &totals) != 0) {
        return 2;
    }
    printf("seed %" PRIu64 ", %" PRIu64 " calls a kernel\n", totals.seed, totals.count);
    if (clattn_context_open(NULL, NULL, &totals.context) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
        return 1;
    }
    for (int type = CLATTN_FLOAT32; type <= CLATTN_FLOAT64; ++type) {
        if (type == CLATTN_FLOAT64 && !totals.context->device.has_fp64) {
            printf("the device has no fp64: float64 is left out\n");
            ++totals.skipped;
        } else {
            test_type(&totals, (clattn_type)type);
        }
    }
    clattn_context_destroy(totals.context);
    printf("%.2f of the error bound was needed at most\n", totals.worst);
    printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", totals.passed, totals.failed,
           totals.skipped);
    return totals.failed > 0 || totals.passed == 0;
}
