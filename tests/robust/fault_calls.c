/* Calls of the library, with what they need out of a life. Those that leave an event have it checked and released. */
#include "fault_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "clattn_costs.h"

static clattn_status do_describe(struct life *life)
{
    clattn_free(life->text);
    life->text = NULL;
    return clattn_describe_devices(0, &life->text);
}

clattn_status do_open(struct life *life)
{
    return clattn_context_open(NULL, NULL, &life->context);
}

clattn_status do_plan(struct life *life)
{
    return clattn_plan_create(life->context, &life->test.problem, &life->plan);
}

/* There is an event exactly where the call says CLATTN_OK. */
static clattn_status release_event(clattn_status status, cl_event done)
{
    if (done) {
        clReleaseEvent(done);
    }
    if ((status == CLATTN_OK) != (done != NULL)) {
        printf("    status %s, but the event is %s\n", clattn_status_name(status), done ? "there" : "not");
        exit(1);
    }
    return status;
}

/* More than one command takes, so that there is a buffer of the call's own. */
static clattn_status merge_with_itself(struct life *life, cl_event *done)
{
    const clattn_problem *p = &life->test.problem;
    const clattn_partial partial = { life->device.tensors.out, life->device.tensors.lse };
    clattn_partial partials[CLATTN_MERGE_AT_ONCE + 1];
    clattn_merge_problem problem = CLATTN_MERGE_PROBLEM_INIT;
    problem.type = p->type;
    problem.batch = p->batch;
    problem.heads = p->query_heads;
    problem.rows = p->query_len;
    problem.columns = p->head_dim_v ? p->head_dim_v : p->head_dim;
    for (int n = 0; n <= CLATTN_MERGE_AT_ONCE; ++n) {
        partials[n] = partial;
    }
    return clattn_merge(life->context, life->queues[IN_ORDER], &problem, CLATTN_MERGE_AT_ONCE + 1, partials, &partial,
                        0, NULL, done);
}

/* Calls that leave an event. */
#define DO(linkage, name, call)                                                                                        \
    linkage clattn_status name(struct life *life)                                                                      \
    {                                                                                                                  \
        cl_event done = NULL;                                                                                          \
        const clattn_status status = call;                                                                             \
        return release_event(status, done);                                                                            \
    }

#define FORWARD_ON(queue)                                                                                              \
    clattn_enqueue_forward(life->plan, queue, &life->device.values, &life->device.tensors, 0, NULL, &done)

DO(extern, do_enqueue, FORWARD_ON(life->queues[IN_ORDER]))
DO(static, do_enqueue_out_of_order, FORWARD_ON(life->queues[OUT_OF_ORDER]))
DO(static, do_enqueue_host,
   clattn_enqueue_host(life->plan, life->queues[OUT_OF_ORDER], &life->test.values, &life->test.tensors, 0, NULL, &done))
DO(static, do_merge, merge_with_itself(life, &done))
DO(static, do_mha, layer_calls_mha(&life->layers, life->queues[IN_ORDER], &done))
DO(static, do_additive, layer_calls_additive(&life->layers, life->queues[IN_ORDER], &done))
DO(static, do_rotary, small_cache_rotary(&life->cache, life->queues[IN_ORDER], &done))
DO(static, do_block_mask, small_cache_block_mask(&life->cache, life->queues[IN_ORDER], &done))
DO(static, do_key_sums, small_cache_key_sums(&life->cache, life->queues[IN_ORDER], &done))
DO(static, do_append, small_cache_append(&life->cache, life->queues[IN_ORDER], &done))
DO(static, do_backward, layer_calls_backward(&life->layers, life->queues[IN_ORDER], &done))
DO(static, do_mha_backward, layer_calls_mha_backward(&life->layers, life->queues[IN_ORDER], &done))
DO(static, do_additive_backward, layer_calls_additive_backward(&life->layers, life->queues[IN_ORDER], &done))

/* Times of a call's kernels, from beginning to end. */
clattn_status do_timed(struct life *life)
{
    clattn_kernel_times *times = NULL;
    clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
    cl_event done = NULL;
    clattn_status status = clattn_kernel_times_create(life->context, life->queues[PROFILING], &times);
    if (status == CLATTN_OK) {
        status = FORWARD_ON(life->queues[PROFILING]);
        status = release_event(status, done);
    }
    clFinish(life->queues[PROFILING]);
    if (status == CLATTN_OK) {
        status = clattn_kernel_times_get(times, 0, &time);
    }
    clattn_kernel_times_destroy(times);
    return status;
}

clattn_status do_host(struct life *life)
{
    return clattn_forward_host(life->context, &life->test.problem, &life->test.values, &life->test.tensors);
}

/* Attention over one key: each row of the result is its value. */
static clattn_status do_attention(struct life *life)
{
    static const float query[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, key[] = { 1, -1 }, value[] = { 3, 5 };
    float out[8] = { 0 };
    const clattn_status status =
        clattn_attention(life->context, CLATTN_FLOAT32, 1, 2, 1, 2, 1, 2, CLATTN_ALIGN_UNSET, query, key, value, out);
    for (int i = 0; i < 8 && status == CLATTN_OK; ++i) {
        if (!(out[i] == value[i % 2])) {
            printf("    clattn_attention: out[%d] is %g\n", i, (double)out[i]);
            exit(1);
        }
    }
    return status;
}

const struct fault_step fault_steps[] = {
    { "clattn_describe_devices", do_describe, NEEDS_NOTHING, 0, 0, 0, 0 },
    { "clattn_context_open", do_open, NEEDS_NOTHING, 1, 0, 0, 0 },
    { "clattn_plan_create", do_plan, NEEDS_CONTEXT, 1, 0, 0, 0 },
    { "clattn_plan_create, from disk", do_plan, NEEDS_CONTEXT, 1, 0, 0, 1 },
    { "clattn_enqueue_forward", do_enqueue, NEEDS_PLAN, 0, 1, 0, 0 },
    { "clattn_enqueue_forward, out of order", do_enqueue_out_of_order, NEEDS_PLAN, 0, 1, 0, 0 },
    { "clattn_enqueue_forward, timed", do_timed, NEEDS_PLAN, 0, 1, 0, 0 },
    { "clattn_forward_host", do_host, NEEDS_CONTEXT, 0, 2, 1, 0 },
    { "clattn_attention", do_attention, NEEDS_CONTEXT, 0, 0, 1, 0 },
    { "clattn_enqueue_host", do_enqueue_host, NEEDS_PLAN, 0, 2, 0, 0 },
    { "clattn_merge", do_merge, NEEDS_BUFFERS, 1, 0, 0, 0 },
    { "clattn_mha_enqueue", do_mha, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_additive_enqueue", do_additive, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_enqueue_rotary", do_rotary, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_enqueue_block_mask", do_block_mask, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_enqueue_key_sums", do_key_sums, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_enqueue_append", do_append, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_enqueue_backward", do_backward, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_mha_backward_enqueue", do_mha_backward, NEEDS_LAYERS, 0, 0, 0, 0 },
    { "clattn_additive_backward_enqueue", do_additive_backward, NEEDS_LAYERS, 0, 0, 0, 0 },
};
const size_t fault_step_count = sizeof(fault_steps) / sizeof(fault_steps[0]);
