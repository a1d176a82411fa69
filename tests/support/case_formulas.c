#include "case_formulas.h"

#include <math.h>
#include <string.h>

/* ---- the words of a text, in C ---- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double load_named(const clattn_code_inputs *user, const char *name, int64_t index)
{
    for (int n = 0; n < user->code->tensor_count; ++n) {
        if (strcmp(user->code->tensors[n].name, name) == 0) {
            return clattn_code_load(user, n, index);
        }
    }
    return NAN;
}

static double scalar_named(const clattn_code_inputs *user, const char *name)
{
    for (int n = 0; n < user->code->scalar_count; ++n) {
        if (strcmp(user->code->scalars[n], name) == 0) {
            return (double)user->scalars[n];
        }
    }
    return NAN;
}

#define NUMBER double
#define INDEX int64_t
#define TRUTH int
#define LOAD(name, index) load_named(user, #name, index)
#define SCALAR(name) scalar_named(user, #name)
#define TO_NUMBER(x) ((double)(x))
#define TO_INDEX(x) ((int64_t)(x))
#define WHERE(condition, a, b) ((condition) ? (a) : (b))
#define min smaller
#define max larger

/* ---- a formula's functions: the text, and itself as a callback ---- */

#define PAIR int64_t b, int64_t h, int64_t i, int64_t j, const clattn_code_inputs *user
#define UNUSED_PAIR (void)b, (void)h, (void)i, (void)j, (void)user
#define SCORE_OF(function, name, source, ...)                                                                          \
    static const char name##_text[] = "NUMBER " function                                                               \
                                      "(NUMBER s, INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n" source "\n}\n";      \
    static double name(double s, PAIR)                                                                                 \
    {                                                                                                                  \
        UNUSED_PAIR, (void)s;                                                                                          \
        __VA_ARGS__                                                                                                    \
    }
#define SCORE(name, ...) SCORE_OF("clattn_score", name##_score, #__VA_ARGS__, __VA_ARGS__)
#define SLOPE(name, ...) SCORE_OF("clattn_score_slope", name##_slope, #__VA_ARGS__, __VA_ARGS__)
#define MASK(name, ...)                                                                                                \
    static const char name##_mask_text[] =                                                                             \
        "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n" #__VA_ARGS__ "\n}\n";                       \
    static int name##_mask(PAIR)                                                                                       \
    {                                                                                                                  \
        UNUSED_PAIR;                                                                                                   \
        __VA_ARGS__                                                                                                    \
    }

/* ---- the formulas ---- */

/* clang-format off */
SLOPE(unchanged, return 1;)

SCORE(alibi, return s - LOAD(slopes, h) * fabs(TO_NUMBER(i - j) + SCALAR(shift));)

SCORE(relative,
    const INDEX reach = TO_INDEX((NUMBER)SCALAR(reach));
    return s + LOAD(table, h * (2 * reach + 1) + max(min(j - i + reach, 2 * reach), (INDEX)0));)

SCORE(t5,
    const INDEX reach = TO_INDEX((NUMBER)SCALAR(reach));
    const INDEX bucket = TO_INDEX(LOAD(bucket, max(min(j - i + reach, 2 * reach), (INDEX)0)));
    return s + LOAD(table, h * TO_INDEX((NUMBER)SCALAR(table_1)) + bucket);)

SCORE(softcap, return SCALAR(cap) * tanh(s / SCALAR(cap));)
SLOPE(softcap,
    const NUMBER t = tanh(s / SCALAR(cap));
    return 1 - t * t;)

SCORE(both,
    const INDEX reach = TO_INDEX((NUMBER)SCALAR(reach));
    return SCALAR(cap) * tanh(s / SCALAR(cap)) +
           LOAD(table, h * (2 * reach + 1) + max(min(j - i + reach, 2 * reach), (INDEX)0));)
MASK(both,
    const INDEX of_row = TO_INDEX(LOAD(document_q, b * TO_INDEX((NUMBER)SCALAR(document_q_1)) + i));
    const INDEX of_key = TO_INDEX(LOAD(document_k, b * TO_INDEX((NUMBER)SCALAR(document_k_1)) + j));
    return of_row == of_key || TO_NUMBER(j) < SCALAR(globals);)

SCORE(forgetting,
    const INDEX line = (b * TO_INDEX((NUMBER)SCALAR(f_1)) + h) * TO_INDEX((NUMBER)SCALAR(f_2));
    return s + LOAD(f, line + i + TO_INDEX((NUMBER)SCALAR(shift))) - LOAD(f, line + j);)
MASK(forgetting, return TO_NUMBER(j) <= TO_NUMBER(i) + SCALAR(shift);)

SCORE(gate, return s * LOAD(gate, h * TO_INDEX((NUMBER)SCALAR(gate_1)) + i);)
SLOPE(gate, return LOAD(gate, h * TO_INDEX((NUMBER)SCALAR(gate_1)) + i);)

SCORE(factored,
    const INDEX row = (b * TO_INDEX((NUMBER)SCALAR(rel_h_1)) + h) * TO_INDEX((NUMBER)SCALAR(rel_h_2)) + i;
    const INDEX columns = TO_INDEX((NUMBER)SCALAR(rel_w_3));
    return s + LOAD(rel_h, row * TO_INDEX((NUMBER)SCALAR(rel_h_3)) + j / columns) +
           LOAD(rel_w, row * columns + j % columns);)

SCORE(gaussian,
    const NUMBER x = (TO_NUMBER(i - j) + SCALAR(shift)) / SCALAR(width);
    return s - x * x;)

MASK(heads,
    const INDEX near = TO_INDEX((NUMBER)SCALAR(near));
    const INDEX stride = TO_INDEX((NUMBER)SCALAR(stride));
    return (h % 2 == 0 && max(i - j, j - i) <= near) ||
           (h % 2 != 0 && (j % stride == 0 || (j <= i && j > i - near)));)

SCORE(kerple, return s - LOAD(r1, h) * log(1 + LOAD(r2, h) * fabs(TO_NUMBER(i - j) + SCALAR(shift)));)

SCORE(leaky, return WHERE(s > 0, s, s * SCALAR(leak));)
SLOPE(leaky, return WHERE(s > 0, (NUMBER)1, (NUMBER)SCALAR(leak));)

MASK(neighbourhood,
    const INDEX width = TO_INDEX((NUMBER)SCALAR(width));
    const INDEX radius = TO_INDEX((NUMBER)SCALAR(radius));
    const INDEX lines = i / width - j / width;
    const INDEX columns = i % width - j % width;
    return max(lines, -lines) <= radius && max(columns, -columns) <= radius;)

MASK(intervals,
    const INDEX heads = TO_INDEX((NUMBER)SCALAR(row_intervals_1));
    const INDEX rows = TO_INDEX((NUMBER)SCALAR(row_intervals_2));
    const INDEX ends = ((b * heads + h % heads) * rows + i) * TO_INDEX((NUMBER)SCALAR(row_intervals_3));
    TRUTH seen = 0;
    for (int n = 0; n < (int)SCALAR(row_intervals_3); n += 2) {
        seen |= j >= TO_INDEX(LOAD(row_intervals, ends + n)) && j < TO_INDEX(LOAD(row_intervals, ends + n + 1));
    }
    return seen;)

MASK(prefix, return j <= i || j < TO_INDEX(LOAD(prefix, b));)

SCORE(softsign, return SCALAR(gain) * s / (1 + fabs(s));)
SLOPE(softsign, return SCALAR(gain) / ((1 + fabs(s)) * (1 + fabs(s)));)
/* clang-format on */

/* ---- the table ---- */

#define BOTH (CLATTN_CODE_SCORE | CLATTN_CODE_SCORE_SLOPE)
static const struct {
    const char *name, *text[3];
    uint32_t functions;
    clattn_score_callback *score, *slope;
    clattn_mask_callback *mask;
} formulas[] = {
#define OF_SCORE(of, slope)                                                                                            \
    {                                                                                                                  \
#of, { of##_score_text, slope##_slope_text, "" }, BOTH, of##_score, slope##_slope, NULL                        \
    }
#define OF_MASK(of)                                                                                                    \
    {                                                                                                                  \
#of, { "", "", of##_mask_text }, CLATTN_CODE_MASK, NULL, NULL, of##_mask                                       \
    }
#define OF_ALL(of, slope)                                                                                              \
    {                                                                                                                  \
#of, { of##_score_text, slope##_slope_text, of##_mask_text }, BOTH | CLATTN_CODE_MASK, of##_score,             \
               slope##_slope, of##_mask                                                                                \
    }
    OF_SCORE(alibi, unchanged),
    OF_ALL(both, softcap),
    OF_SCORE(factored, unchanged),
    OF_ALL(forgetting, unchanged),
    OF_SCORE(gate, gate),
    OF_SCORE(gaussian, unchanged),
    OF_MASK(heads),
    OF_SCORE(kerple, unchanged),
    OF_SCORE(leaky, leaky),
    OF_MASK(neighbourhood),
    OF_MASK(intervals),
    OF_MASK(prefix),
    OF_SCORE(relative, unchanged),
    OF_SCORE(softcap, softcap),
    OF_SCORE(softsign, softsign),
    OF_SCORE(t5, unchanged),
};
#define FORMULAS (sizeof(formulas) / sizeof(formulas[0]))

/* A text of each formula, joined once. */
#define SOURCE_BYTES 2048

int case_formula_find(const char *name, clattn_user_code *code)
{
    static char sources[FORMULAS][SOURCE_BYTES];
    for (size_t n = 0; n < FORMULAS; ++n) {
        if (strcmp(formulas[n].name, name) == 0) {
            sources[n][0] = 0;
            for (int part = 0; part < 3; ++part) {
                strncat(sources[n], formulas[n].text[part], SOURCE_BYTES - 1 - strlen(sources[n]));
            }
            code->source = sources[n];
            code->functions = formulas[n].functions;
            code->score = formulas[n].score;
            code->score_slope = formulas[n].slope;
            code->mask = formulas[n].mask;
            return 0;
        }
    }
    return -1;
}
