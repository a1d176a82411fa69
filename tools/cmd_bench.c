/* clattn bench: time, speed and error of shapes, data in device buffers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_call.h"
#include "bench_read.h"
#include "bench_shapes.h"
#include "check.h"
#include "commands.h"
#include "library.h"
#include "progress.h"

#define CHECK_BUDGET 1e8 /* multiplications of the reference a shape */
#define CALLS_LEAST 3
#define CALLS_MAX 1000000

/* Times of a number of calls. */
struct times {
    double min_ms, median_ms;
};

struct measurement {
    struct times call, read; /* read: of a plain read of keys and values, if asked for */
    double cpu_ms, first_ms, gflops, gbytes_s, read_gbytes_s, error_share;
    int calls;
    char strategy[64];
    size_t workspace_bytes;
};

/* ---- options ---- */

static const struct option_group groups[] = {
    { "Shapes", { OPTION_SHAPE, OPTION_BENCH_CAUSAL, OPTION_MASK_KIND, OPTION_SHAPES, OPTION_TYPE } },
    { "For all shapes",
      { OPTION_WINDOW, OPTION_ALWAYS, OPTION_BENCH_ALIGN, OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_SINKS,
        OPTION_BENCH_KEY_LENGTHS, OPTION_PAGE_SIZE, OPTION_WITH_LSE } },
    { "How",
      { OPTION_SECONDS, OPTION_READ, OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_TSV,
        OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

/* ---- what a shape costs ---- */

/* Two for each multiply-add of the two matrix products. */
static double operations(const clattn_problem *p)
{
    return 2 * (double)p->query_heads * bench_visible_pairs(p) * (double)(p->head_dim + p->head_dim_v);
}

/* ---- measuring ---- */

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts them. */
static struct times summary(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare_numbers);
    return (struct times){ times[0], times[n / 2] };
}

/* Calls for `seconds`, and CALLS_LEAST times at least; after each one a plain read, unless `read`
 * is NULL, so that what else the machine does strikes both. */
static int measure_turns(const struct options *options, const clattn_plan *plan, clattn_context *context,
                         const struct bench_data *data, const struct bench_read *read, double seconds, double *times,
                         double *read_times, struct measurement *found, struct failure *failure)
{
    const double start = clock_seconds();
    double before = start, process_seconds = 0;
    int n = 0;
    while (n < CALLS_MAX && (n < CALLS_LEAST || before - start < seconds)) {
        const double process_before = clock_process_seconds();
        if (bench_call(options, plan, context, data, failure) != 0) {
            return -1;
        }
        times[n] = (clock_seconds() - before) * 1e3;
        process_seconds += clock_process_seconds() - process_before;
        before = clock_seconds();
        if (read && bench_read_run(context, read, failure) != 0) {
            return -1;
        }
        read_times[n++] = (clock_seconds() - before) * 1e3;
        before = clock_seconds();
    }
    found->cpu_ms = process_seconds * 1e3 / n;
    found->call = summary(times, n);
    found->read = summary(read_times, n);
    found->calls = n;
    return 0;
}

static int measure(const struct options *options, const clattn_plan *plan, clattn_context *context,
                   const struct bench_data *data, double seconds, struct measurement *found, struct failure *failure)
{
    double *times = malloc(2 * CALLS_MAX * sizeof *times);
    struct bench_read read = { 0 };
    const int with_read = options->value[OPTION_READ] != NULL;
    int result = times ? 0 : failure_failed(failure, "out of memory");
    if (result == 0 && with_read) {
        result = bench_read_make(context, data, &read, failure);
    }
    if (result == 0) {
        result = measure_turns(options, plan, context, data, with_read ? &read : NULL, seconds, times,
                               times + CALLS_MAX, found, failure);
    }
    found->read_gbytes_s = with_read && result == 0 ? read.bytes / found->read.min_ms * 1e-6 : 0;
    bench_read_free(&read);
    free(times);
    return result;
}

/* The error is that of the last call. */
static int find_error(const clattn_problem *problem, const clattn_plan *plan, clattn_context *context,
                      struct bench_data *data, struct measurement *found, struct failure *failure)
{
    struct check check;
    int result = bench_data_read_outputs(context, data, failure);
    if (result == 0) {
        progress_begin("bench", "computing the reference");
        result = check_forward(problem, NULL, &data->host, plan, CHECK_BUDGET, &check, failure);
        progress_end();
    }
    if (result == 0) {
        found->error_share = fmax(check.out_share, check.lse_share);
    }
    return result;
}

static int run_plan(const struct options *options, const clattn_problem *problem, const clattn_plan *plan,
                    clattn_context *context, struct bench_data *data, double seconds, double start,
                    struct measurement *found, struct failure *failure)
{
    double operations_done = operations(problem);
    found->workspace_bytes = clattn_plan_workspace(plan);
    snprintf(found->strategy, sizeof found->strategy, "%s", clattn_plan_strategy(plan));
    if (bench_workspace_make(plan, context, &data->device.workspace, failure) != 0 ||
        bench_call(options, plan, context, data, failure) != 0) {
        return -1;
    }
    found->first_ms = (clock_seconds() - start) * 1e3;
    progress_end();
    progress_begin("bench", "measuring");
    if (measure(options, plan, context, data, seconds, found, failure) != 0) {
        return -1;
    }
    progress_end();
    found->gflops = operations_done / found->call.min_ms * 1e-6;
    found->gbytes_s = bench_data_bytes(data) / found->call.min_ms * 1e-6;
    return find_error(problem, plan, context, data, found, failure);
}

static int run_shape(const struct options *options, const clattn_problem *problem, clattn_context *context,
                     double seconds, struct measurement *found, struct failure *failure)
{
    struct bench_data data;
    clattn_plan *plan = NULL;
    int result = bench_data_make(problem, context, &data, failure);
    if (result == 0) {
        double start = clock_seconds();
        clattn_status status;
        progress_begin("bench", "compiling kernels and calling for the first time");
        status = clattn_plan_create(context, problem, &plan);
        result = status == CLATTN_OK ? run_plan(options, problem, plan, context, &data, seconds, start, found, failure)
                                     : library_failure(options, status, failure);
        progress_end();
    }
    clattn_plan_destroy(plan);
    if (data.device.workspace) {
        clReleaseMemObject(data.device.workspace);
    }
    bench_data_free(&data);
    return result;
}

/* ---- telling ---- */

/* What holds for all shapes, as it was asked for: " --window 256,0 --alibi". */
static void features_text(const struct options *options, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = 0;
    for (const enum option_id *id = groups[1].ids; *id != OPTION_NONE && used < capacity; id++) {
        const char *value = options->value[*id];
        if (value) {
            used +=
                (size_t)snprintf(text + used, capacity - used, " --%s%s%s", option_name(*id), *value ? " " : "", value);
        }
    }
}

static void print_header(int tsv, int with_read)
{
    if (tsv) {
        printf("name\tshape\tdtype\tcausal\tmask\tstrategy\tmin_ms\tmedian_ms\tgflops\tgbytes_s\t"
               "cpu_ms\tfirst_ms\tcalls\tworkspace_bytes\terror_share\tfeatures%s\n",
               with_read ? "\tread_min_ms\tread_median_ms\tread_gbytes_s" : "");
    } else {
        printf("%-23s %-10s %8s %9s %7s %6s %8s %8s %9s %5s%s\n", "shape", "strategy", "min ms", "median ms", "GFLOP/s",
               "GB/s", "cpu ms", "first ms", "workspace", "error", with_read ? "  read ms median ms   GB/s" : "");
    }
}

static void print_row(const struct bench_shape *shape, const struct measurement *found, const char *features, int tsv,
                      int with_read)
{
    const clattn_problem *p = &shape->problem;
    const struct times *read = &found->read;
    char text[160];
    bench_shape_text(p, text, sizeof text);
    if (tsv) {
        printf("%s\t%s\t%s\t%s\t%s\t%s\t%.6g\t%.6g\t%.5g\t%.5g\t%.6g\t%.6g\t%d\t%zu\t%.4g\t%s", shape->name, text,
               clattn_type_name(p->type), bench_causal_name(p), bench_mask_name(p), found->strategy, found->call.min_ms,
               found->call.median_ms, found->gflops, found->gbytes_s, found->cpu_ms, found->first_ms, found->calls,
               found->workspace_bytes, found->error_share, *features ? features + 1 : "-");
    } else {
        printf("%-23s %-10s %8.4g %9.4g %7.4g %6.3g %8.4g %8.4g %9zu %5.2f",
               strcmp(shape->name, "-") == 0 ? text : shape->name, found->strategy, found->call.min_ms,
               found->call.median_ms, found->gflops, found->gbytes_s, found->cpu_ms, found->first_ms,
               found->workspace_bytes, found->error_share);
    }
    if (with_read) {
        printf(tsv ? "\t%.6g\t%.6g\t%.5g" : " %8.4g %9.4g %6.3g", read->min_ms, read->median_ms, found->read_gbytes_s);
    }
    printf("\n");
    fflush(stdout);
}

/* ---- the command ---- */

static int run_shapes(const struct options *options, const struct bench_shapes *shapes, double seconds,
                      struct failure *failure)
{
    int tsv = options->value[OPTION_TSV] != NULL, read = options->value[OPTION_READ] != NULL;
    int result = 0, wrong = 0;
    clattn_context *context;
    char device[256], features[160];
    if (library_open(options, &context, failure) != 0) {
        return -1;
    }
    library_device_name(context, device, sizeof device);
    features_text(options, features, sizeof features);
    if (!tsv) {
        printf("%s, %s%s%s; error: share of the tolerance, <= 1 is right\n", device,
               clattn_type_name(shapes->shape[0].problem.type), features[0] ? "," : "", features);
    }
    print_header(tsv, read);
    for (size_t i = 0; i < shapes->n && result == 0; i++) {
        struct measurement found = { 0 };
        result = run_shape(options, &shapes->shape[i].problem, context, seconds, &found, failure);
        if (result == 0) {
            print_row(&shapes->shape[i], &found, features, tsv, read);
        }
        wrong += !(found.error_share <= 1);
    }
    clattn_context_destroy(context);
    if (result == 0 && wrong) {
        return failure_failed(failure, "error: %d of %zu shapes are wrong by more than the tolerance", wrong,
                              shapes->n);
    }
    return result;
}

static int run(const struct options *options, struct failure *failure)
{
    struct bench_shapes shapes;
    double seconds = 0.5;
    int result = option_number(options, OPTION_SECONDS, &seconds, failure);
    if (result != 0) {
        return -1;
    }
    if (!(seconds >= 0 && seconds <= 3600)) {
        return failure_misuse(failure, "--seconds %s: must be from 0 to 3600", options->value[OPTION_SECONDS]);
    }
    result = bench_shapes_read(options, &shapes, failure);
    if (result == 0) {
        result = run_shapes(options, &shapes, seconds, failure);
    }
    free(shapes.shape);
    return result;
}

const struct command command_bench = {
    "bench",
    "Measures attention on data in device buffers: the least and the median time of a call, the "
    "speed of "
    "its matrix products, the bandwidth if each input were read once, the processor time of this "
    "process a "
    "call, the first call with compilation, and the error as a share of the tolerance. With "
    "--read, after each call, a kernel that only reads the keys and values: what the memory gives.",
    "[--shape B,HQ,HKV,LQ,LK,D,DV] [OPTION]...",
    NULL,
    groups,
    "Without --shape: the shapes of bench/shapes.txt.\n"
    "Example:\n  clattn bench --shape 1,8,8,1024,1024,64,64 --causal top-left --seconds 1\n",
    run,
};
