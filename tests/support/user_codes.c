/* Twelve texts: the eight that the design is judged by, the identity, and what compilers and kernels find hard. */
#include "user_codes.h"

#include "grammar_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCORE "NUMBER clattn_score(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
#define SLOPE "NUMBER clattn_score_slope(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
#define MASK "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n"
#define SLOPE_1 SLOPE "{\n    return 1;\n}\n"

#define TWIN_SCORE(name)                                                                                               \
    static double name(double s, int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *in)
#define TWIN_MASK(name) static int name(int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *in)
#define UNUSED_PLACE (void)b, (void)h, (void)i, (void)j, (void)in

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static double scalar(const clattn_code_inputs *in, int n)
{
    return (double)in->scalars[n];
}

TWIN_SCORE(slope_of_1)
{
    UNUSED_PLACE;
    (void)s;
    return 1;
}

TWIN_SCORE(identity)
{
    UNUSED_PLACE;
    return s;
}

TWIN_SCORE(alibi)
{
    (void)b;
    return s - (double)(h + 1) * scalar(in, 0) * fabs((double)(i + in->offset - j));
}

TWIN_SCORE(softcap)
{
    UNUSED_PLACE;
    return scalar(in, 0) * tanh(s / scalar(in, 0));
}

TWIN_SCORE(softcap_slope)
{
    UNUSED_PLACE;
    const double t = tanh(s / scalar(in, 0));
    return 1 - t * t;
}

TWIN_MASK(window)
{
    UNUSED_PLACE;
    const int64_t position = i + in->offset;
    return j <= position && (position - j <= 40 || j < 4);
}

TWIN_SCORE(relative)
{
    (void)b;
    return s + clattn_code_load(in, 0, h % 4 * 127 + clamp(j - i + 63, 0, 126));
}

TWIN_SCORE(t5)
{
    (void)b;
    const int64_t bucket = (int64_t)(clattn_code_load(in, 0, clamp(j - i + 64, 0, 128)) * 4) & 7;
    return s + clattn_code_load(in, 1, bucket * 8 + h % 8);
}

TWIN_MASK(documents)
{
    (void)b;
    (void)h;
    return (int)clattn_code_load(in, 0, i % 512) == (int)clattn_code_load(in, 0, j % 512);
}

TWIN_MASK(prefix)
{
    (void)h;
    return j <= i + in->offset || j < 16 + 8 * (int64_t)clattn_code_load(in, 0, b % 8);
}

TWIN_MASK(neighbours)
{
    UNUSED_PLACE;
    const int64_t rows = i / 16 - j / 16, columns = i % 16 - j % 16;
    return (rows < 0 ? -rows : rows) <= 3 && (columns < 0 ? -columns : columns) <= 3;
}

/* Some keys are hidden by the score, all of them from row 5. */
TWIN_SCORE(hiding)
{
    UNUSED_PLACE;
    return j % 3 == 1 || i == 5 ? -(double)INFINITY : s * 0.75;
}

TWIN_SCORE(hiding_slope)
{
    UNUSED_PLACE;
    (void)s;
    return 0.75;
}

/* Loops and branches: no compiler makes sixteen at once of it. */
TWIN_SCORE(branching)
{
    UNUSED_PLACE;
    double sum = s;
    for (int n = 0; n < (j - i) % 3; ++n) {
        sum = sum * 0.5 + scalar(in, 0);
    }
    return i > j ? sum + 0.25 : sum;
}

TWIN_SCORE(branching_slope)
{
    UNUSED_PLACE;
    (void)s;
    double slope = 1;
    for (int n = 0; n < (j - i) % 3; ++n) {
        slope *= 0.5;
    }
    return slope;
}

TWIN_SCORE(leaky)
{
    UNUSED_PLACE;
    return s > 0 ? s : s * scalar(in, 0);
}

TWIN_SCORE(leaky_slope)
{
    UNUSED_PLACE;
    return s > 0 ? 1 : scalar(in, 0);
}

TWIN_MASK(heads)
{
    (void)b;
    (void)in;
    return (i + j + h) % 2 == 0 || j <= h;
}

#define TENSOR(name, element, elements)                                                                                \
    {                                                                                                                  \
        name, CLATTN_ELEMENT_##element, elements                                                                       \
    }
#define ALL (CLATTN_CODE_SCORE | CLATTN_CODE_SCORE_SLOPE)

/* .scalars of the code are names, .scalars of the row their values. */
#define CODE .code.struct_size = sizeof(clattn_user_code), .code
static const struct test_code table[] = {
    { "identity", CODE.source = SCORE "{\n    return s;\n}\n" SLOPE_1, .code.functions = ALL, .code.score = identity,
      .code.score_slope = slope_of_1 },
    { "alibi",
      CODE.source = SCORE
      "{\n    return s - TO_NUMBER(h + 1) * SCALAR(rate) * fabs(TO_NUMBER(POSITION(i) - j));\n}\n" SLOPE_1,
      .code.functions = ALL, .code.score = alibi, .code.score_slope = slope_of_1, .code.scalar_count = 1,
      .code.scalars = { "rate" }, .scalars = { 0.03125f } },
    { "softcap",
      CODE.source = SCORE "{\n    return SCALAR(cap) * tanh(s / SCALAR(cap));\n}\n" SLOPE
                          "{\n    const NUMBER t = tanh(s / SCALAR(cap));\n    return 1 - t * t;\n}\n",
      .code.functions = ALL, .code.score = softcap, .code.score_slope = softcap_slope, .code.scalar_count = 1,
      .code.scalars = { "cap" }, .scalars = { 3.0f } },
    { "window", CODE.source = MASK "{\n    return j <= POSITION(i) && (POSITION(i) - j <= 40 || j < 4);\n}\n",
      .code.functions = CLATTN_CODE_MASK, .code.mask = window },
    { "relative",
      CODE.source = SCORE "{\n    return s + LOAD(table, h % 4 * 127 + clamp(j - i + 63, 0, 126));\n}\n" SLOPE_1,
      .code.functions = ALL, .code.score = relative, .code.score_slope = slope_of_1, .code.tensor_count = 1,
      .code.tensors = { TENSOR("table", FLOAT32, 4 * 127) }, .low = -1, .high = 1 },
    { "t5",
      CODE.source = SCORE "{\n    const INDEX bucket = TO_INDEX(LOAD(distances, clamp(j - i + 64, 0, 128)) * 4) & 7;\n"
                          "    return s + LOAD(biases, bucket * 8 + h % 8);\n}\n" SLOPE_1,
      .code.functions = ALL, .code.score = t5, .code.score_slope = slope_of_1, .code.tensor_count = 2,
      .code.tensors = { TENSOR("distances", FLOAT16, 129), TENSOR("biases", BFLOAT16, 64) }, .low = -2, .high = 2 },
    { "documents", CODE.source = MASK "{\n    return LOAD(document, i % 512) == LOAD(document, j % 512);\n}\n",
      .code.functions = CLATTN_CODE_MASK, .code.mask = documents, .code.tensor_count = 1,
      .code.tensors = { TENSOR("document", INT32, 512) }, .low = 0, .high = 4 },
    { "prefix", CODE.source = MASK "{\n    return j <= POSITION(i) || j < 16 + 8 * LOAD(lengths, b % 8);\n}\n",
      .code.functions = CLATTN_CODE_MASK, .code.mask = prefix, .code.tensor_count = 1,
      .code.tensors = { TENSOR("lengths", UINT8, 8) }, .low = 0, .high = 9 },
    { "neighbours",
      CODE.source = "/* |x| of an INDEX, as an INDEX */\n#define SIZE_OF(x) max(x, -(x))\n" MASK
                    "{\n    return SIZE_OF(i / 16 - j / 16) <= 3 && SIZE_OF(i % 16 - j % 16) <= 3;\n}\n",
      .code.functions = CLATTN_CODE_MASK, .code.mask = neighbours },
    { "hiding",
      CODE.source = SCORE "{\n    return WHERE(j % 3 == 1 || i == 5, (NUMBER)(-INFINITY), s * 0.75);\n}\n" SLOPE
                          "{\n    return 0.75;\n}\n",
      .code.functions = ALL, .code.score = hiding, .code.score_slope = hiding_slope },
    { "branching",
      CODE.source =
          "static NUMBER halved(NUMBER x, INDEX times, USER)\n{\n    for (int n = 0; n < times; ++n) {\n"
          "        x = x * 0.5 + SCALAR(more);\n    }\n    return x;\n}\n" SCORE
          "{\n    s = halved(s, (j - i) % 3, user);\n    if (i > j) {\n        s += 0.25;\n    }\n    return s;\n"
          "}\n" SLOPE "{\n    NUMBER slope = 1;\n    for (int n = 0; n < (j - i) % 3; ++n) {\n"
          "        slope *= 0.5;\n    }\n    return slope;\n}\n",
      .code.functions = ALL, .code.score = branching, .code.score_slope = branching_slope, .code.scalar_count = 1,
      .code.scalars = { "more" }, .scalars = { 0.125f } },
    { "leaky_heads",
      CODE.source = SCORE "{\n    return WHERE(s > 0, s, s * SCALAR(leak));\n}\n" SLOPE
                          "{\n    return WHERE(s > 0, (NUMBER)1, (NUMBER)SCALAR(leak));\n}\n" MASK
                          "{\n    return (i + j + h) % 2 == 0 || j <= h;\n}\n",
      .code.functions = ALL | CLATTN_CODE_MASK, .code.score = leaky, .code.score_slope = leaky_slope,
      .code.mask = heads, .code.scalar_count = 1, .code.scalars = { "leak" }, .scalars = { 0.25f } },
};
#define TABLE (sizeof(table) / sizeof(table[0]))

const struct test_code *test_code_at(size_t n)
{
    return n < TABLE ? &table[n] : NULL;
}

static const struct test_code *find(const char *name)
{
    for (size_t n = 0; n < TABLE; ++n) {
        if (strcmp(table[n].name, name) == 0) {
            return &table[n];
        }
    }
    return NULL;
}

int test_code_known(const char *name)
{
    if (!name || strcmp(name, "any") == 0 || strcmp(name, "grammar") == 0 || find(name)) {
        return 0;
    }
    fprintf(stderr, "tests: --code %s: there is no such text\n", name);
    return -1;
}

const struct test_code *test_code_of(const char *name, uint64_t index)
{
    return !name                          ? NULL
           : strcmp(name, "any") == 0     ? &table[index / 4 % TABLE]
           : strcmp(name, "grammar") == 0 ? grammar_text(index)
                                          : find(name);
}

static double value_of(struct random *random, const int64_t index[4], const void *context)
{
    const struct test_code *code = context;
    (void)index;
    return code->low + (code->high - code->low) * random_unit(random);
}

void test_code_fill(const struct test_code *code, struct test_call *test)
{
    struct random random = random_start(0x74657874, 1);
    for (int n = 0; n < code->code.tensor_count; ++n) {
        const struct test_layout behind = { { 0, 1, 2, 3 }, { 0 }, { 0 }, { 0 }, 3 + n, 1 };
        struct test_array *array = &test->arrays[TENSOR_CODE_0 + n];
        free(array->data); /* where it has a place already */
        free(array->reached);
        test_call_place(test, (enum tensor_id)(TENSOR_CODE_0 + n), &behind);
        test_call_fill(test, (enum tensor_id)(TENSOR_CODE_0 + n), &random, value_of, code);
    }
    memcpy(test->values.code_scalars, code->scalars, sizeof(code->scalars));
}
