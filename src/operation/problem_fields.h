/* The fields of clattn_problem and clattn_call, in order: what compares two of them, or tells ranks that theirs differ,
 * follows from these lists. A list that lacks a field does not compile without a warning. Macros alone; who includes it
 * needs clattn.h. */
#ifndef CLATTN_SRC_PROBLEM_FIELDS_H
#define CLATTN_SRC_PROBLEM_FIELDS_H

/* struct_size apart. V(field): a value; P(field): a pointer to the caller's memory. */
#define PROBLEM_FIELDS(V, P)                                                                                           \
    V(type)                                                                                                            \
    V(batch)                                                                                                           \
    V(query_heads)                                                                                                     \
    V(kv_heads)                                                                                                        \
    V(query_len)                                                                                                       \
    V(key_len)                                                                                                         \
    V(head_dim)                                                                                                        \
    V(head_dim_v)                                                                                                      \
    V(features)                                                                                                        \
    V(bias_type)                                                                                                       \
    V(weights)                                                                                                         \
    V(causal)                                                                                                          \
    V(alignment)                                                                                                       \
    V(window_left)                                                                                                     \
    V(window_right)                                                                                                    \
    V(always_visible_keys)                                                                                             \
    V(softcap)                                                                                                         \
    V(dropout)                                                                                                         \
    V(strided_columns)                                                                                                 \
    V(matmul)                                                                                                          \
    P(strategy)                                                                                                        \
    V(allow_tf32)                                                                                                      \
    V(key_type)                                                                                                        \
    V(value_type)                                                                                                      \
    V(out_type)                                                                                                        \
    V(page_size)                                                                                                       \
    V(pages)                                                                                                           \
    V(key_scale_rows)                                                                                                  \
    V(key_scale_columns)                                                                                               \
    V(value_scale_rows)                                                                                                \
    V(value_scale_columns)                                                                                             \
    V(ring)                                                                                                            \
    V(allow_rounded_weights)                                                                                           \
    V(pool_pages)                                                                                                      \
    P(code)                                                                                                            \
    V(block_mask_rows)                                                                                                 \
    V(block_mask_keys)                                                                                                 \
    V(key_list_rows)                                                                                                   \
    V(key_list_keys)                                                                                                   \
    V(mask_bits)                                                                                                       \
    V(value_in_key)                                                                                                    \
    V(slopes_type)                                                                                                     \
    V(sinks_type)

/* Fields of a call, V(field); A(field): an array. */
#define CALL_FIELDS(V, A)                                                                                              \
    V(query_len)                                                                                                       \
    V(key_len)                                                                                                         \
    V(mask_key_len)                                                                                                    \
    V(bias_key_len)                                                                                                    \
    V(has_scale)                                                                                                       \
    V(scale)                                                                                                           \
    V(dropout_seed)                                                                                                    \
    V(dropout_offset)                                                                                                  \
    V(first_batch)                                                                                                     \
    V(first_head)                                                                                                      \
    V(first_row)                                                                                                       \
    V(first_key)                                                                                                       \
    V(whole_heads)                                                                                                     \
    A(code_scalars)                                                                                                    \
    V(mask_first_key)

/* An initializer that names no field must have a value for each: -Wmissing-field-initializers. */
#define FIELDS_ZERO(field) 0,
#define FIELDS_ZEROES(field) { 0 },
_Static_assert(sizeof((clattn_problem){ 0, PROBLEM_FIELDS(FIELDS_ZERO, FIELDS_ZERO) }) > 0, "has all fields");
_Static_assert(sizeof((clattn_call){ 0, CALL_FIELDS(FIELDS_ZERO, FIELDS_ZEROES) }) > 0, "has all fields");

#endif
