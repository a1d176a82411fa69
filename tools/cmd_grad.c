/* clattn grad: the gradients of attention of a file. Reads, computes, writes, and only then prints, as clattn run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_extras.h"
#include "check_gradients.h"
#include "commands.h"
#include "files.h"
#include "gradients.h"
#include "library.h"
#include "npy.h"
#include "progress.h"
#include "results.h"
#include "safetensors.h"
#include "standard_files.h"
#include "summary.h"

struct job {
    const struct options *options;
    struct inputs inputs;
    struct attention attention;
    struct gradients gradients;
    clattn_context *context;
    clattn_plan *plan;
    cJSON *document;                                      /* NULL: lines of text */
    double prepare_seconds, first_seconds, again_seconds; /* again: 0 where it was not measured */
};

static int given(const struct job *job, enum option_id id)
{
    return job->options->value[id] != NULL;
}

/* ---- reading ---- */

static int check_options(const struct job *job, struct failure *failure)
{
    const enum option_id check[] = { OPTION_CHECK, OPTION_NONE };
    const char *path = job->options->value[OPTION_GRADIENTS_FILE];
    if (option_needs(job->options, OPTION_TOLERANCE, check, failure) != 0 ||
        results_check_tolerance(job->options, failure) != 0) {
        return -1;
    }
    if (path && !file_has_suffix(path, ".npy") && !file_has_suffix(path, ".safetensors") && !is_standard_file(path)) {
        return failure_misuse(failure, "--output %s: must end in .npy or .safetensors, or be -", path);
    }
    if (summary_check_options(job->options, failure) != 0) {
        return -1;
    }
    return path ? file_check_output(path, failure) : 0;
}

/* An .npy file has room for one. */
static int check_output(const struct job *job, struct failure *failure)
{
    const char *path = job->options->value[OPTION_GRADIENTS_FILE];
    const uint32_t chosen = job->gradients.problem.gradients;
    if (path && file_has_suffix(path, ".npy") && chosen & (chosen - 1)) {
        return failure_misuse(failure,
                              "--output %s: an .npy file holds one tensor, and there are several gradients; name a "
                              ".safetensors file, or ask for one by --of",
                              path);
    }
    return 0;
}

static int read_input(struct job *job, struct failure *failure)
{
    progress_begin("grad", "reading");
    const int read = inputs_read(job->options, ROLES, &job->inputs, failure);
    progress_end();
    if (read != 0) {
        return -1;
    }
    for (int role = ROLE_QUERY; role <= ROLE_VALUE; role++) {
        if (!job->inputs.tensor[role].data) {
            return failure_misuse(failure, "INPUT %s: has no tensor %s%s", job->options->operand,
                                  role_name((enum role)role),
                                  job->inputs.tensor[ROLE_X].data ? "; a whole layer has no gradients here" : "");
        }
    }
    if (attention_prepare(job->options, &job->inputs, CLATTN_WEIGHTS_NONE, 1, &job->attention, failure) != 0 ||
        gradients_prepare(job->options, &job->inputs, &job->attention, &job->gradients, failure) != 0) {
        return -1;
    }
    return check_output(job, failure);
}

/* ---- computing ---- */

static int backward(struct job *job, double *seconds, struct failure *failure)
{
    const double start = clock_seconds();
    progress_begin("grad", "computing");
    const clattn_status status = clattn_backward_host(job->context, &job->gradients.problem, &job->attention.values,
                                                      &job->attention.host, &job->gradients.host);
    progress_end();
    *seconds = clock_seconds() - start;
    return status == CLATTN_OK ? 0 : library_failure(job->options, status, failure);
}

static int compute(struct job *job, struct failure *failure)
{
    clattn_status status = CLATTN_OK;
    if (library_open(job->options, &job->context, failure) != 0) {
        return -1;
    }
    if (!job->gradients.forward_is_given) {
        progress_begin("grad", "computing the forward pass");
        status =
            clattn_forward_host(job->context, &job->attention.problem, &job->attention.values, &job->attention.host);
        progress_end();
    }
    const double start = clock_seconds();
    if (status == CLATTN_OK) {
        progress_begin("grad", "compiling kernels");
        status = clattn_backward_plan_create(job->context, &job->gradients.problem, &job->plan);
        progress_end();
    }
    if (status != CLATTN_OK) {
        library_failure(job->options, status, failure);
        return user_text_quote(&job->inputs.code, failure);
    }
    job->prepare_seconds = clock_seconds() - start;
    if (backward(job, &job->first_seconds, failure) != 0) {
        return -1;
    }
    /* The first call includes what the driver still compiles: a second one tells the real time. */
    return job->first_seconds < 1 ? backward(job, &job->again_seconds, failure) : 0;
}

static int write_gradients(const struct job *job, struct failure *failure)
{
    const char *path = job->options->value[OPTION_GRADIENTS_FILE];
    struct safetensors_item items[GRADIENT_KINDS];
    size_t n = 0;
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        if (job->gradients.tensor[i].data) {
            items[n].name = role_name(gradient_kinds[i].role);
            items[n++].tensor = &job->gradients.tensor[i];
        }
    }
    if (!path) {
        return 0;
    }
    progress_begin("grad", "writing");
    const int result = file_has_suffix(path, ".npy") ? npy_write(path, items[0].tensor, failure)
                                                     : safetensors_write(path, n, items, 0, NULL, failure);
    progress_end();
    return result;
}

/* ---- telling ---- */

static void tell_call(const struct job *job)
{
    summary_inputs(job->document, job->options, &job->inputs, &job->attention);
    if (job->inputs.unused) {
        summary_item(job->document, "not used", "not_used", job->inputs.unused);
    }
    summary_name(job->document, "forward",
                 job->gradients.forward_is_given ? "out and lse are the input's" : "out and lse are computed");
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        summary_tensor(job->document, role_name(gradient_kinds[i].role), &job->gradients.tensor[i]);
    }
    summary_call(job->document, job->context, job->plan, job->prepare_seconds, job->first_seconds, job->again_seconds);
}

/* With the gradients that the input holds. Returns how many differ. */
static int compare(const struct job *job)
{
    const clattn_type type = job->attention.problem.type;
    int wrong = 0;
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        const enum role role = gradient_kinds[i].role;
        wrong += results_compare_gradient(job->document, job->options, type, role_name(role), &job->gradients.tensor[i],
                                          &job->inputs.tensor[role]);
    }
    return wrong;
}

static void tell_check(cJSON *document, const struct gradient_check found[GRADIENT_KINDS])
{
    cJSON *all = document ? cJSON_AddObjectToObject(document, "check") : NULL;
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        const char *name = role_name(gradient_kinds[i].role);
        if (found[i].there && document) {
            cJSON *one = cJSON_AddObjectToObject(all, name);
            cJSON_AddNumberToObject(one, "largest_error", found[i].largest_error);
            cJSON_AddNumberToObject(one, "error_share", found[i].share);
        } else if (found[i].there) {
            printf("check     %s: largest error %.2g against the float64 reference, %.2g of the tolerance\n", name,
                   found[i].largest_error, found[i].share);
        }
    }
}

static int check(const struct job *job, struct failure *failure)
{
    struct gradient_check found[GRADIENT_KINDS] = { { 0, 0, 0 } };
    if (job->attention.problem.code) {
        return failure_misuse(failure, "--check: gradients with a text have no reference here; "
                                       "INPUT's dq, dk and dv are compared without it");
    }
    progress_begin("grad", "computing the reference");
    const int result = check_gradients(&job->gradients.problem, &job->attention.values, &job->attention.host,
                                       &job->gradients.host, job->plan, found, failure);
    progress_end();
    if (result == 0) {
        tell_check(job->document, found);
    }
    for (int i = 0; i < GRADIENT_KINDS && result == 0; i++) {
        if (!(found[i].share <= 1)) {
            return failure_failed(failure, "check: %s is wrong: its error is %.2g times the tolerance",
                                  role_name(gradient_kinds[i].role), found[i].share);
        }
    }
    return result;
}

/* ---- the command ---- */

static int tell_results(struct job *job, struct failure *failure)
{
    tell_call(job);
    const int wrong = compare(job);
    if (given(job, OPTION_GRADIENTS_FILE)) {
        summary_item(job->document, "wrote", "wrote", job->options->value[OPTION_GRADIENTS_FILE]);
    }
    if (given(job, OPTION_CHECK) && check(job, failure) != 0) {
        return -1;
    }
    return given(job, OPTION_CHECK) && wrong
               ? failure_failed(failure, "check: %d of the stored gradients differ; were they made with other options?",
                                wrong)
               : 0;
}

static int run_job(struct job *job, struct failure *failure)
{
    if (check_options(job, failure) != 0 || read_input(job, failure) != 0 || compute(job, failure) != 0 ||
        write_gradients(job, failure) != 0) {
        return -1;
    }
    job->document = summary_begin(job->options, "grad", job->context);
    return summary_end(job->document, tell_results(job, failure), failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct job job;
    memset(&job, 0, sizeof job);
    job.options = options;
    const int result = run_job(&job, failure);
    clattn_plan_destroy(job.plan);
    clattn_context_destroy(job.context);
    gradients_free(&job.gradients);
    attention_free(&job.attention);
    inputs_free(&job.inputs);
    return result;
}

static const struct option_group groups[] = {
    { "Input",
      { OPTION_Q, OPTION_K, OPTION_V, OPTION_DOUT, OPTION_DLSE, OPTION_FORWARD_OUT, OPTION_FORWARD_LSE, OPTION_PAST_KEY,
        OPTION_PAST_VALUE, OPTION_LAYOUT, OPTION_HEADS, OPTION_KV_HEADS, OPTION_CU_Q, OPTION_CU_K, OPTION_DTYPE } },
    GROUP_OF_WHAT_IS_SEEN,
    GROUP_OF_SCORES,
    { "Scores of your own",
      { OPTION_SCORE, OPTION_SCORE_TEXT, OPTION_MASK_TEXT, OPTION_SLOPE_TEXT, OPTION_TEXT_INPUTS } },
    { "How", { OPTION_GRADIENTS, OPTION_GRADIENT_TYPE, OPTION_DEVICE, OPTION_STRATEGY } },
    { "Results", { OPTION_GRADIENTS_FILE, OPTION_CHECK, OPTION_TOLERANCE, OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_grad = {
    "grad",
    "Computes the gradients of attention, for training: of a loss whose derivative at the output is dout, at q, k, v "
    "and, where there are such, at bias, slopes and sinks. INPUT has q, k, v and dout, as clattn run reads them, and "
    "may have dlse; out and lse of the forward pass, which are computed where one of them is missing; "
    "and " GRADIENT_ROLES(NAME_OF_ROLE, NAME_OF_ROLE) "to compare with.",
    "INPUT.safetensors [OPTION]...\n       clattn grad --q FILE --k FILE --v FILE --dout FILE [OPTION]...",
    "INPUT",
    groups,
    "Example:\n"
    "  clattn grad --q q.npy --k k.npy --v v.npy --dout dout.npy --causal top-left \\\n"
    "      --check --output gradients.safetensors\n",
    run,
};
