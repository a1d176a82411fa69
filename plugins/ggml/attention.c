/* Plans are kept for rounded-up lengths, so that neither a longer prompt nor the next token plans again. */
#include "attention.h"
#include "declined.h"

#include <math.h>
#include <string.h>

#define LIST_MIN 64                             /* lists shorter than this share a plan */
#define KEYS_MIN 256                            /* caches shorter than this share a plan */
#define LISTS_PAY 4                             /* so many keys of a hull for each that a row may choose */
#define LENGTH_MAX (INT64_C(2147483647) - 4096) /* clattn_problem's */

static const char out_of_memory[] = "out of memory for what the mask says";

/* A node as clattn sees it. */
struct node {
    const struct ggml_tensor *q, *k, *v, *mask, *sinks;
    struct ggml_tensor *out;
    float scale, max_bias, softcap;
    int32_t chosen_keys;    /* n_kv_max: no row sees more; 0: nobody says */
    clattn_problem problem; /* with this call's lengths */
    clattn_call call;
    clattn_host_tensors tensors;
};

clattn_type attention_type(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F32:
        return CLATTN_FLOAT32;
    case GGML_TYPE_F16:
        return CLATTN_FLOAT16;
    case GGML_TYPE_BF16:
        return CLATTN_BFLOAT16;
    case GGML_TYPE_Q8_0:
        return CLATTN_Q8_0;
    case GGML_TYPE_Q4_0:
        return CLATTN_Q4_0;
    case GGML_TYPE_Q4_1:
        return CLATTN_Q4_1;
    case GGML_TYPE_Q5_0:
        return CLATTN_Q5_0;
    case GGML_TYPE_Q5_1:
        return CLATTN_Q5_1;
    default:
        return CLATTN_TYPE_NONE;
    }
}

/* What clattn did not say itself. */
static int failed(struct attention *attention, const char *error)
{
    attention->error = error;
    return 0;
}

static int succeeded(struct attention *attention, clattn_status status)
{
    return status == CLATTN_OK || failed(attention, clattn_last_error());
}

int attention_init(struct attention *attention, clattn_context *context)
{
    cl_int code;
    memset(attention, 0, sizeof(*attention));
    attention->context = context;
    attention->queue = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), 0, &code);
    return code == CL_SUCCESS || failed(attention, "clCreateCommandQueue failed");
}

void attention_release(struct attention *attention)
{
    for (int n = 0; n < ATTENTION_PLANS; ++n) {
        clattn_plan_destroy(attention->plans[n].plan);
    }
    clReleaseCommandQueue(attention->queue);
    scratch_free(&attention->ranges);
    scratch_free(&attention->lists);
    scratch_free(&attention->slopes);
    scratch_free(&attention->offsets);
    scratch_free(&attention->row);
    scratch_free(&attention->bias);
}

/* ---- plans ------------------------------------------------------------------------------------- */

static int64_t rounded_up(int64_t length, int64_t least)
{
    int64_t rounded = least;
    while (rounded < length) {
        rounded *= 2;
    }
    return rounded < LENGTH_MAX ? rounded : LENGTH_MAX;
}

/* Whether what nodes differ in is equal. */
static int is_same_problem(const clattn_problem *a, const clattn_problem *b)
{
    return a->batch == b->batch && a->query_heads == b->query_heads && a->kv_heads == b->kv_heads &&
           a->query_len == b->query_len && a->key_len == b->key_len && a->head_dim == b->head_dim &&
           a->head_dim_v == b->head_dim_v && a->features == b->features && a->bias_type == b->bias_type &&
           a->alignment == b->alignment && a->softcap == b->softcap && a->key_type == b->key_type &&
           a->value_type == b->value_type && a->key_list_keys == b->key_list_keys;
}

/* NULL: failed. */
static const clattn_plan *find_plan(struct attention *attention, const clattn_problem *lengths)
{
    clattn_problem maxima = *lengths;
    maxima.query_len = rounded_up(lengths->query_len, 1);
    maxima.key_len = rounded_up(lengths->key_len, KEYS_MIN);
    struct kept_plan *oldest = attention->plans;
    ++attention->calls;
    for (struct kept_plan *kept = attention->plans; kept < attention->plans + ATTENTION_PLANS; ++kept) {
        if (kept->plan && is_same_problem(&kept->problem, &maxima)) {
            kept->used = attention->calls;
            return kept->plan;
        }
        oldest = kept->used < oldest->used ? kept : oldest;
    }
    clattn_plan *made;
    if (!succeeded(attention, clattn_plan_create(attention->context, &maxima, &made))) {
        return NULL;
    }
    planned_count();
    clattn_plan_destroy(oldest->plan);
    *oldest = (struct kept_plan){ made, maxima, attention->calls };
    return made;
}

static int run(struct attention *attention, const struct node *node)
{
    const clattn_plan *plan = find_plan(attention, &node->problem);
    clattn_call call = node->call;
    call.query_len = node->problem.query_len;
    call.key_len = node->problem.key_len;
    cl_event done = NULL;
    if (!plan) {
        return 0;
    }
    if (!succeeded(attention, clattn_enqueue_host(plan, attention->queue, &call, &node->tensors, 0, NULL, &done))) {
        clFinish(attention->queue);
        return 0;
    }
    const cl_int code = clWaitForEvents(1, &done);
    clReleaseEvent(done);
    return code == CL_SUCCESS || failed(attention, "the kernels failed (clWaitForEvents)");
}

/* ---- tensors ----------------------------------------------------------------------------------- */

/* ggml counts strides in bytes, and a block as one element: clattn counts columns. */
static int64_t columns_of(const struct ggml_tensor *tensor, int axis)
{
    return (int64_t)(tensor->nb[axis] / ggml_type_size(tensor->type)) * ggml_blck_size(tensor->type);
}

static clattn_host_tensor place(const struct ggml_tensor *tensor, int head_axis, int row_axis)
{
    const clattn_host_tensor placed = {
        tensor->data, 0, { columns_of(tensor, 3), columns_of(tensor, head_axis), columns_of(tensor, row_axis), 1 }
    };
    return placed;
}

static void read_node(struct ggml_tensor *out, struct node *node)
{
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_call call = CLATTN_CALL_INIT;
    const clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    float parameters[3];
    memcpy(parameters, out->op_params, sizeof(parameters));
    *node = (struct node){ out->src[0],   out->src[1],   out->src[2], out->src[3], out->src[4], out,    parameters[0],
                           parameters[1], parameters[2], 0,           problem,     call,        tensors };
    memcpy(&node->chosen_keys, out->op_params + 4, sizeof(node->chosen_keys)); /* 3 is the precision */
    clattn_problem *p = &node->problem;
    p->batch = node->q->ne[3];
    p->query_heads = node->q->ne[2];
    p->kv_heads = node->k->ne[2];
    p->query_len = node->q->ne[1];
    p->key_len = node->k->ne[1];
    p->head_dim = node->q->ne[0];
    p->head_dim_v = node->v->ne[0];
    p->key_type = attention_type(node->k->type);
    p->value_type = attention_type(node->v->type);
    p->softcap = (double)node->softcap;
    node->call.has_scale = 1;
    node->call.scale = (double)node->scale;
    node->tensors.query = place(node->q, 2, 1);
    node->tensors.key = place(node->k, 2, 1);
    node->tensors.value = place(node->v, 2, 1);
    node->tensors.out = place(out, 1, 2);
    if (node->sinks) {
        p->features |= CLATTN_WITH_SINKS;
        node->tensors.sinks.data = node->sinks->data;
        node->tensors.sinks.stride[1] = 1;
    }
}

/* The slopes of ggml's max_bias: those of clattn_alibi_slopes to the power of max_bias / 8, in float32 as ggml's. */
static void fill_slopes(const struct node *node, float *slopes)
{
    const int64_t heads = node->q->ne[2];
    int64_t power = 1;
    while (2 * power <= heads) {
        power *= 2;
    }
    const float even = powf(2.0f, -node->max_bias / (float)power);
    const float odd = powf(2.0f, -(node->max_bias / 2.0f) / (float)power);
    for (int64_t h = 0; h < heads; ++h) {
        slopes[h] = h < power ? powf(even, (float)(h + 1)) : powf(odd, (float)(2 * (h - power) + 1));
    }
}

/* ---- masks ------------------------------------------------------------------------------------- */

static struct mask mask_of(const struct node *node)
{
    const struct ggml_tensor *m = node->mask;
    const struct mask mask = { m->data,        m->ne[3],         m->ne[2],         node->q->ne[1],
                               node->k->ne[1], columns_of(m, 3), columns_of(m, 2), columns_of(m, 1) };
    return mask;
}

static void move_first_key(clattn_host_tensor *tensor, const struct ggml_tensor *of, int64_t keys)
{
    tensor->data = (char *)of->data + keys * (int64_t)of->nb[1];
}

/* Keys that no row sees are left out. */
static void use_hull(const struct mask_ranges *ranges, struct node *node)
{
    move_first_key(&node->tensors.key, node->k, ranges->first);
    move_first_key(&node->tensors.value, node->v, ranges->first);
    node->problem.key_len = ranges->end - ranges->first;
}

/* Where rows differ, each gets its range. */
static void use_ranges(const struct mask *mask, const struct mask_ranges *ranges, struct node *node)
{
    if (!ranges->is_uniform) {
        const int64_t stride[4] = { mask->batch > 1 ? mask->heads * mask->rows : 0, mask->heads > 1 ? mask->rows : 0, 1,
                                    0 };
        node->problem.features |= CLATTN_WITH_ROW_RANGES;
        node->tensors.row_low.data = ranges->low;
        node->tensors.row_high.data = ranges->high;
        memcpy(node->tensors.row_low.stride, stride, sizeof(stride));
        memcpy(node->tensors.row_high.stride, stride, sizeof(stride));
    }
}

/* Rows that choose few keys of many get the numbers of theirs, and ranges->is_added is about those alone. 0: they do
 * not, or there is no memory; then ranges and mask say as much. */
static int use_lists(struct attention *attention, const struct mask *mask, struct mask_ranges *ranges,
                     struct node *node)
{
    const int64_t capacity = rounded_up(node->chosen_keys, LIST_MIN), rows = mask->batch * mask->rows;
    if (node->chosen_keys <= 0 || node->max_bias > 0 || mask->heads > 1 ||
        LISTS_PAY * node->chosen_keys > ranges->end - ranges->first) {
        return 0;
    }
    int32_t *lists = scratch_room(&attention->lists, (size_t)(rows * capacity) * sizeof(*lists));
    if (!lists || !mask_list_keys(mask, ranges, capacity, lists)) {
        return 0;
    }
    const int64_t stride[4] = { mask->batch > 1 ? mask->rows * capacity : 0, 0, capacity, 1 };
    node->problem.features |= CLATTN_WITH_KEY_LISTS;
    node->problem.key_list_rows = 1;
    node->problem.key_list_keys = capacity;
    node->tensors.key_lists.data = lists;
    memcpy(node->tensors.key_lists.stride, stride, sizeof(stride));
    listed_count();
    return 1;
}

static void use_mask_as_bias(const struct mask *mask, const struct mask_ranges *ranges, struct node *node)
{
    node->problem.bias_type = CLATTN_FLOAT16;
    node->tensors.bias.data = (uint16_t *)node->mask->data + ranges->first;
    node->tensors.bias.stride[0] = mask->batch > 1 ? mask->batch_stride : 0;
    node->tensors.bias.stride[1] = mask->heads > 1 ? mask->head_stride : 0;
    node->tensors.bias.stride[2] = mask->row_stride;
    node->tensors.bias.stride[3] = 1;
}

static void use_slopes(float *slopes, int32_t *offsets, struct node *node)
{
    node->problem.features |= CLATTN_WITH_SLOPES;
    node->problem.alignment = CLATTN_ALIGN_OFFSETS;
    node->tensors.slopes.data = slopes;
    node->tensors.slopes.stride[1] = 1;
    node->tensors.query_offsets.data = offsets;
    node->tensors.query_offsets.stride[0] = 1;
}

/* slope times the mask of head h, of the hull's keys, as [batch, rows, keys]. */
static void fill_bias(const struct mask *mask, const struct mask_ranges *ranges, int64_t h, float slope, float *bias)
{
    const int64_t keys = ranges->end - ranges->first;
    for (int64_t n = 0; n < mask->batch * mask->rows; ++n, bias += keys) {
        const uint16_t *row = mask->data + n / mask->rows * mask->batch_stride + n % mask->rows * mask->row_stride +
                              (mask->heads > 1 ? h : 0) * mask->head_stride + ranges->first;
        ggml_fp16_to_fp32_row(row, bias, keys);
        for (int64_t j = 0; j < keys; ++j) {
            bias[j] *= slope;
        }
    }
}

/* A mask that is no distance has another bias in each head: head by head, so that one is kept and not all. */
static int run_heads(struct attention *attention, const struct mask *mask, const struct mask_ranges *ranges,
                     const float *slopes, const struct node *node)
{
    const int64_t keys = ranges->end - ranges->first, group = node->problem.query_heads / node->problem.kv_heads;
    float *bias = scratch_room(&attention->bias, (size_t)(mask->batch * mask->rows * keys) * sizeof(*bias));
    int is_good = bias || failed(attention, out_of_memory);
    for (int64_t h = 0; h < node->problem.query_heads && is_good; ++h) {
        struct node head = *node;
        const clattn_host_tensors *all = &node->tensors;
        head.problem.query_heads = head.problem.kv_heads = 1;
        head.problem.bias_type = CLATTN_FLOAT32;
        head.tensors.query.data = (char *)all->query.data + h * (int64_t)node->q->nb[2];
        head.tensors.key.data = (char *)all->key.data + h / group * (int64_t)node->k->nb[2];
        head.tensors.value.data = (char *)all->value.data + h / group * (int64_t)node->v->nb[2];
        head.tensors.out.data = (char *)all->out.data + h * (int64_t)node->out->nb[1];
        head.tensors.sinks.data = node->sinks ? (float *)all->sinks.data + h : NULL;
        head.tensors.row_low.offset = head.tensors.row_high.offset = h * all->row_low.stride[1];
        fill_bias(mask, ranges, h, slopes[h], bias);
        head.tensors.bias.data = bias;
        head.tensors.bias.stride[0] = mask->batch > 1 ? mask->rows * keys : 0;
        head.tensors.bias.stride[2] = keys;
        head.tensors.bias.stride[3] = 1;
        is_good = run(attention, &head);
    }
    return is_good;
}

static int run_alibi(struct attention *attention, const struct mask *mask, const struct mask_ranges *ranges,
                     struct node *node)
{
    float *slopes = scratch_room(&attention->slopes, (size_t)node->problem.query_heads * sizeof(*slopes));
    float *row = scratch_room(&attention->row, (size_t)mask->keys * sizeof(*row));
    int32_t *offsets = scratch_room(&attention->offsets, (size_t)node->problem.batch * sizeof(*offsets));
    if (!slopes || !row || !offsets) {
        return failed(attention, out_of_memory);
    }
    fill_slopes(node, slopes);
    if (!mask_is_causal_distance(mask, ranges, row, offsets)) {
        return run_heads(attention, mask, ranges, slopes, node);
    }
    for (int64_t b = mask->batch; b < node->problem.batch; ++b) {
        offsets[b] = offsets[0]; /* one mask for all entries */
    }
    use_slopes(slopes, offsets, node);
    return run(attention, node);
}

int attention_compute(struct attention *attention, const struct ggml_tensor *out)
{
    struct node node;
    struct mask_ranges ranges;
    read_node((struct ggml_tensor *)(uintptr_t)out, &node);
    if (!node.mask) {
        return run(attention, &node);
    }
    const struct mask mask = mask_of(&node);
    if (!mask_read(&mask, &attention->ranges, &ranges)) {
        return failed(attention, out_of_memory);
    }
    use_hull(&ranges, &node);
    if (!ranges.is_added || !use_lists(attention, &mask, &ranges, &node)) {
        use_ranges(&mask, &ranges, &node);
    }
    if (node.max_bias > 0 && ranges.is_added) {
        return run_alibi(attention, &mask, &ranges, &node);
    }
    if (ranges.is_added) {
        use_mask_as_bias(&mask, &ranges, &node);
    }
    return run(attention, &node);
}
