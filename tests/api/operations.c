/* What is written once for every operation, tried with operations of the test's own: which plans and strategies an
 * operation has, and which tensors a blocking call copies. */
#include <string.h>

#include "api.h"
#include "api/host_session.h"
#include "operation/forward.h"
#include "operation/problem.h"
#include "plan/kept_plans.h"
#include "plan/planner.h"

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
    expect_error(kept_plans_take(context, &other.any, &plan), CLATTN_UNSUPPORTED,
                 "no strategy takes this problem", "a kept plan");
}
END_TEST

START_TEST(test_strategies_are_of_their_operation)
{
    struct problem other;
    struct clattn_plan *plan = NULL;
    problem_of(&other, &other_operation, "plain");
    expect_error(planner_plan(context, &other.any, &plan), CLATTN_INVALID_ARGUMENT,
                 "strategy \"plain\": there is none", "another operation's strategy");
    ck_assert_msg(!strstr(clattn_last_error(), "split"), "names another operation's: %s", clattn_last_error());
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_another_operation_is_another_problem);
    tcase_add_test(tests, test_strategies_are_of_their_operation);
}

int main(void)
{
    return api_main("operations", add);
}
