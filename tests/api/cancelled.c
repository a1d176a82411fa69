/* Threads that are cancelled while they are in a call: it is done as a whole, the thread ends behind it, and the calls
 * of others go on. Where a driver is left in the middle its locks stay held, and a later call waits for ever. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "support/small_calls.h"

#define SECONDS_MOST 120 /* until the test is taken to hang */

static atomic_int calls_done;

/* Not kept, nor compiled before. */
static clattn_plan *new_plan(clattn_context *on, int64_t head_dim)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_plan *plan = NULL;
    problem.query_len = problem.key_len = 3;
    problem.head_dim = head_dim;
    problem.strategy = "plain";
    return clattn_plan_create(on, &problem, &plan) == CLATTN_OK ? plan : NULL;
}

static void count(int is_done)
{
    atomic_fetch_add(&calls_done, is_done);
}

static void *cancelled_in_a_context(void *unused)
{
    clattn_context *own = NULL;
    char *text = NULL;
    pthread_cancel(pthread_self()); /* takes effect where the thread next waits, reads or writes */
    count(clattn_context_open(NULL, NULL, &own) == CLATTN_OK);
    count(clattn_describe_devices(1, &text) == CLATTN_OK);
    clattn_free(text);
    clattn_context_destroy(own);
    count(1);
    pthread_testcancel();
    return unused;
}

static void *cancelled_in_a_plan(void *unused)
{
    pthread_cancel(pthread_self());
    clattn_plan *plan = new_plan(context, 5);
    count(plan != NULL);
    clattn_plan_destroy(plan);
    count(1);
    pthread_testcancel();
    return unused;
}

static void *cancelled_in_a_call(void *unused)
{
    struct test_call test;
    sample_create(&test, SAMPLE_PLAIN_FLOAT32, "plain");
    pthread_cancel(pthread_self());
    count(clattn_forward_host(context, &test.problem, &test.values, &test.tensors) == CLATTN_OK);
    test_call_free(&test);
    pthread_testcancel();
    return unused;
}

static void *cancelled_at_once(void *unused)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cancel(pthread_self());
    clattn_plan *plan = new_plan(context, 7);
    count(plan != NULL);
    clattn_plan_destroy(plan);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* the caller's own state stands */
    count(before == PTHREAD_CANCEL_DISABLE);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    pthread_testcancel();
    return unused;
}

static const struct {
    void *(*run)(void *);
    int calls;
} threads[] = {
    { cancelled_in_a_context, 3 }, { cancelled_in_a_plan, 2 }, { cancelled_in_a_call, 1 }, { cancelled_at_once, 2 }
};

START_TEST(test_cancelled)
{
    pthread_t thread;
    void *result = NULL;
    atomic_store(&calls_done, 0);
    alarm(SECONDS_MOST);
    ck_assert_int_eq(pthread_create(&thread, NULL, threads[_i].run, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_int_eq(atomic_load(&calls_done), threads[_i].calls);
    clattn_plan *plan = new_plan(context, 6 + 2 * _i);
    ck_assert_msg(plan != NULL, "%s", clattn_last_error());
    clattn_plan_destroy(plan);
    struct test_call test;
    sample_create(&test, SAMPLE_PLAIN_FLOAT32, "plain");
    EXPECT_OK(clattn_forward_host(context, &test.problem, &test.values, &test.tensors));
    test_call_free(&test);
    alarm(0);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_loop_test(tests, test_cancelled, 0, sizeof(threads) / sizeof(threads[0]));
}

int main(void)
{
    return api_main("cancelled", add);
}
