/* Validation of a problem: every rule on its fields, in one place, each with a message that names the
 * field, its value and the rule. */
#include "operation/problem.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/growth.h"
#include "base/stored_types.h"
#include "base/text.h"
#include "operation/field_rules.h"
#include "operation/forward.h"
#include "operation/pools.h"
#include "operation/problem_fields.h"
#include "operation/value_in_key.h"

clattn_status problem_check_scale(int has_scale, double scale)
{
    if (!has_scale && scale != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scale %s: would be ignored while has_scale is 0; set it",
                         DECIMAL(scale));
    }
    if (!isfinite(scale) || fabs(scale) > (double)FLT_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "scale %s: must be finite and fit float32", DECIMAL(scale));
    }
    return CLATTN_OK;
}

static clattn_status check_shape(const clattn_problem *p)
{
    const struct dimension dimensions[] = {
        { "batch", p->batch, 0 },           { "query_heads", p->query_heads, 0 }, { "kv_heads", p->kv_heads, 0 },
        { "query_len", p->query_len, 0 },   { "key_len", p->key_len, 0 },         { "head_dim", p->head_dim, 1 },
        { "head_dim_v", p->head_dim_v, 1 },
    };
    clattn_status status = check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    if (status == CLATTN_OK && (p->kv_heads == 0 ? p->query_heads != 0 : p->query_heads % p->kv_heads != 0)) {
        status = error_set(CLATTN_INVALID_SHAPE, "query_heads %" PRId64 ": must be a multiple of kv_heads %" PRId64,
                           p->query_heads, p->kv_heads);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    /* Kernels count planes, and where a launch of some begins, in int. */
    const struct dimension planes = { "batch * query_heads", p->batch * p->query_heads, 0 };
    return check_dimensions(&planes, 1);
}

static clattn_status check_lengths(const clattn_problem *p)
{
    const struct dimension lengths[] = { { "query_len", p->query_len, 0 }, { "key_len", p->key_len, 0 } };
    return check_tiled_dimensions(lengths, 2);
}

static clattn_status check_own_types(const clattn_problem *p)
{
    const struct own_type own[] = { { "key_type", p->key_type, "head_dim", p->head_dim },
                                    { "value_type", p->value_type, "head_dim_v", p->head_dim_v },
                                    { "out_type", p->out_type, NULL, 0 } };
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && status == CLATTN_OK; ++i) {
        status = check_own_type(&own[i], p->type);
    }
    return status;
}

static clattn_status check_head_types(const clattn_problem *p)
{
    const struct head_type slopes = { "slopes_type", p->slopes_type, CLATTN_WITH_SLOPES, "CLATTN_WITH_SLOPES" },
                           sinks = { "sinks_type", p->sinks_type, CLATTN_WITH_SINKS, "CLATTN_WITH_SINKS" };
    const clattn_status status = check_head_type(&slopes, p->features, p->type);
    return status == CLATTN_OK ? check_head_type(&sinks, p->features, p->type) : status;
}

static clattn_status check_types(const clattn_problem *p)
{
    const clattn_status status = check_type(p->type);
    if (status != CLATTN_OK) {
        return status;
    }
    if (p->bias_type != CLATTN_TYPE_NONE && !type_is_float(p->bias_type)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "bias_type %d: is not a clattn_type", (int)p->bias_type);
    }
    if (p->bias_type == CLATTN_FLOAT64 && p->type != CLATTN_FLOAT64) {
        return error_set(CLATTN_INVALID_ARGUMENT, "bias_type float64: needs type float64, which is %s",
                         clattn_type_name(p->type));
    }
    if (p->features & ~forward_features) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features 0x%x: bits 0x%x are not known", p->features,
                         p->features & ~forward_features);
    }
    if ((int)p->weights < CLATTN_WEIGHTS_NONE || (int)p->weights > CLATTN_WEIGHTS_SOFTMAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "weights %d: is not a clattn_weights", (int)p->weights);
    }
    if ((int)p->matmul < CLATTN_MATMUL_AUTO || (int)p->matmul > CLATTN_MATMUL_TILES) {
        return error_set(CLATTN_INVALID_ARGUMENT, "matmul %d: is not a clattn_matmul", (int)p->matmul);
    }
    if (p->allow_tf32 && p->type != CLATTN_FLOAT32) {
        return error_set(CLATTN_INVALID_ARGUMENT, "allow_tf32 %d: needs type float32, which is %s; leave it 0",
                         p->allow_tf32, clattn_type_name(p->type));
    }
    if (p->allow_rounded_weights && p->type != CLATTN_FLOAT16 && p->type != CLATTN_BFLOAT16) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "allow_rounded_weights %" PRId64 ": needs type float16 or bfloat16, which is %s; leave it 0",
                         p->allow_rounded_weights, clattn_type_name(p->type));
    }
    return CLATTN_OK;
}

static clattn_status check_masking(const clattn_problem *p)
{
    if ((int)p->alignment < CLATTN_ALIGN_UNSET || (int)p->alignment > CLATTN_ALIGN_OFFSETS) {
        return error_set(CLATTN_INVALID_ARGUMENT, "alignment %d: is not a clattn_alignment", (int)p->alignment);
    }
    const int64_t windows[2] = { p->window_left, p->window_right };
    for (int side = 0; side < 2; ++side) {
        if (windows[side] < -1 || windows[side] > DIMENSION_MAX) {
            return error_set(CLATTN_INVALID_ARGUMENT, "window_%s %" PRId64 ": must be -1 (no bound) or 0 to %d",
                             side ? "right" : "left", windows[side], DIMENSION_MAX);
        }
    }
    if (p->always_visible_keys < 0 || p->always_visible_keys > DIMENSION_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "always_visible_keys %" PRId64 ": must be 0 to %d",
                         p->always_visible_keys, DIMENSION_MAX);
    }
    int windowed = p->window_left >= 0 || p->window_right >= 0;
    if (p->always_visible_keys > 0 && !windowed) {
        return error_set(CLATTN_INVALID_ARGUMENT, "always_visible_keys %" PRId64 ": needs window_left or window_right",
                         p->always_visible_keys);
    }
    const char *needs = p->causal                            ? "causal"
                        : windowed                           ? "window"
                        : (p->features & CLATTN_WITH_SLOPES) ? "slopes"
                                                             : NULL;
    if (needs && p->alignment == CLATTN_ALIGN_UNSET) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "alignment: must be set for %s (top left, bottom right or offsets); it is "
                         "never guessed from shapes",
                         needs);
    }
    return CLATTN_OK;
}

static clattn_status check_pages(const clattn_problem *p)
{
    const int paged = (p->features & CLATTN_WITH_PAGES) != 0;
    if (!paged && (p->features & CLATTN_WITH_PAGE_STARTS)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_PAGE_STARTS needs CLATTN_WITH_PAGES");
    }
    if (!paged && (p->page_size != 0 || p->pages != 0 || p->pool_pages != 0)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "page_size %" PRId64 ", pages %" PRId64 ", pool_pages %" PRId64
                         ": need CLATTN_WITH_PAGES, and would be ignored; set it, or leave them 0",
                         p->page_size, p->pages, p->pool_pages);
    }
    if (!paged) {
        return CLATTN_OK;
    }
    if (!(p->features & CLATTN_WITH_KEY_LENGTHS)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features: CLATTN_WITH_PAGES needs CLATTN_WITH_KEY_LENGTHS, the keys of each sequence");
    }
    const struct dimension dimensions[] = { { "page_size", p->page_size, 1 },
                                            { "pages", p->pages, 0 },
                                            { "pool_pages", p->pool_pages, 0 } };
    const clattn_status status = check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    return status == CLATTN_OK ? pools_check(p->pages, p->pool_pages) : status;
}

/* Scales are for codes that have none of their own, and what says how they are shared is for scales. */
static clattn_status check_scales(const clattn_problem *p)
{
    const struct shared_scales of[] = {
        { "key", p->key_type, p->features & CLATTN_WITH_KEY_SCALES, p->key_scale_rows, p->key_scale_columns },
        { "value", p->value_type, p->features & CLATTN_WITH_VALUE_SCALES, p->value_scale_rows, p->value_scale_columns }
    };
    const clattn_status status = check_scales_of_type(&of[0]);
    return status == CLATTN_OK ? check_scales_of_type(&of[1]) : status;
}

/* Keys are overwritten: no row may lose some of its window without a word. */
static clattn_status check_ring(const clattn_problem *p)
{
    const int64_t turning = p->ring - p->always_visible_keys;
    if (p->ring < 0 || p->ring > DIMENSION_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "ring %" PRId64 ": must be 0 (none) to %d", p->ring, DIMENSION_MAX);
    }
    if (p->ring > 0 && turning <= 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "ring %" PRId64 ": must be more than always_visible_keys %" PRId64,
                         p->ring, p->always_visible_keys);
    }
    if (p->ring > 0 && (p->features & (CLATTN_WITH_VARLEN | CLATTN_WITH_PAGES)) == CLATTN_WITH_VARLEN) {
        return error_set(CLATTN_INVALID_ARGUMENT, "ring %" PRId64 ": packed keys have none; use pages", p->ring);
    }
    if (!forward_ring_turns(p)) {
        return CLATTN_OK;
    }
    if (p->window_left < 0 || p->window_left + p->query_len > turning) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "ring %" PRId64 ": keeps %" PRId64 " keys behind the pinned ones, and window_left %" PRId64
                         " with query_len %" PRId64 " may need more; make it larger, or the window smaller",
                         p->ring, turning, p->window_left, p->query_len);
    }
    if (p->alignment == CLATTN_ALIGN_TOP_LEFT) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "alignment: top left: rows would stand at the first keys, which a ring of %" PRId64
                         " rows overwrites; use bottom right or offsets",
                         p->ring);
    }
    return CLATTN_OK;
}

/* A feature that is not asked for has no numbers. */
static clattn_status check_unasked(const struct dimension dimensions[2], uint32_t feature)
{
    return dimensions[0].value == 0 && dimensions[1].value == 0
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "%s %" PRId64 ", %s %" PRId64 ": need %s, and would be ignored; set it, or leave them 0",
                           dimensions[0].name, dimensions[0].value, dimensions[1].name, dimensions[1].value,
                           forward_feature_name(feature));
}

static clattn_status check_block_mask(const clattn_problem *p)
{
    const struct dimension dimensions[] = { { "block_mask_rows", p->block_mask_rows, 1 },
                                            { "block_mask_keys", p->block_mask_keys, 1 } };
    return p->features & CLATTN_WITH_BLOCK_MASK ? check_dimensions(dimensions, 2)
                                                : check_unasked(dimensions, CLATTN_WITH_BLOCK_MASK);
}

static clattn_status check_key_lists(const clattn_problem *p)
{
    const struct dimension dimensions[] = { { "key_list_rows", p->key_list_rows, 1 },
                                            { "key_list_keys", p->key_list_keys, 1 } };
    if (!(p->features & CLATTN_WITH_KEY_LISTS)) {
        return check_unasked(dimensions, CLATTN_WITH_KEY_LISTS);
    }
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "weights %d: are of all keys, which lists are there to leave out; leave them NONE",
                         (int)p->weights);
    }
    return check_tiled_dimensions(dimensions, 2);
}

static clattn_status check_mask_bits(const clattn_problem *p)
{
    return !p->mask_bits || p->features & CLATTN_WITH_MASK
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_ARGUMENT,
                           "mask_bits %" PRId64 ": needs CLATTN_WITH_MASK, and would be ignored; set it, or leave it 0",
                           p->mask_bits);
}

static clattn_status check_numbers(const clattn_problem *p)
{
    if (!isfinite(p->softcap) || p->softcap < 0 || (p->softcap > 0 && !((float)p->softcap > 0)) ||
        p->softcap > (double)FLT_MAX) {
        return error_set(CLATTN_INVALID_ARGUMENT, "softcap %s: must be 0 (none) or a positive finite float32",
                         DECIMAL(p->softcap));
    }
    if (!(p->dropout >= 0 && p->dropout < 1)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "dropout %s: must be >= 0 and < 1", DECIMAL(p->dropout));
    }
    return CLATTN_OK;
}

/* That of slopes and of sinks; none for those that are not there. */
static clattn_type type_of_heads(const clattn_problem *p, uint32_t feature, clattn_type own)
{
    return p->features & feature && own == CLATTN_TYPE_NONE ? CLATTN_FLOAT32 : own;
}

clattn_status problem_resolve(struct any_problem *any)
{
    struct problem *problem = (struct problem *)any;
    clattn_problem *p = &problem->p;
    clattn_status (*const checks[])(const clattn_problem *) = {
        check_types, check_shape, check_own_types,  check_head_types, check_scales,    check_lengths, check_masking,
        check_pages, check_ring,  check_block_mask, check_key_lists,  check_mask_bits, check_numbers,
    };
    p->head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    clattn_status status = value_in_key_resolve(p);
    p->key_type = forward_type(p, p->key_type);
    p->value_type = forward_type(p, p->value_type);
    p->out_type = forward_type(p, p->out_type);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == CLATTN_OK; ++i) {
        status = checks[i](p);
    }
    p->slopes_type = type_of_heads(p, CLATTN_WITH_SLOPES, p->slopes_type);
    p->sinks_type = type_of_heads(p, CLATTN_WITH_SINKS, p->sinks_type);
    own_shares(p->key_type, &p->key_scale_rows, &p->key_scale_columns);
    own_shares(p->value_type, &p->value_scale_rows, &p->value_scale_columns);
    if (status == CLATTN_OK && p->code) {
        status = user_code_new(p->code, p->type, &problem->any.code);
    }
    p->code = NULL; /* the caller's memory */
    p->causal = p->causal != 0;
    p->mask_bits = p->mask_bits != 0;
    p->strided_columns = p->strided_columns != 0;
    p->allow_tf32 = p->allow_tf32 != 0;
    p->allow_rounded_weights = p->allow_rounded_weights != 0;
    problem->flags = forward_flags(p, problem->any.code);
    return status;
}

int attention_problem_equal(const struct any_problem *a, const struct any_problem *b)
{
    const clattn_problem *x = &attention_problem(a)->p, *y = &attention_problem(b)->p;
#define SAME(field) &&!(x->field != y->field)
#define IS_ELSEWHERE(field) /* strategy_name and code of any_problem */
    return 1 PROBLEM_FIELDS(SAME, IS_ELSEWHERE);
#undef SAME
#undef IS_ELSEWHERE
}

int problem_mixes_types(const struct problem *problem)
{
    const clattn_problem *p = &problem->p;
    return p->key_type != p->type || p->value_type != p->type || p->out_type != p->type;
}

int problem_has_codes(const struct problem *problem)
{
    return !type_is_float(problem->p.key_type) || !type_is_float(problem->p.value_type);
}

int problem_hides_keys(const struct problem *problem)
{
    return (problem->flags & CLATTN_FLAGS_HIDING) != 0;
}

int is_attention(const struct any_problem *any)
{
    return any->operation->flags == attention_problem_flags;
}

uint32_t attention_problem_flags(const struct any_problem *any)
{
    return attention_problem(any)->flags;
}

void attention_problem_describe(const struct any_problem *any, struct text *text)
{
    static const char *const alignments[] = { "", " top-left", " bottom-right", " at offsets" };
    const struct problem *problem = attention_problem(any);
    const clattn_problem *p = &problem->p;
    text_append(text, "batch %" PRId64 ", heads %" PRId64, p->batch, p->query_heads);
    if (p->kv_heads != p->query_heads) {
        text_append(text, " on %" PRId64, p->kv_heads);
    }
    text_append(text, ", %" PRId64 " queries x %" PRId64 " keys, head_dim %" PRId64, p->query_len, p->key_len,
                p->head_dim);
    if (p->head_dim_v != p->head_dim) {
        text_append(text, " -> %" PRId64, p->head_dim_v);
    }
    text_append(text, "%s", p->value_in_key ? ", values in keys" : "");
    const char *rounding = p->allow_tf32 ? " or tf32" : p->allow_rounded_weights ? ", rounded weights" : "";
    text_append(text, ", %s%s", clattn_type_name(p->type), rounding);
    if (problem_mixes_types(problem)) {
        text_append(text, " queries, %s keys, %s values, %s out", clattn_type_name(p->key_type),
                    clattn_type_name(p->value_type), clattn_type_name(p->out_type));
    }
    if (p->causal) {
        text_append(text, ", causal%s", alignments[p->alignment]);
    }
    const uint32_t told_apart = CLATTN_FLAG_CAUSAL | CLATTN_FLAG_PAGES | CLATTN_FLAG_POOLS | CLATTN_FLAG_BLOCK_MASK;
    if (problem->flags & ~told_apart) {
        text_append(text, ", ");
        forward_flags_describe(problem->flags & ~told_apart, text);
    }
    if (problem->flags & CLATTN_FLAG_PAGES) {
        text_append(text, ", %" PRId64 " pages of %" PRId64 " keys", p->pages, p->page_size);
    }
    if (problem->flags & CLATTN_FLAG_POOLS) {
        text_append(text, " in %d buffers", pools_of(p));
    }
    if (problem->flags & CLATTN_FLAG_BLOCK_MASK) {
        text_append(text, ", a mask of blocks of %" PRId64 " rows x %" PRId64 " keys", p->block_mask_rows,
                    p->block_mask_keys);
    }
    if (problem->flags & CLATTN_FLAG_KEY_LISTS) {
        text_append(text, ", lists of %" PRId64 " keys for %" PRId64 " rows each", p->key_list_keys, p->key_list_rows);
    }
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        text_append(text, ", weights out");
    }
}
