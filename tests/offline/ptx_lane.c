/* Arithmetic of PTX, a lane's (ptx_lane.h). */
#include "ptx_lane.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

static const char *const names[OP_OTHER] = { "add", "sub", "mul",  "mad",  "fma", "div", "rem",  "min",
                                             "max", "abs", "neg",  "not",  "and", "or",  "xor",  "shl",
                                             "shr", "bfe", "selp", "setp", "mov", "cvt", "cvta", "ex2",
                                             "lg2", "rcp", "sqrt", "ld",   "st",  "bra", "ret",  "trap" };

static int type_of(const char *word)
{
    if (strcmp(word, "pred") == 0) {
        return TYPE(UNSIGNED, 1);
    }
    const int bits = atoi(word + (strncmp(word, "bf", 2) == 0 ? 2 : 1));
    return word[0] == 'f'                ? TYPE(FLOAT, bits)
           : strncmp(word, "bf", 2) == 0 ? TYPE(BFLOAT, bits)
           : word[0] == 's'              ? TYPE(SIGNED, bits)
                                         : TYPE(UNSIGNED, bits);
}

void ptx_decode(struct ptx_instruction *i)
{
    for (i->op = 0; i->op < OP_OTHER && strcmp(names[i->op], i->words[0]) != 0; ++i->op) {
    }
    i->type = i->n_words > 1 ? type_of(i->words[i->n_words - 1]) : 0;
    i->is_decoded = 1;
}

uint64_t ptx_mask(int bits)
{
    return bits >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
}

int64_t ptx_signed(uint64_t x, int bits)
{
    return bits >= 64 ? (int64_t)x : (int64_t)(x << (64 - bits)) >> (64 - bits);
}

static float float_of(uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float x;
    memcpy(&x, &word, sizeof(x));
    return x;
}

static uint64_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof(word));
    return word;
}

static float wide(uint64_t x, int type)
{
    return BITS(type) == 32      ? float_of(x)
           : KIND(type) == FLOAT ? (float)half_to_double((uint16_t)x)
                                 : float_of(x << 16);
}

static int compare(const struct ptx_instruction *i, int type, uint64_t a, uint64_t b)
{
    const char *how = i->words[1];
    int less, equal, is_nan = 0;
    if (KIND(type) >= FLOAT) {
        const float x = wide(a, type), y = wide(b, type);
        is_nan = isnan(x) || isnan(y);
        less = x < y;
        equal = x == y;
    } else if (KIND(type) == SIGNED) {
        less = ptx_signed(a, BITS(type)) < ptx_signed(b, BITS(type));
        equal = ((a ^ b) & ptx_mask(BITS(type))) == 0;
    } else {
        less = (a & ptx_mask(BITS(type))) < (b & ptx_mask(BITS(type)));
        equal = ((a ^ b) & ptx_mask(BITS(type))) == 0;
    }
    if (strcmp(how, "nan") == 0 || strcmp(how, "num") == 0) {
        return (how[1] == 'a') == is_nan;
    }
    const int unordered = KIND(type) >= FLOAT && how[strlen(how) - 1] == 'u';
    if (is_nan) {
        return unordered; /* "ne" of a NaN is false, "neu" true */
    }
    switch (how[0] << 8 | how[1]) {
    case 'e' << 8 | 'q':
        return equal;
    case 'n' << 8 | 'e':
        return !equal;
    case 'l' << 8 | 't':
    case 'l' << 8 | 'o':
        return less;
    case 'l' << 8 | 'e':
    case 'l' << 8 | 's':
        return less || equal;
    case 'g' << 8 | 't':
        return !less && !equal;
    case 'g' << 8 | 'e':
        return !less;
    default:
        ptx_fail(i, "comparison");
        return 0;
    }
}

static uint64_t float_result(const struct ptx_instruction *i, float a, float b, float c)
{
    switch (i->op) {
    case OP_ADD:
        return bits_of(a + b);
    case OP_SUB:
        return bits_of(a - b);
    case OP_MUL:
        return bits_of(a * b);
    case OP_FMA:
        return bits_of(fmaf(a, b, c));
    case OP_DIV:
        return bits_of(a / b);
    case OP_MIN:
        return bits_of(fminf(a, b));
    case OP_MAX:
        return bits_of(fmaxf(a, b));
    case OP_ABS:
        return bits_of(fabsf(a));
    case OP_NEG:
        return bits_of(-a);
    case OP_EX2:
        return bits_of(a < -126 ? 0 : exp2f(a));
    case OP_LG2:
        return bits_of(log2f(a));
    case OP_RCP:
        return bits_of(1 / a);
    case OP_SQRT:
        return bits_of(sqrtf(a));
    default:
        ptx_fail(i, "of floats");
        return 0;
    }
}

__extension__ typedef __int128 wide_signed;
__extension__ typedef unsigned __int128 wide_unsigned;

static uint64_t integer_result(const struct ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const int bits = BITS(i->type), is_signed = KIND(i->type) == SIGNED;
    const uint64_t ua = a & ptx_mask(bits), ub = b & ptx_mask(bits);
    const int64_t sa = ptx_signed(a, bits), sb = ptx_signed(b, bits);
    switch (i->op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        if (ptx_has(i, "hi")) {
            return is_signed ? (uint64_t)((wide_signed)sa * sb >> bits) : (uint64_t)((wide_unsigned)ua * ub >> bits);
        }
        return ptx_has(i, "wide") ? (is_signed ? (uint64_t)(sa * sb) : ua * ub) : a * b;
    case OP_MAD:
        return (ptx_has(i, "wide") ? (is_signed ? (uint64_t)(sa * sb) : ua * ub) : a * b) + c;
    case OP_DIV:
        return is_signed ? (uint64_t)(sb ? sa / sb : -1) : ub ? ua / ub : ~(uint64_t)0;
    case OP_REM:
        return is_signed ? (uint64_t)(sb ? sa % sb : sa) : ub ? ua % ub : ua;
    case OP_MIN:
        return is_signed ? (sa < sb ? a : b) : ua < ub ? a : b;
    case OP_MAX:
        return is_signed ? (sa > sb ? a : b) : ua > ub ? a : b;
    case OP_ABS:
        return (uint64_t)(sa < 0 ? -sa : sa);
    case OP_NEG:
        return (uint64_t)-sa;
    case OP_NOT:
        return ~a;
    case OP_AND:
        return a & b;
    case OP_OR:
        return a | b;
    case OP_XOR:
        return a ^ b;
    case OP_SHL:
        return (b & 0xffffffffu) >= (unsigned)bits ? 0 : a << (b & 0x3f);
    case OP_SHR:
        b = (b & 0xffffffffu) >= (unsigned)bits ? (unsigned)bits - 1 + !is_signed : (b & 0x7f);
        return is_signed ? (uint64_t)(sa >> b) : b >= 64 ? 0 : ua >> b;
    case OP_BFE:
        b = ua >> (b & 0xff) & ptx_mask((int)(c & 0xff));
        return is_signed && c & 0xff ? (uint64_t)ptx_signed(b, (int)(c & 0xff)) : b;
    default:
        ptx_fail(i, "of integers");
        return 0;
    }
}

static uint64_t narrow(float x, int is_bfloat)
{
    return is_bfloat ? bfloat16_from_double((double)x) : half_from_double((double)x);
}

/* cvt.TO.FROM, and of two to a word: the first operand becomes the upper half. */
static uint64_t convert(const struct ptx_instruction *i, uint64_t a, uint64_t b)
{
    const char *to_word = i->words[i->n_words - 2];
    const int from = i->type, to = type_of(to_word);
    if (strstr(to_word, "x2")) {
        const int is_bfloat = to_word[0] == 'b';
        return narrow(float_of(a), is_bfloat) << 16 | narrow(float_of(b), is_bfloat);
    }
    if (KIND(from) >= FLOAT && KIND(to) >= FLOAT) {
        const float x = wide(a, from);
        return BITS(to) == 32 ? bits_of(x) : narrow(x, KIND(to) == BFLOAT);
    }
    if (KIND(from) >= FLOAT) {
        const float x = ptx_has(i, "rni") ? rintf(wide(a, from)) : wide(a, from);
        const double most = ldexp(1, BITS(to) - (KIND(to) == SIGNED)) - 1, least = KIND(to) == SIGNED ? -most - 1 : 0;
        return isnan(x) ? 0 : (uint64_t)(int64_t)fmax(least, fmin(most, (double)x));
    }
    const uint64_t wide_a = KIND(from) == SIGNED ? (uint64_t)ptx_signed(a, BITS(from)) : a & ptx_mask(BITS(from));
    if (KIND(to) >= FLOAT) {
        return bits_of(KIND(from) == SIGNED ? (float)(int64_t)wide_a : (float)wide_a);
    }
    return wide_a;
}

uint64_t ptx_lane_result(const struct ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    switch (i->op) {
    case OP_MOV:
    case OP_CVTA:
        return a;
    case OP_SELP:
        return c & 1 ? a : b;
    case OP_SETP:
        return (uint64_t)compare(i, i->type, a, b);
    case OP_CVT:
        return convert(i, a, b);
    default:
        return KIND(i->type) == FLOAT ? float_result(i, float_of(a), float_of(b), float_of(c))
                                      : integer_result(i, a, b, c);
    }
}

int ptx_result_bits(const struct ptx_instruction *i)
{
    if (i->op == OP_SETP) {
        return 1;
    }
    if (i->op == OP_CVT) {
        return strstr(i->words[i->n_words - 2], "x2") ? 32 : BITS(type_of(i->words[i->n_words - 2]));
    }
    return ptx_has(i, "wide") ? 2 * BITS(i->type) : BITS(i->type);
}
