/* Masks of blocks by the public functions: what the device makes of a text is what the callback says; with it attention
 * is what it is without, reads nothing of what is EMPTY and asks no text about what is FULL; what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "clattn_code.h"

#define HEADS 2
#define ROWS 150
#define KEYS 170
#define HEAD_DIM 8
#define BLOCK_ROWS 24
#define BLOCK_KEYS 48
#define LINES ((ROWS + BLOCK_ROWS - 1) / BLOCK_ROWS)
#define COLUMNS ((KEYS + BLOCK_KEYS - 1) / BLOCK_KEYS)

#define MASK(body) "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n" body "}\n"

static float query[HEADS * ROWS * HEAD_DIM], key[HEADS * KEYS * HEAD_DIM], value[HEADS * KEYS * HEAD_DIM];
static float plain_out[HEADS * ROWS * HEAD_DIM], out[HEADS * ROWS * HEAD_DIM];
static unsigned char blocks[HEADS * LINES * COLUMNS], by_callback[HEADS * LINES * COLUMNS];

#define TWIN(name, expression)                                                                                         \
    static int name(int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs)                      \
    {                                                                                                                  \
        (void)b, (void)h, (void)i, (void)j, (void)inputs;                                                              \
        return expression;                                                                                             \
    }
TWIN(documents, i / 50 == j / 50)
TWIN(prefix, j <= i || j < 60 * (h + 1))
TWIN(dilated, (i - j) % 3 == 0 && i - j < 9 && j - i < 9)
TWIN(all_but_one, i < 128 && (j != 165 || i < 32))
TWIN(nothing, 0)

/* The third one is called pair by pair. In the fourth the last block of keys, of a sixteen and ten, has one that is
 * hidden, which is not its last. */
static const struct {
    const char *text;
    clattn_mask_callback *twin;
} masks[] = {
    { MASK("    return i / 50 == j / 50;\n"), documents },
    { MASK("    return j <= i || j < 60 * (h + 1);\n"), prefix },
    { MASK("    if (i - j >= 9 || j - i >= 9) {\n        return 0;\n    }\n    return (i - j) % 3 == 0;\n"), dilated },
    { MASK("    return i < 128 && (j != 165 || i < 32);\n"), all_but_one },
};
#define MASKS (sizeof(masks) / sizeof(masks[0]))

static clattn_user_code code_of(const char *text, clattn_mask_callback *twin)
{
    clattn_user_code code = CLATTN_USER_CODE_INIT;
    code.source = text;
    code.functions = CLATTN_CODE_MASK;
    code.mask = twin;
    return code;
}

static clattn_problem problem_of(const clattn_user_code *code, int has_blocks)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_heads = problem.kv_heads = HEADS;
    problem.query_len = ROWS;
    problem.key_len = KEYS;
    problem.head_dim = HEAD_DIM;
    problem.code = code;
    if (has_blocks) {
        problem.features = CLATTN_WITH_BLOCK_MASK;
        problem.block_mask_rows = BLOCK_ROWS;
        problem.block_mask_keys = BLOCK_KEYS;
    }
    return problem;
}

static clattn_host_tensors host_tensors(float *to, unsigned char *of_blocks)
{
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(query, HEADS, ROWS, HEAD_DIM);
    tensors.key = clattn_host_tensor_bhsd(key, HEADS, KEYS, HEAD_DIM);
    tensors.value = clattn_host_tensor_bhsd(value, HEADS, KEYS, HEAD_DIM);
    tensors.out = clattn_host_tensor_bhsd(to, HEADS, ROWS, HEAD_DIM);
    if (of_blocks) {
        tensors.block_mask = clattn_host_tensor_bhsd(of_blocks, HEADS, LINES, COLUMNS);
    }
    return tensors;
}

static void fill(float *numbers, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static void setup_numbers(void)
{
    fill(query, sizeof(query) / sizeof(query[0]), 1);
    fill(key, sizeof(key) / sizeof(key[0]), 2);
    fill(value, sizeof(value) / sizeof(value[0]), 3);
}

static void make_blocks(const clattn_problem *problem)
{
    const clattn_host_tensors tensors = host_tensors(out, blocks);
    memset(blocks, 77, sizeof(blocks));
    EXPECT_OK(clattn_block_mask_host(context, problem, NULL, &tensors));
}

/* Not farther than rounding in another order is. */
static void expect_close(const char *what)
{
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); ++i) {
        ck_assert_msg(fabsf(out[i] - plain_out[i]) <= 1e-5f, "%s: element %zu is %g, should be %g", what, i,
                      (double)out[i], (double)plain_out[i]);
    }
}

START_TEST(test_device_says_what_the_callback_says)
{
    for (size_t n = 0; n < MASKS; ++n) {
        const clattn_user_code code = code_of(masks[n].text, masks[n].twin);
        const clattn_problem problem = problem_of(&code, 1);
        const clattn_host_tensors tensors = host_tensors(out, by_callback);
        int kinds[3] = { 0, 0, 0 };
        make_blocks(&problem);
        EXPECT_OK(clattn_reference_block_mask(&problem, NULL, &tensors));
        ck_assert_mem_eq(blocks, by_callback, sizeof(blocks));
        for (size_t i = 0; i < sizeof(blocks); ++i) {
            ++kinds[blocks[i]];
        }
        ck_assert_msg(kinds[0] > 0 && kinds[1] > 0, "mask %zu: blocks of one kind try nothing", n);
        ck_assert_int_eq(n == 2 ? kinds[CLATTN_BLOCK_FULL] == 0 : kinds[CLATTN_BLOCK_FULL] > 0, 1);
    }
}
END_TEST

START_TEST(test_attention_is_what_it_is_without_blocks)
{
    static const char *const strategies[MASKS] = { "plain", "fused_simd", "staged", "fused_simd" };
    setup_numbers();
    for (size_t n = 0; n < MASKS; ++n) {
        const clattn_user_code code = code_of(masks[n].text, masks[n].twin);
        clattn_problem problem = problem_of(&code, 0);
        clattn_host_tensors tensors = host_tensors(plain_out, NULL);
        problem.strategy = strategies[n];
        EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
        problem = problem_of(&code, 1);
        make_blocks(&problem);
        tensors = host_tensors(out, blocks);
        problem.strategy = strategies[n];
        EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
        expect_close(masks[n].text);
    }
}
END_TEST

/* Rows of 16 or 32 that a kernel takes at once are in blocks of two kinds: a block has 24. */
START_TEST(test_empty_is_not_read_and_full_is_not_asked)
{
    static const unsigned char kinds[3] = { CLATTN_BLOCK_FULL, CLATTN_BLOCK_PARTIAL, CLATTN_BLOCK_EMPTY };
    const clattn_user_code hides = code_of(MASK("    return 0;\n"), nothing);
    clattn_problem problem = problem_of(&hides, 1);
    clattn_host_tensors tensors = host_tensors(out, blocks);
    setup_numbers();
    for (int j = 0; j < HEADS * KEYS; ++j) { /* the second block of keys */
        for (int c = 0; c < HEAD_DIM && j % KEYS / BLOCK_KEYS == 1; ++c) {
            key[j * HEAD_DIM + c] = value[j * HEAD_DIM + c] = (float)NAN;
        }
    }
    for (size_t i = 0; i < sizeof(blocks); ++i) {
        const size_t line = i / COLUMNS, column = i % COLUMNS;
        blocks[i] = column == 1 ? CLATTN_BLOCK_EMPTY : kinds[(line + column) % 3];
    }
    EXPECT_OK(clattn_reference_forward(&problem, NULL, &tensors));
    memcpy(plain_out, out, sizeof(out));
    ck_assert(isfinite(plain_out[0]) && fabsf(plain_out[0]) > 0);
    for (size_t s = 0; s < 2; ++s) {
        static const char *const strategies[] = { "plain", "fused_simd" };
        problem.strategy = strategies[s];
        EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
        expect_close(strategies[s]);
    }
}
END_TEST

START_TEST(test_refusals)
{
    const clattn_user_code code = code_of(masks[0].text, documents);
    clattn_problem problem = problem_of(&code, 0);
    clattn_host_tensors tensors = host_tensors(out, blocks);
    expect_error(clattn_block_mask_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "need CLATTN_WITH_BLOCK_MASK", "without the feature");
    problem = problem_of(NULL, 1);
    expect_error(clattn_block_mask_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "code: must be a text with clattn_mask", "without a text");
    problem = problem_of(&code, 1);
    tensors.block_mask.stride[1] = 0;
    expect_error(clattn_block_mask_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "block_mask.stride[1] 0", "heads that share blocks");
    tensors.block_mask.data = NULL;
    expect_error(clattn_block_mask_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "block_mask: must be given, the problem has it; its shape is [1, 2, 7, 4]", "without a block mask");
    problem.block_mask_keys = 0;
    expect_error(clattn_block_mask_host(context, &problem, NULL, &tensors), CLATTN_INVALID_SHAPE, "block_mask_keys 0",
                 "without a size");
    problem = problem_of(&code, 0);
    problem.block_mask_rows = 4;
    expect_error(clattn_forward_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "block_mask_rows 4, block_mask_keys 0: need CLATTN_WITH_BLOCK_MASK", "a size without a mask");
    clattn_plan *plan = NULL;
    problem = problem_of(&code, 1);
    EXPECT_OK(clattn_plan_create(context, &problem, &plan));
    clattn_tensors none = CLATTN_TENSORS_INIT;
    expect_error(clattn_enqueue_block_mask(plan, clattn_context_queue(context), NULL, &none, 0, NULL, NULL),
                 CLATTN_INVALID_ARGUMENT, "plan: computes forward, and this call is for plans of block masks",
                 "a plan of attention");
    clattn_plan_destroy(plan);
}
END_TEST

static void add_tests(TCase *tests)
{
    tcase_add_test(tests, test_device_says_what_the_callback_says);
    tcase_add_test(tests, test_attention_is_what_it_is_without_blocks);
    tcase_add_test(tests, test_empty_is_not_read_and_full_is_not_asked);
    tcase_add_test(tests, test_refusals);
}

int main(void)
{
    return api_main("block masks", add_tests);
}
