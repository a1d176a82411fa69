#include "problem_options.h"

#include <stdlib.h>
#include <string.h>

#include "insides.h"
#include "page_pools.h"

int problem_type_read(const struct options *options, enum option_id id, clattn_type *type, struct failure *failure)
{
    static const struct {
        const char *name;
        clattn_type type;
    } types[] = { { "f32", CLATTN_FLOAT32 },
                  { "f16", CLATTN_FLOAT16 },
                  { "bf16", CLATTN_BFLOAT16 },
                  { "f64", CLATTN_FLOAT64 },
                  { "int8", CLATTN_INT8 },
                  { "e4m3", CLATTN_E4M3 },
                  { "e5m2", CLATTN_E5M2 },
                  { "q8_0", CLATTN_Q8_0 },
                  { "q4_0", CLATTN_Q4_0 },
                  { "q4_1", CLATTN_Q4_1 },
                  { "q5_0", CLATTN_Q5_0 },
                  { "q5_1", CLATTN_Q5_1 },
                  { "mxfp4_ggml", CLATTN_MXFP4_GGML },
                  { "nvfp4_ggml", CLATTN_NVFP4_GGML },
                  { "int4", CLATTN_INT4 },
                  { "u8", CLATTN_U8 },
                  { "u4", CLATTN_U4 },
                  { "mxfp8", CLATTN_MXFP8 },
                  { "mxfp4", CLATTN_MXFP4 },
                  { "nvfp4", CLATTN_NVFP4 } };
    int chosen;
    if (option_choice(options, id, &chosen, failure) != 0) {
        return -1;
    }
    for (size_t i = 0; options->value[id] && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(option_words(id)[chosen], types[i].name) == 0) {
            *type = types[i].type;
        }
    }
    return 0;
}

int problem_strategy_read(const struct options *options, const char **strategy, struct failure *failure)
{
    int chosen;
    *strategy = options->value[OPTION_STRATEGY];
    return option_choice(options, OPTION_STRATEGY, &chosen, failure);
}

/* --shape B,HQ,HKV,LQ,LK,D[,DV] into the problem. */
static int read_shape(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    int64_t extents[7];
    size_t n = 0;
    if (option_integers(options, OPTION_SHAPE, extents, 7, &n, failure) != 0) {
        return -1;
    }
    if (n < 6) {
        return failure_misuse(failure, "--shape %s: must be six or seven integers: B,HQ,HKV,LQ,LK,D[,DV]",
                              options->value[OPTION_SHAPE] ? options->value[OPTION_SHAPE] : "(missing)");
    }
    for (size_t i = 0; i < n; i++) {
        if (extents[i] < (i < 5 ? 0 : 1) || extents[i] > INT32_MAX) {
            return failure_misuse(failure,
                                  "--shape %s: %lld: lengths and heads must be >= 0, head dims >= 1, "
                                  "all below 2^31",
                                  options->value[OPTION_SHAPE], (long long)extents[i]);
        }
    }
    problem->batch = extents[0];
    problem->query_heads = extents[1];
    problem->kv_heads = extents[2];
    problem->query_len = extents[3];
    problem->key_len = extents[4];
    problem->head_dim = extents[5];
    problem->head_dim_v = n == 7 ? extents[6] : extents[5];
    return 0;
}

/* --mask none|bool|float of problems without data: sets features or bias_type. */
static int read_mask_kind(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    int index = 0;
    if (option_choice(options, OPTION_MASK_KIND, &index, failure) != 0) {
        return -1;
    }
    if (index == 1) {
        problem->features |= CLATTN_WITH_MASK;
    }
    if (index == 2) {
        problem->bias_type = problem->type;
    }
    return 0;
}

int problem_weights_read(const struct options *options, enum option_id id, clattn_weights *weights,
                         struct failure *failure)
{
    static const clattn_weights modes[] = { CLATTN_WEIGHTS_SCORES, CLATTN_WEIGHTS_SOFTCAP, CLATTN_WEIGHTS_LOGITS,
                                            CLATTN_WEIGHTS_SOFTMAX };
    int index = -1;
    if (option_choice(options, id, &index, failure) != 0) {
        return -1;
    }
    if (index >= 0) {
        *weights = modes[index];
    }
    return 0;
}

/* ---- where query row 0 stands ---- */

static int read_alignment(const struct options *options, enum option_id id, clattn_problem *problem,
                          struct tensor *offsets, struct failure *failure)
{
    const char *value = options->value[id];
    if (strcmp(value, "top-left") == 0) {
        problem->alignment = CLATTN_ALIGN_TOP_LEFT;
    } else if (strcmp(value, "bottom-right") == 0) {
        problem->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    } else if (strcmp(value, "offsets") == 0) {
        problem->alignment = CLATTN_ALIGN_OFFSETS;
    } else if (text_is_integer_list(value)) {
        problem->alignment = CLATTN_ALIGN_OFFSETS;
        return option_integer_tensor(options, id, offsets, failure);
    } else {
        char hint[CLOSEST_HINT];
        return failure_misuse(failure,
                              "--%s %s: must be %stop-left, bottom-right, an offset or a list of them, or "
                              "offsets (the tensor query_offsets of INPUT)%s",
                              option_name(id), value, id == OPTION_CAUSAL ? "none, " : "",
                              option_meant(options, id, hint));
    }
    return 0;
}

static int read_causal(const struct options *options, clattn_problem *problem, struct tensor *offsets,
                       struct failure *failure)
{
    const char *causal = options->value[OPTION_CAUSAL];
    problem->causal = causal && strcmp(causal, "none") != 0;
    if (problem->causal && options->value[OPTION_ALIGN]) {
        return failure_misuse(failure, "--align %s: --causal %s says it already; give one of them",
                              options->value[OPTION_ALIGN], causal);
    }
    if (problem->causal) {
        return read_alignment(options, OPTION_CAUSAL, problem, offsets, failure);
    }
    if (!options->value[OPTION_ALIGN]) {
        return 0;
    }
    return read_alignment(options, OPTION_ALIGN, problem, offsets, failure);
}

/* ---- the rest ---- */

static int read_window(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    const enum option_id window[] = { OPTION_WINDOW, OPTION_NONE };
    int64_t sides[2] = { -1, -1 };
    size_t n = 2;
    if (option_integers(options, OPTION_WINDOW, sides, 2, &n, failure) != 0) {
        return -1;
    }
    if (n != 2 || sides[0] < -1 || sides[1] < -1) {
        return failure_misuse(failure, "--window %s: must be LEFT,RIGHT, each >= 0 or -1 for no bound",
                              options->value[OPTION_WINDOW]);
    }
    problem->window_left = sides[0];
    problem->window_right = sides[1];
    if (option_needs(options, OPTION_ALWAYS, window, failure) != 0) {
        return -1;
    }
    return option_integer(options, OPTION_ALWAYS, 0, INT32_MAX, &problem->always_visible_keys, failure);
}

static int read_numbers(const struct options *options, clattn_problem *problem, clattn_call *call,
                        struct failure *failure)
{
    call->has_scale = options->value[OPTION_SCALE] != NULL;
    if (option_number(options, OPTION_SCALE, &call->scale, failure) != 0 ||
        option_number(options, OPTION_SOFTCAP, &problem->softcap, failure) != 0) {
        return -1;
    }
    if (options->value[OPTION_SOFTCAP] && !(problem->softcap > 0)) {
        return failure_misuse(failure, "--softcap %s: must be > 0; leave it out for none",
                              options->value[OPTION_SOFTCAP]);
    }
    return 0;
}

int problem_options_read(const struct options *options, clattn_problem *problem, clattn_call *call,
                         struct tensor *offsets, struct failure *failure)
{
    int matmul = CLATTN_MATMUL_AUTO;
    if (read_causal(options, problem, offsets, failure) != 0 || read_window(options, problem, failure) != 0 ||
        read_numbers(options, problem, call, failure) != 0 ||
        problem_strategy_read(options, &problem->strategy, failure) != 0 ||
        option_choice(options, OPTION_MATMUL, &matmul, failure) != 0) {
        return -1;
    }
    problem->matmul = (clattn_matmul)matmul;
    problem->allow_tf32 = options->value[OPTION_TF32] != NULL;
    problem->allow_rounded_weights = options->value[OPTION_ROUNDED_WEIGHTS] != NULL;
    return 0;
}

int problem_alignment_check(const struct options *options, const clattn_problem *problem, struct failure *failure)
{
    int has_window = problem->window_left >= 0 || problem->window_right >= 0;
    int has_slopes = (problem->features & CLATTN_WITH_SLOPES) != 0;
    if ((has_window || has_slopes) && problem->alignment == CLATTN_ALIGN_UNSET) {
        return failure_misuse(failure,
                              "%s: needs to know where query row 0 stands; add --align top-left, "
                              "bottom-right or an offset",
                              has_window ? "--window" : "--alibi or slopes");
    }
    if (options->value[OPTION_ALIGN] && !has_window && !has_slopes) {
        return failure_misuse(failure, "--align %s: is used only with --window, --alibi or slopes",
                              options->value[OPTION_ALIGN]);
    }
    return 0;
}

static void read_switches(const struct options *options, clattn_problem *problem)
{
    static const struct {
        enum option_id id;
        clattn_feature feature;
    } switches[] = {
        { OPTION_WITH_KEY_LENGTHS, CLATTN_WITH_KEY_LENGTHS },
        { OPTION_WITH_ALIBI, CLATTN_WITH_SLOPES },
        { OPTION_WITH_SINKS, CLATTN_WITH_SINKS },
        { OPTION_WITH_VARLEN, CLATTN_WITH_VARLEN },
        { OPTION_WITH_LSE, CLATTN_WITH_LSE },
    };
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (options->value[switches[i].id]) {
            problem->features |= (uint32_t)switches[i].feature;
        }
    }
}

/* How keys and values are kept: their types, a ring, and as many pages as all sequences need. */
static int read_cache(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    if (problem_type_read(options, OPTION_KEY_TYPE, &problem->key_type, failure) != 0 ||
        problem_type_read(options, OPTION_VALUE_TYPE, &problem->value_type, failure) != 0 ||
        option_integer(options, OPTION_RING, 1, INT32_MAX, &problem->ring, failure) != 0 ||
        option_integer(options, OPTION_PAGE_SIZE, 1, INT32_MAX, &problem->page_size, failure) != 0) {
        return -1;
    }
    if (problem->page_size > 0) {
        const int64_t rows = problem_kept_rows(problem);
        problem->features |= CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
        problem->pages = problem->batch * ((rows + problem->page_size - 1) / problem->page_size);
    }
    problem->value_in_key = options->value[OPTION_VALUE_IN_KEY] != NULL;
    if (problem->value_in_key && options->value[OPTION_VALUE_TYPE]) {
        return failure_misuse(failure, "--value-type %s: values are columns of keys, by --value-in-key; leave it out",
                              options->value[OPTION_VALUE_TYPE]);
    }
    if (type_makes_scales(problem->key_type)) {
        problem->features |= CLATTN_WITH_KEY_SCALES;
        problem->key_scale_rows = 1;
    }
    if (type_makes_scales(problem->value_type)) {
        problem->features |= CLATTN_WITH_VALUE_SCALES;
        problem->value_scale_rows = 1;
    }
    return page_pools_read(options, problem, failure);
}

int64_t problem_kept_rows(const clattn_problem *problem)
{
    return problem->ring > 0 && problem->ring < problem->key_len ? problem->ring : problem->key_len;
}

int problem_without_data_read(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    clattn_call call = CLATTN_CALL_INIT;
    struct tensor offsets = TENSOR_INIT;
    int result = -1;
    if (!options->value[OPTION_SHAPE]) {
        return failure_misuse(failure, "--shape: is missing; give B,HQ,HKV,LQ,LK,D[,DV]");
    }
    if (read_shape(options, problem, failure) == 0 &&
        problem_type_read(options, OPTION_TYPE, &problem->type, failure) == 0 &&
        read_mask_kind(options, problem, failure) == 0 &&
        problem_weights_read(options, OPTION_WITH_WEIGHTS, &problem->weights, failure) == 0 &&
        read_cache(options, problem, failure) == 0) {
        result = problem_options_read(options, problem, &call, &offsets, failure);
    }
    tensor_free(&offsets);
    read_switches(options, problem);
    return result == 0 ? problem_alignment_check(options, problem, failure) : -1;
}
