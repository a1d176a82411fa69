/* Texts of a user's own by the public functions: what is refused and in which words, what the compiler says, and that a
 * context goes on after it; what a text is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "clattn_backward.h"
#include "clattn_code.h"

#define ROWS 5
#define KEYS 20
#define HEAD_DIM 4

#define SCORE_OF "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
#define SCORE(body) SCORE_OF "{\n    return " body ";\n}\n"

static float query[ROWS * HEAD_DIM], key[KEYS * HEAD_DIM], value[KEYS * HEAD_DIM], out[ROWS * HEAD_DIM];

static clattn_problem problem_of(const clattn_user_code *code)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_len = ROWS;
    problem.key_len = KEYS;
    problem.head_dim = HEAD_DIM;
    problem.code = code;
    return problem;
}

static clattn_user_code score_of(const char *source)
{
    clattn_user_code code = CLATTN_USER_CODE_INIT;
    code.source = source;
    code.functions = CLATTN_CODE_SCORE;
    return code;
}

static clattn_host_tensors host_tensors(void)
{
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = clattn_host_tensor_bhsd(query, 1, ROWS, HEAD_DIM);
    tensors.key = clattn_host_tensor_bhsd(key, 1, KEYS, HEAD_DIM);
    tensors.value = clattn_host_tensor_bhsd(value, 1, KEYS, HEAD_DIM);
    tensors.out = clattn_host_tensor_bhsd(out, 1, ROWS, HEAD_DIM);
    return tensors;
}

static void refused(const clattn_user_code *code, clattn_status status, const char *text)
{
    const clattn_problem problem = problem_of(code);
    clattn_plan *plan = NULL;
    expect_error(clattn_plan_create(context, &problem, &plan), status, text, "clattn_plan_create");
    ck_assert_ptr_null(plan);
}

static void works(const clattn_user_code *code)
{
    const clattn_problem problem = problem_of(code);
    const clattn_host_tensors tensors = host_tensors();
    EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
}

START_TEST(test_texts_that_are_refused)
{
    static const struct {
        const char *source, *says;
    } texts[] = {
        { "", "code.functions 0x1: has CLATTN_CODE_SCORE, and code.source has no function clattn_score" },
        { "#include \"x.h\"\n" SCORE("s"), "code.source: line 1: #include" },
        { "\n  # include <x.h>\n" SCORE("s"), "code.source: line 2: #include" },
        { "/* */ #include <x.h>\n" SCORE("s"), "code.source: line 1: #include" },
        { "%:include <x.h>\n" SCORE("s"), "code.source: line 1: #include" },
        { "#\\\ninclude <x.h>\n" SCORE("s"), "code.source: line 1: #" },
        { "?\?=include <x.h>\n" SCORE("s"), "trigraphs" },
        { "/* *\\\n/\n#include <x.h>\n/**/" SCORE("s"), "code.source: line 3: #include" },
        { "/* *\\ \r\n/\r\n#include <x.h>\r\n/**/" SCORE("s"), "code.source: line 3: #include" },
        { "static int one;\r#include <x.h>\n" SCORE("s"), "code.source: line 2: #include" },
        { "// \\\n" SCORE("s"), "code.functions 0x1: has CLATTN_CODE_SCORE, and code.source has no function" },
        { "#line 7\n" SCORE("s"), "#line" },
        { SCORE("s") "\a", "code.source: line 5: control character 0x07" },
        { SCORE("s") "\xff", "byte 0xff is not of UTF-8" },
        { SCORE("s") "static int clattn_mine;\n", "line 5: clattn_mine: names that begin with clattn_" },
        { SCORE("s") "/* clattn_mine */ int clattn_mask;\n", "code.source has clattn_mask, which would be ignored" },
        { SCORE("(s"), "code.source: line 3: the bracket here is not closed; a ) is missing" },
        { SCORE("s)"), "code.source: line 3: ) closes nothing" },
        { SCORE("s") "}\n", "code.source: line 5: } closes nothing" },
        { SCORE("s") "static int two(void)\n{\n",
          "code.source: line 6: the bracket here is not closed; a } is missing" },
        { SCORE_OF "{\n    s * 2;\n}\n", "code.source: line 4: clattn_score ends here without a return" },
        { "#define TWICE(x) (2 * (x))\n" SCORE_OF ";\nstatic int two(void)\n{\n    return 2;\n}\n" SCORE_OF
          "{ TWICE(s); }\n",
          "code.source: line 9: clattn_score ends here without a return" },
    };
    for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); ++n) {
        const clattn_user_code code = score_of(texts[n].source);
        refused(&code, CLATTN_INVALID_ARGUMENT, texts[n].says);
    }
    char *large = malloc((1 << 20) + 1);
    ck_assert_ptr_nonnull(large);
    memset(large, ' ', 1 << 20);
    large[1 << 20] = 0;
    const clattn_user_code code = score_of(large);
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.source: has more than 65536 bytes");
    free(large);
}
END_TEST

START_TEST(test_fields_that_are_refused)
{
    clattn_user_code code = score_of(SCORE("s"));
    code.functions = 0;
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.functions 0x0");
    code.functions = CLATTN_CODE_SCORE | 64;
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.functions 0x41");
    code = score_of(SCORE("s"));
    code.tensor_count = 9;
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.tensor_count 9: must be 0 to 8");
    code.tensor_count = 1;
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.tensors[0] \"\": must have a name");
    code.tensors[0] = (clattn_code_tensor){ "2nd", CLATTN_ELEMENT_FLOAT32, 3 };
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.tensors[0] \"2nd\": must be a letter");
    code.tensors[0].name = "clattn_table";
    refused(&code, CLATTN_INVALID_ARGUMENT, "are the library's");
    code.tensors[0].name = "table";
    code.tensors[0].elements = 0;
    refused(&code, CLATTN_INVALID_SHAPE, "code.tensors[0].elements 0: must be 1 to");
    code.tensors[0] = (clattn_code_tensor){ "table", CLATTN_ELEMENT_FLOAT64, 3 };
    refused(&code, CLATTN_INVALID_ARGUMENT, "element float64: needs type float64");
    code.tensors[0].element = CLATTN_ELEMENT_FLOAT16;
    code.scalar_count = 1;
    code.scalars[0] = "table";
    refused(&code, CLATTN_INVALID_ARGUMENT, "code.scalars[0] \"table\": another tensor or scalar has that name");
    code.scalar_count = 0;
    refused(&code, CLATTN_INVALID_ARGUMENT, "is behind the last of 0, and would be ignored");
}
END_TEST

/* The compiler's words, from the text's own line and column on; and the context is as good as before. */
START_TEST(test_texts_that_do_not_compile)
{
    clattn_user_code code = score_of(SCORE("s + tabel"));
    refused(&code, CLATTN_BUILD_FAILED, "code.source:3:16:");
    ck_assert_ptr_eq(strstr(clattn_last_error(), "code.source:3:16:"), clattn_last_error());
    code.source = SCORE("s +");
    refused(&code, CLATTN_BUILD_FAILED, "code.source:3:");
    code.source = SCORE("s * 2");
    works(&code);
}
END_TEST

/* What C would let pass: functions of other types, whose numbers it converts. */
START_TEST(test_what_functions_return)
{
    static const struct {
        uint32_t functions;
        const char *source, *says;
    } texts[] = {
        { CLATTN_CODE_SCORE, "INDEX clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER) { return j; }\n",
          "code.source:1:7: conflicting types" },
        { CLATTN_CODE_SCORE, "NUMBER clattn_score(INDEX s, INDEX b, INDEX h, INDEX i, INDEX j, USER) { return 1; }\n",
          "code.source:1:8: conflicting types" },
        { CLATTN_CODE_MASK, "NUMBER clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER) { return 0.5; }\n",
          "code.source:1:8: conflicting types for 'clattn_mask'" },
        { CLATTN_CODE_SCORE, "int clattn_score(void);\n", "code.source:1:5: conflicting types for 'clattn_score'" },
    };
    for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); ++n) {
        clattn_user_code code = score_of(texts[n].source);
        code.functions = texts[n].functions;
        refused(&code, CLATTN_BUILD_FAILED, texts[n].says);
    }
    const clattn_user_code code = score_of("static " SCORE("s * 2"));
    works(&code);
}
END_TEST

/* Brackets that are no brackets, those that the preprocessor makes, and its returns. */
START_TEST(test_brackets)
{
    static const char *const texts[] = {
        SCORE("s * (')' == 41 && \"(\\\"(\"[0] == '(' ? 1 : 0)"),
        "#define OPEN (\n" SCORE("OPEN s * 2)"),
        "#define TIMES ) * (\n" SCORE("(s TIMES 2)"),
        "#if 0\n{ (\n#endif\n" SCORE("s"),
        "// (\n/* { */\n" SCORE("s"),
        "#define TWICE(x) \\\r\n    (2 * (x)\r\n" SCORE("TWICE(s))"),
        "// (\\\n(\n" SCORE("s"),
        "#define GIVE return\n" SCORE_OF "{\n    GIVE s;\n}\n",
        SCORE_OF ";\n" SCORE("s"),
    };
    for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); ++n) {
        const clattn_user_code code = score_of(texts[n]);
        works(&code);
    }
}
END_TEST

static int explains(const clattn_user_code *code, const char *strategy, const char *text)
{
    clattn_problem problem = problem_of(code);
    clattn_plan *plan = NULL;
    problem.strategy = strategy;
    EXPECT_OK(clattn_plan_create(context, &problem, &plan));
    const int found = strstr(clattn_plan_explain(plan), text) != NULL;
    clattn_plan_destroy(plan);
    return found;
}

START_TEST(test_how_wide_a_text_is)
{
    clattn_user_code code = score_of(SCORE("WHERE(j > i, s * 0.5, s)"));
    ck_assert_int_ne(explains(&code, "fused_simd", "text: sixteen pairs at once"), 0);
    ck_assert_int_ne(explains(&code, "plain", "text: score of the user's own, 0 tensors, 0 scalars"), 0);
    code.source = "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n"
                  "    if (j > i) {\n        return s * 0.5;\n    }\n    return s;\n}\n";
    ck_assert_int_ne(explains(&code, "fused_simd", "text: pair by pair"), 0);
    works(&code);
}
END_TEST

static double counting(double s, int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *inputs)
{
    (void)s;
    return 0.5 * (double)(b + 2 * h) + 0.25 * (double)(i - j) + (double)inputs->scalars[0];
}

/* A call that is a slice tells the text the numbers of the whole; scalars beyond the text's are refused. */
START_TEST(test_what_a_text_is_told)
{
    static const char *const strategies[] = { "plain", "fused_simd", "split", "staged" };
    float expected[ROWS * HEAD_DIM];
    clattn_user_code code = score_of(SCORE("0.5 * TO_NUMBER(b + 2 * h) + 0.25 * TO_NUMBER(i - j) + SCALAR(more)"));
    code.scalar_count = 1;
    code.scalars[0] = "more";
    code.score = counting;
    clattn_problem problem = problem_of(&code);
    clattn_host_tensors tensors = host_tensors();
    clattn_call call = CLATTN_CALL_INIT;
    problem.bias_type = CLATTN_FLOAT32; /* beside which a constant is seen */
    float bias[ROWS * KEYS] = { 0 };
    for (int n = 0; n < KEYS * HEAD_DIM; ++n) {
        value[n] = (float)(n % 7) - 3;
    }
    for (int n = 0; n < ROWS * KEYS; ++n) {
        bias[n] = (float)(n % 5);
    }
    tensors.bias = clattn_host_tensor_bhsd(bias, 1, ROWS, KEYS);
    problem.features = CLATTN_WITH_SINKS; /* and it against a sink */
    float sink = 3;
    tensors.sinks = clattn_host_tensor_bhsd(&sink, 1, 1, 1);
    call.first_batch = 1;
    call.first_head = 1;
    call.first_row = 3;
    call.first_key = 2;
    call.whole_heads = 4;
    call.code_scalars[0] = 0.5f;
    tensors.out.data = expected;
    EXPECT_OK(clattn_reference_forward(&problem, &call, &tensors));
    tensors.out.data = out;
    for (size_t n = 0; n < sizeof(strategies) / sizeof(strategies[0]); ++n) {
        problem.strategy = strategies[n];
        EXPECT_OK(clattn_forward_host(context, &problem, &call, &tensors));
        for (int c = 0; c < ROWS * HEAD_DIM; ++c) {
            ck_assert_float_eq_tol(out[c], expected[c], 1e-5f);
        }
    }
    call.code_scalars[1] = 1;
    expect_error(clattn_forward_host(context, &problem, &call, &tensors), CLATTN_INVALID_ARGUMENT,
                 "code_scalars[1] 1: problem.code has 1 scalars", "clattn_forward_host");
}
END_TEST

START_TEST(test_what_is_missing)
{
    clattn_user_code code = score_of(SCORE("s"));
    clattn_problem problem = problem_of(&code);
    const clattn_host_tensors tensors = host_tensors();
    expect_error(clattn_reference_forward(&problem, NULL, &tensors), CLATTN_UNSUPPORTED, "code.score: is NULL",
                 "clattn_reference_forward");
    clattn_backward_problem backward = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_plan *plan = NULL;
    backward.forward = &problem;
    backward.gradients = CLATTN_GRADIENT_QUERY;
    expect_error(clattn_backward_plan_create(context, &backward, &plan), CLATTN_UNSUPPORTED,
                 "gradients need the derivative of clattn_score", "clattn_backward_plan_create");
    code.tensor_count = 1;
    code.tensors[0] = (clattn_code_tensor){ "table", CLATTN_ELEMENT_FLOAT32, 3 };
    expect_error(clattn_forward_host(context, &problem, NULL, &tensors), CLATTN_INVALID_ARGUMENT,
                 "code_tensors[0]: must be given", "clattn_forward_host");
}
END_TEST

static void add_tests(TCase *tests)
{
    tcase_add_test(tests, test_texts_that_are_refused);
    tcase_add_test(tests, test_fields_that_are_refused);
    tcase_add_test(tests, test_texts_that_do_not_compile);
    tcase_add_test(tests, test_what_functions_return);
    tcase_add_test(tests, test_brackets);
    tcase_add_test(tests, test_how_wide_a_text_is);
    tcase_add_test(tests, test_what_a_text_is_told);
    tcase_add_test(tests, test_what_is_missing);
}

int main(void)
{
    return api_main("user code", add_tests);
}
