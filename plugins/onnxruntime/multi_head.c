/* com.microsoft MultiHeadAttention: heads packed in any of its ways, padding by key, a past. What its padding mask
 * hides is not seen, where ONNX Runtime's providers add mask_filter_value: a row that sees no key at all becomes 0
 * here. */
#include "claim.h"
#include "operands.h"

#include <string.h>

enum { QUERY, KEY, VALUE, BIAS, PADDING, SCORE_BIAS, PAST_KEY, PAST_VALUE, PAST_LENGTH, CACHE_INDIRECTION };
enum { OUT, PRESENT_KEY, PRESENT_VALUE, WEIGHTS };

static enum declined reason_of(const struct node *node)
{
    const ONNXTensorElementDataType type = node->input[QUERY].type;
    if (type_of_element(type) == CLATTN_TYPE_NONE || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
        return DECLINED_TYPE;
    }
    if (node_has_input(node, PAST_LENGTH) || node_has_input(node, CACHE_INDIRECTION) ||
        node_has_input(node, PAST_KEY) != node_has_input(node, PAST_VALUE) ||
        (node_has_input(node, BIAS) && type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)) {
        return DECLINED_INPUTS;
    }
    if (node->input[QUERY].rank != 3 && node->input[QUERY].rank != 5) {
        return DECLINED_RANK;
    }
    return node_has_output(node, WEIGHTS) ? DECLINED_OUTPUTS : DECLINED_NOT;
}

static OrtStatus *gather(const struct node *node, struct claim *claim)
{
    struct attributes *attributes = &claim->attributes;
    TRY(node_integer(node, "num_heads", 0, &attributes->query_heads));
    TRY(node_contributed_scale(node, attributes));
    TRY(node_integer(node, "unidirectional", 0, &attributes->is_causal));
    attributes->kv_heads = attributes->query_heads;
    attributes->window_left = attributes->window_right = -1;
    claim->reason = attributes->query_heads > 0 ? reason_of(node) : DECLINED_HEADS;
    claim_node(node, claim);
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------------- */

/* Tensor `part` of `parts` in [batch, rows, heads, parts, columns]. */
static struct heads part_of(const struct tensor *packed, int64_t part)
{
    const int64_t *n = packed->extent, columns = n[4], parts = n[3], heads = n[2];
    const struct heads of = { n[0],
                              heads,
                              n[1],
                              columns,
                              packed->type,
                              { (char *)packed->data + (size_t)(part * columns) * element_bytes(packed->type),
                                0,
                                { n[1] * heads * parts * columns, parts * columns, heads * parts * columns, 1 } } };
    return of;
}

static OrtStatus *read_heads(const struct tensor *in, int64_t heads, struct heads of[3])
{
    if (in[QUERY].rank == 5 && in[QUERY].extent[3] == 3) {
        for (int part = 0; part < 3; ++part) {
            of[part] = part_of(&in[QUERY], part);
        }
        return NULL;
    }
    TRY(heads_of(&in[QUERY], heads, "query", &of[0]));
    if (in[KEY].data && in[KEY].rank == 5 && in[KEY].extent[3] == 2) {
        of[1] = part_of(&in[KEY], 0);
        of[2] = part_of(&in[KEY], 1);
        return NULL;
    }
    if (!in[KEY].data || !in[VALUE].data) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: no key or no value beside a query of 3 axes");
    }
    TRY(heads_of(&in[KEY], heads, "key", &of[1]));
    return heads_of(&in[VALUE], heads, "value", &of[2]);
}

/* Dense in the lane's memory, [batch, rows, heads, columns], with a bias for each head's columns added. */
static OrtStatus *add_bias(const struct run *run, const float *bias, enum scratch_use use, struct heads *of)
{
    const int64_t *s = of->at.stride;
    const float *from = of->at.data;
    float *sum = lane_room(run->lane, use, (size_t)(of->batch * of->rows * of->heads * of->columns) * sizeof(*sum));
    float *to = sum;
    if (!sum) {
        return refuse_memory();
    }
    for (int64_t row = 0; row < of->batch * of->rows; ++row) {
        const float *of_row = from + row / of->rows * s[0] + row % of->rows * s[2];
        for (int64_t n = 0; n < of->heads * of->columns; ++n) {
            *to++ = of_row[n / of->columns * s[1] + n % of->columns] + bias[n];
        }
    }
    of->at = clattn_host_tensor_bshd(sum, of->heads, of->rows, of->columns);
    return NULL;
}

static OrtStatus *add_biases(const struct run *run, const struct tensor *bias, struct heads of[3])
{
    static const enum scratch_use uses[3] = { SCRATCH_BIASED_QUERY, SCRATCH_BIASED_KEY, SCRATCH_BIASED_VALUE };
    int64_t first = 0, columns = 0;
    for (int n = 0; n < 3; ++n) {
        columns += of[n].heads * of[n].columns;
    }
    if (bias->rank != 1 || bias->extent[0] != columns) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: the bias must be [%lld]", (long long)columns);
    }
    for (int n = 0; n < 3; ++n) {
        TRY(add_bias(run, (const float *)bias->data + first, uses[n], &of[n]));
        first += of[n].heads * of[n].columns;
    }
    return NULL;
}

/* ---- padding ----------------------------------------------------------------------------------- */

/* int32 [batch, keys], [batch, rows, keys]: 0 is padding. */
static OrtStatus *mask_padding(const struct run *run, const struct tensor *padding, struct attention *attention)
{
    clattn_problem *p = &attention->problem;
    const int64_t keys = padding->extent[padding->rank - 1], rows = padding->rank == 3 ? padding->extent[1] : 1;
    const int64_t count = padding->extent[0] * rows * keys;
    const int32_t *from = padding->data;
    uint8_t *mask = lane_room(run->lane, SCRATCH_MASK, (size_t)count);
    if (!mask) {
        return refuse_memory();
    }
    if (padding->extent[0] != p->batch || (rows != 1 && rows != p->query_len) || keys > p->key_len) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: key_padding_mask does not go with %lld entries of %lld keys",
                      (long long)p->batch, (long long)p->key_len);
    }
    for (int64_t n = 0; n < count; ++n) {
        mask[n] = from[n] != 0;
    }
    p->features |= CLATTN_WITH_MASK;
    attention->call.mask_key_len = keys;
    attention->tensors.mask.data = mask;
    attention->tensors.mask.stride[0] = rows * keys;
    attention->tensors.mask.stride[2] = rows > 1 ? keys : 0;
    attention->tensors.mask.stride[3] = 1;
    return NULL;
}

static OrtStatus *set_padding(const struct run *run, const struct tensor *padding, struct attention *attention)
{
    struct tensor lengths = *padding;
    if (padding->type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 || padding->rank < 1 || padding->rank > 3) {
        return refuse(ORT_INVALID_ARGUMENT, "clattn: key_padding_mask has %d axes: must be 1 to 3, of int32",
                      padding->rank);
    }
    if (padding->rank > 1) {
        return mask_padding(run, padding, attention);
    }
    if (padding->extent[0] == 3 * attention->problem.batch + 2) {
        lengths.extent[0] = attention->problem.batch; /* behind them: where sequences begin, which is known */
    }
    return attention_key_lengths(run, &lengths, 0, attention);
}

static OrtStatus *compute(const struct run *run)
{
    const struct attributes *attributes = &run->kernel->attributes;
    struct tensor in[PAST_VALUE + 1];
    struct heads of[3], keys, values;
    struct attention attention;
    for (int n = 0; n <= PAST_VALUE; ++n) {
        TRY(run_input(run, n, &in[n]));
    }
    TRY(read_heads(in, attributes->query_heads, of));
    if (in[BIAS].data) {
        TRY(add_biases(run, &in[BIAS], of));
    }
    TRY(join_past(run, &in[PAST_KEY], &of[1], PRESENT_KEY, SCRATCH_KEY, &keys));
    TRY(join_past(run, &in[PAST_VALUE], &of[2], PRESENT_VALUE, SCRATCH_VALUE, &values));
    attention_init(&attention);
    TRY(attention_operands(&of[0], &keys, &values, &attention));
    attention_attributes(attributes, &attention);
    TRY(attention_position(run, keys.rows - of[0].rows, &attention));
    if (in[PADDING].data) {
        TRY(set_padding(run, &in[PADDING], &attention));
    }
    if (in[SCORE_BIAS].data) {
        TRY(attention_mask(&in[SCORE_BIAS], LAST_AXIS_PADDED, &attention));
    }
    TRY(attention_out(run, 3, &attention));
    return attention_run(run, -1, &attention);
}

const struct kind kind_multi_head = { "com.microsoft", "MultiHeadAttention", 1, 1, gather, compute };
