/* How long a new process takes to its first result while its program is in the cache on disk, and what of it
 * is OpenCL's own start. Each process is a child, this program with --child, which computes one attention
 * on the device that CLATTN_DEVICE names and prints the milliseconds of its steps. Times are printed, not
 * judged; judged is that the later processes have the first one's bits and compiled nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/folder.h"
#include "clattn.h"
#include "device/device_list.h"

#define PROCESSES 10
#define HEADS 4
#define LENGTH 256
#define HEAD_DIM 64
#define ELEMENTS ((size_t)HEADS * LENGTH * HEAD_DIM)

enum step { LOAD, DEVICES, CL_CONTEXT, CONTEXT, PLAN, COMPUTE, ALL, STEPS };

static const char *const step_names[STEPS] = {
    [LOAD] = "process: start, libraries, its data",
    [DEVICES] = "OpenCL: platforms and devices",
    [CL_CONTEXT] = "OpenCL: cl_context",
    [CONTEXT] = "clattn: context",
    [PLAN] = "clattn: plan, with its program",
    [COMPUTE] = "clattn: blocking call",
    [ALL] = "in all",
};

struct result {
    int done;
    unsigned long bits;
    double ms[STEPS];
};

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* ---- the child ------------------------------------------------------------------------------ */

static float inputs[3 * ELEMENTS], out[ELEMENTS];

static clattn_status compute(double started, double ms[STEPS])
{
    double at[ALL + 1] = { started, now_ms() };
    cl_device_id id;
    cl_int code;
    clattn_status status = device_find(NULL, &id);
    at[DEVICES + 1] = now_ms();
    cl_context cl = status == CLATTN_OK ? clCreateContext(NULL, 1, &id, NULL, NULL, &code) : NULL;
    at[CL_CONTEXT + 1] = now_ms();
    clattn_context *context = NULL;
    if (cl) {
        status = clattn_context_create(cl, id, NULL, &context);
    }
    at[CONTEXT + 1] = now_ms();
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.type = CLATTN_FLOAT32;
    problem.batch = 1;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = problem.key_len = LENGTH;
    problem.head_dim = HEAD_DIM;
    clattn_plan *plan = NULL;
    if (context) {
        status = clattn_plan_create(context, &problem, &plan);
    }
    at[PLAN + 1] = now_ms();
    if (plan) {
        status = clattn_attention(context, CLATTN_FLOAT32, 1, HEADS, HEADS, LENGTH, LENGTH, HEAD_DIM,
                                  CLATTN_ALIGN_UNSET, inputs, inputs + ELEMENTS, inputs + 2 * ELEMENTS, out);
    }
    at[COMPUTE + 1] = now_ms();
    for (int i = LOAD; i < ALL; ++i) {
        ms[i] = at[i + 1] - at[i];
    }
    ms[ALL] = at[ALL] - started;
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    if (cl) {
        clReleaseContext(cl);
    }
    return cl ? status : CLATTN_NO_DEVICE;
}

static int child(double started)
{
    double ms[STEPS];
    for (size_t i = 0; i < 3 * ELEMENTS; ++i) {
        inputs[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    }
    const clattn_status status = compute(started, ms);
    unsigned long bits = 5381;
    for (size_t i = 0; i < sizeof(out); ++i) {
        bits = bits * 33 + ((const unsigned char *)out)[i];
    }
    printf("result %lu", bits);
    for (int i = 0; i < STEPS; ++i) {
        printf(" %f", ms[i]);
    }
    printf("\n");
    if (status != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
    }
    return status != CLATTN_OK;
}

/* ---- the parent ----------------------------------------------------------------------------- */

static struct result run(const char *program)
{
    struct result result = { 0 };
    char command[4096];
    snprintf(command, sizeof(command), "exec '%s' --child %.6f", program, now_ms());
    FILE *stream = popen(command, "r");
    result.done = stream && fscanf(stream, " result %lu", &result.bits) == 1;
    for (int i = 0; i < STEPS && result.done; ++i) {
        result.done = fscanf(stream, "%lf", &result.ms[i]) == 1;
    }
    result.done &= stream && pclose(stream) == 0;
    return result;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_table(const struct result *first, const struct result *later)
{
    printf("%-42s %10s %10s %10s\n", "milliseconds", "compiles", "least", "median");
    for (int i = 0; i < STEPS; ++i) {
        double ms[PROCESSES];
        for (int n = 0; n < PROCESSES; ++n) {
            ms[n] = later[n].ms[i];
        }
        qsort(ms, PROCESSES, sizeof(ms[0]), compare_doubles);
        printf("%-42s %10.1f %10.1f %10.1f\n", step_names[i], first->ms[i], ms[0],
               (ms[(PROCESSES - 1) / 2] + ms[PROCESSES / 2]) / 2);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
        return child(atof(argv[2]));
    }
    folder_begin();
    setenv("CLATTN_CACHE_DIR", folder_path(""), 1);
    unsetenv("CLATTN_CACHE");
    const struct result first = run(argv[0]);
    EXPECT(first.done);
    const int files = count_files("");
    EXPECT(files > 0);
    struct result later[PROCESSES];
    for (int i = 0; i < PROCESSES && first.done; ++i) {
        later[i] = run(argv[0]);
        EXPECT(later[i].done && later[i].bits == first.bits);
    }
    EXPECT(count_files("") == files);
    if (first.done) {
        print_table(&first, later);
    }
    folder_end();
    return report();
}
