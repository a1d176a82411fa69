/* The kinds of FLASH_ATTN_EXT nodes that the tests of plugins/ggml compute. */
#ifndef TESTS_PLUGINS_GGML_CASES_H
#define TESTS_PLUGINS_GGML_CASES_H

#include "nodes.h"

/* A row: name, types of keys and values, head_dim, head_dim_v, heads, kv_heads, rows, keys, batch, mask, mask_heads,
 * mask_batch, has_sinks, is_permuted, max_bias, softcap. */
#define ROW(name, key_type, value_type, dim, dim_v, heads, kv_heads, rows, keys, batch, mask, ...)                     \
    {                                                                                                                  \
        name, GGML_TYPE_##key_type, GGML_TYPE_##value_type, dim, dim_v, heads, kv_heads, rows, keys, batch,            \
            MASK_##mask, __VA_ARGS__                                                                                   \
    }
#define PROMPT(type) ROW("prompt, " #type, type, type, 64, 64, 9, 3, 33, 256, 1, PADDED, 1, 1, 0, 1, 0, 0)
#define TOKEN(type) ROW("token, " #type, type, type, 64, 64, 9, 3, 1, 512, 1, PADDED, 1, 1, 0, 1, 0, 0)
#define TYPES(T) T(F32), T(F16), T(BF16), T(Q8_0), T(Q4_0), T(Q4_1), T(Q5_0), T(Q5_1)

/* clang-format off */
static const struct node_case cases[] = {
    TYPES(PROMPT),
    TYPES(TOKEN),
    ROW("no mask",                            F16,  F16,   64,  64,  6, 2, 20,  100, 2, NONE,       1, 1, 0, 0, 0,  0),
    ROW("a window",                           F16,  F16,   64,  64,  6, 2, 50,  200, 1, WINDOW,     1, 1, 0, 0, 0,  0),
    ROW("a window, one token",                F16,  F16,   64,  64,  6, 2,  1,  300, 1, WINDOW,     1, 1, 0, 0, 0,  0),
    ROW("rows that see nothing",              F16,  F16,   64,  64,  6, 2, 20,   64, 2, BLIND,      1, 2, 0, 0, 0,  0),
    ROW("rows that see nothing but a sink",   F16,  F16,   64,  64,  6, 2, 20,   64, 2, BLIND,      1, 1, 1, 0, 0,  0),
    ROW("nobody sees anything",               F16,  F16,   64,  64,  6, 2,  5,   64, 1, NOBODY,     1, 1, 0, 0, 0,  0),
    ROW("holes",                              F16,  F16,   64,  64,  6, 2, 20,  100, 1, HOLES,      1, 1, 0, 0, 0,  0),
    ROW("holes, one token",                   F16,  F16,   64,  64,  6, 2,  1,  100, 1, HOLES,      1, 1, 0, 0, 0,  0),
    ROW("numbers, a mask a head",             F16,  F16,   64,  64,  6, 2, 20,  100, 2, NUMBERS,    6, 1, 0, 0, 0,  0),
    ROW("numbers, a mask a head and entry",   F16,  F16,   64,  64,  6, 2, 20,  100, 2, NUMBERS,    6, 2, 0, 0, 0,  0),
    ROW("a causal mask a head and entry",     F16,  F16,   64,  64,  6, 2, 20,  100, 2, CAUSAL,     6, 2, 0, 0, 0,  0),
    ROW("sinks",                              F16,  F16,   64,  64,  6, 2, 20,  100, 1, CAUSAL,     1, 1, 1, 0, 0,  0),
    ROW("softcap, and numbers behind it",     F16,  F16,   64,  64,  6, 2, 20,  100, 1, NUMBERS,    1, 1, 0, 0, 0,  5),
    ROW("ALiBi",                              F16,  F16,   64,  64, 12, 4, 20,  100, 2, DISTANCE,   1, 2, 0, 0, 8,  0),
    ROW("ALiBi, one token, sinks",            F16,  F16,   64,  64, 12, 4,  1,  300, 1, DISTANCE,   1, 1, 1, 0, 8,  0),
    ROW("ALiBi, a mask for two entries",      F16,  F16,   64,  64, 12, 4, 20,  100, 2, DISTANCE,   1, 1, 0, 0, 8,  0),
    ROW("ALiBi, twice as steep",              F16,  F16,   64,  64, 12, 4, 20,  100, 1, STEEP,      1, 1, 0, 0, 8,  0),
    ROW("ALiBi, all rows at one place",       F16,  F16,   64,  64, 12, 4, 20,  100, 1, SAME,       1, 1, 0, 0, 8,  0),
    ROW("rows that begin later",              F16,  F16,   64,  64,  6, 2, 20,  100, 1, LATE,       1, 1, 0, 0, 0,  0),
    ROW("the same numbers without a softcap", F16,  F16,   64,  64,  6, 2, 20,  100, 1, NUMBERS,    1, 1, 0, 0, 0,  0),
    ROW("only keys of another type",          F32,  F16,   64,  64,  9, 3,  1,  512, 1, PADDED,     1, 1, 0, 1, 0,  0),
    ROW("ALiBi, max_bias 3",                  F16,  F16,   64,  64, 12, 4, 20,  100, 1, DISTANCE,   1, 1, 0, 0, 3,  0),
    ROW("ALiBi both ways",                    F16,  F16,   64,  64, 12, 4, 20,  100, 2, BOTH_WAYS,  1, 1, 0, 0, 8,  0),
    ROW("ALiBi beyond what float16 counts",   F16,  F16,   64,  64,  3, 1,  2, 3000, 1, DISTANCE,   1, 1, 0, 0, 8,  0),
    ROW("ALiBi, a mask that is causal only",  F16,  F16,   64,  64, 12, 4, 20,  100, 1, CAUSAL,     1, 1, 0, 0, 8,  0),
    ROW("ALiBi, numbers for a head, sinks",   F16,  F16,   64,  64, 12, 4, 20,  100, 2, NUMBERS,   12, 2, 1, 0, 8,  0),
    ROW("chosen keys",                        F16,  F16,   64,  64,  6, 2, 20, 1024, 2, CHOSEN,     1, 2, 0, 0, 0,  0),
    ROW("chosen keys, one token, sinks",      Q8_0, Q8_0,  64,  64,  9, 3,  1, 1024, 1, CHOSEN,     1, 1, 1, 1, 0,  0),
    ROW("values narrower than keys",          F16,  F16,  192, 128,  4, 1,  9,  100, 1, CAUSAL,     1, 1, 0, 1, 0,  0),
    ROW("keys q8_0, values q4_0",             Q8_0, Q4_0, 128, 128,  4, 2,  7,  100, 1, CAUSAL,     1, 1, 0, 1, 0,  0),
    ROW("any head dim",                       F32,  F16,   40,  24,  4, 2,  7,  100, 1, CAUSAL,     1, 1, 0, 0, 0,  0),
};
/* clang-format on */

#endif
