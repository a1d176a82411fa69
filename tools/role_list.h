/* The tensors that files and options give, a row each, by their roles. The enumeration of roles, the names that files
 * may give them, which gradients there are and what --of calls them are all made of these rows.
 *
 *     ROLE(ID, its name, the option that names a file for it, names in .safetensors files...) */
#ifndef CLATTN_TOOLS_ROLE_LIST_H
#define CLATTN_TOOLS_ROLE_LIST_H

/* A call of attention: mask is bool, uint8 or words of bits, bias a float type. */
#define ATTENTION_ROLES(ROLE)                                                                                          \
    ROLE(QUERY, "query", OPTION_Q, "q", "query")                                                                       \
    ROLE(KEY, "key", OPTION_K, "k", "key", "key_pool")                                                                 \
    ROLE(VALUE, "value", OPTION_V, "v", "value", "value_pool")                                                         \
    ROLE(PAST_KEY, "past key", OPTION_PAST_KEY, "past_key")                                                            \
    ROLE(PAST_VALUE, "past value", OPTION_PAST_VALUE, "past_value")                                                    \
    ROLE(MASK, "mask", OPTION_MASK_FILE, "mask", "attn_mask")                                                          \
    ROLE(BIAS, "bias", OPTION_BIAS_FILE, "bias")                                                                       \
    ROLE(KEY_LENGTHS, "key_lengths", OPTION_KEY_LENGTHS, "key_lengths", "kv_lens", "nonpad_kv_seqlen")                 \
    ROLE(QUERY_OFFSETS, "query_offsets", OPTION_NONE, "query_offsets")                                                 \
    ROLE(SLOPES, "slopes", OPTION_ALIBI, "slopes", "alibi_slopes")                                                     \
    ROLE(SINKS, "sinks", OPTION_SINKS, "sinks")                                                                        \
    ROLE(CU_QUERY, "cu_q", OPTION_CU_Q, "cu_q", "cu_query", "cu_seqlens_q")                                            \
    ROLE(CU_KEY, "cu_k", OPTION_CU_K, "cu_k", "cu_key", "cu_seqlens_k")

/* Inputs of caches (attention_cache.h), row ranges, lists of keys. */
#define CACHE_ROLES(ROLE)                                                                                              \
    ROLE(PAGE_TABLE, "page_table", OPTION_PAGE_TABLE, "page_table", "block_table")                                     \
    ROLE(PAGE_STARTS, "page_starts", OPTION_PAGE_STARTS, "page_starts")                                                \
    ROLE(KEY_SCALES, "key_scales", OPTION_KEY_SCALES, "key_scales", "key_block_scales")                                \
    ROLE(VALUE_SCALES, "value_scales", OPTION_VALUE_SCALES, "value_scales", "value_block_scales")                      \
    ROLE(KEY_ZERO_POINTS, "key_zero_points", OPTION_KEY_ZERO_POINTS, "key_zero_points")                                \
    ROLE(VALUE_ZERO_POINTS, "value_zero_points", OPTION_VALUE_ZERO_POINTS, "value_zero_points")                        \
    ROLE(KEY_TENSOR_SCALE, "key_tensor_scale", OPTION_KEY_TENSOR_SCALE, "key_tensor_scale")                            \
    ROLE(VALUE_TENSOR_SCALE, "value_tensor_scale", OPTION_VALUE_TENSOR_SCALE, "value_tensor_scale")                    \
    ROLE(ROW_LOW, "row_low", OPTION_ROW_LOW, "row_low")                                                                \
    ROLE(ROW_HIGH, "row_high", OPTION_ROW_HIGH, "row_high")                                                            \
    ROLE(KEY_LISTS, "key_lists", OPTION_KEY_LISTS, "key_lists")

/* What an earlier computation gave, to compare with. */
#define RESULT_ROLES(ROLE)                                                                                             \
    ROLE(OUT, "out", OPTION_FORWARD_OUT, "out")                                                                        \
    ROLE(WEIGHTS, "weights", OPTION_NONE, "weights")                                                                   \
    ROLE(LSE, "lse", OPTION_FORWARD_LSE, "lse")                                                                        \
    ROLE(KEY_SUMS, "key_sums", OPTION_NONE, "key_sums")                                                                \
    ROLE(MAX_LOGIT, "max_logit", OPTION_NONE, "max_logit")

/* A whole multi-head layer: x, the projections and their biases, and its result y; context: of cross-attention, keys
 * and values are made of it. */
#define LAYER_ROLES(ROLE)                                                                                              \
    ROLE(X, "x", OPTION_NONE, "x")                                                                                     \
    ROLE(CONTEXT, "context", OPTION_NONE, "context")                                                                   \
    ROLE(WQ, "wq", OPTION_NONE, "wq")                                                                                  \
    ROLE(WK, "wk", OPTION_NONE, "wk")                                                                                  \
    ROLE(WV, "wv", OPTION_NONE, "wv")                                                                                  \
    ROLE(WO, "wo", OPTION_NONE, "wo")                                                                                  \
    ROLE(BQ, "bq", OPTION_NONE, "bq")                                                                                  \
    ROLE(BK, "bk", OPTION_NONE, "bk")                                                                                  \
    ROLE(BV, "bv", OPTION_NONE, "bv")                                                                                  \
    ROLE(BO, "bo", OPTION_NONE, "bo")                                                                                  \
    ROLE(Y, "y", OPTION_NONE, "y")

#define FORWARD_ROLES(ROLE) ATTENTION_ROLES(ROLE) CACHE_ROLES(ROLE) RESULT_ROLES(ROLE) LAYER_ROLES(ROLE)

/* What gradients are made of: clattn grad alone. */
#define LOSS_ROLES(ROLE)                                                                                               \
    ROLE(DOUT, "dout", OPTION_DOUT, "dout", "do")                                                                      \
    ROLE(DLSE, "dlse", OPTION_DLSE, "dlse")

/* Gradients, each of the tensor of that role and field, and what an earlier computation made of it: ROLE_D<ID>.
 *
 *     GRADIENT(ID, word of --of, field, names in .safetensors files...)
 *     OF_NUMBER(...)      the same, of what is no tensor */
#define GRADIENT_ROLES(GRADIENT, OF_NUMBER)                                                                            \
    GRADIENT(QUERY, "q", query, "dq", "dquery")                                                                        \
    GRADIENT(KEY, "k", key, "dk", "dkey")                                                                              \
    GRADIENT(VALUE, "v", value, "dv", "dvalue")                                                                        \
    GRADIENT(BIAS, "bias", bias, "dbias")                                                                              \
    GRADIENT(SLOPES, "slopes", slopes, "dslopes")                                                                      \
    GRADIENT(SINKS, "sinks", sinks, "dsinks")                                                                          \
    OF_NUMBER(SCALE, "scale", scale, "dscale")

/* How many there are, their words, "q, k, v", and names, each by a macro for its row: "dq, ". */
#define COUNTED_ROLE(id, word, field, ...) +1
#define WORD_OF_ROLE(id, word, field, ...) ", " word
#define NAME_OF_ROLE(id, word, field, ...) "d" word ", "
enum { GRADIENT_KINDS = 0 GRADIENT_ROLES(COUNTED_ROLE, COUNTED_ROLE) };
#define GRADIENT_WORDS (&(GRADIENT_ROLES(WORD_OF_ROLE, WORD_OF_ROLE))[2])

#endif
