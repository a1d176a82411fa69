/* Wait lists, the caller's event, in-order and out-of-order queues: nothing runs before what it waits for,
 * the event is that of the last command, and a call that is refused leaves none. */
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "clattn_backward.h"
#include "clattn_cache.h"
#include "clattn_code.h"
#include "clattn_key_sums.h"
#include "clattn_layers.h"
#include "support/merge_two.h"
#include "support/small_cache.h"
#include "support/small_calls.h"

struct run {
    int sample;
    struct test_call test, expected;
    struct sample_device device;
    clattn_plan *plan;
    cl_command_queue queue, reader; /* reader: another queue, to look at outputs meanwhile */
};

static void run_begin(struct run *run, int sample, const char *strategy, cl_command_queue_properties kind)
{
    cl_context cl = clattn_context_cl(context);
    run->sample = sample;
    sample_create(&run->test, sample, strategy);
    sample_create(&run->expected, sample, strategy);
    EXPECT_OK(clattn_reference_forward(&run->expected.problem, &run->expected.values, &run->expected.tensors));
    EXPECT_OK(clattn_plan_create(context, &run->test.problem, &run->plan));
    ck_assert(sample_upload(&run->device, &run->test, cl, clattn_plan_workspace(run->plan)));
    run->queue = clCreateCommandQueue(cl, clattn_context_device(context), kind, NULL);
    run->reader = clCreateCommandQueue(cl, clattn_context_device(context), 0, NULL);
    ck_assert(run->queue && run->reader);
}

static void run_end(struct run *run)
{
    clReleaseCommandQueue(run->queue);
    clReleaseCommandQueue(run->reader);
    sample_release(&run->device);
    clattn_plan_destroy(run->plan);
    test_call_free(&run->test);
    test_call_free(&run->expected);
}

/* Whether the outputs are still all poison. */
static int nothing_written(struct run *run)
{
    struct test_call poison;
    sample_create(&poison, run->sample, NULL);
    ck_assert(sample_download(&run->device, &run->test, run->reader));
    int same = sample_equal(&poison, &run->test);
    test_call_free(&poison);
    return same;
}

static void expect_right(struct run *run)
{
    ck_assert(sample_download(&run->device, &run->test, run->reader));
    ck_assert_double_le(sample_difference(&run->test, &run->expected), sample_tolerance(&run->test));
}

static cl_int state_of(cl_event event)
{
    cl_int state = 0;
    ck_assert_int_eq(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL), CL_SUCCESS);
    return state;
}

/* Two user events hold the call back; only when the second one is complete may it run. */
static void check_held_back(const char *strategy, cl_command_queue_properties kind)
{
    struct run run;
    cl_event gates[2], done;
    const int sample = sample_for(context, strategy);
    if (sample < 0) {
        return;
    }
    run_begin(&run, sample, strategy, kind);
    gates[0] = clCreateUserEvent(clattn_context_cl(context), NULL);
    gates[1] = clCreateUserEvent(clattn_context_cl(context), NULL);
    EXPECT_OK(clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, 2, gates, &done));
    clFlush(run.queue);
    clSetUserEventStatus(gates[0], CL_COMPLETE);
    usleep(30000);
    ck_assert_msg(nothing_written(&run), "%s: ran before its wait list", strategy);
    ck_assert_int_ne(state_of(done), CL_COMPLETE);
    clSetUserEventStatus(gates[1], CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    expect_right(&run);
    clReleaseEvent(done);
    clReleaseEvent(gates[0]);
    clReleaseEvent(gates[1]);
    run_end(&run);
}

START_TEST(test_wait_list)
{
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        if (!strchr(strategy, '/')) { /* CLBlast: below */
            check_held_back(strategy, 0);
            check_held_back(strategy, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        }
    }
}
END_TEST

/* CLBlast takes no wait list: it must come behind a barrier, and must not wait itself. */
START_TEST(test_wait_list_before_clblast)
{
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        if (strchr(strategy, '/')) {
            check_held_back(strategy, 0);
        }
    }
}
END_TEST

/* Calls in a chain on an out-of-order queue, each writing what the one before wrote, each ending in the
 * event that the next one waits for. */
START_TEST(test_chain_of_calls)
{
    const char *strategy;
    for (size_t i = 0; (strategy = sample_strategy(i)); ++i) {
        struct run run;
        cl_event last = NULL;
        const int sample = sample_for(context, strategy);
        if (sample < 0) {
            continue;
        }
        run_begin(&run, sample, strategy, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        for (int n = 0; n < 10; ++n) {
            cl_event done;
            EXPECT_OK(clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, last ? 1 : 0,
                                             last ? &last : NULL, &done));
            if (last) {
                clReleaseEvent(last);
            }
            last = done;
        }
        ck_assert_int_eq(clWaitForEvents(1, &last), CL_SUCCESS);
        clReleaseEvent(last);
        expect_right(&run);
        run_end(&run);
    }
}
END_TEST

/* When nothing is to be computed the event still waits for the wait list. */
START_TEST(test_event_of_an_empty_call)
{
    static const cl_command_queue_properties kinds[2] = { 0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE };
    for (int kind = 0; kind < 2; ++kind) {
        struct run run;
        cl_event done, gate = clCreateUserEvent(clattn_context_cl(context), NULL);
        run_begin(&run, SAMPLE_MASKED, NULL, kinds[kind]);
        run.device.values.query_len = 0;
        EXPECT_OK(
            clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, 1, &gate, &done));
        clFlush(run.queue);
        usleep(10000);
        ck_assert_int_ne(state_of(done), CL_COMPLETE);
        clSetUserEventStatus(gate, CL_COMPLETE);
        ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
        ck_assert(nothing_written(&run));
        clReleaseEvent(done);
        clReleaseEvent(gate);
        run_end(&run);
    }
}
END_TEST

/* A wait event that failed: the call may be refused at once, or its event fails; it must not hang, and the
 * next call works. */
START_TEST(test_failed_wait_event)
{
    struct run run;
    cl_event done = NULL, gate = clCreateUserEvent(clattn_context_cl(context), NULL);
    run_begin(&run, SAMPLE_MASKED, NULL, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    clattn_status status =
        clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, 1, &gate, &done);
    clSetUserEventStatus(gate, -1);
    if (status == CLATTN_OK) {
        ck_assert_int_ne(clWaitForEvents(1, &done), CL_SUCCESS);
        ck_assert_int_lt(state_of(done), 0);
        clReleaseEvent(done);
    }
    clReleaseEvent(gate);
    EXPECT_OK(clattn_enqueue_forward(run.plan, run.reader, &run.device.values, &run.device.tensors, 0, NULL, NULL));
    expect_right(&run);
    run_end(&run);
}
END_TEST

/* ---- calls that are refused --------------------------------------------------------------------- */

/* What the calls below are made with; `queue` NULL, or an object NULL, is one way to have one refused. */
struct refused {
    clattn_plan *plan, *backward;
    clattn_mha *mha;
    clattn_mha_backward *mha_backward;
    clattn_additive *additive;
    clattn_additive_backward *additive_backward;
    clattn_plan *rotary, *append;
    cl_command_queue queue;
};

/* A call that is given nothing. */
#define REFUSED(name, tensors, defaults, call)                                                                         \
    static clattn_status name(const struct refused *r, cl_event *done)                                                 \
    {                                                                                                                  \
        const tensors none = defaults;                                                                                 \
        return call;                                                                                                   \
    }
REFUSED(refuse_forward, clattn_tensors, CLATTN_TENSORS_INIT,
        clattn_enqueue_forward(r->plan, r->queue, NULL, &none, 0, NULL, done))
REFUSED(refuse_host, clattn_host_tensors, CLATTN_HOST_TENSORS_INIT,
        clattn_enqueue_host(r->plan, r->queue, NULL, &none, 0, NULL, done))
REFUSED(refuse_block_mask, clattn_tensors, CLATTN_TENSORS_INIT,
        clattn_enqueue_block_mask(r->plan, r->queue, NULL, &none, 0, NULL, done))
REFUSED(refuse_rotary, clattn_rotary_tensors, CLATTN_ROTARY_TENSORS_INIT,
        clattn_enqueue_rotary(r->rotary, r->queue, NULL, &none, 0, NULL, done))
REFUSED(refuse_append, clattn_append_tensors, CLATTN_APPEND_TENSORS_INIT,
        clattn_enqueue_append(r->append, r->queue, NULL, &none, 0, NULL, done))

static clattn_status refuse_backward(const struct refused *r, cl_event *done)
{
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    const clattn_gradients no_gradients = CLATTN_GRADIENTS_INIT;
    return clattn_enqueue_backward(r->backward, r->queue, NULL, &none, &no_gradients, 0, NULL, done);
}

static clattn_status refuse_merge(const struct refused *r, cl_event *done)
{
    const int64_t shape[4] = { 1, 1, 1, 1 };
    const clattn_partial none = { CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
    return merge_two(r->plan ? context : NULL, r->queue, CLATTN_FLOAT32, shape, &none, &none, &none, 0, NULL, done);
}

static clattn_status refuse_mha(const struct refused *r, cl_event *done)
{
    const clattn_mha_arrays none = CLATTN_MHA_ARRAYS_INIT;
    return clattn_mha_enqueue(r->mha, r->queue, &none, 0, NULL, done);
}

static clattn_status refuse_mha_backward(const struct refused *r, cl_event *done)
{
    const clattn_mha_arrays none = CLATTN_MHA_ARRAYS_INIT;
    const clattn_mha_gradients no_gradients = CLATTN_MHA_GRADIENTS_INIT;
    return clattn_mha_backward_enqueue(r->mha_backward, r->queue, &none, &no_gradients, 0, NULL, done);
}

static clattn_status refuse_additive(const struct refused *r, cl_event *done)
{
    const clattn_additive_arrays none = CLATTN_ADDITIVE_ARRAYS_INIT;
    return clattn_additive_enqueue(r->additive, r->queue, &none, 0, NULL, done);
}

static clattn_status refuse_additive_backward(const struct refused *r, cl_event *done)
{
    const clattn_additive_arrays none = CLATTN_ADDITIVE_ARRAYS_INIT;
    const clattn_additive_gradients no_gradients = CLATTN_ADDITIVE_GRADIENTS_INIT;
    return clattn_additive_backward_enqueue(r->additive_backward, r->queue, &none, &no_gradients, 0, NULL, done);
}

static clattn_status refuse_key_sums(const struct refused *r, cl_event *done)
{
    const clattn_tensors none = CLATTN_TENSORS_INIT;
    const clattn_key_sums no_sums = CLATTN_KEY_SUMS_INIT;
    return clattn_enqueue_key_sums(r->plan, r->queue, NULL, &none, &no_sums, 0, NULL, done);
}

static void create_objects(struct refused *r)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_mha_problem mha = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_backward_problem mha_backward = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_additive_problem additive = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_backward_problem additive_backward = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    problem.query_len = problem.key_len = problem.head_dim = 2;
    mha.rows = mha.model_dim = 2;
    additive.rows = additive.keys = additive.query_dim = additive.hidden_dim = additive.value_dim = 2;
    problem.strategy = mha.strategy = additive.strategy = "plain";
    EXPECT_OK(clattn_plan_create(context, &problem, &r->plan));
    backward.forward = &problem;
    backward.gradients = CLATTN_GRADIENT_QUERY;
    EXPECT_OK(clattn_backward_plan_create(context, &backward, &r->backward));
    EXPECT_OK(clattn_mha_create(context, &mha, &r->mha));
    mha_backward.forward = &mha;
    mha_backward.gradients = CLATTN_MHA_GRADIENT_X;
    mha_backward.strategy = "plain";
    EXPECT_OK(clattn_mha_backward_create(context, &mha_backward, &r->mha_backward));
    EXPECT_OK(clattn_additive_create(context, &additive, &r->additive));
    additive_backward.forward = &additive;
    additive_backward.gradients = CLATTN_ADDITIVE_GRADIENT_VALUE;
    additive_backward.strategy = "plain";
    EXPECT_OK(clattn_additive_backward_create(context, &additive_backward, &r->additive_backward));
    EXPECT_OK(small_cache_plans(context, &r->rotary, &r->append));
    r->queue = clattn_context_queue(context);
}

/* A caller that looks at nothing but its event finds none to wait for. */
START_TEST(test_event_of_a_refused_call)
{
    static const struct {
        const char *name;
        clattn_status (*call)(const struct refused *r, cl_event *done);
    } calls[] = { { "clattn_enqueue_backward", refuse_backward },
                  { "clattn_enqueue_forward", refuse_forward },
                  { "clattn_enqueue_host", refuse_host },
                  { "clattn_merge", refuse_merge },
                  { "clattn_mha_backward_enqueue", refuse_mha_backward },
                  { "clattn_mha_enqueue", refuse_mha },
                  { "clattn_additive_enqueue", refuse_additive },
                  { "clattn_additive_backward_enqueue", refuse_additive_backward },
                  { "clattn_enqueue_rotary", refuse_rotary },
                  { "clattn_enqueue_block_mask", refuse_block_mask },
                  { "clattn_enqueue_key_sums", refuse_key_sums },
                  { "clattn_enqueue_append", refuse_append } };
    struct refused whole;
    create_objects(&whole);
    const struct {
        const char *without;
        struct refused arguments;
    } ways[] = { { "object", { .queue = whole.queue } },
                 { "queue",
                   { whole.plan, whole.backward, whole.mha, whole.mha_backward, whole.additive, whole.additive_backward,
                     whole.rotary, whole.append, NULL } },
                 { "arrays", whole } };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
        for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); ++way) {
            cl_event done = (cl_event)&whole; /* what was on the caller's stack */
            clattn_status status = calls[i].call(&ways[way].arguments, &done);
            ck_assert_msg(status == CLATTN_INVALID_ARGUMENT, "%s without %s: %s: %s", calls[i].name, ways[way].without,
                          clattn_status_name(status), clattn_last_error());
            ck_assert_msg(!done, "%s without %s: *done is not NULL", calls[i].name, ways[way].without);
        }
    }
    clattn_plan_destroy(whole.plan);
    clattn_plan_destroy(whole.backward);
    clattn_mha_destroy(whole.mha);
    clattn_mha_backward_destroy(whole.mha_backward);
    clattn_additive_destroy(whole.additive);
    clattn_additive_backward_destroy(whole.additive_backward);
    clattn_plan_destroy(whole.rotary);
    clattn_plan_destroy(whole.append);
}
END_TEST

/* One that has failed already: what waits for it would never end in PoCL. */
START_TEST(test_wait_event_that_had_failed)
{
    for (int with_host = 0; with_host < 2; ++with_host) {
        struct run run;
        cl_event done = NULL, gates[2];
        run_begin(&run, SAMPLE_MASKED, NULL, 0);
        for (int i = 0; i < 2; ++i) {
            gates[i] = clCreateUserEvent(clattn_context_cl(context), NULL);
            clSetUserEventStatus(gates[i], i ? CL_OUT_OF_RESOURCES : CL_COMPLETE);
        }
        const clattn_status status =
            with_host
                ? clattn_enqueue_host(run.plan, run.queue, &run.test.values, &run.test.tensors, 2, gates, &done)
                : clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, 2, gates, &done);
        expect_error(status, CLATTN_INVALID_ARGUMENT, "wait[1]: what it stands for failed, with CL_OUT_OF_RESOURCES",
                     "enqueue");
        ck_assert_ptr_null(done);
        EXPECT_OK(clattn_enqueue_forward(run.plan, run.queue, &run.device.values, &run.device.tensors, 1, gates, NULL));
        ck_assert_int_eq(clFinish(run.queue), CL_SUCCESS);
        expect_right(&run);
        clReleaseEvent(gates[0]);
        clReleaseEvent(gates[1]);
        run_end(&run);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_wait_list);
    tcase_add_test(tests, test_wait_list_before_clblast);
    tcase_add_test(tests, test_chain_of_calls);
    tcase_add_test(tests, test_event_of_an_empty_call);
    tcase_add_test(tests, test_failed_wait_event);
    tcase_add_test(tests, test_wait_event_that_had_failed);
    tcase_add_test(tests, test_event_of_a_refused_call);
}

int main(void)
{
    return api_main("events", add);
}
