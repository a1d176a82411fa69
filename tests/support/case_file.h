/* One attention case of tests/cases (its README tells the format): read from its folder into a problem
 * and host tensors, and its outputs written. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_FILE_H
#define CLATTN_TESTS_SUPPORT_CASE_FILE_H

#include <cjson/cJSON.h>

#include "../../tools/failure.h"
#include "../../tools/tensor.h"
#include "clattn_code.h"

enum case_input {
    CASE_Q,
    CASE_K,
    CASE_V,
    CASE_MASK,
    CASE_PAST_KEY,
    CASE_PAST_VALUE,
    CASE_KEY_LENGTHS,
    CASE_SLOPES,
    CASE_CU_QUERY,
    CASE_CU_KEY,
    CASE_SINKS,
    CASE_PAGE_TABLE,
    CASE_PAGE_STARTS,
    CASE_ROW_LOW,
    CASE_ROW_HIGH,
    CASE_KEY_LISTS,
    CASE_KEY_SCALES,
    CASE_VALUE_SCALES,
    CASE_KEY_ZERO_POINTS,
    CASE_VALUE_ZERO_POINTS,
    CASE_KEY_TENSOR_SCALE,
    CASE_VALUE_TENSOR_SCALE,
    CASE_KEY_F32, /* what keys and values were quantised from */
    CASE_VALUE_F32,
    CASE_INPUTS
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
