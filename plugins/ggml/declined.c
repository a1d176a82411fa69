/* The rules on nodes, one after the other, and the counters. */
#include "declined.h"

#include "attention.h"
#include "counts.h"

#include <stdio.h>

#define LENGTH_MAX (INT64_C(2147483647) - 4096)

enum { COMPUTED, LISTED, PLANNED, FIRST_REASON };
#define R(name, text) { text, 0 },
static struct count count[] = { [COMPUTED] = { "nodes computed", 0 },
                                [LISTED] = { "of them by lists of keys", 0 },
                                [PLANNED] = { "plans made", 0 },
                                DECLINED_REASONS(R) };
#undef R
static const struct counts counts = { "ggml-clattn", "CLATTN_GGML_LOG", count, FIRST_REASON + DECLINED_COUNT,
                                      FIRST_REASON };

static int has_plain_columns(const struct ggml_tensor *tensor)
{
    return tensor->nb[0] == ggml_type_size(tensor->type);
}

static int has_whole_strides(const struct ggml_tensor *tensor)
{
    const size_t size = ggml_type_size(tensor->type);
    return tensor->nb[1] % size == 0 && tensor->nb[2] % size == 0 && tensor->nb[3] % size == 0;
}

/* One for all, or one for each. */
static int is_shared_or_own(int64_t extent, int64_t of)
{
    return extent == 1 || extent == of;
}

static enum declined reason_of_mask(const struct ggml_tensor *q, const struct ggml_tensor *mask)
{
    if (mask->type != GGML_TYPE_F16 || !has_plain_columns(mask) || mask->ne[1] < q->ne[1]) {
        return DECLINED_MASK;
    }
    if (!is_shared_or_own(mask->ne[2], q->ne[2]) || !is_shared_or_own(mask->ne[3], q->ne[3])) {
        return DECLINED_MASK_HEADS;
    }
    return has_whole_strides(mask) ? DECLINED_NOT : DECLINED_STRIDES;
}

enum declined declined_reason(const struct ggml_tensor *node)
{
    const struct ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2];
    const struct ggml_tensor *mask = node->src[3], *sinks = node->src[4];
    if (q->type != GGML_TYPE_F32) {
        return DECLINED_QUERY_TYPE;
    }
    if (node->type != GGML_TYPE_F32) {
        return DECLINED_OUT_TYPE;
    }
    if (!attention_type(k->type) || !attention_type(v->type)) {
        return DECLINED_CACHE_TYPE;
    }
    if (!has_plain_columns(q) || !has_plain_columns(k) || !has_plain_columns(v)) {
        return DECLINED_COLUMNS;
    }
    if (!has_whole_strides(q) || !has_whole_strides(k) || !has_whole_strides(v)) {
        return DECLINED_STRIDES;
    }
    if (k->ne[2] != v->ne[2] || k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3] || q->ne[2] % k->ne[2] != 0) {
        return DECLINED_HEADS;
    }
    if (q->ne[1] > LENGTH_MAX || k->ne[1] > LENGTH_MAX) {
        return DECLINED_LENGTHS;
    }
    if (sinks && sinks->type != GGML_TYPE_F32) {
        return DECLINED_SINKS;
    }
    return mask ? reason_of_mask(q, mask) : DECLINED_NOT;
}

void declined_count(enum declined reason)
{
    if (reason != DECLINED_NOT && counts_add(&counts, FIRST_REASON + (size_t)reason) == 0 &&
        counts_are_logged(&counts)) {
        fprintf(stderr, "%s: left to another backend: %s\n", counts.plugin, count[FIRST_REASON + reason].what);
    }
}

void computed_count(void)
{
    counts_add(&counts, COMPUTED);
}

void listed_count(void)
{
    counts_add(&counts, LISTED);
}

void planned_count(void)
{
    counts_add(&counts, PLANNED);
}

size_t ggml_backend_clattn_report(char *text, size_t size)
{
    return counts_report(&counts, text, size);
}

void log_report(void)
{
    counts_log(&counts);
}
