/* What contexts, programs and plans cost and what devices can, beside what OpenCL and the plans themselves say. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../cache/folder.h"
#include "api.h"
#include "clattn_costs.h"
#include "program/context.h"

static clattn_problem problem_of(int64_t head_dim, const char *strategy)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_len = problem.key_len = 5;
    problem.head_dim = head_dim;
    problem.strategy = strategy;
    return problem;
}

static clattn_plan *plan_of(clattn_context *of, int64_t head_dim, const char *strategy)
{
    const clattn_problem problem = problem_of(head_dim, strategy);
    clattn_plan *plan;
    EXPECT_OK(clattn_plan_create(of, &problem, &plan));
    return plan;
}

static clattn_context_costs costs_of(clattn_context *of)
{
    clattn_context_costs costs = CLATTN_CONTEXT_COSTS_INIT;
    EXPECT_OK(clattn_context_get_costs(of, &costs));
    return costs;
}

static clattn_plan_costs costs_of_plan(const clattn_plan *plan)
{
    clattn_plan_costs costs = CLATTN_PLAN_COSTS_INIT;
    EXPECT_OK(clattn_plan_get_costs(plan, &costs));
    return costs;
}

START_TEST(test_facts)
{
    clattn_device_facts facts = CLATTN_DEVICE_FACTS_INIT;
    cl_device_id device = clattn_context_device(context);
    char name[256];
    cl_device_type type;
    cl_uint units;
    cl_ulong memory, local;
    size_t limit;
    EXPECT_OK(clattn_context_get_facts(context, &facts));
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, NULL);
    ck_assert_str_eq(facts.name, name);
    clGetDeviceInfo(device, CL_DEVICE_VENDOR, sizeof(name), name, NULL);
    ck_assert_str_eq(facts.vendor, name);
    clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof(name), name, NULL);
    ck_assert_str_eq(facts.version, name);
    clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(name), name, NULL);
    ck_assert_str_eq(facts.driver, name);
    ck_assert_uint_gt(strlen(facts.platform), 0);
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    ck_assert(type & facts.type);
    clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    ck_assert_uint_eq(facts.compute_units, units);
    clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(memory), &memory, NULL);
    ck_assert_uint_eq(facts.memory_bytes, memory);
    clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(memory), &memory, NULL);
    ck_assert_uint_eq(facts.allocation_bytes, memory);
    clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(local), &local, NULL);
    ck_assert_uint_eq(facts.local_bytes, local);
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(limit), &limit, NULL);
    ck_assert_uint_eq(facts.work_group_limit, limit);
    ck_assert_uint_eq(facts.sharing_alignment, context->sharing_alignment);
    ck_assert_int_eq(facts.has_float64, context->device.has_fp64);
    ck_assert_int_eq(facts.has_compiler, 1);
    ck_assert_int_eq(facts.is_tested, device_is_tested(&context->device));
}
END_TEST

/* A plan pays for the programs that the context lacks, and one like it for none. */
START_TEST(test_context_and_plans)
{
    clattn_context *own;
    EXPECT_OK(clattn_context_open(NULL, NULL, &own));
    ck_assert_uint_eq(costs_of(own).programs, 0);
    ck_assert(costs_of(own).compile_ms == 0);
    clattn_plan *first = plan_of(own, 8, "plain"), *second = plan_of(own, 8, "plain"),
                *third = plan_of(own, 9, "plain");
    const clattn_plan_costs paid = costs_of_plan(first), nothing = costs_of_plan(second), again = costs_of_plan(third);
    ck_assert_uint_eq(paid.programs, 1);
    ck_assert(paid.compile_ms > 0 && paid.create_ms >= paid.compile_ms);
    ck_assert_uint_eq(paid.workspace_bytes, clattn_plan_workspace(first));
    ck_assert_uint_eq(nothing.programs, 0);
    ck_assert(nothing.compile_ms == 0 && nothing.create_ms > 0);
    ck_assert_uint_eq(costs_of(own).programs, paid.programs + again.programs);
    ck_assert_double_eq_tol(costs_of(own).compile_ms, paid.compile_ms + again.compile_ms, 1e-6);
    ck_assert_uint_eq(costs_of(own).copied_bytes, 0);
    clattn_plan_destroy(first);
    clattn_plan_destroy(second);
    clattn_plan_destroy(third);
    ck_assert_uint_gt(costs_of(own).programs, 0); /* they outlive the plans */
    clattn_context_destroy(own);
}
END_TEST

START_TEST(test_programs)
{
    clattn_context *own;
    clattn_program_costs one = CLATTN_PROGRAM_COSTS_INIT;
    EXPECT_OK(clattn_context_open(NULL, NULL, &own));
    clattn_plan *plain = plan_of(own, 8, "plain"), *staged = plan_of(own, 8, "staged");
    const clattn_context_costs all = costs_of(own);
    double compile_ms = 0;
    ck_assert_uint_gt(all.programs, 1);
    for (uint64_t i = 0; i < all.programs; ++i) {
        EXPECT_OK(clattn_context_get_program(own, i, &one));
        ck_assert(strlen(one.file) > 3 && strcmp(one.file + strlen(one.file) - 3, ".cl") == 0);
        ck_assert_ptr_nonnull(strstr(one.options, "-D "));
        ck_assert_uint_gt(one.binary_bytes, 0);
        ck_assert_int_ge(one.kernels, 1);
        ck_assert_str_eq(i == 0 ? one.file : "plain/plain.cl", "plain/plain.cl"); /* the oldest first */
        compile_ms += one.compile_ms;
    }
    ck_assert_double_eq_tol(compile_ms, all.compile_ms, 1e-6);
    ck_assert_str_ne(one.file, "plain/plain.cl");
    expect_error(clattn_context_get_program(own, all.programs, &one), CLATTN_INVALID_ARGUMENT, "must be below",
                 "get_program");
    clattn_plan_destroy(plain);
    clattn_plan_destroy(staged);
    clattn_context_destroy(own);
}
END_TEST

/* ---- a program that is built while others are done ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_closed, waits; /* builds of threads that `opener` is not wait, and one does */
    pthread_t opener;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

#define BUILD_PARAMETERS                                                                                               \
    cl_program program, cl_uint count, const cl_device_id *devices, const char *options,                               \
        void(CL_CALLBACK * notify)(cl_program, void *), void *user
cl_int __real_clBuildProgram(BUILD_PARAMETERS);
cl_int __wrap_clBuildProgram(BUILD_PARAMETERS);

cl_int __wrap_clBuildProgram(BUILD_PARAMETERS)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.is_closed && !pthread_equal(pthread_self(), gate.opener)) {
        gate.waits = 1;
        pthread_cond_broadcast(&gate.changed);
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
    return __real_clBuildProgram(program, count, devices, options, notify, user);
}

/* Closed until somebody waits at it; then open. */
static void gate_close(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.opener = pthread_self();
    gate.is_closed = 1;
    gate.waits = 0;
    pthread_mutex_unlock(&gate.lock);
}

static void gate_wait_until_somebody_does(void)
{
    pthread_mutex_lock(&gate.lock);
    while (!gate.waits) {
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

static void gate_open(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.is_closed = 0;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

/* A program that another thread began before this one's, and that is done later, comes after them. */
START_TEST(test_numbers_stay)
{
    clattn_context *own;
    clattn_plan_request *request;
    clattn_plan *late;
    clattn_program_costs one = CLATTN_PROGRAM_COSTS_INIT;
    const clattn_problem problem = problem_of(8, "plain");
    EXPECT_OK(clattn_context_open(NULL, NULL, &own));
    gate_close();
    EXPECT_OK(clattn_plan_begin(own, &problem, &request));
    gate_wait_until_somebody_does();
    clattn_plan *early = plan_of(own, 8, "staged");
    const uint64_t programs = costs_of(own).programs;
    const char *files[16];
    ck_assert(programs > 0 && programs < 16);
    for (uint64_t i = 0; i < programs; ++i) {
        EXPECT_OK(clattn_context_get_program(own, i, &one));
        files[i] = one.file; /* the context's */
    }
    gate_open();
    EXPECT_OK(clattn_plan_finish(request, &late));
    ck_assert_uint_eq(costs_of(own).programs, programs + 1);
    for (uint64_t i = 0; i <= programs; ++i) {
        EXPECT_OK(clattn_context_get_program(own, i, &one));
        ck_assert_str_eq(one.file, i < programs ? files[i] : "plain/plain.cl");
    }
    clattn_plan_destroy(early);
    clattn_plan_destroy(late);
    clattn_context_destroy(own);
}
END_TEST

/* The second context has from disk what the first one compiled. */
START_TEST(test_loaded_programs)
{
    folder_begin();
    setenv("CLATTN_CACHE", "on", 1);
    setenv("CLATTN_CACHE_DIR", folder_path("cache"), 1);
    for (int round = 0; round < 2; ++round) {
        clattn_context *own;
        clattn_program_costs one = CLATTN_PROGRAM_COSTS_INIT;
        EXPECT_OK(clattn_context_open(NULL, NULL, &own));
        clattn_plan *plan = plan_of(own, 8, "plain");
        EXPECT_OK(clattn_context_get_program(own, 0, &one));
        ck_assert_int_eq(one.is_compiled, round == 0);
        ck_assert_uint_eq(costs_of(own).compiled, round == 0);
        ck_assert_uint_eq(costs_of(own).programs, 1);
        ck_assert_uint_eq(costs_of_plan(plan).programs, 1);
        clattn_plan_destroy(plan);
        clattn_context_destroy(own);
    }
    unsetenv("CLATTN_CACHE_DIR");
    setenv("CLATTN_CACHE", "off", 1);
    folder_end();
}
END_TEST

/* Where a problem leaves the choice, the strategy taken is the cheapest that takes it. */
START_TEST(test_estimates)
{
    clattn_plan *plan = plan_of(context, 8, NULL);
    const uint64_t count = costs_of_plan(plan).strategies;
    double least = -1, taken_ms = -1;
    int taken = 0, declined = 0;
    ck_assert_uint_ge(count, 7);
    for (uint64_t i = 0; i < count; ++i) {
        clattn_estimate estimate = CLATTN_ESTIMATE_INIT;
        EXPECT_OK(clattn_plan_get_estimate(plan, i, &estimate));
        ck_assert_int_eq(estimate.was_asked, 1);
        ck_assert(estimate.declined ? estimate.declined[0] && estimate.call_ms == 0 : estimate.call_ms > 0);
        ck_assert_ptr_nonnull(strstr(clattn_plan_explain(plan), estimate.strategy));
        if (estimate.is_taken) {
            ck_assert_str_eq(estimate.strategy, clattn_plan_strategy(plan));
            taken_ms = estimate.call_ms;
            ++taken;
        }
        declined += estimate.declined != NULL;
        least = !estimate.declined && (least < 0 || estimate.call_ms < least) ? estimate.call_ms : least;
    }
    ck_assert_int_eq(taken, 1);
    ck_assert_int_gt(declined, 0);
    ck_assert(taken_ms == least);
    clattn_plan_destroy(plan);
}
END_TEST

START_TEST(test_estimates_of_a_named_one)
{
    clattn_plan *plan = plan_of(context, 8, "staged");
    clattn_estimate estimate = CLATTN_ESTIMATE_INIT;
    const uint64_t count = costs_of_plan(plan).strategies;
    for (uint64_t i = 0; i < count; ++i) {
        EXPECT_OK(clattn_plan_get_estimate(plan, i, &estimate));
        ck_assert_int_eq(estimate.was_asked, strcmp(estimate.strategy, "staged") == 0);
        ck_assert_int_eq(estimate.is_taken, estimate.was_asked);
        ck_assert_ptr_null(estimate.declined);
    }
    expect_error(clattn_plan_get_estimate(plan, count, &estimate), CLATTN_INVALID_ARGUMENT, "must be below",
                 "get_estimate");
    clattn_plan_destroy(plan);
}
END_TEST

START_TEST(test_refused)
{
    clattn_device_facts facts = CLATTN_DEVICE_FACTS_INIT;
    clattn_context_costs costs = CLATTN_CONTEXT_COSTS_INIT;
    clattn_program_costs program = CLATTN_PROGRAM_COSTS_INIT;
    clattn_plan_costs of_plan = CLATTN_PLAN_COSTS_INIT;
    clattn_estimate estimate = CLATTN_ESTIMATE_INIT;
    expect_error(clattn_context_get_facts(NULL, &facts), CLATTN_INVALID_ARGUMENT, "context: must not be NULL", "facts");
    expect_error(clattn_context_get_facts(context, NULL), CLATTN_INVALID_ARGUMENT, "facts: must not be NULL", "facts");
    expect_error(clattn_context_get_costs(NULL, &costs), CLATTN_INVALID_ARGUMENT, "context: must not", "costs");
    expect_error(clattn_context_get_costs(context, NULL), CLATTN_INVALID_ARGUMENT, "costs: must not be NULL", "costs");
    expect_error(clattn_context_get_program(NULL, 0, &program), CLATTN_INVALID_ARGUMENT, "context: must not",
                 "program");
    expect_error(clattn_plan_get_costs(NULL, &of_plan), CLATTN_INVALID_ARGUMENT, "plan: must not be NULL", "plan");
    expect_error(clattn_plan_get_estimate(NULL, 0, &estimate), CLATTN_INVALID_ARGUMENT, "plan: must not", "estimate");
    facts.struct_size = 12;
    expect_error(clattn_context_get_facts(context, &facts), CLATTN_INVALID_ARGUMENT, "facts.struct_size 12", "facts");
    ck_assert_ptr_null(facts.name);
}
END_TEST

static void add(TCase *tests)
{
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, test_facts);
    tcase_add_test(tests, test_context_and_plans);
    tcase_add_test(tests, test_programs);
    tcase_add_test(tests, test_numbers_stay);
    tcase_add_test(tests, test_loaded_programs);
    tcase_add_test(tests, test_estimates);
    tcase_add_test(tests, test_estimates_of_a_named_one);
    tcase_add_test(tests, test_refused);
}

int main(void)
{
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_WISDOM_DIR", "", 1);
    return api_main("costs", add);
}
