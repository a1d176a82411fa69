/* clattn compile: writes the compiled programs of a problem into a folder, for CLATTN_BINARY_DIR on devices
 * that have no compiler, or that should not spend time on it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "insides.h"
#include "library.h"
#include "page_pools.h"
#include "problem_options.h"
#include "progress.h"
#include "system.h"

#define SUFFIX ".clattn"

/* Program files in the folder. */
static int count_binaries(const char *folder)
{
    int count = 0;
    DIR *stream = opendir(folder);
    for (struct dirent *found; stream && (found = readdir(stream)) != NULL;) {
        size_t length = strlen(found->d_name);
        count += length > sizeof(SUFFIX) && strcmp(found->d_name + length + 1 - sizeof(SUFFIX), SUFFIX) == 0;
    }
    if (stream) {
        closedir(stream);
    }
    return count;
}

/* Plans as on a device without a compiler; in fact without one where `with_compiler` is 0. */
static int plan(const struct options *options, const clattn_problem *asked, int with_compiler, struct failure *failure)
{
    clattn_problem problem = *asked;
    clattn_context *context;
    clattn_plan *made;
    clattn_status status;
    if (library_open(options, &context, failure) != 0) {
        return -1;
    }
    context->device.runs_clblast = 0;
    context->device.has_compiler &= with_compiler;
    page_pools_fit(options, context, &problem);
    status = clattn_plan_create(context, &problem, &made);
    if (status == CLATTN_OK) {
        clattn_plan_destroy(made);
    } else {
        library_failure(options, status, failure);
    }
    clattn_context_destroy(context);
    return status == CLATTN_OK ? 0 : -1;
}

static int run(const struct options *options, struct failure *failure)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    const char *folder = options->value[OPTION_BINARIES];
    int before, after, result;
    if (program_folder_refusal()) {
        return failure_failed(failure, "%s", program_folder_refusal());
    }
    if (!folder || !*folder) {
        return failure_misuse(failure, "--output: is missing; name a folder for the compiled programs");
    }
    if (problem_without_data_read(options, &problem, failure) != 0) {
        return -1;
    }
    before = count_binaries(folder);
    system_set_variable("CLATTN_WISDOM_DIR", ""); /* none is read where these programs are */
    system_set_variable("CLATTN_CACHE", "on");
    system_set_variable("CLATTN_CACHE_DIR", folder);
    system_set_variable("CLATTN_BINARY_DIR", NULL);
    progress_begin("compile", "compiling kernels");
    result = plan(options, &problem, 1, failure);
    progress_end();
    if (result != 0) {
        return -1;
    }
    after = count_binaries(folder);
    /* What was written serves: the same plan, now from the folder alone. */
    system_set_variable("CLATTN_CACHE", "off");
    system_set_variable("CLATTN_BINARY_DIR", folder);
    if (plan(options, &problem, 0, failure) != 0) {
        return failure_failed(failure,
                              "--output %s: the compiled programs could not be written there or are not taken by "
                              "the driver; the folder must be yours, and writable by you alone",
                              folder);
    }
    printf("%s: compiled programs: %d, new: %d\n", folder, after, after - before);
    return 0;
}

static const struct option_group groups[] = {
    { "The problem",
      { OPTION_SHAPE, OPTION_TYPE, OPTION_CAUSAL, OPTION_ALIGN, OPTION_WINDOW, OPTION_ALWAYS, OPTION_MASK_KIND,
        OPTION_SOFTCAP, OPTION_WITH_ALIBI, OPTION_WITH_KEY_LENGTHS, OPTION_PAGE_SIZE, OPTION_POOLS, OPTION_WITH_SINKS,
        OPTION_WITH_VARLEN, OPTION_WITH_LSE, OPTION_WITH_WEIGHTS } },
    { "How",
      { OPTION_BINARIES, OPTION_DEVICE, OPTION_STRATEGY, OPTION_MATMUL, OPTION_TF32, OPTION_ROUNDED_WEIGHTS,
        OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_compile = {
    "compile",
    "Writes the compiled programs of a problem into a folder. A program that is run with "
    "CLATTN_BINARY_DIR set to that folder, on the same device with the same driver and version of "
    "clattn, takes them and compiles nothing; CLBlast, which compiles its own, is not used.",
    "--shape B,HQ,HKV,LQ,LK,D[,DV] --output DIR [OPTION]...",
    NULL,
    groups,
    "Example:\n  clattn compile --shape 1,32,8,1,4096,128 --output binaries\n"
    "  CLATTN_BINARY_DIR=binaries ./your-program\n",
    run,
};
