/* Plans that are made in a thread of their own (clattn_plan_begin). A request owns a copy of the problem and, once the
 * thread ends, the plan or the record of its failure, which clattn_plan_finish hands to the thread that asks. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/uncancelled.h"
#include "operation/problem.h"
#include "plan/planner.h"
#include "program/context.h"

struct clattn_plan_request {
    clattn_context *context;
    struct problem problem;
    pthread_t thread;
    atomic_int is_ready;

    /* Written by the thread. */
    clattn_plan *plan;
    clattn_status status;
    struct error_record error;
};

static void *make_plan(void *context)
{
    clattn_plan_request *request = context;
    request->status = planner_plan(request->context, &request->problem.any, &request->plan);
    error_save(&request->error);
    atomic_store(&request->is_ready, 1);
    return NULL;
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* Drivers compile on it. As much as a program's first thread has on Linux; elsewhere threads get much less. */
#define STACK_BYTES ((size_t)8 << 20)

static int create(clattn_plan_request *request)
{
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code == 0) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        code = pthread_create(&request->thread, &attributes, make_plan, request);
        pthread_attr_destroy(&attributes);
    }
    return code;
}

#ifdef _WIN32
#define start create /* there are no signals */
#else
/* The program's signals go to threads of its own. Those that a thread raises itself stay: to block them would end the
 * program before its handler, if it has one, can tell why. */
static int start(clattn_plan_request *request)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); ++i) {
        sigdelset(&blocked, own[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int code = create(request);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
#endif

/* ---- the calls -------------------------------------------------------------------------------- */

clattn_status clattn_plan_begin(clattn_context *context, const clattn_problem *problem, clattn_plan_request **request)
{
    UNCANCELLED;
    REQUIRE(request);
    *request = NULL;
    const clattn_status status = context_check(context);
    if (status != CLATTN_OK) {
        return status;
    }
    clattn_plan_request *made = calloc(1, sizeof(*made));
    if (!made) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the request of a plan");
    }
    made->context = context;
    const clattn_status checked = problem_init(&made->problem, problem);
    if (checked != CLATTN_OK) {
        free(made);
        return checked;
    }
    const int code = start(made);
    if (code != 0) {
        problem_release(&made->problem.any);
        free(made);
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "pthread_create failed with %d: no thread to make the plan in",
                         code);
    }
    *request = made;
    return CLATTN_OK;
}

int clattn_plan_is_ready(const clattn_plan_request *request)
{
    return request ? atomic_load(&request->is_ready) : 1;
}

clattn_status clattn_plan_finish(clattn_plan_request *request, clattn_plan **plan)
{
    UNCANCELLED;
    REQUIRE(plan);
    *plan = NULL;
    REQUIRE(request);
    /* After a fork the thread is not in this process: nothing to wait for. */
    const clattn_status status = context_check(request->context);
    if (status != CLATTN_OK) {
        return status;
    }
    pthread_join(request->thread, NULL);
    problem_release(&request->problem.any);
    const clattn_status made = request->status;
    if (made == CLATTN_OK) {
        *plan = request->plan;
    } else {
        error_restore(&request->error);
    }
    free(request);
    return made;
}
