/* Problems and calls of every operation, on the devices of tests/offline that compile nothing: plans and their memory,
 * calls with strides that reach anywhere; and where a call is small, the reference (tests/fuzz/calls.c checks calls
 * and no more, many times as fast).
 *
 * Byte 0: the kind of problem; byte 1: the device; then what trials.h says. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "offline/null_driver.h"
#include "trials.h"

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

static clattn_context *context_of(unsigned number)
{
    static const char *const targets[] = { "gfx90a", "sm_90", "pvc", "x86-64-v4" };
    static clattn_context *contexts[4];
    static unsigned uses;
    number %= 4;
    if (!contexts[number] || ++uses % 500 == 0) { /* the programs of all options would take all memory */
        clattn_context_destroy(contexts[number]);
        setenv("CLATTN_CACHE", "off", 1);
        setenv("CLATTN_SELF_CHECK", "off", 1); /* nothing computes here */
        null_driver_on_kernel(drop_kernel);
        contexts[number] = null_context_open(targets[number]);
    }
    null_driver_use(null_device_named(targets[number]));
    return contexts[number];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct trial trial;
    struct fuzz_bytes bytes = { data, data + size };
    const struct kind *kind = &kinds[fuzz_byte(&bytes) % kind_count];
    clattn_context *context = context_of(fuzz_byte(&bytes));
    clattn_plan *plan = NULL;
    trial_start(&bytes, kind, &trial);
    if (kind->plan(context, &trial, &plan) == CLATTN_OK && plan) {
        fuzz_must(clattn_plan_workspace(plan) <= (size_t)16 << 30, "a plan takes no more memory than there is");
        fuzz_must(clattn_plan_explain(plan)[0] != 0, "a plan explains itself");
    }
    const struct operands *operands = kind->look ? trial_call(&bytes, kind, &trial) : NULL;
    if (operands && plan) {
        (void)kind->enqueue(&trial, plan, null_driver_queue());
    }
    if (operands) {
        trial_compute(&bytes, kind, &trial, operands);
    }
    clattn_plan_destroy(plan);
    return 0;
}
