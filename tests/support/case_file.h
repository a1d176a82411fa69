/* One attention case of tests/cases (its README tells the format): read from its folder into a problem
 * and host tensors, and its outputs written. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_FILE_H
#define CLATTN_TESTS_SUPPORT_CASE_FILE_H

#include <cjson/cJSON.h>

#include "../../tools/failure.h"
#include "../../tools/tensor.h"
#include "clattn_code.h"

/* The inputs that a case may have, and their files' names, of which either may be there; KEY_F32 and VALUE_F32: what
 * keys and values were quantised from. */
#define CASE_INPUT_LIST(INPUT)                                                                                         \
    INPUT(Q, "q")                                                                                                      \
    INPUT(K, "k", "key_pool")                                                                                          \
    INPUT(V, "v", "value_pool")                                                                                        \
    INPUT(MASK, "mask", "mask_bits")                                                                                   \
    INPUT(PAST_KEY, "past_key")                                                                                        \
    INPUT(PAST_VALUE, "past_value")                                                                                    \
    INPUT(KEY_LENGTHS, "nonpad_kv_seqlen", "kv_lens")                                                                  \
    INPUT(SLOPES, "alibi_slopes")                                                                                      \
    INPUT(CU_QUERY, "cu_seqlens_q")                                                                                    \
    INPUT(CU_KEY, "cu_seqlens_k")                                                                                      \
    INPUT(SINKS, "sinks")                                                                                              \
    INPUT(PAGE_TABLE, "page_table")                                                                                    \
    INPUT(PAGE_STARTS, "page_starts")                                                                                  \
    INPUT(ROW_LOW, "row_low")                                                                                          \
    INPUT(ROW_HIGH, "row_high")                                                                                        \
    INPUT(KEY_LISTS, "key_lists")                                                                                      \
    INPUT(KEY_SCALES, "key_scales", "key_block_scales")                                                                \
    INPUT(VALUE_SCALES, "value_scales", "value_block_scales")                                                          \
    INPUT(KEY_ZERO_POINTS, "key_zero_points")                                                                          \
    INPUT(VALUE_ZERO_POINTS, "value_zero_points")                                                                      \
    INPUT(KEY_TENSOR_SCALE, "key_tensor_scale")                                                                        \
    INPUT(VALUE_TENSOR_SCALE, "value_tensor_scale")                                                                    \
    INPUT(KEY_F32, "key_f32")                                                                                          \
    INPUT(VALUE_F32, "value_f32")

/* Gradients: file, CLATTN_GRADIENT_*, the input that they are of, and its field. */
#define CASE_GRADIENT_LIST(GRADIENT)                                                                                   \
    GRADIENT(DQ, "dq", QUERY, Q, query)                                                                                \
    GRADIENT(DK, "dk", KEY, K, key)                                                                                    \
    GRADIENT(DV, "dv", VALUE, V, value)                                                                                \
    GRADIENT(DBIAS, "dbias", BIAS, MASK, bias)                                                                         \
    GRADIENT(DSLOPES, "dslopes", SLOPES, SLOPES, slopes)                                                               \
    GRADIENT(DSINKS, "dsinks", SINKS, SINKS, sinks)

enum case_input {
#define INPUT(id, ...) CASE_##id,
    CASE_INPUT_LIST(INPUT) CASE_INPUTS
#undef INPUT
};

/* What the layouts come down to. */
struct case_shape {
    int64_t batch, query_heads, kv_heads, query_len, new_keys, past_keys;
    int64_t head_dim, head_dim_v;
    int64_t packed_queries, packed_keys; /* varlen */
    int64_t pages, page_size;            /* of a pool; 0: there is none */
    int64_t ring;                        /* rows kept of a sequence; 0: all */
};

/* A score and a mask of the user's own, where problem.code is set. */
#define CASE_CODE_MOST 8
#define CASE_NAME_BYTES 32
struct case_text {
    clattn_user_code code;
    struct tensor table[CASE_CODE_MOST];
    char scalar_names[CASE_CODE_MOST][CASE_NAME_BYTES];
};

struct attention_case {
    cJSON *meta;
    struct tensor input[CASE_INPUTS]; /* data NULL: the case has none */
    struct tensor key, value;         /* with past keys: past and new, [batch, heads, keys, dim] */
    struct tensor offsets;
    struct tensor out, lse, weights; /* filled by whoever computes the case */
    struct tensor quantised[2];      /* keys and values, by clattn_quantise, where the case asks for them */
    struct tensor dequantised[2];    /* those as values */
    struct case_shape shape;
    struct case_text text;
    clattn_problem problem; /* without a strategy */
    clattn_call values;
    clattn_host_tensors tensors; /* point into the above */
};

/* On failure there is nothing to free. */
int case_read(const char *folder, struct attention_case *c, struct failure *failure);
void case_free(struct attention_case *c);

/* Writes FOLDER/out.npy and each other output that the case lists, gradients excepted. */
int case_write(const struct attention_case *c, const char *folder, struct failure *failure);

#endif
