/* Which strategy plans choose by themselves on GPUs, asked of the planner on devices that compile nothing
 * (tests/offline/null_driver.c) but have all units and CLBlast. The times that the estimates must order as they are
 * here were measured on an H100 (docs/measured.md); the other devices shall choose alike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn.h"
#include "clattn_backward.h"
#include "offline/null_driver.h"

static void drop_kernel(const struct null_kernel *kernel)
{
    (void)kernel;
}

struct choice {
    int batch, query_heads, kv_heads, query_len, key_len, head_dim;
    clattn_type type, stored; /* of all; of keys and values where that is another */
    const char *strategy;
};

#define SAME CLATTN_TYPE_NONE

/* clang-format off */
static const struct choice choices[] = {
    { 1, 8, 8, 1024, 1024, 64, CLATTN_FLOAT32, SAME, "fused_simt" },
    { 1, 8, 8, 2048, 2048, 128, CLATTN_FLOAT32, SAME, "fused_simt" },   /* staged took it, 2.5 times as long */
    { 8, 12, 12, 256, 256, 64, CLATTN_FLOAT32, SAME, "fused_simt" },    /* staged: 63 times the best known */
    { 4, 12, 12, 197, 197, 64, CLATTN_FLOAT32, SAME, "fused_simt" },
    { 1, 8, 8, 4096, 77, 40, CLATTN_FLOAT32, SAME, "fused_simt" },
    { 4, 16, 16, 4096, 4096, 128, CLATTN_FLOAT32, SAME, "fused_simt" },
    { 1, 32, 8, 1, 4096, 128, CLATTN_FLOAT32, SAME, "split_simt" },
    { 1, 32, 32, 1, 4096, 128, CLATTN_FLOAT16, SAME, "split_simt" },
    { 64, 32, 8, 1, 4096, 128, CLATTN_FLOAT16, SAME, "split_simt" },
    { 1, 32, 8, 2, 4096, 128, CLATTN_BFLOAT16, SAME, "split_simt" },
    { 1, 32, 8, 16, 2048, 128, CLATTN_FLOAT32, SAME, "split_simt" },
    { 1, 32, 8, 1, 4096, 128, CLATTN_FLOAT16, CLATTN_Q8_0, "split_simt" },
    { 16, 32, 8, 1, 4096, 128, CLATTN_FLOAT32, CLATTN_INT8, "split_simt" },
    { 1, 8, 8, 1024, 1024, 64, CLATTN_FLOAT16, CLATTN_Q4_0, "fused_simt" },
    { 1, 8, 8, 2048, 2048, 128, CLATTN_FLOAT16, SAME, "fused_mma" },
    { 1, 16, 16, 77, 77, 64, CLATTN_BFLOAT16, SAME, "fused_mma" },
};
/* clang-format on */

static int test_choice(clattn_context *context, const char *target, const struct choice *choice)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.batch = choice->batch;
    p.query_heads = choice->query_heads;
    p.kv_heads = choice->kv_heads;
    p.query_len = choice->query_len;
    p.key_len = choice->key_len;
    p.head_dim = p.head_dim_v = choice->head_dim;
    p.type = choice->type;
    p.key_type = p.value_type = choice->stored;
    clattn_plan *plan;
    const clattn_status status = clattn_plan_create(context, &p, &plan);
    const char *strategy = status == CLATTN_OK ? clattn_plan_strategy(plan) : clattn_last_error();
    const int good = strcmp(strategy, choice->strategy) == 0;
    if (!good) {
        printf("FAILED %s: %dx%d/%dx%dx%d, d %d, %s on %s: %s, not %s\n", target, choice->batch, choice->query_heads,
               choice->kv_heads, choice->query_len, choice->key_len, choice->head_dim, clattn_type_name(choice->type),
               clattn_type_name(choice->stored ? choice->stored : choice->type), strategy, choice->strategy);
    }
    if (status == CLATTN_OK) {
        clattn_plan_destroy(plan);
    }
    return good;
}

static int test_gradients(clattn_context *context, const char *target, clattn_type type, const char *wanted)
{
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_plan *plan;
    forward.type = type;
    forward.query_heads = 8;
    forward.kv_heads = 2;
    forward.query_len = forward.key_len = 1024;
    forward.head_dim = 64;
    problem.forward = &forward;
    problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    const clattn_status status = clattn_backward_plan_create(context, &problem, &plan);
    const char *strategy = status == CLATTN_OK ? clattn_plan_strategy(plan) : clattn_last_error();
    const int good = strcmp(strategy, wanted) == 0;
    if (!good) {
        printf("FAILED %s: gradients, %s: %s, not %s\n", target, clattn_type_name(type), strategy, wanted);
    }
    if (status == CLATTN_OK) {
        clattn_plan_destroy(plan);
    }
    return good;
}

/* fused_wgmma's ring is as long as the local memory that the ladder found. */
static int test_ring(int has_all_rungs, int head_dim, const char *ring, const char *local)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_plan *plan = NULL;
    null_library_has_all_rungs(has_all_rungs);
    clattn_context *context = null_context_open("sm_90");
    p.query_heads = p.kv_heads = 16;
    p.query_len = p.key_len = 4096;
    p.head_dim = p.head_dim_v = head_dim;
    p.type = CLATTN_FLOAT16;
    p.strategy = "fused_wgmma";
    const clattn_status status = clattn_plan_create(context, &p, &plan);
    const char *said = status == CLATTN_OK ? clattn_plan_explain(plan) : clattn_last_error();
    const int good = strstr(said, ring) && strstr(said, local);
    if (!good) {
        printf("FAILED fused_wgmma's ring, d %d: no \"%s\", \"%s\" in: %s\n", head_dim, ring, local, said);
    }
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    null_library_has_all_rungs(0);
    return good;
}

int main(void)
{
    static const char *const targets[] = { "sm_80", "sm_90", "gfx90a", "gfx1100", "dg2", "pvc" };
    int passed = 0, failed = 0;
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1); /* nothing computes here */
    null_driver_on_kernel(drop_kernel);
    for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); ++t) {
        clattn_context *context = null_context_open(targets[t]);
        for (size_t c = 0; c < sizeof(choices) / sizeof(choices[0]); ++c) {
            const int good = test_choice(context, targets[t], &choices[c]);
            passed += good;
            failed += !good;
        }
        const char *of_halves = strncmp(targets[t], "sm_", 3) == 0 ? "fused_mma" : "fused_simt";
        const int gradients = test_gradients(context, targets[t], CLATTN_FLOAT32, "fused_simt") +
                              test_gradients(context, targets[t], CLATTN_FLOAT16, of_halves) +
                              test_gradients(context, targets[t], CLATTN_BFLOAT16, of_halves);
        passed += gradients;
        failed += 3 - gradients;
        clattn_context_destroy(context);
    }
    const int rings = test_ring(0, 64, "ring: 5 places", " 41104 bytes of local memory") +
                      test_ring(1, 64, "ring: 12 places", " 98560 bytes of local memory") +
                      test_ring(1, 128, "ring: 12 places", " 98560 bytes of local memory") +
                      test_ring(0, 256, "ring: 2 places", " 33888 bytes of local memory") +
                      test_ring(1, 256, "ring: 6 places", " 98464 bytes of local memory");
    passed += rings;
    failed += 5 - rings;
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
