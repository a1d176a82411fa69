/* clattn mha: a whole multi-head layer of a file, projections included, on the device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "layer_run.h"
#include "library.h"
#include "plot.h"
#include "progress.h"
#include "results.h"
#include "show.h"
#include "summary.h"

#define CHECK_TOLERANCE 1e-5 /* of the largest value, float32; 16-bit types: rounded intermediates */

struct job {
    const struct options *options;
    struct inputs inputs;
    struct layer_run run;
    clattn_context *context;
    clattn_mha *mha;
    cJSON *document; /* NULL: lines of text */
    double prepare_seconds, call_seconds;
};

static int given(const struct job *job, enum option_id id)
{
    return job->options->value[id] != NULL;
}

static int check_options(const struct job *job, struct failure *failure)
{
    static const struct {
        enum option_id id, needs[3];
    } pairs[] = {
        { OPTION_LAYER, { OPTION_SHOW, OPTION_PLOT } },
        { OPTION_HEAD, { OPTION_SHOW, OPTION_PLOT } },
        { OPTION_TOLERANCE, { OPTION_CHECK } },
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        if (option_needs(job->options, pairs[i].id, pairs[i].needs, failure) != 0) {
            return -1;
        }
    }
    if (given(job, OPTION_PLOT) && plot_check_name(job->options->value[OPTION_PLOT], failure) != 0) {
        return -1;
    }
    if (summary_check_options(job->options, failure) != 0 || results_check_tolerance(job->options, failure) != 0) {
        return -1;
    }
    return results_check_names(job->options, failure);
}

static int compute(struct job *job, struct failure *failure)
{
    double start = clock_seconds();
    if (library_open(job->options, &job->context, failure) != 0) {
        return -1;
    }
    progress_begin("mha", "compiling kernels");
    clattn_status status = clattn_mha_create(job->context, &job->run.problem, &job->mha);
    progress_end();
    if (status == CLATTN_OK) {
        job->prepare_seconds = clock_seconds() - start;
        progress_begin("mha", "computing");
        status = clattn_mha_forward_host(job->context, &job->run.problem, &job->run.arrays);
        progress_end();
    }
    start = clock_seconds();
    if (status == CLATTN_OK) { /* what the driver compiles at the first launch is done now */
        status = clattn_mha_forward_host(job->context, &job->run.problem, &job->run.arrays);
    }
    job->call_seconds = clock_seconds() - start;
    return status == CLATTN_OK ? 0 : library_failure(job->options, status, failure);
}

static void tell_heads(const struct job *job)
{
    const clattn_mha_problem *p = &job->run.problem;
    if (job->document) {
        cJSON_AddNumberToObject(job->document, "heads", (double)p->query_heads);
        cJSON_AddNumberToObject(job->document, "kv_heads", (double)p->kv_heads);
        cJSON_AddNumberToObject(job->document, "head_dim", (double)p->head_dim);
        return;
    }
    printf("heads     %lld of %lld", (long long)p->query_heads, (long long)p->head_dim);
    if (p->kv_heads != p->query_heads) {
        printf(", %lld of keys and values", (long long)p->kv_heads);
    }
    putchar('\n');
}

static void tell_time(const struct job *job)
{
    if (job->document) {
        summary_milliseconds(job->document, "prepare_ms", job->prepare_seconds);
        summary_milliseconds(job->document, "call_ms", job->call_seconds);
        document_add_lines(job->document, "explanation", clattn_mha_explain(job->mha));
        return;
    }
    printf("time      ");
    summary_duration(job->prepare_seconds, "to prepare, ");
    summary_duration(job->call_seconds, "a call, copies included\n");
    fputs(clattn_mha_explain(job->mha), stdout);
}

static void tell_call(const struct job *job)
{
    summary_name(job->document, "input", job->options->operand);
    for (int role = ROLE_X; role <= ROLE_WO; ++role) {
        summary_tensor(job->document, role_name((enum role)role), &job->inputs.tensor[role]);
    }
    tell_heads(job);
    summary_tensor(job->document, "y", &job->run.y);
    summary_tensor(job->document, "weights", &job->run.weights);
    if (job->inputs.unused) {
        summary_item(job->document, "not used", "not_used", job->inputs.unused);
    }
    tell_time(job);
}

/* Largest difference from the float64 reference, as a share of what is allowed. */
static int check(struct job *job, struct failure *failure)
{
    const clattn_type type = job->run.problem.type;
    const double allowed = type == CLATTN_FLOAT16 ? 4.0 / 2048 : type == CLATTN_BFLOAT16 ? 4.0 / 256 : CHECK_TOLERANCE;
    clattn_mha_host_arrays arrays = job->run.arrays;
    struct tensor y = TENSOR_INIT, weights = TENSOR_INIT;
    double error = 0, size = 0;
    if (tensor_create(&y, job->run.y.type, job->run.y.dims, job->run.y.shape, "y", failure) != 0 ||
        tensor_create(&weights, job->run.weights.type, job->run.weights.dims, job->run.weights.shape, "weights",
                      failure) != 0) {
        tensor_free(&y);
        return -1;
    }
    arrays.y = y.data;
    arrays.weights = weights.data;
    progress_begin("mha", "computing the reference");
    clattn_status status = clattn_mha_reference(&job->run.problem, &arrays);
    progress_end();
    for (int64_t i = 0; status == CLATTN_OK && i < tensor_count(&y); ++i) {
        const double difference = fabs(tensor_load(&y, i) - tensor_load(&job->run.y, i));
        error = difference > error || isnan(difference) ? difference : error;
        size = fmax(size, fabs(tensor_load(&y, i)));
    }
    tensor_free(&y);
    tensor_free(&weights);
    if (status != CLATTN_OK) {
        return library_failure(job->options, status, failure);
    }
    if (job->document) {
        cJSON *told = cJSON_AddObjectToObject(job->document, "check");
        cJSON_AddNumberToObject(told, "largest_error", error);
        cJSON_AddNumberToObject(told, "limit", allowed * size);
    } else {
        printf("check     largest error %.2g against the float64 reference, allowed %.2g\n", error, allowed * size);
    }
    return error <= allowed * size ? 0 : failure_failed(failure, "check: y is wrong: its error is %.2g", error);
}

static int draw(const struct job *job, const struct attention *attention, int to_file, struct failure *failure)
{
    struct heat heat;
    if (!given(job, to_file ? OPTION_PLOT : OPTION_SHOW)) {
        return 0;
    }
    int result = heat_make(job->options, &job->inputs, attention, &heat, failure);
    if (result == 0 && to_file) {
        result = plot(&heat, job->inputs.text, job->options->value[OPTION_PLOT], failure);
    } else if (result == 0) {
        struct show_style style = show_style_of_terminal();
        show(&heat, &style);
    }
    heat_free(&heat);
    return result;
}

static int tell_results(struct job *job, const struct attention *attention, struct failure *failure)
{
    const enum option_id files[] = { OPTION_OUTPUT, OPTION_WEIGHTS, OPTION_PLOT };
    tell_call(job);
    const int wrong = results_compare(job->document, job->options, &job->inputs, attention, &job->run.y);
    for (int i = 0; i < 3; ++i) {
        if (given(job, files[i])) {
            summary_item(job->document, "wrote", "wrote", job->options->value[files[i]]);
        }
    }
    if ((given(job, OPTION_CHECK) && check(job, failure) != 0) || draw(job, attention, 0, failure) != 0) {
        return -1;
    }
    return given(job, OPTION_CHECK) && wrong
               ? failure_failed(failure, "check: %d of the stored outputs differ; were they made with other options?",
                                wrong)
               : 0;
}

static int read_input(struct job *job, struct failure *failure)
{
    const clattn_mha_weights weights = given(job, OPTION_AVERAGE) ? CLATTN_MHA_WEIGHTS_AVERAGE
                                                                  : CLATTN_MHA_WEIGHTS_HEADS;
    progress_begin("mha", "reading");
    int result = inputs_read(job->options, ROLES_FORWARD, &job->inputs, failure);
    if (result == 0) {
        result = layer_run_prepare(job->options, &job->inputs, weights, &job->run, failure);
    }
    progress_end();
    return result;
}

static int write_files(struct job *job, const struct attention *attention, struct failure *failure)
{
    progress_begin("mha", "writing");
    int result = results_write(job->options, &job->inputs, attention, &job->run.y, failure);
    if (result == 0) {
        result = draw(job, attention, 1, failure);
    }
    progress_end();
    return result;
}

static int run_job(struct job *job, struct failure *failure)
{
    struct attention attention;
    if (!job->options->operand) {
        return failure_misuse(failure, "INPUT: is missing; give a .safetensors file with x, wq, wk, wv, wo");
    }
    if (check_options(job, failure) != 0 || read_input(job, failure) != 0) {
        return -1;
    }
    layer_run_as_attention(&job->run, &attention);
    if (heat_check(job->options, &attention.problem, failure) != 0 || compute(job, failure) != 0 ||
        write_files(job, &attention, failure) != 0) {
        return -1;
    }
    job->document = summary_begin(job->options, "mha", job->context);
    return summary_end(job->document, tell_results(job, &attention, failure), failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct job job;
    memset(&job, 0, sizeof(job));
    job.options = options;
    const int result = run_job(&job, failure);
    clattn_mha_destroy(job.mha);
    clattn_context_destroy(job.context);
    layer_run_free(&job.run);
    inputs_free(&job.inputs);
    return result;
}

static const struct option_group groups[] = {
    { "Input", { OPTION_HEADS, OPTION_KV_HEADS, OPTION_DTYPE, OPTION_KEY_LENGTHS } },
    { "How", { OPTION_BENCH_CAUSAL, OPTION_SCALE, OPTION_DEVICE, OPTION_STRATEGY, OPTION_PROJECTION } },
    { "Results", { OPTION_OUTPUT, OPTION_WEIGHTS, OPTION_AVERAGE, OPTION_CHECK, OPTION_TOLERANCE, OPTION_JSON } },
    { "Pictures", { OPTION_SHOW, OPTION_PLOT, OPTION_LAYER, OPTION_HEAD, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_mha = {
    "mha",
    "Computes a whole multi-head attention layer of a .safetensors file: x [.., rows, features], weights wq, "
    "wk, wv, wo [out, in] and biases bq, bk, bv, bo, where the file has them; with a tensor context, keys and "
    "values are made of that. Compares with y and weights that the file has stored.",
    "INPUT.safetensors [OPTION]...",
    "INPUT",
    groups,
    "Example:\n"
    "  clattn mha examples/data/money-bank-grows-layer0.safetensors --check --show\n",
    run,
};
