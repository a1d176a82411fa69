/* What an instruction of PTX is, and what it makes of one lane's numbers. */
#ifndef CLATTN_TESTS_PTX_LANE_H
#define CLATTN_TESTS_PTX_LANE_H

#include "ptx.h"

enum op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_MAD,
    OP_FMA,
    OP_DIV,
    OP_REM,
    OP_MIN,
    OP_MAX,
    OP_ABS,
    OP_NEG,
    OP_NOT,
    OP_AND,
    OP_OR,
    OP_XOR,
    OP_SHL,
    OP_SHR,
    OP_BFE,
    OP_SELP,
    OP_SETP,
    OP_MOV,
    OP_CVT,
    OP_CVTA,
    OP_EX2,
    OP_LG2,
    OP_RCP,
    OP_SQRT,
    OP_LD,
    OP_ST,
    OP_BRA,
    OP_RET,
    OP_TRAP,
    OP_OTHER
};
/* A type: what it is, and its bits. */
#define TYPE(kind, bits) ((kind) << 8 | (bits))
enum { UNSIGNED, SIGNED, FLOAT, BFLOAT };
#define KIND(type) ((type) >> 8)
#define BITS(type) ((type)&0xff)

/* Fills op and type, from the words. */
void ptx_decode(struct ptx_instruction *i);

uint64_t ptx_mask(int bits);
int64_t ptx_signed(uint64_t x, int bits);

/* What an instruction that computes makes of its operands; how many bits of that count. */
uint64_t ptx_lane_result(const struct ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c);
int ptx_result_bits(const struct ptx_instruction *i);

#endif
