/* fork() after OpenCL was used: the driver's threads are not in the child, so every call there must be
 * refused at once, CLATTN_FORKED, and never hang; destroying there must be harmless; the parent goes on.
 * fork() before the first use is fine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clattn_costs.h"
#include "support/merge_two.h"
#include "support/small_calls.h"

#define SECONDS 20 /* until a child counts as hanging */

static int passed, failed;

static void report(int ok, const char *what)
{
    passed += ok;
    failed += !ok;
    if (!ok) {
        printf("FAILED %s\n", what);
    }
}

/* Runs `body` in a child; its result is the child's exit status, -1 when it hangs or dies. */
static int in_child(int (*body)(void *), void *data)
{
    int state;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        int result = body(data);
        fflush(stdout);
        _exit(result);
    }
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

struct things {
    clattn_context *context;
    clattn_plan *plan;
    clattn_kernel_times *times;
    cl_command_queue timed;
    struct test_call test;
    struct sample_device device;
};

/* A queue of the context that profiles, its times, and a call on it. */
static int time_a_call(struct things *t)
{
    cl_context context = clattn_context_cl(t->context);
    t->timed = clCreateCommandQueue(context, clattn_context_device(t->context), CL_QUEUE_PROFILING_ENABLE, NULL);
    return t->timed && clattn_kernel_times_create(t->context, t->timed, &t->times) == CLATTN_OK &&
           clattn_enqueue_forward(t->plan, t->timed, &t->device.values, &t->device.tensors, 0, NULL, NULL) ==
               CLATTN_OK &&
           clFinish(t->timed) == CL_SUCCESS;
}

static int refused(const char *what, clattn_status status)
{
    if (status != CLATTN_FORKED || !strstr(clattn_last_error(), "fork")) {
        printf("    in the child %s: %s, %s\n", what, clattn_status_name(status), clattn_last_error());
        return 0;
    }
    return 1;
}

static int child_of_user(void *data)
{
    struct things *t = data;
    clattn_context *context;
    clattn_plan *plan;
    char *text;
    cl_event done = NULL;
    const int64_t shape[4] = { 1, 1, 1, 1 };
    clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
    const clattn_partial partial = { t->device.tensors.out, t->device.tensors.lse };
    cl_command_queue queue = clattn_context_queue(t->context);
    int ok = refused("clattn_context_open", clattn_context_open(NULL, NULL, &context));
    ok &= refused("clattn_context_create", clattn_context_create(clattn_context_cl(t->context),
                                                                 clattn_context_device(t->context), NULL, &context));
    ok &= refused("clattn_describe_devices", clattn_describe_devices(0, &text));
    ok &= refused("clattn_plan_create", clattn_plan_create(t->context, &t->test.problem, &plan));
    ok &= refused("clattn_enqueue_forward",
                  clattn_enqueue_forward(t->plan, queue, &t->device.values, &t->device.tensors, 0, NULL, &done));
    ok &= refused("clattn_forward_host",
                  clattn_forward_host(t->context, &t->test.problem, &t->test.values, &t->test.tensors));
    ok &= refused("clattn_merge",
                  merge_two(t->context, queue, CLATTN_FLOAT32, shape, &partial, &partial, &partial, 0, NULL, NULL));
    ok &= refused("clattn_kernel_times_get", clattn_kernel_times_get(t->times, 0, &time));
    ok &= clattn_kernel_times_count(t->times) == 0;
    clattn_kernel_times_clear(t->times);
    clattn_kernel_times_destroy(t->times);
    ok &= clattn_reference_forward(&t->test.problem, &t->test.values, &t->test.tensors) ==
          CLATTN_OK; /* needs no device */
    clattn_plan_destroy(t->plan);
    clattn_context_destroy(t->context);
    return ok ? 0 : 1;
}

static int computes(void *data)
{
    struct test_call test;
    clattn_context *context;
    (void)data;
    sample_create(&test, SAMPLE_MASKED, NULL);
    clattn_status status = clattn_context_open(NULL, NULL, &context);
    if (status == CLATTN_OK) {
        status = clattn_forward_host(context, &test.problem, &test.values, &test.tensors);
    }
    if (status != CLATTN_OK) {
        printf("    %s: %s\n", clattn_status_name(status), clattn_last_error());
    }
    clattn_context_destroy(context);
    test_call_free(&test);
    return status != CLATTN_OK;
}

int main(void)
{
    struct things t;
    report(in_child(computes, NULL) == 0, "a child forked before the first use");
    sample_create(&t.test, SAMPLE_MASKED, NULL);
    if (clattn_context_open(NULL, NULL, &t.context) != CLATTN_OK ||
        clattn_plan_create(t.context, &t.test.problem, &t.plan) != CLATTN_OK ||
        !sample_upload(&t.device, &t.test, clattn_context_cl(t.context), clattn_plan_workspace(t.plan))) {
        printf("no context: %s\n", clattn_last_error());
        return 1;
    }
    report(clattn_forward_host(t.context, &t.test.problem, &t.test.values, &t.test.tensors) == CLATTN_OK,
           "the parent's call");
    report(time_a_call(&t), "a call whose kernels are timed");
    report(in_child(child_of_user, &t) == 0, "a child forked after the first use");
    report(clattn_forward_host(t.context, &t.test.problem, &t.test.values, &t.test.tensors) == CLATTN_OK,
           "the parent's call after the fork");
    report(clattn_kernel_times_count(t.times) > 0, "the parent's times after the fork");
    clattn_kernel_times_destroy(t.times);
    clReleaseCommandQueue(t.timed);
    sample_release(&t.device);
    clattn_plan_destroy(t.plan);
    clattn_context_destroy(t.context);
    report(in_child(computes, NULL) == 1, "a child forked after everything was destroyed is refused");
    test_call_free(&t.test);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
