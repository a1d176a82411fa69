/* The exported functions that tell what things cost, and what a device can do. */
#include "base/error.h"
#include "base/growth.h"
#include "base/uncancelled.h"
#include "clattn_costs.h"
#include "plan/strategy.h"
#include "program/context.h"
#include "program/gemm.h"
#include "program/kernel_times.h"
#include "program/program_costs.h"

GROWTH(clattn_device_facts, "facts", driver, has_clblast, CLATTN_DEVICE_FACTS_INIT);
GROWTH(clattn_context_costs, "costs", compile_ms, copied_bytes, CLATTN_CONTEXT_COSTS_INIT);
GROWTH(clattn_program_costs, "costs", compile_ms, kernels, CLATTN_PROGRAM_COSTS_INIT);
GROWTH(clattn_plan_costs, "costs", create_ms, strategies, CLATTN_PLAN_COSTS_INIT);
GROWTH(clattn_estimate, "estimate", call_ms, was_asked, CLATTN_ESTIMATE_INIT);
GROWTH(clattn_kernel_time, "time", event, ended_ns, CLATTN_KERNEL_TIME_INIT);

/* ---- structs --------------------------------------------------------------------------------- */

/* clang-format off */
void clattn_device_facts_init(clattn_device_facts *to, size_t size)
{ GROWTH_INIT(clattn_device_facts, CLATTN_DEVICE_FACTS_INIT); }
void clattn_context_costs_init(clattn_context_costs *to, size_t size)
{ GROWTH_INIT(clattn_context_costs, CLATTN_CONTEXT_COSTS_INIT); }
void clattn_program_costs_init(clattn_program_costs *to, size_t size)
{ GROWTH_INIT(clattn_program_costs, CLATTN_PROGRAM_COSTS_INIT); }
void clattn_plan_costs_init(clattn_plan_costs *to, size_t size)
{ GROWTH_INIT(clattn_plan_costs, CLATTN_PLAN_COSTS_INIT); }
void clattn_estimate_init(clattn_estimate *to, size_t size)
{ GROWTH_INIT(clattn_estimate, CLATTN_ESTIMATE_INIT); }
void clattn_kernel_time_init(clattn_kernel_time *to, size_t size)
{ GROWTH_INIT(clattn_kernel_time, CLATTN_KERNEL_TIME_INIT); }
/* clang-format on */

static uint64_t type_of(enum device_class device_class)
{
    static const uint64_t types[] = { CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR };
    return types[device_class];
}

clattn_status clattn_context_get_facts(const clattn_context *context, clattn_device_facts *facts)
{
    const clattn_status status = context_check(context);
    if (status != CLATTN_OK) {
        return status;
    }
    const struct device *d = &context->device;
    const clattn_device_facts found = { .name = d->name,
                                        .vendor = d->vendor,
                                        .platform = d->platform_name,
                                        .version = d->version,
                                        .driver = d->driver,
                                        .type = type_of(d->device_class),
                                        .compute_units = d->compute_units,
                                        .memory_bytes = d->global_bytes,
                                        .allocation_bytes = d->allocation_bytes,
                                        .local_bytes = d->local_bytes,
                                        .work_group_limit = d->work_group_limit,
                                        .sharing_alignment = context->sharing_alignment,
                                        .has_float64 = d->has_fp64,
                                        .has_compiler = d->has_compiler,
                                        .is_tested = device_is_tested(d),
                                        .has_clblast = gemm_is_built() && d->runs_clblast };
    return growth_give(GROWTH_OF(clattn_device_facts), &found, facts);
}

clattn_status clattn_context_get_costs(clattn_context *context, clattn_context_costs *costs)
{
    UNCANCELLED;
    clattn_context_costs found = CLATTN_CONTEXT_COSTS_INIT;
    const clattn_status status = context_check(context);
    if (status != CLATTN_OK) {
        return status;
    }
    program_costs_add(context, &found);
    found.copied_bytes = clattn_bytes_copied(context);
    return growth_give(GROWTH_OF(clattn_context_costs), &found, costs);
}

clattn_status clattn_context_get_program(clattn_context *context, uint64_t index, clattn_program_costs *costs)
{
    UNCANCELLED;
    clattn_program_costs found = CLATTN_PROGRAM_COSTS_INIT;
    clattn_status status = context_check(context);
    if (status == CLATTN_OK) {
        status = program_costs_of(context, index, &found);
    }
    return status == CLATTN_OK ? growth_give(GROWTH_OF(clattn_program_costs), &found, costs) : status;
}

clattn_status clattn_plan_get_costs(const clattn_plan *plan, clattn_plan_costs *costs)
{
    REQUIRE(plan);
    const clattn_plan_costs found = { .create_ms = plan->create_ms,
                                      .compile_ms = plan->compile_ms,
                                      .programs = plan->programs,
                                      .workspace_bytes = plan->workspace_bytes,
                                      .strategies = plan->estimates.count };
    return growth_give(GROWTH_OF(clattn_plan_costs), &found, costs);
}

clattn_status clattn_plan_get_estimate(const clattn_plan *plan, uint64_t index, clattn_estimate *estimate)
{
    REQUIRE(plan);
    if (index >= plan->estimates.count) {
        return error_set(CLATTN_INVALID_ARGUMENT, "index %llu: must be below %zu, the strategies that were looked at",
                         (unsigned long long)index, plan->estimates.count);
    }
    const struct estimate *e = &plan->estimates.list[index];
    const char *declined = e->declined.data ? e->declined.data : "no reason given";
    const clattn_estimate found = { .strategy = e->strategy->name,
                                    .declined = e->was_asked && !e->takes ? declined : NULL,
                                    .call_ms = e->cost_ms,
                                    .is_taken = e->strategy == plan->strategy,
                                    .was_asked = e->was_asked };
    return growth_give(GROWTH_OF(clattn_estimate), &found, estimate);
}

/* ---- times of kernels ------------------------------------------------------------------------ */

clattn_status clattn_kernel_times_create(clattn_context *context, cl_command_queue queue, clattn_kernel_times **times)
{
    UNCANCELLED;
    REQUIRE(times);
    *times = NULL;
    const clattn_status status = context_check(context);
    if (status != CLATTN_OK) {
        return status;
    }
    REQUIRE(queue);
    return kernel_times_create(context, queue, times);
}

uint64_t clattn_kernel_times_count(clattn_kernel_times *times)
{
    UNCANCELLED;
    return times ? kernel_times_count(times) : 0;
}

clattn_status clattn_kernel_times_get(clattn_kernel_times *times, uint64_t index, clattn_kernel_time *time)
{
    UNCANCELLED;
    clattn_kernel_time found = CLATTN_KERNEL_TIME_INIT;
    REQUIRE(times);
    const clattn_status status = kernel_times_get(times, index, &found);
    return status == CLATTN_OK ? growth_give(GROWTH_OF(clattn_kernel_time), &found, time) : status;
}

void clattn_kernel_times_clear(clattn_kernel_times *times)
{
    UNCANCELLED;
    if (times) {
        kernel_times_clear(times);
    }
}

void clattn_kernel_times_destroy(clattn_kernel_times *times)
{
    UNCANCELLED;
    if (times) {
        kernel_times_destroy(times);
    }
}
