/* clattn run: attention of a file. Reads, computes, writes, and only then prints, so that a reader
 * of standard output that goes away early loses no file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_cache.h"
#include "attention_extras.h"
#include "check.h"
#include "check_cache.h"
#include "commands.h"
#include "library.h"
#include "multihead.h"
#include "page_pools.h"
#include "plot.h"
#include "problem_options.h"
#include "progress.h"
#include "results.h"
#include "run_key_sums.h"
#include "several.h"
#include "show.h"
#include "summary.h"
#include "user_blocks.h"

#define CHECK_BUDGET 1e9 /* multiplications of the reference */

struct job {
    const struct options *options;
    struct inputs inputs;
    struct attention attention;
    struct tensor y; /* of a whole layer */
    struct user_blocks blocks;
    struct several devices;
    clattn_context *context; /* of several devices the first one's, and the plan of the whole there */
    clattn_plan *plan;
    cJSON *document;                                      /* NULL: lines of text */
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
        results_check_tolerance(options, failure) != 0 || key_sums_check_options(options, failure) != 0) {
        return -1;
    }
    if (pictures && *weights != CLATTN_WEIGHTS_SOFTMAX) {
        return failure_misuse(failure, "--weights-mode %s: --show and --plot draw softmax weights only",
                              options->value[OPTION_WEIGHTS_MODE]);
    }
    if (options->value[OPTION_PLOT] && plot_check_name(options->value[OPTION_PLOT], failure) != 0) {
        return -1;
    }
    return summary_check_options(options, failure) != 0 ? -1 : results_check_names(options, failure);
}

/* ---- computing ---- */

static int read_input(struct job *job, clattn_weights weights, struct failure *failure)
{
    progress_begin("run", "reading");
    const int read = inputs_read(job->options, ROLES_FORWARD, &job->inputs, failure);
    progress_end();
    if (read != 0) {
        return -1;
    }
    if (multihead_given(&job->inputs) && multihead_project(job->options, &job->inputs, failure) != 0) {
        return -1;
    }
    for (int role = ROLE_QUERY; role <= ROLE_VALUE; role++) {
        const int is_in_keys = role == ROLE_VALUE && given(job, OPTION_VALUES_IN_KEYS);
        if (!job->inputs.tensor[role].data && !is_in_keys) {
            return failure_misuse(failure, "INPUT %s: has no tensor %s", job->options->operand,
                                  role_name((enum role)role));
        }
    }
    if (attention_prepare(job->options, &job->inputs, weights, given(job, OPTION_LSE) || given(job, OPTION_KEY_SUMS),
                          &job->attention, failure) != 0) {
        return -1;
    }
    if (user_blocks_read(job->options, &job->attention.problem, failure) != 0) {
        return -1;
    }
    return heat_check(job->options, &job->attention.problem, failure);
}

static int forward(struct job *job, double *seconds, struct failure *failure)
{
    double start = clock_seconds();
    clattn_status status;
    progress_begin("run", "computing");
    status = several_forward(&job->devices, &job->attention.problem, &job->attention.values, &job->attention.host);
    progress_end();
    *seconds = clock_seconds() - start;
    return status == CLATTN_OK ? 0 : library_failure(job->options, status, failure);
}

static int compute(struct job *job, struct failure *failure)
{
    static const enum option_id alone[] = { OPTION_BLOCKS, OPTION_KEY_SUMS, OPTION_MAX_LOGIT, OPTION_JSON,
                                            OPTION_NONE };
    double start = clock_seconds();
    clattn_status status;
    if (several_open(job->options, alone, &job->devices, failure) != 0) {
        return -1;
    }
    job->context = job->devices.context;
    page_pools_fit(job->options, job->context, &job->attention.problem);
    page_pools_place(&job->attention.problem, &job->attention.host);
    progress_begin("run", "compiling kernels");
    status = clattn_plan_create(job->context, &job->attention.problem, &job->plan);
    progress_end();
    if (status != CLATTN_OK) {
        library_failure(job->options, status, failure);
        return user_text_quote(&job->inputs.code, failure);
    }
    if (given(job, OPTION_BLOCKS) &&
        user_blocks_make(job->options, job->context, &job->attention.problem, &job->attention.values,
                         &job->attention.host, &job->blocks, failure) != 0) {
        return -1;
    }
    job->prepare_seconds = clock_seconds() - start;
    if (forward(job, &job->first_seconds, failure) != 0) {
        return -1;
    }
    /* The first call includes what the driver still compiles: a second one tells the real time. */
    if (job->first_seconds < 1 && forward(job, &job->again_seconds, failure) != 0) {
        return -1;
    }
    if (key_sums_compute(job->options, job->context, &job->attention, failure) != 0) {
        return -1;
    }
    if (!job->inputs.is_layer || !job->inputs.tensor[ROLE_WO].data) {
        return 0;
    }
    return multihead_merge(&job->inputs, &job->attention.out, &job->y, failure);
}

/* ---- telling ---- */

static void tell_unused(const struct job *job, const char *what)
{
    summary_item(job->document, "not used", "not_used", what);
}

/* Tensors of the file that this call does not read. */
static void tell_all_unused(const struct job *job)
{
    const struct inputs *inputs = &job->inputs;
    char line[64];
    if (inputs->unused) {
        tell_unused(job, inputs->unused);
    }
    for (int role = ROLE_X; role <= ROLE_BO; role++) {
        if (inputs->tensor[role].data && !inputs->is_layer) {
            snprintf(line, sizeof line, "%s, there are query, key and value", role_name((enum role)role));
            tell_unused(job, line);
        }
    }
    if (inputs->tensor[ROLE_Y].data && !(inputs->is_layer && inputs->tensor[ROLE_WO].data)) {
        tell_unused(job, "y, which a layer with wo would give");
    }
    if (inputs->tensor[ROLE_QUERY_OFFSETS].data && job->attention.problem.alignment != CLATTN_ALIGN_OFFSETS) {
        tell_unused(job, "query_offsets: --causal offsets or --align offsets would");
    }
}

static void tell_blocks(const struct job *job)
{
    char text[USER_BLOCKS_TEXT];
    if (job->blocks.mask.data) {
        summary_name(job->document, "blocks", user_blocks_text(&job->attention.problem, &job->blocks, text));
    }
}

/* ---- checking ---- */

static void tell_check(const struct job *job, const struct check *found)
{
    const int has_lse = job->attention.lse.data != NULL;
    if (job->document) {
        cJSON *check = cJSON_AddObjectToObject(job->document, "check");
        cJSON_AddNumberToObject(check, "largest_error", found->largest_error);
        cJSON_AddNumberToObject(check, "error_share", found->out_share);
        if (has_lse) {
            cJSON_AddNumberToObject(check, "lse_error_share", found->lse_share);
        }
        cJSON_AddNumberToObject(check, "rows_checked", (double)found->rows_checked);
        cJSON_AddNumberToObject(check, "rows", (double)found->rows_all);
        return;
    }
    printf("check     largest error %.2g against the float64 reference, %.2g of the tolerance\n", found->largest_error,
           found->out_share);
    if (has_lse) {
        printf("          lse %.2g of its tolerance\n", found->lse_share);
    }
    printf("          %lld of %lld rows checked\n", (long long)found->rows_checked, (long long)found->rows_all);
}

static int check(const struct job *job, struct failure *failure)
{
    struct check found;
    int result;
    if (job->attention.problem.code && attention_has_cache(&job->attention)) {
        return failure_misuse(failure, "--check: of a text over a cache there is no reference; leave one of them out");
    }
    progress_begin("run", "computing the reference");
    result = attention_has_cache(&job->attention)
                 ? check_cache(&job->attention.problem, &job->attention.values, &job->attention.host, job->plan, &found,
                               failure)
                 : check_forward(job->context, &job->attention.problem, &job->attention.values, &job->attention.host,
                                 job->plan, CHECK_BUDGET, &found, failure);
    progress_end();
    if (result != 0) {
        return -1;
    }
    tell_check(job, &found);
    if (found.out_share > 1) {
        return failure_failed(failure, "check: out is wrong: its error is %.2g times the tolerance", found.out_share);
    }
    if (found.lse_share > 1) {
        return failure_failed(failure, "check: lse is wrong: its error is %.2g times the tolerance", found.lse_share);
    }
    return key_sums_compare(job->document, job->options, &job->attention, CHECK_BUDGET, failure);
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

static int write_files(struct job *job, struct failure *failure)
{
    progress_begin("run", "writing");
    int result = results_write(job->options, &job->inputs, &job->attention, &job->y, failure);
    if (result == 0) {
        result = draw(job, 1, failure);
    }
    progress_end();
    return result;
}

/* What was computed, how it compares, where it was written. */
static int tell_results(struct job *job, struct failure *failure)
{
    summary_inputs(job->document, job->options, &job->inputs, &job->attention);
    tell_all_unused(job);
    tell_blocks(job);
    summary_call(job->document, job->context, job->plan, job->prepare_seconds, job->first_seconds, job->again_seconds);
    several_tell(&job->devices);
    if (!job->document) {
        results_tell_range(job->options, job->y.data ? &job->y : &job->attention.out);
    }
    const int wrong = results_compare(job->document, job->options, &job->inputs, &job->attention, &job->y);
    results_tell_files(job->document, job->options);
    if ((given(job, OPTION_CHECK) && check(job, failure) != 0) || draw(job, 0, failure) != 0) {
        return -1;
    }
    if (given(job, OPTION_CHECK) && wrong) {
        return failure_failed(failure, "check: %d of the stored outputs differ; were they made with other options?",
                              wrong);
    }
    return 0;
}

static int run_job(struct job *job, struct failure *failure)
{
    clattn_weights weights;
    if (check_options(job->options, &weights, failure) != 0 || read_input(job, weights, failure) != 0 ||
        compute(job, failure) != 0 || write_files(job, failure) != 0) {
        return -1;
    }
    job->document = summary_begin(job->options, "run", job->context);
    return summary_end(job->document, tell_results(job, failure), failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct job job;
    int result;
    memset(&job, 0, sizeof job);
    job.options = options;
    result = run_job(&job, failure);
    clattn_plan_destroy(job.plan);
    several_close(&job.devices);
    tensor_free(&job.y);
    user_blocks_free(&job.blocks);
    attention_free(&job.attention);
    inputs_free(&job.inputs);
    return result;
}

static const struct option_group groups[] = {
    { "Input",
      { OPTION_Q, OPTION_K, OPTION_V, OPTION_PAST_KEY, OPTION_PAST_VALUE, OPTION_LAYOUT, OPTION_HEADS, OPTION_KV_HEADS,
        OPTION_CU_Q, OPTION_CU_K, OPTION_DTYPE } },
    GROUP_OF_WHAT_IS_SEEN,
    { "Caches",
      { OPTION_PAGE_TABLE, OPTION_PAGE_STARTS, OPTION_POOL, OPTION_RING, OPTION_STORED_KEYS, OPTION_STORED_VALUES,
        OPTION_VALUES_IN_KEYS, OPTION_KEY_SCALES, OPTION_VALUE_SCALES, OPTION_KEY_GROUP, OPTION_VALUE_GROUP,
        OPTION_KEY_ZERO_POINTS, OPTION_VALUE_ZERO_POINTS, OPTION_KEY_TENSOR_SCALE, OPTION_VALUE_TENSOR_SCALE } },
    GROUP_OF_SCORES,
    { "Scores of your own", { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_MASK_TEXT, OPTION_TEXT_INPUTS, OPTION_BLOCKS } },
    { "How", { OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_ROUNDED_WEIGHTS } },
    { "Results",
      { OPTION_OUTPUT, OPTION_WEIGHTS, OPTION_WEIGHTS_MODE, OPTION_LSE, OPTION_KEY_SUMS, OPTION_KEY_SUM_ROWS,
        OPTION_MAX_LOGIT, OPTION_CHECK, OPTION_TOLERANCE, OPTION_JSON } },
    { "Pictures", { OPTION_SHOW, OPTION_PLOT, OPTION_LAYER, OPTION_HEAD, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_run = {
    "run",
    "Computes softmax(scale Q K^T + bias, masked) V of the tensors q, k, v of a .safetensors file, "
    "or of "
    "three .npy files, and compares with the outputs that the file has stored. The file may also "
    "have mask, "
    "bias, key_lengths, past_key, past_value, slopes, sinks, query_offsets, cu_q, cu_k, page_table, page_starts, "
    "key_scales, key_zero_points, key_tensor_scale, those of values, row_low, row_high, key_lists; or x, wq, "
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
