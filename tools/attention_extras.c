/* The optional tensors of a call: packed sequences, masks, lengths, offsets, slopes, sinks. */
#include "attention_extras.h"

#include <stdlib.h>
#include <string.h>

#include "attention_cache.h"
#include "problem_options.h"

int attention_must_equal(const char *what, int64_t value, const char *other, int64_t wanted, struct failure *failure)
{
    if (value == wanted) {
        return 0;
    }
    return failure_misuse(failure, "%s %lld: must be that of %s, %lld", what, (long long)value, other,
                          (long long)wanted);
}

/* ---- types ---- */

static int convert_bias(struct tensor *bias, clattn_problem *problem, struct failure *failure)
{
    if (!bias->data) {
        return 0;
    }
    if (!tensor_is_float(bias->type)) {
        return failure_misuse(failure, "bias %s: must be a float type", tensor_type_name(bias->type));
    }
    if (bias->type == TENSOR_FLOAT64 && problem->type != CLATTN_FLOAT64 &&
        tensor_convert(bias, TENSOR_FLOAT32, "bias", failure) != 0) {
        return -1;
    }
    problem->bias_type = tensor_storage_type(bias->type);
    return 0;
}

int attention_convert_integers(struct tensor *tensor, const char *name, int64_t least, int64_t most,
                               struct failure *failure)
{
    if (tensor->type != TENSOR_INT32 && tensor->type != TENSOR_INT64) {
        return failure_misuse(failure, "%s %s: must be int32 or int64", name, tensor_type_name(tensor->type));
    }
    for (int64_t i = 0; i < tensor_count(tensor); i++) {
        int64_t value = tensor->type == TENSOR_INT32 ? ((const int32_t *)tensor->data)[i]
                                                     : ((const int64_t *)tensor->data)[i];
        if (value < least || value > most) {
            return failure_misuse(failure, "%s[%lld] %lld: must be from %lld to %lld", name, (long long)i,
                                  (long long)value, (long long)least, (long long)most);
        }
    }
    return tensor_convert(tensor, TENSOR_INT32, name, failure);
}

/* ---- packed sequences ---- */

static int64_t longest(const struct tensor *seams)
{
    const int32_t *at = seams->data;
    int64_t most = 0;
    for (int64_t i = 0; i + 1 < tensor_count(seams); i++) {
        if (at[i + 1] - at[i] > most) {
            most = at[i + 1] - at[i];
        }
    }
    return most;
}

static int check_seams(struct tensor *seams, const char *name, int64_t rows, struct failure *failure)
{
    int64_t n = seams->dims == 1 ? seams->shape[0] : 0;
    const int32_t *at;
    if (n < 1) {
        return failure_misuse(failure, "%s: must be one axis of sequences + 1 integers", name);
    }
    if (attention_convert_integers(seams, name, 0, rows < INT32_MAX ? rows : INT32_MAX, failure) != 0) {
        return -1;
    }
    at = seams->data;
    for (int64_t i = 0; i + 1 < n; i++) {
        if (at[i + 1] < at[i]) {
            return failure_misuse(failure, "%s[%lld] %d: must not be less than the one before it, %d", name,
                                  (long long)i + 1, at[i + 1], at[i]);
        }
    }
    if (at[0] != 0 || at[n - 1] != rows) {
        return failure_misuse(failure, "%s from %d to %d: must be from 0 to the %lld packed tokens", name, at[0],
                              at[n - 1], (long long)rows);
    }
    return 0;
}

static int prepare_sequences(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    struct tensor *cu_q = &inputs->tensor[ROLE_CU_QUERY], *cu_k = &inputs->tensor[ROLE_CU_KEY];
    clattn_problem *problem = &attention->problem;
    if (attention->layout != LAYOUT_THD) {
        if (!cu_q->data && !cu_k->data) {
            return 0;
        }
        return failure_misuse(failure, "%s: packed sequences need --layout thd", cu_q->data ? "cu_q" : "cu_k");
    }
    if (!cu_q->data) {
        return failure_misuse(failure, "cu_q: is missing; layout thd needs --cu-q, where each sequence "
                                       "starts");
    }
    if (check_seams(cu_q, "cu_q", attention->query.rows, failure) != 0) {
        return -1;
    }
    attention->sequences = problem->batch = cu_q->shape[0] - 1;
    problem->query_len = longest(cu_q);
    problem->features |= CLATTN_WITH_VARLEN;
    attention->host.cu_query.data = cu_q->data;
    if (inputs->tensor[ROLE_PAGE_TABLE].data) {
        return cu_k->data ? failure_misuse(failure, "cu_k: keys in pages have key_lengths; leave it out") : 0;
    }
    if (!cu_k->data) {
        if (tensor_create(cu_k, cu_q->type, cu_q->dims, cu_q->shape, "cu_k", failure) != 0 || !cu_k->data) {
            return -1;
        }
        memcpy(cu_k->data, cu_q->data, tensor_bytes(cu_q));
    }
    if (check_seams(cu_k, "cu_k", attention->key.rows, failure) != 0 ||
        attention_must_equal("cu_k sequences", cu_k->shape[0] - 1, "cu_q", cu_q->shape[0] - 1, failure) != 0) {
        return -1;
    }
    problem->key_len = longest(cu_k);
    attention->host.cu_key.data = cu_k->data;
    return 0;
}

/* ---- masks, lengths, slopes, sinks ---- */

/* A mask whose columns are bits of its last axis's words. */
static int prepare_bits(const struct tensor *mask, const struct axes *rows, int64_t keys, struct attention *attention,
                        struct failure *failure)
{
    const int64_t words = (keys + 31) / 32;
    const int64_t given = mask->dims > 0 ? mask->shape[mask->dims - 1] : 1;
    int64_t *stride = attention->host.mask.stride, covered = -1;
    if (words > 0 && given != words) {
        return failure_misuse(failure,
                              "mask uint32: has rows of %lld words; must have %lld, a bit for each of %lld keys",
                              (long long)given, (long long)words, (long long)keys);
    }
    if (layout_broadcast(mask, rows, words, "mask", stride, &covered, failure) != 0) {
        return -1;
    }
    for (int axis = 0; axis < 3; axis++) {
        stride[axis] *= (int64_t)sizeof(uint32_t);
    }
    stride[3] = 1;
    attention->problem.mask_bits = 1;
    return 0;
}

static int prepare_masks(const struct options *options, struct inputs *inputs, struct attention *attention,
                         struct failure *failure)
{
    static const enum option_id needed[] = { OPTION_MASK_FILE, OPTION_BIAS_FILE, OPTION_NONE };
    clattn_host_tensors *host = &attention->host;
    struct axes rows = attention->query;
    int64_t keys = attention->problem.key_len;
    struct tensor *mask = &inputs->tensor[ROLE_MASK], *bias = &inputs->tensor[ROLE_BIAS];
    if (attention->layout == LAYOUT_THD) {
        rows.lead_dims = 1;
        rows.lead[0] = attention->problem.batch;
        rows.rows = attention->problem.query_len;
    }
    if (!mask->data && !bias->data && option_needs(options, OPTION_MASK_FIRST_KEY, needed, failure) != 0) {
        return -1;
    }
    if (option_integer(options, OPTION_MASK_FIRST_KEY, 0, keys, &attention->values.mask_first_key, failure) != 0) {
        return -1;
    }
    keys -= attention->values.mask_first_key;
    if (mask->data) {
        if (mask->type != TENSOR_BOOL && mask->type != TENSOR_UINT8 && mask->type != TENSOR_UINT32) {
            return failure_misuse(failure, "mask %s: must be bool, uint8 or uint32", tensor_type_name(mask->type));
        }
        attention->problem.features |= CLATTN_WITH_MASK;
        host->mask.data = mask->data;
        if ((mask->type == TENSOR_UINT32 ? prepare_bits(mask, &rows, keys, attention, failure)
                                         : layout_broadcast(mask, &rows, keys, "mask", host->mask.stride,
                                                            &attention->values.mask_key_len, failure)) != 0) {
            return -1;
        }
    }
    if (convert_bias(bias, &attention->problem, failure) != 0) {
        return -1;
    }
    host->bias.data = bias->data;
    return bias->data ? layout_broadcast(bias, &rows, keys, "bias", host->bias.stride, &attention->values.bias_key_len,
                                         failure)
                      : 0;
}

static int prepare_key_lengths(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    struct tensor *lengths = &inputs->tensor[ROLE_KEY_LENGTHS];
    if (!lengths->data) {
        return 0;
    }
    if (attention_convert_integers(lengths, "key_lengths", 0, attention->problem.key_len, failure) != 0 ||
        attention_must_equal("key_lengths count", tensor_count(lengths), "the batch", attention->problem.batch,
                             failure) != 0) {
        return -1;
    }
    attention->problem.features |= CLATTN_WITH_KEY_LENGTHS;
    attention->host.key_lengths.data = lengths->data;
    return 0;
}

/* The offsets that options gave, one for all or one each, or those of the file. */
static int prepare_offsets(struct inputs *inputs, struct tensor *given, struct attention *attention,
                           struct failure *failure)
{
    struct tensor *offsets = &inputs->tensor[ROLE_QUERY_OFFSETS];
    int64_t batch = attention->problem.batch;
    if (attention->problem.alignment != CLATTN_ALIGN_OFFSETS) {
        return 0;
    }
    if (given->data) {
        int64_t n = tensor_count(given);
        tensor_free(offsets);
        if (n != 1 && attention_must_equal("causal offsets: count", n, "the batch", batch, failure) != 0) {
            return -1;
        }
        if (tensor_create(offsets, TENSOR_INT64, 1, &batch, "query_offsets", failure) != 0) {
            return -1;
        }
        for (int64_t i = 0; i < batch; i++) {
            ((int64_t *)offsets->data)[i] = ((int64_t *)given->data)[n == 1 ? 0 : i];
        }
    }
    if (!offsets->data) {
        return failure_misuse(failure, "query_offsets: is missing; INPUT has no such tensor, give numbers "
                                       "to --causal or --align");
    }
    if (attention_convert_integers(offsets, "query_offsets", INT32_MIN, INT32_MAX, failure) != 0 ||
        attention_must_equal("query_offsets count", tensor_count(offsets), "the batch", batch, failure) != 0) {
        return -1;
    }
    attention->host.query_offsets.data = offsets->data;
    return 0;
}

/* To float64 where queries and the tensor are, else to float32; *own is which. */
static int convert_heads(struct tensor *tensor, const char *name, const clattn_problem *problem, clattn_type *own,
                         struct failure *failure)
{
    const int64_t heads = problem->query_heads;
    if (!tensor_is_float(tensor->type)) {
        return failure_misuse(failure, "%s %s: must be a float type", name, tensor_type_name(tensor->type));
    }
    if (tensor->dims < 1 || tensor->shape[tensor->dims - 1] != heads) {
        char shape[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure, "%s: shape %s: its last axis must be the %lld query heads", name,
                              tensor_shape_text(tensor, shape), (long long)heads);
    }
    *own = problem->type == CLATTN_FLOAT64 && tensor->type == TENSOR_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    return tensor_convert(tensor, tensor_type_of_storage(*own), name, failure);
}

static int prepare_slopes(const struct options *options, struct inputs *inputs, struct attention *attention,
                          struct failure *failure)
{
    struct tensor *slopes = &inputs->tensor[ROLE_SLOPES];
    int64_t heads = attention->problem.query_heads, count;
    if (!slopes->data && options->value[OPTION_ALIBI]) {
        if (tensor_create(slopes, TENSOR_FLOAT32, 1, &heads, "slopes", failure) != 0) {
            return -1;
        }
        if (heads && clattn_alibi_slopes(heads, slopes->data) != CLATTN_OK) {
            return failure_misuse(failure, "--alibi standard: %s", clattn_last_error());
        }
    }
    if (!slopes->data) {
        return 0;
    }
    if (convert_heads(slopes, "slopes", &attention->problem, &attention->problem.slopes_type, failure) != 0) {
        return -1;
    }
    count = tensor_count(slopes);
    if (count != heads && count != heads * attention->problem.batch) {
        return failure_misuse(failure, "slopes: must be [heads] or [batch, heads]");
    }
    attention->problem.features |= CLATTN_WITH_SLOPES;
    attention->host.slopes.data = slopes->data;
    attention->host.slopes.stride[0] = count == heads ? 0 : heads;
    attention->host.slopes.stride[1] = 1;
    return 0;
}

static int prepare_sinks(struct inputs *inputs, struct attention *attention, struct failure *failure)
{
    struct tensor *sinks = &inputs->tensor[ROLE_SINKS];
    if (!sinks->data) {
        return 0;
    }
    if (sinks->dims != 1) {
        return failure_misuse(failure, "sinks: must have one axis, the query heads");
    }
    if (convert_heads(sinks, "sinks", &attention->problem, &attention->problem.sinks_type, failure) != 0) {
        return -1;
    }
    attention->problem.features |= CLATTN_WITH_SINKS;
    attention->host.sinks.data = sinks->data;
    attention->host.sinks.stride[1] = 1;
    return 0;
}

int attention_prepare_extras(const struct options *options, struct inputs *inputs, struct tensor *offsets,
                             struct attention *attention, struct failure *failure)
{
    if (prepare_sequences(inputs, attention, failure) != 0 ||
        attention_prepare_cache(options, inputs, attention, failure) != 0 ||
        prepare_masks(options, inputs, attention, failure) != 0 ||
        prepare_key_lengths(inputs, attention, failure) != 0 ||
        prepare_offsets(inputs, offsets, attention, failure) != 0 ||
        prepare_slopes(options, inputs, attention, failure) != 0) {
        return -1;
    }
    if (prepare_sinks(inputs, attention, failure) != 0) {
        return -1;
    }
    return problem_alignment_check(options, &attention->problem, failure);
}
