/* What is written once for every operation, tried with operations of the test's own: which plans and strategies an
 * operation has, and which tensors a blocking call copies. */
#include <string.h>

#include "api.h"
#include "operation/backward.h"
#include "operation/forward.h"
#include "operation/problem.h"
#include "plan/host_session.h"
#include "plan/kept_plans.h"
#include "plan/planner.h"
#include "support/device_options.h"

/* ---- problems and plans ----------------------------------------------------------------------- */

static struct operation other_operation; /* the numbers of attention, computed by no strategy */

static void problem_of(struct problem *problem, const struct operation *operation, const char *strategy)
{
    clattn_problem given = CLATTN_PROBLEM_INIT;
    given.query_len = given.key_len = given.head_dim = 8;
    given.strategy = strategy;
    EXPECT_OK(problem_init(problem, &given));
    other_operation = operation_forward;
    other_operation.name = "other";
    problem->any.operation = operation;
}

START_TEST(test_another_operation_is_another_problem)
{
    struct problem forward, other;
    struct clattn_plan *plan = NULL;
    problem_of(&forward, &operation_forward, NULL);
    problem_of(&other, &other_operation, NULL);
    ck_assert_int_ne(problem_equal(&other.any, &other.any), 0);
    ck_assert_int_eq(problem_equal(&forward.any, &other.any), 0);
    EXPECT_OK(kept_plans_take(context, &forward.any, &plan));
    kept_plans_put(context, plan);
    expect_error(kept_plans_take(context, &other.any, &plan), CLATTN_UNSUPPORTED, "no strategy takes this problem",
                 "a kept plan");
}
END_TEST

START_TEST(test_strategies_are_of_their_operation)
{
    struct problem other;
    struct clattn_plan *plan = NULL;
    problem_of(&other, &other_operation, "plain");
    expect_error(planner_plan(context, &other.any, &plan), CLATTN_INVALID_ARGUMENT, "strategy \"plain\": there is none",
                 "another operation's strategy");
    ck_assert_msg(!strstr(clattn_last_error(), "split"), "names another operation's: %s", clattn_last_error());
}
END_TEST

/* ---- flags ------------------------------------------------------------------------------------ */

#define LATER_FLAG 0x80000000u /* as if a tensor was added, and nobody thought of it */

static size_t times_in(const char *text, const char *words)
{
    size_t times = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words)) {
        ++times;
    }
    return times;
}

/* Each strategy says so, also where it is asked for by name. */
static void check_declined_by_all(struct any_problem *problem)
{
    struct clattn_plan *plan = NULL;
    size_t strategies = 0;
    while (strategy_of_operation(problem->operation, strategies)) {
        ++strategies;
    }
    expect_error(planner_plan(context, problem, &plan), CLATTN_UNSUPPORTED, "no strategy takes this problem", "auto");
    ck_assert_uint_ge(strategies, 2);
    ck_assert_uint_eq(times_in(clattn_last_error(), "does not know of: flags 0x80000000"), strategies);
    EXPECT_OK(problem_set_strategy(problem, "plain"));
    expect_error(planner_plan(context, problem, &plan), CLATTN_UNSUPPORTED, "does not know of: flags 0x80000000",
                 "by name");
}

START_TEST(test_what_a_strategy_does_not_know_it_declines)
{
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem gradients = CLATTN_BACKWARD_PROBLEM_INIT;
    struct problem problem;
    struct backward_problem backward;
    forward.query_len = forward.key_len = forward.head_dim = 8;
    EXPECT_OK(problem_init(&problem, &forward));
    problem.flags |= LATER_FLAG;
    check_declined_by_all(&problem.any);
    gradients.forward = &forward;
    gradients.gradients = CLATTN_GRADIENT_QUERY;
    EXPECT_OK(backward_problem_init(&backward, &gradients));
    backward.attention.flags |= LATER_FLAG;
    check_declined_by_all(&backward.attention.any);
    EXPECT_OK(gradients_check_flags(backward.attention.flags & ~LATER_FLAG));
    expect_error(gradients_check_flags(CLATTN_FLAG_SINKS | LATER_FLAG), CLATTN_UNSUPPORTED,
                 "no gradients of a problem with flags 0x80000000", "gradients");
}
END_TEST

/* ---- tensors ---------------------------------------------------------------------------------- */

#define ROWS 2
#define COLUMNS 3
#define STEP 2 /* from column to column: what lies between is not the tensor's */
#define FLOATS (ROWS * COLUMNS * STEP)

enum { FROM, CACHE, COUNT, TENSORS };

static const struct tensor_row cache_rows[TENSORS] = {
    [FROM] = { .name = "from", .axis = { 0, 0, 1, 2 }, .role = TENSOR_INPUT },
    [CACHE] = { .name = "cache", .axis = { 0, 0, 1, 2 }, .role = TENSOR_UPDATED },
    [COUNT] = { .name = "count", .axis = { 0, 0, 1, 2 }, .role = TENSOR_OUTPUT },
};
static const struct operation operation_cache = { .name = "cache", .rows = cache_rows, .count = TENSORS };

static void cache_operands(struct operands *operands, float (*data)[FLOATS])
{
    memset(operands, 0, sizeof(*operands));
    operands->operation = &operation_cache;
    operands->extent[0] = 1;
    operands->extent[1] = ROWS;
    operands->extent[2] = COLUMNS;
    operands->element[0] = CLATTN_FLOAT32;
    operands->element_bytes[0] = sizeof(float);
    operands->asked = (1u << TENSORS) - 1;
    for (int id = 0; id < TENSORS; ++id) {
        operands->tensor[id].data = data[id];
        operands->tensor[id].stride[2] = COLUMNS * STEP;
        operands->tensor[id].stride[3] = STEP;
    }
}

/* Column 1 of row 0 of what is written, and of what lies between the columns, as a kernel with a fault would. */
static void write_some(const struct host_session *session, cl_event *done)
{
    const float written[2] = { 7, 8 };
    cl_command_queue queue = clattn_context_queue(context);
    for (int id = CACHE; id < TENSORS; ++id) {
        cl_event *event = id == TENSORS - 1 ? done : NULL;
        ck_assert_int_eq(clEnqueueWriteBuffer(queue, session->device.tensor[id].buffer, CL_TRUE, STEP * sizeof(float),
                                              sizeof(written), written, 0, NULL, event),
                         CL_SUCCESS);
    }
}

START_TEST(test_an_updated_tensor_keeps_what_is_not_written)
{
    float data[TENSORS][FLOATS], before[TENSORS][FLOATS];
    struct operands operands;
    struct host_session session;
    cl_event done;
    for (int i = 0; i < TENSORS * FLOATS; ++i) {
        data[i / FLOATS][i % FLOATS] = before[i / FLOATS][i % FLOATS] = (float)(i + 100);
    }
    cache_operands(&operands, data);
    EXPECT_OK(operands_check(&operands));
    /* Into copies: what a kernel with a fault writes there must not come back. */
    const size_t alignment = context->sharing_alignment;
    context->sharing_alignment = 0;
    EXPECT_OK(host_session_begin(&session, context, clattn_context_queue(context), &operands, 0, HOST_CONTENT_NOW));
    context->sharing_alignment = alignment;
    write_some(&session, &done);
    EXPECT_OK(host_session_finish(&session, done));
    host_session_end(&session, CLATTN_OK);
    ck_assert_mem_eq(data[FROM], before[FROM], sizeof(before[FROM]));
    before[CACHE][STEP] = 7;
    ck_assert_mem_eq(data[CACHE], before[CACHE], sizeof(before[CACHE]));
    ck_assert_float_eq(data[COUNT][STEP], 7);
}
END_TEST

START_TEST(test_an_updated_tensor_is_an_output)
{
    float data[TENSORS][FLOATS];
    struct operands operands;
    cache_operands(&operands, data);
    ck_assert_int_eq(operands_are_empty(&operands), 0);
    operands.tensor[CACHE].stride[2] = 0;
    expect_error(operands_check(&operands), CLATTN_INVALID_ARGUMENT, "cache.stride[2] 0: must not be 0",
                 "a stride of 0");
    operands.extent[1] = 0;
    ck_assert_int_ne(operands_are_empty(&operands), 0);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_an_updated_tensor_keeps_what_is_not_written);
    tcase_add_test(tests, test_an_updated_tensor_is_an_output);
    tcase_add_test(tests, test_another_operation_is_another_problem);
    tcase_add_test(tests, test_strategies_are_of_their_operation);
    tcase_add_test(tests, test_what_a_strategy_does_not_know_it_declines);
}

int main(void)
{
    return api_main("operations", add);
}
