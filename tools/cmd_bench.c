/* clattn bench: time, speed and error of shapes, data in device buffers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_backward.h"
#include "bench_call.h"
#include "bench_key_sums.h"
#include "bench_pairs.h"
#include "bench_read.h"
#include "bench_shapes.h"
#include "bench_table.h"
#include "check.h"
#include "commands.h"
#include "library.h"
#include "progress.h"
#include "several.h"
#include "user_text.h"

#define CHECK_BUDGET 1e8 /* multiplications of the reference a shape */
#define CALLS_LEAST 3
#define CALLS_MAX 1000000

/* ---- options ---- */

static const struct option_group groups[] = {
    { "Shapes", { OPTION_SHAPE, OPTION_BENCH_CAUSAL, OPTION_MASK_KIND, OPTION_SHAPES, OPTION_TYPE } },
    { "For all shapes",
      { OPTION_WINDOW, OPTION_ALWAYS, OPTION_BENCH_ALIGN, OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_SINKS,
        OPTION_BENCH_KEY_LENGTHS, OPTION_PAGE_SIZE, OPTION_POOLS, OPTION_KEY_TYPE, OPTION_VALUE_TYPE, OPTION_RING,
        OPTION_VALUE_IN_KEY, OPTION_WITH_LSE } },
    { "Scores of your own", { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_MASK_TEXT, OPTION_TEXT_INPUTS, OPTION_BLOCKS } },
    { "How",
      { OPTION_SECONDS, OPTION_BACKWARD, OPTION_READ, OPTION_BENCH_KEY_SUMS, OPTION_KERNELS, OPTION_DEVICE,
        OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_ROUNDED_WEIGHTS, OPTION_TSV, OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

/* ---- what a shape costs ---- */

/* Two for each multiply-add of the two matrix products. */
static double operations(const clattn_problem *p)
{
    return 2 * (double)p->query_heads * bench_visible_pairs(p) * (double)(p->head_dim + p->head_dim_v);
}

/* ---- measuring ---- */

/* What is measured of one shape. */
struct subject {
    const struct options *options;
    clattn_problem problem;
    const struct several *devices; /* several of them compute on host memory */
    clattn_context *context;       /* of several the first one's */
    clattn_plan *plan;
    struct user_text *text; /* source NULL: there is none */
    struct bench_data data;
    struct bench_backward backward; /* with --backward */
    struct bench_read read;         /* with --read */
    struct bench_key_sums sums;     /* with --key-sums */
};

/* The times of each turn, one of an array of CALLS_MAX each. */
enum { TURN_CALL, TURN_BACKWARD, TURN_READ, TURN_SUMS, TURNS };

static int with(const struct subject *s, enum option_id id)
{
    return s->options->value[id] != NULL;
}

static int call_on(const void *subject, cl_command_queue queue, struct failure *failure)
{
    const struct subject *s = subject;
    if (s->devices->group) {
        const clattn_status status = several_forward(s->devices, &s->problem, &s->data.values, &s->data.host);
        return status == CLATTN_OK ? 0 : library_failure(s->options, status, failure);
    }
    return with(s, OPTION_BACKWARD) ? bench_backward_call(s->options, &s->backward, s->plan, queue, &s->data, failure)
                                    : bench_call(s->options, s->plan, queue, &s->data, failure);
}

static int call(const struct subject *s, struct failure *failure)
{
    return call_on(s, clattn_context_queue(s->context), failure);
}

/* Nothing, where it was not asked for. */
static int take_turn(const struct subject *s, int turn, struct failure *failure)
{
    cl_command_queue queue = clattn_context_queue(s->context);
    switch (turn) {
    case TURN_BACKWARD:
        return with(s, OPTION_BACKWARD) ? bench_backward_call(s->options, &s->backward, NULL, queue, &s->data, failure)
                                        : 0;
    case TURN_READ:
        return with(s, OPTION_READ) ? bench_read_run(s->context, &s->read, failure) : 0;
    case TURN_SUMS:
        return with(s, OPTION_BENCH_KEY_SUMS) ? bench_key_sums_call(s->options, &s->sums, queue, &s->data, failure) : 0;
    default:
        return call(s, failure);
    }
}

/* Calls for `seconds`, and CALLS_LEAST times at least; after each one the other turns, so that what else the machine
 * does strikes all. */
static int measure_turns(const struct subject *s, double seconds, double *times[TURNS], struct measurement *found,
                         struct failure *failure)
{
    const double start = clock_seconds();
    double before = start, process_seconds = 0;
    int n = 0;
    for (; n < CALLS_MAX && (n < CALLS_LEAST || before - start < seconds); n++) {
        for (int turn = 0; turn < TURNS; turn++) {
            const double process_before = clock_process_seconds();
            if (take_turn(s, turn, failure) != 0) {
                return -1;
            }
            times[turn][n] = (clock_seconds() - before) * 1e3;
            process_seconds += turn == TURN_CALL ? clock_process_seconds() - process_before : 0;
            before = clock_seconds();
        }
    }
    found->cpu_ms = process_seconds * 1e3 / n;
    found->call = times_of(times[TURN_CALL], n);
    found->backward = times_of(times[TURN_BACKWARD], n);
    found->read = times_of(times[TURN_READ], n);
    found->sums = times_of(times[TURN_SUMS], n);
    found->calls = n;
    return 0;
}

static int measure(struct subject *s, double seconds, struct measurement *found, struct failure *failure)
{
    double *all = malloc(TURNS * (size_t)CALLS_MAX * sizeof *all), *times[TURNS];
    int result = all ? 0 : failure_failed(failure, "out of memory");
    for (int turn = 0; turn < TURNS && all; turn++) {
        times[turn] = all + (size_t)turn * CALLS_MAX;
    }
    if (result == 0 && with(s, OPTION_READ)) {
        result = bench_read_make(s->context, &s->data, &s->read, failure);
    }
    if (result == 0) {
        result = measure_turns(s, seconds, times, found, failure);
    }
    found->read_gbytes_s = with(s, OPTION_READ) && result == 0 ? s->read.bytes / found->read.min_ms * 1e-6 : 0;
    free(all);
    return result;
}

/* The error is that of the last call. */
static int find_error(struct subject *s, struct measurement *found, struct failure *failure)
{
    struct check check;
    int result = s->devices->group ? 0 : bench_data_read_outputs(s->context, &s->data, failure);
    progress_begin("bench", "computing the reference");
    if (result == 0) {
        result = check_forward(s->context, &s->problem, &s->data.values, &s->data.host, s->plan, CHECK_BUDGET, &check,
                               failure);
    }
    if (result == 0) {
        found->error_share = fmax(check.out_share, check.lse_share);
    }
    if (result == 0 && with(s, OPTION_BACKWARD)) {
        result = bench_backward_check(&s->backward, s->context, &s->data, &found->error_share, failure);
    }
    progress_end();
    return result;
}

/* With --backward, --strategy is the backward pass's. */
static int make_plans(struct subject *s, struct measurement *found, struct failure *failure)
{
    const char *strategy = s->problem.strategy;
    if (with(s, OPTION_BACKWARD)) {
        s->problem.strategy = NULL;
    }
    const clattn_status status = clattn_plan_create(s->context, &s->problem, &s->plan);
    if (status != CLATTN_OK) {
        library_failure(s->options, status, failure);
        return user_text_quote(s->text, failure);
    }
    if (with(s, OPTION_BACKWARD) &&
        bench_backward_make(s->options, &s->problem, strategy, s->context, &s->backward, failure) != 0) {
        return -1;
    }
    if (with(s, OPTION_BENCH_KEY_SUMS) &&
        bench_key_sums_make(s->options, &s->problem, s->context, &s->sums, failure) != 0) {
        return -1;
    }
    found->workspace_bytes = (double)clattn_plan_workspace(s->plan);
    if (with(s, OPTION_BACKWARD)) {
        found->workspace_bytes += (double)clattn_plan_workspace(s->backward.plan);
    }
    snprintf(found->strategy, sizeof found->strategy, "%s",
             clattn_plan_strategy(with(s, OPTION_BACKWARD) ? s->backward.plan : s->plan));
    return bench_workspace_make(s->plan, s->context, &s->data.device.workspace, failure);
}

static int run_subject(struct subject *s, double seconds, struct measurement *found, struct failure *failure)
{
    const double start = clock_seconds();
    progress_begin("bench", "first call");
    if (make_plans(s, found, failure) != 0 || call(s, failure) != 0) {
        return -1;
    }
    found->first_ms = (clock_seconds() - start) * 1e3;
    progress_end();
    progress_begin("bench", "measuring");
    if (measure(s, seconds, found, failure) != 0) {
        return -1;
    }
    if (with(s, OPTION_KERNELS) && bench_kernels_measure(s->context, call_on, s, &found->kernels, failure) != 0) {
        return -1;
    }
    progress_end();
    const double both = with(s, OPTION_BACKWARD) ? bench_backward_operations(&s->problem) : 0;
    found->gflops = (operations(&s->problem) + both) / found->call.min_ms * 1e-6;
    found->gbytes_s = bench_data_bytes(&s->data) / found->call.min_ms * 1e-6;
    return find_error(s, found, failure);
}

static int add_text(struct subject *s, struct failure *failure)
{
    if (with(s, OPTION_BACKWARD)) {
        return failure_misuse(failure, "--backward: gradients with a text have no reference that would check them; "
                                       "leave one of them out");
    }
    if (user_text_complete(s->text, &s->problem, failure) != 0 ||
        user_blocks_read(s->options, &s->problem, failure) != 0) {
        return -1;
    }
    return bench_data_add_text(s->text, &s->problem, s->context, &s->data, failure) == 0
               ? 0
               : user_text_quote(s->text, failure);
}

static int run_shape(const struct options *options, const clattn_problem *problem, struct user_text *text,
                     const struct several *devices, double seconds, struct measurement *found, struct failure *failure)
{
    struct subject s = {
        .options = options, .problem = *problem, .devices = devices, .context = devices->context, .text = text
    };
    s.problem.features |= with(&s, OPTION_BACKWARD) || with(&s, OPTION_BENCH_KEY_SUMS) ? CLATTN_WITH_LSE : 0u;
    int result = bench_data_make(&s.problem, s.context, &s.data, failure);
    if (result == 0 && text->source) {
        result = add_text(&s, failure);
    }
    if (result == 0) {
        result = run_subject(&s, seconds, found, failure);
        progress_end();
    }
    bench_read_free(&s.read);
    bench_backward_free(&s.backward);
    bench_key_sums_free(&s.sums);
    clattn_plan_destroy(s.plan);
    if (s.data.device.workspace) {
        clReleaseMemObject(s.data.device.workspace);
    }
    bench_data_free(&s.data);
    return result;
}

/* ---- telling ---- */

/* What holds for all shapes, as it was asked for: " --window 256,0 --alibi". */
static void features_text(const struct options *options, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = 0;
    for (int group = 1; group <= 2; group++) {
        for (const enum option_id *id = groups[group].ids; *id != OPTION_NONE && used < capacity; id++) {
            const char *value = options->value[*id];
            if (value) {
                used += (size_t)snprintf(text + used, capacity - used, " --%s%s%s", option_name(*id), *value ? " " : "",
                                         value);
            }
        }
    }
}

/* ---- the command ---- */

/* Options that several devices do not know. */
static const enum option_id of_one_device[] = { OPTION_BACKWARD, OPTION_READ,       OPTION_BENCH_KEY_SUMS,
                                                OPTION_KERNELS,  OPTION_PAGE_SIZE,  OPTION_POOLS,
                                                OPTION_SCORE,    OPTION_SCORE_TEXT, OPTION_MASK_TEXT,
                                                OPTION_BLOCKS,   OPTION_TSV,        OPTION_JSON,
                                                OPTION_NONE };

static int run_shapes(const struct options *options, const struct bench_shapes *shapes, struct user_text *text,
                      double seconds, struct failure *failure)
{
    int result = 0, wrong = 0;
    struct several devices;
    struct bench_table table;
    char features[512];
    if (several_open(options, of_one_device, &devices, failure) != 0) {
        return -1;
    }
    features_text(options, features, sizeof features);
    result = bench_table_begin(&table, options, devices.context, features, shapes->shape[0].problem.type, failure);
    if (result != 0) {
        several_close(&devices);
        return -1;
    }
    for (size_t i = 0; i < shapes->n && result == 0; i++) {
        struct measurement found = { 0 };
        char name[BENCH_SHAPE_TEXT];
        progress_subject(bench_shape_name(&shapes->shape[i], name), i + 1, shapes->n);
        result = run_shape(options, &shapes->shape[i].problem, text, &devices, seconds, &found, failure);
        if (result == 0) {
            bench_table_row(&table, &shapes->shape[i], &found);
        }
        bench_kernels_free(&found.kernels);
        wrong += !(found.error_share <= 1);
    }
    result |= bench_table_end(&table, failure);
    several_tell(&devices);
    several_close(&devices);
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
    struct user_text text = { .source = NULL };
    if (result == 0) {
        result = user_text_read(options, &text, failure);
    }
    if (result == 0) {
        result = run_shapes(options, &shapes, &text, seconds, failure);
    }
    user_text_free(&text);
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
    "--read, after each call, a kernel that only reads the keys and values: what the memory gives. With --kernels, "
    "what each kernel of a call "
    "takes. With --key-sums, after each call the sums of its weights. With --backward, a "
    "call is a forward and a backward pass, for training.",
    "[--shape B,HQ,HKV,LQ,LK,D,DV] [OPTION]...",
    NULL,
    groups,
    "Without --shape: the shapes of bench/shapes.txt.\n"
    "Example:\n  clattn bench --shape 1,8,8,1024,1024,64,64 --causal top-left --seconds 1\n",
    run,
};
