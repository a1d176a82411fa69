/* ai.onnx Attention of operator sets 23, 24 and 25. */
#include "claim.h"
#include "operands.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, KEY_LENGTHS };
enum { Y, PRESENT_KEY, PRESENT_VALUE, WEIGHTS };

static int is_floating(ONNXTensorElementDataType type)
{
    return type_of_element(type) != CLATTN_TYPE_NONE;
}

static int is_float64(ONNXTensorElementDataType type)
{
    return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
}

static enum declined reason_of_mask(const struct node *node)
{
    const ONNXTensorElementDataType type = node->input[MASK].type;
    if (!node_has_input(node, MASK) || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) {
        return DECLINED_NOT;
    }
    return is_floating(type) && (!is_float64(type) || is_float64(node->input[Q].type)) ? DECLINED_NOT
                                                                                       : DECLINED_MASK_TYPE;
}

static enum declined reason_of_shapes(const struct node *node, const struct attributes *attributes)
{
    const int rank = node->input[Q].rank;
    const int has_heads = attributes->query_heads > 0 && attributes->kv_heads > 0;
    if ((rank != 3 && rank != 4) || node->input[K].rank != rank || node->input[V].rank != rank) {
        return DECLINED_RANK;
    }
    return rank == 4 || has_heads ? DECLINED_NOT : DECLINED_HEADS;
}

static enum declined reason_of(const struct node *node, const struct attributes *attributes, int64_t mode)
{
    const ONNXTensorElementDataType query = node->input[Q].type, value = node->input[V].type;
    if (node->input[K].type != query) {
        return DECLINED_TYPE;
    }
    if (!is_floating(value) || is_float64(value) != is_float64(query)) {
        return DECLINED_VALUE_TYPE;
    }
    if (mode < 0 || mode > 3 || !(attributes->softcap >= 0) || attributes->window_left < -1 ||
        attributes->window_right < -1) {
        return DECLINED_ATTRIBUTES;
    }
    if (node_has_input(node, PAST_KEY) != node_has_input(node, PAST_VALUE) ||
        (node_has_input(node, PAST_KEY) && node_has_input(node, KEY_LENGTHS))) {
        return DECLINED_INPUTS;
    }
    enum declined reason = claim_reason_of_type(query);
    reason = reason != DECLINED_NOT ? reason : reason_of_shapes(node, attributes);
    return reason != DECLINED_NOT ? reason : reason_of_mask(node);
}

static OrtStatus *gather(const struct node *node, struct claim *claim)
{
    static const clattn_weights modes[4] = { CLATTN_WEIGHTS_SCORES, CLATTN_WEIGHTS_SOFTCAP, CLATTN_WEIGHTS_LOGITS,
                                             CLATTN_WEIGHTS_SOFTMAX };
    struct attributes *attributes = &claim->attributes;
    int64_t mode;
    TRY(node_integer(node, "q_num_heads", 0, &attributes->query_heads));
    TRY(node_integer(node, "kv_num_heads", 0, &attributes->kv_heads));
    TRY(node_scale(node, attributes));
    TRY(node_number(node, "softcap", 0.0f, &attributes->softcap));
    TRY(node_integer(node, "is_causal", 0, &attributes->is_causal));
    TRY(node_integer(node, "left_window_size", -1, &attributes->window_left));
    TRY(node_integer(node, "right_window_size", -1, &attributes->window_right));
    TRY(node_integer(node, "qk_matmul_output_mode", 0, &mode));
    claim->reason = reason_of(node, attributes, mode);
    if (claim->reason != DECLINED_NOT) {
        return NULL;
    }
    attributes->weights = modes[mode];
    claim_node(node, claim);
    for (int n = Q; n <= V && node->input[n].rank == 4; ++n) {
        TRY(claim_transposed_input(n, &node->input[n], claim));
    }
    if (node->output[Y].rank == 4) {
        TRY(claim_transposed_output(&node->output[Y], claim));
    }
    return NULL;
}

static OrtStatus *compute(const struct run *run)
{
    const struct attributes *attributes = &run->kernel->attributes;
    struct tensor in[KEY_LENGTHS + 1];
    struct heads query, key, value, all_keys, all_values;
    struct attention attention;
    for (int n = 0; n <= KEY_LENGTHS; ++n) {
        TRY(run_input(run, n, &in[n]));
    }
    TRY(heads_of(&in[Q], attributes->query_heads, "Q", &query));
    TRY(heads_of(&in[K], attributes->kv_heads, "K", &key));
    TRY(heads_of(&in[V], attributes->kv_heads, "V", &value));
    TRY(join_past(run, &in[PAST_KEY], &key, PRESENT_KEY, SCRATCH_KEY, &all_keys));
    TRY(join_past(run, &in[PAST_VALUE], &value, PRESENT_VALUE, SCRATCH_VALUE, &all_values));
    attention_init(&attention);
    TRY(attention_operands(&query, &all_keys, &all_values, &attention));
    attention_attributes(attributes, &attention);
    TRY(attention_position(run, all_keys.rows - key.rows, &attention));
    if (in[MASK].data) {
        TRY(attention_mask(&in[MASK], LAST_AXIS_PADDED, &attention));
    }
    if (in[KEY_LENGTHS].data) {
        TRY(attention_key_lengths(run, &in[KEY_LENGTHS], 0, &attention));
        attention_at_end(&attention);
    }
    TRY(attention_out(run, in[Q].rank, &attention));
    return attention_run(run, WEIGHTS, &attention);
}

const struct kind kind_attention = { "", "Attention", 23, 25, gather, compute };
