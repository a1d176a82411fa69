/* What a group of devices chooses (src/api/group_divide.c): the least of what all take together and of what each takes
 * alone, by times that this test says. Nothing is computed: devices are names, and a clock goes on by their times. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/group.h"
#include "base/clock.h"
#include "program/context.h"
#include "suite.h"

#define DEVICES 3
#define BATCH 12

/* ---- devices ---------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static clattn_context devices[DEVICES];
static double now_ms, alone_ms[DEVICES], together_ms;
static int alone_calls[DEVICES], together_calls, is_idle;
static int64_t share[DEVICES]; /* of the last call that was divided */

/* The first call compiles, every second one is disturbed, and one right after another meets threads that spin. */
static double time_of(double least_ms, int calls_before)
{
    return least_ms + (calls_before == 0 ? 1000 : calls_before % 2 == 0 ? 20 : 0) + (is_idle ? 0 : 7);
}

clattn_status __wrap_group_call_run(clattn_context *context, const struct group_call *call);
clattn_status __wrap_group_call_run(clattn_context *context, const struct group_call *call)
{
    const size_t n = (size_t)(context - devices);
    pthread_mutex_lock(&lock);
    if (call->problem.batch == BATCH) {
        now_ms += time_of(alone_ms[n], alone_calls[n]++);
        is_idle = 0;
    } else {
        share[n] = call->problem.batch;
        if (n == 0) { /* for all parts */
            now_ms += time_of(together_ms, together_calls++);
            is_idle = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return CLATTN_OK;
}

double __wrap_clock_ms(void);
double __wrap_clock_ms(void)
{
    return now_ms;
}

void __wrap_clock_idle(double ms);
void __wrap_clock_idle(double ms)
{
    is_idle = ms > 1;
}

/* ---- a group of them -------------------------------------------------------------------------- */

static clattn_group *new_group(const double alone[DEVICES], double together)
{
    clattn_context *contexts[DEVICES];
    clattn_group *group;
    memcpy(alone_ms, alone, sizeof(alone_ms));
    memset(alone_calls, 0, sizeof(alone_calls));
    memset(share, 0, sizeof(share));
    together_ms = together;
    together_calls = 0;
    for (int n = 0; n < DEVICES; ++n) {
        contexts[n] = &devices[n];
    }
    ck_assert_int_eq(clattn_group_create(DEVICES, contexts, &group), CLATTN_OK);
    return group;
}

static void call(clattn_group *group, int64_t batch)
{
    static float numbers[BATCH * 2 * 4];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    problem.batch = batch;
    problem.query_len = problem.key_len = 2;
    problem.head_dim = 4;
    tensors.query = tensors.key = tensors.value = tensors.out = clattn_host_tensor_bhsd(numbers, 1, 2, 4);
    ck_assert_msg(clattn_group_forward_host(group, &problem, NULL, &tensors) == CLATTN_OK, "%s", clattn_last_error());
}

static void expect_told(const clattn_group *group, const char *wanted)
{
    char *text;
    ck_assert_int_eq(clattn_group_explain(group, &text), CLATTN_OK);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s: must have %s", text, wanted);
    clattn_free(text);
}

/* ---- the tests -------------------------------------------------------------------------------- */

START_TEST(test_the_least_is_taken)
{
    static const struct {
        double alone_ms[DEVICES], together_ms;
        const char *told;
    } times[] = { { { 26, 21, 30 },
                    24,
                    "  by device 1 alone; measured: together 24.000 ms, alone 26.000 ms, 21.000 ms, 30.000 ms\n" },
                  { { 20, 40, 80 },
                    19,
                    "  batch divided: 7 3 2; measured: together 19.000 ms, alone 20.000 ms, 40.000 ms, 80.000 ms\n" },
                  { { 30, 30, 20 },
                    25,
                    "  by device 2 alone; measured: together 25.000 ms, alone 30.000 ms, 30.000 ms, 20.000 ms\n" } };
    for (size_t n = 0; n < sizeof(times) / sizeof(times[0]); ++n) {
        clattn_group *group = new_group(times[n].alone_ms, times[n].together_ms);
        call(group, BATCH);
        expect_told(group, times[n].told);
        clattn_group_destroy(group);
    }
}
END_TEST

/* Later calls do what was chosen, whatever they take. */
START_TEST(test_what_was_chosen_is_kept)
{
    static const double alone[DEVICES] = { 26, 21, 30 };
    clattn_group *group = new_group(alone, 24);
    call(group, BATCH);
    const int before[DEVICES] = { alone_calls[0], alone_calls[1], alone_calls[2] }, together_before = together_calls;
    alone_ms[1] = 1000;
    call(group, BATCH);
    ck_assert_int_eq(alone_calls[0], before[0]);
    ck_assert_int_eq(alone_calls[1], before[1] + 1);
    ck_assert_int_eq(alone_calls[2], before[2]);
    ck_assert_int_eq(together_calls, together_before);
    clattn_group_destroy(group);
}
END_TEST

/* Where one takes half a second the least is known by fewer calls; who is far behind is not asked again. */
START_TEST(test_long_calls_are_tried_less)
{
    static const double alone[DEVICES] = { 600, 900, 5000 };
    clattn_group *group = new_group(alone, 400);
    call(group, BATCH);
    ck_assert_int_eq(alone_calls[0], 3);
    ck_assert_int_eq(alone_calls[1], 3);
    ck_assert_int_eq(alone_calls[2], 2);
    ck_assert_int_eq(together_calls, 3); /* the last is the call itself */
    ck_assert_int_eq((int)(share[0] + share[1] + share[2]), BATCH);
    clattn_group_destroy(group);
}
END_TEST

SUITE("group_choice", test_the_least_is_taken, test_what_was_chosen_is_kept, test_long_calls_are_tried_less)
