/* Plans that are made in a thread of their own: the same plans, the same failures, told to whoever asks. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"

#define REQUESTS 6
#define STACK_BYTES_LEAST ((size_t)8 << 20) /* compilers run on it */

/* How the library's last thread was made. */
static struct {
    int count;
    size_t stack_bytes;
    sigset_t blocked;
} made;

typedef void *thread_function(void *);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_function *start, void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_function *start, void *context);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, thread_function *start, void *with)
{
    made.count++;
    made.stack_bytes = 0;
    if (attributes) {
        pthread_attr_getstacksize(attributes, &made.stack_bytes);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &made.blocked);
    return __real_pthread_create(thread, attributes, start, with);
}

static clattn_problem problem_of(int64_t head_dim, const char *strategy)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_len = problem.key_len = 5;
    problem.head_dim = head_dim;
    problem.strategy = strategy;
    return problem;
}

/* The problem may be gone, the name of its strategy too, as soon as the request is made. */
static clattn_plan_request *begin(int64_t head_dim, const char *strategy)
{
    char *name = strategy ? strdup(strategy) : NULL;
    clattn_problem problem = problem_of(head_dim, name);
    clattn_plan_request *request;
    EXPECT_OK(clattn_plan_begin(context, &problem, &request));
    memset(&problem, 0xff, sizeof(problem));
    if (name) {
        memset(name, 'x', strlen(name));
        free(name);
    }
    return request;
}

static void wait_until_ready(const clattn_plan_request *request)
{
    const struct timespec pause = { 0, 1000000 };
    while (!clattn_plan_is_ready(request)) {
        nanosleep(&pause, NULL);
    }
}

static void expect_same_plan(const clattn_plan *plan, int64_t head_dim, const char *strategy)
{
    const clattn_problem problem = problem_of(head_dim, strategy);
    clattn_plan *other;
    EXPECT_OK(clattn_plan_create(context, &problem, &other));
    ck_assert_str_eq(clattn_plan_strategy(plan), clattn_plan_strategy(other));
    ck_assert_str_eq(clattn_plan_explain(plan), clattn_plan_explain(other));
    ck_assert_uint_eq(clattn_plan_workspace(plan), clattn_plan_workspace(other));
    clattn_plan_destroy(other);
}

START_TEST(test_many_at_once)
{
    static const char *const strategies[] = { "plain", "staged", NULL };
    clattn_plan_request *requests[REQUESTS];
    for (int i = 0; i < REQUESTS; ++i) {
        requests[i] = begin(8 + i, strategies[i % 3]);
    }
    for (int i = REQUESTS - 1; i >= 0; --i) {
        clattn_plan *plan;
        if (i % 2) {
            wait_until_ready(requests[i]);
        }
        EXPECT_OK(clattn_plan_finish(requests[i], &plan));
        expect_same_plan(plan, 8 + i, strategies[i % 3]);
        clattn_plan_destroy(plan);
    }
}
END_TEST

/* Which failures come at once, and which with the plan; the record of other failures is not touched before. */
START_TEST(test_failures)
{
    clattn_problem negative = problem_of(-1, NULL);
    clattn_plan_request *request = (clattn_plan_request *)&negative;
    clattn_plan *plan = (clattn_plan *)&negative;
    expect_error(clattn_plan_begin(context, &negative, &request), CLATTN_INVALID_SHAPE, "head_dim -1", "begin");
    ck_assert_ptr_null(request);
    clattn_problem no_tiles = problem_of(8, "fused_amx"); /* which takes no float32 */
    EXPECT_OK(clattn_plan_begin(context, &no_tiles, &request));
    wait_until_ready(request);
    ck_assert_ptr_nonnull(strstr(clattn_last_error(), "head_dim -1"));
    expect_error(clattn_plan_finish(request, &plan), CLATTN_UNSUPPORTED, "fused_amx", "finish");
    ck_assert_ptr_null(plan);
}
END_TEST

/* The program's signals are for the program's own threads; a fault of the thread itself is not to be hidden. */
START_TEST(test_threads)
{
    static const int not_for_it[] = { SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF, SIGPIPE },
                     its_own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
    sigset_t before, after;
    clattn_plan *plan;
    const int count = made.count;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    clattn_plan_request *request = begin(8, "plain");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    EXPECT_OK(clattn_plan_finish(request, &plan));
    clattn_plan_destroy(plan);
    ck_assert_int_eq(made.count, count + 1);
    ck_assert_uint_ge(made.stack_bytes, STACK_BYTES_LEAST);
    for (size_t i = 0; i < sizeof(not_for_it) / sizeof(not_for_it[0]); ++i) {
        ck_assert_msg(sigismember(&made.blocked, not_for_it[i]) == 1, "signal %d reaches it", not_for_it[i]);
        ck_assert_int_eq(sigismember(&after, not_for_it[i]), sigismember(&before, not_for_it[i]));
    }
    for (size_t i = 0; i < sizeof(its_own) / sizeof(its_own[0]); ++i) {
        ck_assert_msg(sigismember(&made.blocked, its_own[i]) == 0, "signal %d does not reach it", its_own[i]);
    }
}
END_TEST

START_TEST(test_refused)
{
    const clattn_problem problem = problem_of(8, NULL);
    clattn_plan_request *request;
    clattn_plan *plan;
    expect_error(clattn_plan_begin(NULL, &problem, &request), CLATTN_INVALID_ARGUMENT, "context: must not", "begin");
    ck_assert_ptr_null(request);
    expect_error(clattn_plan_begin(context, NULL, &request), CLATTN_INVALID_ARGUMENT, "problem: must not", "begin");
    expect_error(clattn_plan_begin(context, &problem, NULL), CLATTN_INVALID_ARGUMENT, "request: must not", "begin");
    expect_error(clattn_plan_finish(NULL, &plan), CLATTN_INVALID_ARGUMENT, "request: must not be NULL", "finish");
    ck_assert_int_eq(clattn_plan_is_ready(NULL), 1);
    request = begin(8, "plain");
    expect_error(clattn_plan_finish(request, NULL), CLATTN_INVALID_ARGUMENT, "plan: must not be NULL", "finish");
    EXPECT_OK(clattn_plan_finish(request, &plan));
    clattn_plan_destroy(plan);
}
END_TEST

static void add(TCase *tests)
{
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, test_many_at_once);
    tcase_add_test(tests, test_failures);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_refused);
}

int main(void)
{
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_WISDOM_DIR", "", 1);
    return api_main("plan requests", add);
}
