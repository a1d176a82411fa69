/* usage: programs [--quick | --attention] TARGET FOLDER
 *
 * The programs that clattn gives to the driver of a GPU or CPU (null_devices.c has the targets), taken from the
 * library itself: it plans the problems of problems.c, the layers and a merge on a driver that only keeps
 * what it gets. Each program becomes FOLDER/NUMBER.cl and FOLDER/NUMBER.options; each kernel of one a line
 * of standard output:
 *
 *     NUMBER KERNEL FILE PROBLEM TYPE BAR      BAR: "spills", none are allowed, or "builds"
 *
 * --quick: a choice of the problems of attention; --attention: of that choice what attention needs alone.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/lesson/kernels.h"
#include "clattn_backward.h"
#include "clattn_cache.h"
#include "clattn_key_sums.h"
#include "clattn_layers.h"
#include "null_driver.h"
#include "plan/ladder.h"
#include "plan/matrix_unit.h"
#include "problems.h"
#include "program/context.h"
#include "program/program.h"
#include "support/merge_two.h"
#include "taken.h"

static void plan(clattn_context *context, const struct problem_row *row, clattn_type type)
{
    const size_t limit = context->device.work_group_limit;
    clattn_problem problem = row->problem;
    clattn_plan *made;
    problem.type = type;
    begin(row->name, type, row->flags & ROW_MAY_SPILL ? "builds" : "spills");
    if (row->flags & ROW_SMALL) {
        context->device.work_group_limit = 64;
    }
    if (clattn_plan_create(context, &problem, &made) != CLATTN_OK) {
        fail(problem.strategy);
    }
    clattn_plan_destroy(made);
    context->device.work_group_limit = limit;
}

static void plan_attention(clattn_context *context, int quick)
{
    const struct problem_table *table = now.device->type == CL_DEVICE_TYPE_CPU ? &cpu_problems : &gpu_problems;
    for (size_t i = 0; i < table->count; ++i) {
        const struct problem_row *row = &table->rows[i];
        if ((quick && !(row->flags & ROW_QUICK)) ||
            (row->targets && !null_list_names(row->targets, now.device->target))) {
            continue;
        }
        for (clattn_type type = CLATTN_FLOAT32; type <= CLATTN_FLOAT64; ++type) {
            if (row->types & TYPE_BIT(type) && (type != CLATTN_FLOAT64 || context->device.has_fp64)) {
                plan(context, row, type);
            }
        }
    }
}

/* The programs that climb the ladder. */
static void plan_probes(clattn_context *context)
{
    for (int id = 0; id < RUNG_COUNT; ++id) {
        const struct rung *rung = &ladder_table[id];
        struct kernel *kernel;
        if (null_list_names(now.device->rungs, rung->name)) {
            begin(rung->name, CLATTN_TYPE_NONE, "spills");
            if (program_kernel(context, rung->file, rung->options, rung->kernel, &kernel) != CLATTN_OK) {
                fail("a probe");
            }
        }
    }
}

/* ---- what stands around attention ------------------------------------------------------------- */

static void plan_mha(clattn_context *context, const char *name, clattn_type type, clattn_projection projection,
                     clattn_mha_weights weights)
{
    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha *mha;
    problem.type = type;
    problem.rows = 512;
    problem.model_dim = 512;
    problem.query_heads = 8;
    problem.parts = CLATTN_MHA_PACKED | CLATTN_MHA_BIASES;
    problem.projection = projection;
    problem.weights = weights;
    begin(name, type, projection == CLATTN_PROJECTION_LANES ? "builds" : "spills");
    if (clattn_mha_create(context, &problem, &mha) != CLATTN_OK) {
        fail("a multi-head layer");
    }
    clattn_mha_destroy(mha);
}

static void plan_additive(clattn_context *context, clattn_type type)
{
    clattn_additive_problem problem = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive *additive;
    problem.type = type;
    problem.rows = problem.keys = 512;
    problem.query_dim = problem.hidden_dim = problem.value_dim = 64;
    begin("additive", type, "spills");
    if (clattn_additive_create(context, &problem, &additive) != CLATTN_OK) {
        fail("an additive layer");
    }
    clattn_additive_destroy(additive);
}

static void plan_merge(clattn_context *context, clattn_type type)
{
    const int64_t shape[4] = { 1, 2, 16, 64 };
    clattn_partial partial[3]; /* one behind the other in the one buffer that there is, whatever the types */
    for (int i = 0; i < 3; ++i) {
        partial[i] = (clattn_partial){ CLATTN_TENSOR_NONE, CLATTN_TENSOR_NONE };
        partial[i].out.buffer = partial[i].lse.buffer = null_driver_buffer();
        partial[i].out.offset = 32768 * (i + 1);
        partial[i].lse.offset = 1048576 * (i + 1);
        clattn_strides_bhsd(2, 16, 64, partial[i].out.stride);
        clattn_strides_bhsd(2, 16, 1, partial[i].lse.stride);
    }
    begin("merge", type, "spills");
    if (merge_two(context, null_driver_queue(), type, shape, &partial[0], &partial[1], &partial[2], 0, NULL, NULL) !=
        CLATTN_OK) {
        fail("a merge");
    }
}

/* Rotary by itself, and append into a cache of its own type and into one of each kind of code. */
static void plan_cache(clattn_context *context, clattn_type type)
{
    static const clattn_type stored[] = { CLATTN_TYPE_NONE,  CLATTN_E4M3, CLATTN_Q8_0, CLATTN_Q5_1,  CLATTN_MXFP4_GGML,
                                          CLATTN_NVFP4_GGML, CLATTN_INT4, CLATTN_U4,   CLATTN_MXFP8, CLATTN_NVFP4 };
    clattn_rotary_problem rotary = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_append_problem append = CLATTN_APPEND_PROBLEM_INIT;
    clattn_plan *plan;
    rotary.type = append.type = type;
    rotary.pairs = CLATTN_PAIRS_INTERLEAVED;
    append.pairs = CLATTN_PAIRS_HALVES;
    rotary.query_len = append.query_len = rotary.positions = append.positions = append.capacity = 512;
    rotary.head_dim = append.head_dim = 128;
    append.query_heads = 8;
    append.page_size = 16;
    append.pages = 64;
    rotary.features = CLATTN_WITH_POSITIONS;
    append.features = CLATTN_WITH_STARTS | CLATTN_WITH_ROTARY | CLATTN_WITH_PAGES;
    begin("rotary", type, "spills");
    if (clattn_rotary_plan_create(context, &rotary, &plan) != CLATTN_OK) {
        fail("rotary");
    }
    clattn_plan_destroy(plan);
    begin("append", type, "spills");
    for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); ++i) {
        append.key_type = append.value_type = stored[i];
        const int makes_scales = stored[i] > CLATTN_INT4;
        append.features &= ~(uint32_t)(CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES);
        append.features |= makes_scales ? CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES : 0;
        append.key_scale_rows = append.value_scale_rows = makes_scales;
        if (clattn_append_plan_create(context, &append, &plan) != CLATTN_OK) {
            fail("append");
        }
        clattn_plan_destroy(plan);
    }
}

/* The lesson on stability builds its kernel in each form, FORM 0 to 2. */
static void plan_lesson(clattn_context *context, clattn_type type)
{
    begin("lesson", type, "spills");
    program_own_kernels(context, &lesson_kernels);
    for (int form = 0; form < 3; ++form) {
        char options[48];
        struct kernel *kernel;
        snprintf(options, sizeof(options), "-D TYPE=%d -D FORM=%d", (int)type, form);
        if (program_kernel(context, "softmax.cl", options, "lesson_softmax", &kernel) != CLATTN_OK) {
            fail("the lesson's kernel");
        }
    }
}

/* Gradients of a forward call that is the caller's, which `strategy` computes. */
static clattn_status plan_backward(clattn_context *context, const clattn_problem *forward, const char *strategy)
{
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_plan *plan;
    problem.forward = forward;
    problem.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE;
    problem.strategy = strategy;
    const clattn_status status = clattn_backward_plan_create(context, &problem, &plan);
    clattn_plan_destroy(plan);
    return status;
}

static clattn_problem attention_of(clattn_type type, int64_t head_dim)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.type = type;
    problem.query_heads = problem.kv_heads = 8;
    problem.query_len = problem.key_len = 512; /* one run: problems.c */
    problem.head_dim = head_dim;
    return problem;
}

/* By the best strategy: fused_simd on CPUs, elsewhere fused_simt, or fused_mma in 16 bits; and by that, and by
 * fused_wgmma, where the device has a matrix unit, for of some the planner takes it with the self-check alone. */
static void plan_gradients(clattn_context *context, const char *name, clattn_type type, int64_t head_dim)
{
    const clattn_problem forward = attention_of(type, head_dim);
    struct problem checked;
    begin(name, type, "spills");
    if (plan_backward(context, &forward, NULL) != CLATTN_OK || problem_init(&checked, &forward) != CLATTN_OK) {
        fail("gradients");
    }
    struct ask ask = { .context = context, .problem = &checked.any };
    const struct matrix_unit *unit = matrix_unit_find(&ask);
    if (unit && unit->gradient_tiles) {
        plan_backward(context, &forward, "fused_mma");
    }
    if (warpgroup_unit_find(&ask)) {
        begin(head_dim == 64 ? "warpgroups-d64" : "warpgroups-d128", type, "spills");
        plan_backward(context, &forward, "fused_wgmma");
    }
}

static void plan_plain_gradients(clattn_context *context, clattn_type type)
{
    const clattn_problem forward = attention_of(type, 64);
    begin("gradients-any", type, "builds"); /* the definition, for any device, and none of its registers */
    if (plan_backward(context, &forward, "plain") != CLATTN_OK) {
        fail("gradients by plain");
    }
}

/* Sums of weights and largest logits: by the best strategy, and by the definition. */
static void plan_key_sums(clattn_context *context, clattn_type type)
{
    static const char *const strategies[] = { NULL, "plain" };
    static const char *const names[] = { "key-sums-d64", "key-sums-any" };
    const clattn_problem forward = attention_of(type, 64);
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); ++i) {
        clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
        clattn_plan *plan;
        problem.forward = &forward;
        problem.outputs = CLATTN_KEY_SUMS | CLATTN_MAX_LOGIT;
        problem.strategy = strategies[i];
        begin(names[i], type, i == 0 ? "spills" : "builds");
        if (clattn_key_sums_plan_create(context, &problem, &plan) != CLATTN_OK) {
            fail("sums of weights");
        }
        clattn_plan_destroy(plan);
    }
}

/* A mask of blocks, with a text, and what makes it. */
static void plan_blocks(clattn_context *context, clattn_problem problem)
{
    clattn_plan *plan;
    problem.features = CLATTN_WITH_BLOCK_MASK;
    problem.block_mask_rows = problem.block_mask_keys = 64;
    begin("text-blocks-d64", problem.type, "builds");
    if (clattn_plan_create(context, &problem, &plan) != CLATTN_OK) {
        fail("a mask of blocks");
    }
    clattn_plan_destroy(plan);
    problem.strategy = NULL;
    begin("block-mask", problem.type, "builds");
    if (clattn_block_mask_plan_create(context, &problem, &plan) != CLATTN_OK) {
        fail("what makes a mask of blocks");
    }
    clattn_plan_destroy(plan);
}

/* A score and a mask of the user's own, of ten operations. */
static void plan_text(clattn_context *context, clattn_type type)
{
    clattn_user_code code = CLATTN_USER_CODE_INIT;
    clattn_problem problem = attention_of(type, 64);
    clattn_plan *plan;
    code.source = "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
                  "{ return 20 * tanh(s * 0.05) + exp(-0.1 * TO_NUMBER(h + 1)) * TO_NUMBER(j - i); }\n"
                  "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER) { return (j <= i) & (i - j < 300); }\n";
    code.functions = CLATTN_CODE_SCORE | CLATTN_CODE_MASK;
    problem.strategy = "fused_simt";
    problem.code = &code;
    begin("text-d64", type, "spills");
    if (clattn_plan_create(context, &problem, &plan) != CLATTN_OK) {
        fail("a text of the user's own");
    }
    clattn_plan_destroy(plan);
    plan_blocks(context, problem);
}

/* What turns, sums and gives matrices: the same for every gradient, so one that needs no attention. */
static void plan_layer_gradients(clattn_context *context, clattn_type type)
{
    clattn_mha_problem forward = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_backward_problem problem = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_backward *backward;
    forward.type = type;
    forward.rows = forward.model_dim = 512;
    forward.query_heads = 8;
    forward.parts = CLATTN_MHA_BIASES;
    forward.projection = CLATTN_PROJECTION_TILES;
    problem.forward = &forward;
    problem.gradients = CLATTN_MHA_GRADIENT_BO;
    begin("layer-gradients", type, "spills");
    if (clattn_mha_backward_create(context, &problem, &backward) != CLATTN_OK) {
        fail("a layer's gradients");
    }
    clattn_mha_backward_destroy(backward);
}

static void plan_additive_gradients(clattn_context *context, clattn_type type)
{
    clattn_additive_problem forward = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_backward_problem problem = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_backward *backward;
    forward.type = type;
    forward.rows = forward.keys = 512;
    forward.query_dim = forward.hidden_dim = forward.value_dim = 64;
    problem.forward = &forward;
    problem.gradients = CLATTN_ADDITIVE_GRADIENT_QUERY;
    begin("additive-gradients", type, "spills");
    if (clattn_additive_backward_create(context, &problem, &backward) != CLATTN_OK) {
        fail("the gradients of additive attention");
    }
    clattn_additive_backward_destroy(backward);
}

static void plan_layers(clattn_context *context)
{
    for (clattn_type type = CLATTN_FLOAT32; type <= CLATTN_BFLOAT16; ++type) {
        plan_mha(context, "projection", type, CLATTN_PROJECTION_TILES, CLATTN_MHA_WEIGHTS_AVERAGE);
        plan_mha(context, "projection-lanes", type, CLATTN_PROJECTION_LANES, CLATTN_MHA_WEIGHTS_NONE);
        plan_additive(context, type);
        plan_merge(context, type);
        plan_cache(context, type);
        plan_gradients(context, "gradients-d64", type, 64);
        plan_gradients(context, "gradients-d128", type, 128);
        plan_plain_gradients(context, type);
        plan_key_sums(context, type);
        plan_text(context, type);
        plan_layer_gradients(context, type);
        plan_additive_gradients(context, type);
        plan_lesson(context, type);
    }
    plan_mha(context, "projection-clblast", CLATTN_FLOAT32, CLATTN_PROJECTION_CLBLAST, CLATTN_MHA_WEIGHTS_NONE);
}

int main(int argc, char **argv)
{
    const char *choice = argc == 4 ? argv[1] : "";
    const int alone = strcmp(choice, "--attention") == 0, quick = alone || strcmp(choice, "--quick") == 0;
    clattn_context *context;
    if (argc != 3 + quick) {
        fprintf(stderr, "usage: programs [--quick | --attention] TARGET FOLDER\n");
        return 2;
    }
    setenv("CLATTN_CACHE", "off", 1);
    setenv("CLATTN_SELF_CHECK", "off", 1); /* nothing is computed here */
    now.device = null_device_named(argv[1 + quick]);
    null_driver_use(now.device);
    null_driver_on_kernel(take);
    now.folder = argv[2 + quick];
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        fail("a context");
    }
    plan_attention(context, quick);
    if (!quick || now.device->type == CL_DEVICE_TYPE_GPU) {
        plan_probes(context);
        if (!alone) {
            plan_layers(context);
        }
    }
    clattn_context_destroy(context);
    return 0;
}
