/* clattn run: attention of a file. Reads, computes, writes, and only then prints, so that a reader
 * of standard output that goes away early loses no file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "commands.h"
#include "library.h"
#include "multihead.h"
#include "plot.h"
#include "problem_options.h"
#include "progress.h"
#include "results.h"
#include "show.h"
#include "utf8.h"

#define CHECK_BUDGET 1e9 /* multiplications of the reference */

struct job {
    const struct options *options;
    struct inputs inputs;
    struct attention attention;
    struct tensor y; /* of a whole layer */
    clattn_context *context;
    clattn_plan *plan;
    double prepare_seconds, first_seconds, again_seconds; /* again: 0 where it was not measured */
};

static int given(const struct job *job, enum option_id id)
{
    return job->options->value[id] != NULL;
}

/* ---- options that only make sense together ---- */

static int check_options(const struct options *options, clattn_weights *weights, struct failure *failure)
{
    static const struct {
        enum option_id id, needs[3];
    } pairs[] = {
        { OPTION_LAYER, { OPTION_SHOW, OPTION_PLOT } },
        { OPTION_HEAD, { OPTION_SHOW, OPTION_PLOT } },
        { OPTION_WEIGHTS_MODE, { OPTION_WEIGHTS } },
        { OPTION_TOLERANCE, { OPTION_CHECK } },
    };
    int pictures = options->value[OPTION_SHOW] || options->value[OPTION_PLOT];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (option_needs(options, pairs[i].id, pairs[i].needs, failure) != 0) {
            return -1;
        }
    }
    *weights = pictures || options->value[OPTION_WEIGHTS] ? CLATTN_WEIGHTS_SOFTMAX : CLATTN_WEIGHTS_NONE;
    if (problem_weights_read(options, OPTION_WEIGHTS_MODE, weights, failure) != 0 ||
        results_check_tolerance(options, failure) != 0) {
        return -1;
    }
    if (pictures && *weights != CLATTN_WEIGHTS_SOFTMAX) {
        return failure_misuse(failure, "--weights-mode %s: --show and --plot draw softmax weights only",
                              options->value[OPTION_WEIGHTS_MODE]);
    }
    if (options->value[OPTION_PLOT] && plot_check_name(options->value[OPTION_PLOT], failure) != 0) {
        return -1;
    }
    return results_check_names(options, failure);
}

/* ---- computing ---- */

static int read_input(struct job *job, clattn_weights weights, struct failure *failure)
{
    if (inputs_read(job->options, &job->inputs, failure) != 0) {
        return -1;
    }
    if (multihead_given(&job->inputs) && multihead_project(job->options, &job->inputs, failure) != 0) {
        return -1;
    }
    for (int role = ROLE_QUERY; role <= ROLE_VALUE; role++) {
        if (!job->inputs.tensor[role].data) {
            return failure_misuse(failure, "INPUT %s: has no tensor %s", job->options->operand,
                                  role_name((enum role)role));
        }
    }
    if (attention_prepare(job->options, &job->inputs, weights, given(job, OPTION_LSE), &job->attention, failure) != 0) {
        return -1;
    }
    return heat_check(job->options, &job->attention.problem, failure);
}

static int forward(struct job *job, double *seconds, struct failure *failure)
{
    double start = clock_seconds();
    clattn_status status;
    progress_begin("run", "computing");
    status = clattn_forward_host(job->context, &job->attention.problem, &job->attention.values, &job->attention.host);
    progress_end();
    *seconds = clock_seconds() - start;
    return status == CLATTN_OK ? 0 : library_failure(job->options, status, failure);
}

static int compute(struct job *job, struct failure *failure)
{
    double start = clock_seconds();
    clattn_status status;
    if (library_open(job->options, &job->context, failure) != 0) {
        return -1;
    }
    progress_begin("run", "compiling kernels");
    status = clattn_plan_create(job->context, &job->attention.problem, &job->plan);
    progress_end();
    if (status != CLATTN_OK) {
        return library_failure(job->options, status, failure);
    }
    job->prepare_seconds = clock_seconds() - start;
    if (forward(job, &job->first_seconds, failure) != 0) {
        return -1;
    }
    /* The first call includes what the driver still compiles: a second one tells the real time. */
    if (job->first_seconds < 1 && forward(job, &job->again_seconds, failure) != 0) {
        return -1;
    }
    if (!job->inputs.is_layer || !job->inputs.tensor[ROLE_WO].data) {
        return 0;
    }
    return multihead_merge(&job->inputs, &job->attention.out, &job->y, failure);
}

/* ---- telling ---- */

static void print_text(const char *label, const char *text)
{
    char *clean = text ? utf8_clean(text) : NULL;
    if (clean) {
        size_t bytes = utf8_fit(clean, 64);
        printf("%-10s\"%.*s\"%s\n", label, (int)bytes, clean, clean[bytes] ? " ..." : "");
    }
    free(clean);
}

static void print_tensor(const char *label, const struct tensor *tensor, const struct axes *axes)
{
    char shape[TENSOR_SHAPE_TEXT];
    printf("%-10s%s %s: ", label, tensor_shape_text(tensor, shape), tensor_type_name(tensor->type));
    if (axes->lead_dims) {
        printf("batch %lld, ", (long long)axes->batch);
    }
    printf("%lld heads, %lld tokens, head dim %lld\n", (long long)axes->heads, (long long)axes->rows,
           (long long)axes->columns);
}

static void print_masks(const struct attention *attention)
{
    const clattn_call *call = &attention->values;
    if (attention->sequences) {
        printf("sequences %lld, packed\n", (long long)attention->sequences);
    }
    if (call->mask_key_len >= 0) {
        printf("mask      covers the first %lld keys, the others are not visible\n", (long long)call->mask_key_len);
    }
    if (call->bias_key_len >= 0) {
        printf("bias      covers the first %lld keys, the others are not visible\n", (long long)call->bias_key_len);
    }
}

/* Tensors of the file that this call does not read. */
static void print_unused(const struct inputs *inputs, const struct attention *attention)
{
    if (inputs->unused) {
        printf("not used  %s\n", inputs->unused);
    }
    for (int role = ROLE_X; role <= ROLE_BO; role++) {
        if (inputs->tensor[role].data && !inputs->is_layer) {
            printf("not used  %s, there are query, key and value\n", role_name((enum role)role));
        }
    }
    if (inputs->tensor[ROLE_Y].data && !(inputs->is_layer && inputs->tensor[ROLE_WO].data)) {
        printf("not used  y, which a layer with wo would give\n");
    }
    if (inputs->tensor[ROLE_QUERY_OFFSETS].data && attention->problem.alignment != CLATTN_ALIGN_OFFSETS) {
        printf("not used  query_offsets: --causal offsets or --align offsets would\n");
    }
}

static void print_summary(const struct job *job)
{
    const struct inputs *inputs = &job->inputs;
    const struct attention *attention = &job->attention;
    char device[256];
    library_device_name(job->context, device, sizeof device);
    if (job->options->operand) {
        results_print_name("input", job->options->operand);
    }
    print_text("text", inputs->text);
    if (inputs->is_layer) {
        printf("layer     query, key and value are projections of x, made on the CPU\n");
    }
    print_tensor("query", &inputs->tensor[ROLE_QUERY], &attention->query);
    print_tensor("key", &inputs->tensor[ROLE_KEY], &attention->key);
    print_tensor("value", &inputs->tensor[ROLE_VALUE], &attention->value);
    print_masks(attention);
    print_unused(inputs, attention);
    printf("device    %s\n", device);
    printf("strategy  %s, workspace %zu bytes\n", clattn_plan_strategy(job->plan), clattn_plan_workspace(job->plan));
    printf("time      ");
    results_print_duration(job->prepare_seconds, "to prepare, ");
    results_print_duration(job->first_seconds, "the first call");
    if (job->again_seconds > 0) {
        printf(", ");
        results_print_duration(job->again_seconds, "the second");
    }
    putchar('\n');
}

static void print_files(const struct options *options)
{
    const enum option_id ids[] = { OPTION_OUTPUT, OPTION_WEIGHTS, OPTION_LSE, OPTION_PLOT };
    for (int i = 0; i < 4; i++) {
        if (options->value[ids[i]]) {
            results_print_name("wrote", options->value[ids[i]]);
        }
    }
}

/* ---- checking ---- */

static int check(const struct job *job, struct failure *failure)
{
    struct check found;
    int result;
    progress_begin("run", "computing the reference");
    result = check_forward(&job->attention.problem, &job->attention.values, &job->attention.host, job->plan,
                           CHECK_BUDGET, &found, failure);
    progress_end();
    if (result != 0) {
        return -1;
    }
    printf("check     largest error %.2g against the float64 reference, %.2g of the tolerance\n", found.largest_error,
           found.out_share);
    if (job->attention.lse.data) {
        printf("          lse %.2g of its tolerance\n", found.lse_share);
    }
    printf("          %lld of %lld rows checked\n", (long long)found.rows_checked, (long long)found.rows_all);
    if (found.out_share > 1) {
        return failure_failed(failure, "check: out is wrong: its error is %.2g times the tolerance", found.out_share);
    }
    if (found.lse_share > 1) {
        return failure_failed(failure, "check: lse is wrong: its error is %.2g times the tolerance", found.lse_share);
    }
    return 0;
}

/* ---- pictures ---- */

static int draw(const struct job *job, int to_file, struct failure *failure)
{
    enum option_id id = to_file ? OPTION_PLOT : OPTION_SHOW;
    struct heat heat;
    int result;
    if (!given(job, id)) {
        return 0;
    }
    result = heat_make(job->options, &job->inputs, &job->attention, &heat, failure);
    if (result == 0 && to_file) {
        result = plot(&heat, job->inputs.text, job->options->value[id], failure);
    }
    if (result == 0 && !to_file) {
        struct show_style style = show_style_of_terminal();
        show(&heat, &style);
    }
    heat_free(&heat);
    return result;
}

/* ---- the command ---- */

static int run_job(struct job *job, struct failure *failure)
{
    clattn_weights weights;
    int wrong;
    if (check_options(job->options, &weights, failure) != 0 || read_input(job, weights, failure) != 0 ||
        compute(job, failure) != 0 ||
        results_write(job->options, &job->inputs, &job->attention, &job->y, failure) != 0 ||
        draw(job, 1, failure) != 0) {
        return -1;
    }
    print_summary(job);
    wrong = results_compare(job->options, &job->inputs, &job->attention, &job->y);
    print_files(job->options);
    if (given(job, OPTION_CHECK) && check(job, failure) != 0) {
        return -1;
    }
    if (draw(job, 0, failure) != 0) {
        return -1;
    }
    if (given(job, OPTION_CHECK) && wrong) {
        return failure_failed(failure,
                              "check: %d of the stored outputs differ; were they made with other "
                              "options?",
                              wrong);
    }
    return 0;
}

static int run(const struct options *options, struct failure *failure)
{
    struct job job;
    int result;
    memset(&job, 0, sizeof job);
    job.options = options;
    result = run_job(&job, failure);
    clattn_plan_destroy(job.plan);
    clattn_context_destroy(job.context);
    tensor_free(&job.y);
    attention_free(&job.attention);
    inputs_free(&job.inputs);
    return result;
}

static const struct option_group groups[] = {
    { "Input",
      { OPTION_Q, OPTION_K, OPTION_V, OPTION_PAST_KEY, OPTION_PAST_VALUE, OPTION_LAYOUT, OPTION_HEADS, OPTION_KV_HEADS,
        OPTION_CU_Q, OPTION_CU_K, OPTION_DTYPE } },
    { "What may be seen",
      { OPTION_CAUSAL, OPTION_WINDOW, OPTION_ALWAYS, OPTION_ALIGN, OPTION_KEY_LENGTHS, OPTION_MASK_FILE } },
    { "Scores", { OPTION_SCALE, OPTION_SOFTCAP, OPTION_BIAS_FILE, OPTION_ALIBI, OPTION_SINKS } },
    { "How", { OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32 } },
    { "Results", { OPTION_OUTPUT, OPTION_WEIGHTS, OPTION_WEIGHTS_MODE, OPTION_LSE, OPTION_CHECK, OPTION_TOLERANCE } },
    { "Pictures", { OPTION_SHOW, OPTION_PLOT, OPTION_LAYER, OPTION_HEAD, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_run = {
    "run",
    "Computes softmax(scale Q K^T + bias, masked) V of the tensors q, k, v of a .safetensors file, "
    "or of "
    "three .npy files, and compares with the outputs that the file has stored. The file may also "
    "have mask, "
    "bias, key_lengths, past_key, past_value, slopes, sinks, query_offsets, cu_q, cu_k; or x, wq, "
    "wk, wv, wo "
    "of a whole multi-head layer.",
    "INPUT.safetensors [OPTION]...\n       clattn run --q FILE --k FILE --v FILE [OPTION]...",
    "INPUT",
    groups,
    "Examples:\n"
    "  clattn run examples/data/money-bank-grows.safetensors --show\n"
    "  clattn run --q q.npy --k k.npy --v v.npy --causal bottom-right --output o.npy\n",
    run,
};
