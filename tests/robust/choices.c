/* What a plan chooses follows from the problem and the device, never from what fails in a moment: else the bits of a
 * result would depend on free memory. Which strategy, in bfloat16, for which the ladder is climbed, while each OpenCL
 * call (fault_layer) and each allocation (failing_memory) fails in turn; and which product, CLBlast's or clattn's
 * tiles, while CLBlast, which is wrapped here, ends with a code. CLATTN_TEST_FAULTS=K: of the calls and allocations
 * only numbers 1, 1 + K, 1 + 2 K, ... */
#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_layers.h"
#include "failing_memory.h"
#include "icd/fault_layer.h"
#include "icd/icd_layers.h"
#include "program/context.h"

#define FAULTS_MAX 3000
#define KNOWN_FAILURE "context: must not be NULL"

static struct fault_layer *layer;
static int passed, failed;

static int report(int good, const char *what, const char *why)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("FAILED %s: %s\n", what, why);
    }
    return good;
}

static clattn_context *open_context(void)
{
    clattn_context *context;
    clattn_plan *none;
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        printf("FAILED no context: %s\n", clattn_last_error());
        exit(1);
    }
    clattn_plan_create(NULL, NULL, &none); /* makes the record of the last failure known */
    return context;
}

/* A call that succeeded leaves the record as it was. */
static int record_untouched(void)
{
    return strcmp(clattn_last_error(), KNOWN_FAILURE) == 0 && clattn_last_error_native() == 0;
}

/* ---- which strategy --------------------------------------------------------------------------- */

struct choice {
    char strategy[64];
    double weight_rounding;
};

static clattn_status choose(clattn_context *context, struct choice *choice)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.type = CLATTN_BFLOAT16;
    problem.query_len = problem.key_len = 512;
    problem.head_dim = 64;
    memset(choice, 0, sizeof(*choice));
    clattn_status status = clattn_plan_create(context, &problem, &plan);
    snprintf(choice->strategy, sizeof(choice->strategy), "%s", clattn_plan_strategy(plan));
    choice->weight_rounding = clattn_plan_weight_rounding(plan);
    clattn_plan_destroy(plan);
    return status;
}

/* Where fault number n strikes, the plan fails for want of what was missing, or is the usual one. A program that does
 * not compile is a verdict on the device. 0: no more calls than n. */
static int try_fault(const struct choice *usual, int in_memory, long n)
{
    struct choice choice;
    char what[64];
    const char *call;
    clattn_context *context = open_context();
    atomic_store(&layer->failed, NULL);
    atomic_store(&layer->calls, 0);
    atomic_store(&layer->fail_at, in_memory ? 0 : n);
    if (in_memory) {
        failing_memory_start(n);
    }
    const clattn_status status = choose(context, &choice);
    const int struck = in_memory ? failing_memory_stop() : atomic_load(&layer->failed) != NULL;
    atomic_store(&layer->fail_at, 0);
    call = in_memory ? "allocation" : atomic_load(&layer->failed);
    snprintf(what, sizeof(what), "the choice, %s %ld", call ? call : "no call", n);
    if (status != CLATTN_OK) {
        report(struck && status != CLATTN_UNSUPPORTED, what, clattn_last_error());
    } else {
        report(memcmp(&choice, usual, sizeof(choice)) == 0 || (call && strcmp(call, "clBuildProgram") == 0), what,
               choice.strategy);
        report(record_untouched(), what, clattn_last_error());
    }
    clattn_context_destroy(context);
    return struck;
}

static void try_faults(void)
{
    struct choice usual;
    clattn_context *context = open_context();
    if (choose(context, &usual) != CLATTN_OK) {
        printf("FAILED no plan: %s\n", clattn_last_error());
        exit(1);
    }
    clattn_context_destroy(context);
    printf("without a fault: %s\n", usual.strategy);
    const char *chosen = getenv("CLATTN_TEST_FAULTS");
    const long step = chosen && atol(chosen) > 0 ? atol(chosen) : 1;
    for (int in_memory = 0; in_memory < 2; ++in_memory) {
        long n = 1;
        while (n < FAULTS_MAX && try_fault(&usual, in_memory, n)) {
            n += step;
        }
        report(n > 1 && n < FAULTS_MAX, "the choice", "nothing was made to fail, or too much");
    }
}

/* ---- which product ---------------------------------------------------------------------------- */

static CLBlastStatusCode clblast_code;

CLBlastStatusCode __wrap_CLBlastSgemm(CLBlastLayout layout, CLBlastTranspose a, CLBlastTranspose b, size_t m, size_t n,
                                      size_t k, float alpha, cl_mem left, size_t left_at, size_t left_ld, cl_mem right,
                                      size_t right_at, size_t right_ld, float beta, cl_mem result, size_t result_at,
                                      size_t result_ld, cl_command_queue *queue, cl_event *event);
CLBlastStatusCode __wrap_CLBlastSgemm(CLBlastLayout layout, CLBlastTranspose a, CLBlastTranspose b, size_t m, size_t n,
                                      size_t k, float alpha, cl_mem left, size_t left_at, size_t left_ld, cl_mem right,
                                      size_t right_at, size_t right_ld, float beta, cl_mem result, size_t result_at,
                                      size_t result_ld, cl_command_queue *queue, cl_event *event)
{
    (void)layout, (void)a, (void)b, (void)m, (void)n, (void)k, (void)alpha, (void)beta, (void)queue, (void)event;
    (void)left, (void)left_at, (void)left_ld, (void)right, (void)right_at, (void)right_ld;
    (void)result, (void)result_at, (void)result_ld;
    return clblast_code;
}

/* Plans on the device as if it were a GPU, for which large products are CLBlast's; *by_clblast: they are. */
static clattn_status plan_staged(clattn_context *context, int wanted, int *by_clblast)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan;
    problem.query_len = problem.key_len = 128;
    problem.head_dim = 64;
    problem.strategy = "staged";
    problem.matmul = wanted ? CLATTN_MATMUL_CLBLAST : CLATTN_MATMUL_AUTO;
    clattn_status status = clattn_plan_create(context, &problem, &plan);
    *by_clblast = strstr(clattn_plan_explain(plan), "scores and mix: CLBlast") != NULL;
    clattn_plan_destroy(plan);
    return status;
}

static clattn_status plan_projections(clattn_context *context, int wanted, int *by_clblast)
{
    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha *mha;
    problem.rows = problem.model_dim = 256;
    problem.query_heads = 4;
    problem.strategy = "plain";
    problem.projection = wanted ? CLATTN_PROJECTION_CLBLAST : CLATTN_PROJECTION_AUTO;
    clattn_status status = clattn_mha_create(context, &problem, &mha);
    *by_clblast = strstr(clattn_mha_explain(mha), "projections: CLBlast") != NULL;
    clattn_mha_destroy(mha);
    return status;
}

static const struct {
    const char *name;
    clattn_status (*plan)(clattn_context *context, int wanted, int *by_clblast);
} planners[] = { { "staged", plan_staged }, { "projections", plan_projections } };

/* What CLBlast ends with. CLATTN_OK: it cannot serve the device at all, so that tiles are taken. */
static const struct {
    CLBlastStatusCode code;
    clattn_status status;
} endings[] = {
    { CLBlastOpenCLBuildProgramFailure, CLATTN_OK },
    { CLBlastOpenCLCompilerNotAvailable, CLATTN_OK },
    { CLBlastInvalidLocalThreadsTotal, CLATTN_OK },
    { CLBlastInvalidLocalMemUsage, CLATTN_OK },
    { CLBlastNoDoublePrecision, CLATTN_OK },
    { CLBlastDatabaseError, CLATTN_OK },
    { CLBlastTempBufferAllocFailure, CLATTN_OUT_OF_DEVICE_MEMORY },
    { CLBlastOpenCLOutOfResources, CLATTN_OUT_OF_DEVICE_MEMORY },
    { CLBlastOpenCLOutOfHostMemory, CLATTN_OUT_OF_HOST_MEMORY },
    { CLBlastInvalidCommandQueue, CLATTN_GEMM_ERROR },
    { CLBlastUnexpectedError, CLATTN_GEMM_ERROR },
};

static void try_ending(clattn_context *context, size_t planner, int wanted, CLBlastStatusCode code,
                       clattn_status status)
{
    char what[96], why[512];
    int by_clblast;
    const clattn_status expected = status == CLATTN_OK && wanted && code != CLBlastSuccess ? CLATTN_GEMM_ERROR : status;
    clattn_plan *none;
    clattn_plan_create(NULL, NULL, &none);
    clblast_code = code;
    const clattn_status got = planners[planner].plan(context, wanted, &by_clblast);
    snprintf(what, sizeof(what), "%s, %s, CLBlast ends with %d", planners[planner].name,
             wanted ? "CLBlast by name" : "any product", (int)code);
    snprintf(why, sizeof(why), "%s, by %s: %s", clattn_status_name(got), by_clblast ? "CLBlast" : "tiles",
             clattn_last_error());
    report(got == expected && by_clblast == (code == CLBlastSuccess), what, why);
    report(got == CLATTN_OK ? record_untouched() : clattn_last_error_native() == (int)code, what, why);
}

static void try_endings(void)
{
    clattn_context *context = open_context();
    context->device.device_class = DEVICE_GPU;
    for (size_t planner = 0; planner < sizeof(planners) / sizeof(planners[0]); ++planner) {
        for (int wanted = 0; wanted < 2; ++wanted) {
            try_ending(context, planner, wanted, CLBlastSuccess, CLATTN_OK);
            for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); ++i) {
                try_ending(context, planner, wanted, endings[i].code, endings[i].status);
            }
        }
    }
    clattn_context_destroy(context);
}

int main(void)
{
    layer_request("fault_layer");
    layer = layer_symbol("fault_layer", FAULT_LAYER_SYMBOL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    try_faults();
    try_endings();
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
