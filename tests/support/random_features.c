#include "random_features.h"

#include <string.h>

#include "base/stored_types.h"
#include "random.h"

static int64_t some(struct random *random, int64_t least, int64_t most)
{
    return random_between(random, least, most > least ? most : least);
}

static void add_causal(struct random *random, clattn_problem *p)
{
    (void)random;
    p->causal = 1;
}

static void add_window(struct random *random, clattn_problem *p)
{
    p->window_left = some(random, 0, p->key_len / 3);
    p->window_right = random_chance(random, 0.5) ? -1 : some(random, 0, p->query_len / 2);
}

static void add_pinned(struct random *random, clattn_problem *p)
{
    add_window(random, p);
    p->always_visible_keys = some(random, 1, random_chance(random, 0.5) ? 8 : p->key_len / 2);
}

static void add_bottom(struct random *random, clattn_problem *p)
{
    (void)random;
    p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

static void add_offsets(struct random *random, clattn_problem *p)
{
    (void)random;
    p->alignment = CLATTN_ALIGN_OFFSETS;
}

static void add_top(struct random *random, clattn_problem *p)
{
    (void)random;
    p->alignment = CLATTN_ALIGN_TOP_LEFT;
}

static void add_pages(struct random *random, clattn_problem *p)
{
    static const int64_t sizes[] = { 1, 3, 7, 16, 16, 17, 64, 256 };
    p->features |= CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS;
    p->page_size = sizes[random_between(random, 0, 7)];
}

static void add_starts(struct random *random, clattn_problem *p)
{
    add_pages(random, p);
    p->features |= CLATTN_WITH_PAGE_STARTS;
}

static void add_bits(struct random *random, clattn_problem *p)
{
    (void)random;
    p->mask_bits = 1;
}

static void add_blocks(struct random *random, clattn_problem *p)
{
    static const int64_t sizes[] = { 1, 7, 16, 16, 24, 32, 64, 64, 128, 200 };
    p->block_mask_rows = sizes[random_between(random, 0, 9)];
    p->block_mask_keys = sizes[random_between(random, 0, 9)];
}

static void add_lists(struct random *random, clattn_problem *p)
{
    static const int64_t rows[] = { 1, 1, 2, 4, 16, 64, 1000 };
    p->key_list_rows = rows[random_between(random, 0, 6)];
    p->key_list_keys = some(random, 1, p->key_len + 3);
    p->weights = CLATTN_WEIGHTS_NONE;
}

static void add_ring(struct random *random, clattn_problem *p)
{
    if (!(p->features & CLATTN_WITH_PAGES)) {
        p->features &= ~(uint32_t)CLATTN_WITH_VARLEN;
    }
    p->window_left = some(random, 0, p->key_len / 3);
    p->always_visible_keys = random_chance(random, 0.5) ? some(random, 0, 9) : 0;
    p->ring = p->always_visible_keys + p->window_left + p->query_len + some(random, 1, 5);
    p->alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
}

static void add_softcap(struct random *random, clattn_problem *p)
{
    p->softcap = 2 + 20 * random_unit(random);
}

static void add_dropout(struct random *random, clattn_problem *p)
{
    p->dropout = 0.2 + 0.5 * random_unit(random);
}

static void add_bias(struct random *random, clattn_problem *p)
{
    p->bias_type = (clattn_type)random_between(random, CLATTN_FLOAT32, CLATTN_BFLOAT16);
}

static void add_scores(struct random *random, clattn_problem *p)
{
    (void)random;
    p->weights = CLATTN_WEIGHTS_SCORES;
}

static void add_group(struct random *random, clattn_problem *p)
{
    p->kv_heads = p->kv_heads > 0 ? p->kv_heads : 1;
    p->query_heads = p->kv_heads * some(random, 2, 5);
}

static void add_batch(struct random *random, clattn_problem *p)
{
    p->batch = some(random, 2, 3);
    p->kv_heads = p->kv_heads > 0 ? p->kv_heads : 1;
    p->query_heads = p->query_heads > 0 ? p->query_heads : 1;
}

/* Few rows, against keys of several blocks. */
static void add_decoding(struct random *random, clattn_problem *p)
{
    p->batch = some(random, 1, 3);
    p->query_len = some(random, 1, 4);
    p->key_len = some(random, 550, 2000);
}

static void add_rows(struct random *random, clattn_problem *p)
{
    p->query_len = some(random, 100, 300);
    p->key_len = some(random, 150, 400);
}

/* Both of keys and of values. Scales are shared as chance has it. */
static void store_as(struct random *random, clattn_problem *p, clattn_type type)
{
    static const int64_t shares[] = { 0, 1, 2, 16, 24, 32 };
    int64_t *const share[] = { &p->key_scale_rows, &p->key_scale_columns, &p->value_scale_rows,
                               &p->value_scale_columns };
    const int64_t columns = type_scale_columns(type);
    const int has_scales = type_takes_scales(type) && (random_chance(random, 0.8) || type_makes_scales(type));
    const uint32_t scales = CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES;
    p->bias_type = p->bias_type == CLATTN_FLOAT64 ? CLATTN_FLOAT32 : p->bias_type;
    p->type = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT32 : p->type;
    p->slopes_type = p->sinks_type = CLATTN_TYPE_NONE;
    p->key_type = p->value_type = type;
    const int64_t step = clattn_type_columns(type) > 32 ? clattn_type_columns(type) : 32;
    p->head_dim = (p->head_dim % 160 + step - 1) / step * step + step;
    p->head_dim_v = (p->head_dim_v % 160 + step - 1) / step * step + step;
    p->features = has_scales ? p->features | scales : p->features & ~scales;
    for (int i = 0; i < 4; ++i) {
        *share[i] = !has_scales ? 0 : columns ? (i % 2 ? columns : 1) : shares[random_between(random, 0, 5)];
    }
}

#define STORED_AS(name, type)                                                                                          \
    static void add_##name(struct random *random, clattn_problem *p)                                                   \
    {                                                                                                                  \
        store_as(random, p, type);                                                                                     \
    }
STORED_AS(int8, CLATTN_INT8)
STORED_AS(e4m3, CLATTN_E4M3)
STORED_AS(e5m2, CLATTN_E5M2)
STORED_AS(q8_0, CLATTN_Q8_0)
STORED_AS(q4_0, CLATTN_Q4_0)
STORED_AS(q4_1, CLATTN_Q4_1)
STORED_AS(q5_0, CLATTN_Q5_0)
STORED_AS(q5_1, CLATTN_Q5_1)
STORED_AS(mxfp4_ggml, CLATTN_MXFP4_GGML)
STORED_AS(nvfp4_ggml, CLATTN_NVFP4_GGML)
STORED_AS(int4, CLATTN_INT4)
STORED_AS(u8, CLATTN_U8)
STORED_AS(u4, CLATTN_U4)
STORED_AS(mxfp8, CLATTN_MXFP8)
STORED_AS(mxfp4, CLATTN_MXFP4)
STORED_AS(nvfp4, CLATTN_NVFP4)

/* As many columns of each in whole vectors, in a type that is widened. */
static void add_halves(struct random *random, clattn_problem *p)
{
    p->type = CLATTN_FLOAT16;
    p->key_type = p->value_type = p->out_type = CLATTN_TYPE_NONE;
    p->strided_columns = 0;
    p->allow_tf32 = 0;
    p->head_dim = p->head_dim_v = 16 * some(random, 1, 8);
}

static void add_nothing(struct random *random, clattn_problem *p)
{
    (void)random;
    (void)p;
}

/* In this order, whatever order they are asked for in: what decides lengths stands before what is cut to them. */
static const struct {
    const char *name;
    void (*add)(struct random *random, clattn_problem *p);
    uint32_t feature;
} rows[] = {
    { "batch", add_batch, 0 },
    { "group", add_group, 0 },
    { "decoding", add_decoding, 0 },
    { "rows", add_rows, 0 },
    { "causal", add_causal, 0 },
    { "window", add_window, 0 },
    { "pinned", add_pinned, 0 },
    { "mask", add_nothing, CLATTN_WITH_MASK },
    { "bits", add_bits, CLATTN_WITH_MASK },
    { "lengths", add_nothing, CLATTN_WITH_KEY_LENGTHS },
    { "slopes", add_nothing, CLATTN_WITH_SLOPES },
    { "sinks", add_nothing, CLATTN_WITH_SINKS },
    { "varlen", add_nothing, CLATTN_WITH_VARLEN },
    { "lse", add_nothing, CLATTN_WITH_LSE },
    { "ranges", add_nothing, CLATTN_WITH_ROW_RANGES },
    { "pages", add_pages, 0 },
    { "starts", add_starts, 0 },
    { "blocks", add_blocks, CLATTN_WITH_BLOCK_MASK },
    { "lists", add_lists, CLATTN_WITH_KEY_LISTS },
    { "ring", add_ring, 0 },
    { "softcap", add_softcap, 0 },
    { "dropout", add_dropout, 0 },
    { "bias", add_bias, 0 },
    { "scores", add_scores, 0 },
    { "halves", add_halves, 0 },
    { "int8", add_int8, 0 },
    { "e4m3", add_e4m3, 0 },
    { "e5m2", add_e5m2, 0 },
    { "q8_0", add_q8_0, 0 },
    { "q4_0", add_q4_0, 0 },
    { "q4_1", add_q4_1, 0 },
    { "q5_0", add_q5_0, 0 },
    { "q5_1", add_q5_1, 0 },
    { "mxfp4_ggml", add_mxfp4_ggml, 0 },
    { "nvfp4_ggml", add_nvfp4_ggml, 0 },
    { "int4", add_int4, 0 },
    { "u8", add_u8, 0 },
    { "u4", add_u4, 0 },
    { "mxfp8", add_mxfp8, 0 },
    { "mxfp4", add_mxfp4, 0 },
    { "nvfp4", add_nvfp4, 0 },
    { "bottom", add_bottom, 0 },
    { "top", add_top, 0 },
    { "offsets", add_offsets, 0 },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Where `name` stands in the list as a whole word; NULL: nowhere. */
static const char *find(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = names; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0)) {
            return at;
        }
    }
    return NULL;
}

int random_features_known(const char *names)
{
    size_t found = 0, words = names && *names ? 1 : 0;
    for (const char *at = names; at && *at; ++at) {
        words += *at == ',';
    }
    for (size_t i = 0; i < ROWS; ++i) {
        found += find(names, rows[i].name) != NULL;
    }
    return found == words ? 0 : -1;
}

void random_features_add(const char *names, uint64_t seed, uint64_t index, clattn_problem *p)
{
    struct random random = random_start(seed ^ 0x77697468, index);
    for (size_t i = 0; i < ROWS && names && *names; ++i) {
        if (find(names, rows[i].name)) {
            rows[i].add(&random, p);
            p->features |= rows[i].feature;
        }
    }
    if (p->ring > 0 && names && *names) { /* lengths may be others now */
        const int64_t least = p->always_visible_keys + (p->window_left > 0 ? p->window_left : 0) + p->query_len + 1;
        p->ring = p->ring > least ? p->ring : least;
    }
    const int positional = p->causal || p->window_left >= 0 || p->window_right >= 0 ||
                           (p->features & CLATTN_WITH_SLOPES) != 0;
    p->alignment = positional && p->alignment == CLATTN_ALIGN_UNSET ? CLATTN_ALIGN_BOTTOM_RIGHT : p->alignment;
}

void random_masked_keys(struct random *random, const clattn_problem *p, clattn_call *call)
{
    const int has_mask = (p->features & CLATTN_WITH_MASK) != 0, has_bias = p->bias_type != CLATTN_TYPE_NONE;
    int64_t keys = call->key_len == -1 ? p->key_len : call->key_len;
    if ((has_mask || has_bias) && random_chance(random, 0.4)) {
        const int64_t few = keys < 9 ? keys : 9;
        call->mask_first_key = some(random, 0, random_chance(random, 0.5) ? keys : few);
        keys -= call->mask_first_key;
    }
    if (has_mask && random_chance(random, 0.2)) {
        call->mask_key_len = some(random, 0, keys);
    }
    if (has_bias && random_chance(random, 0.2)) {
        call->bias_key_len = some(random, 0, keys);
    }
}

void random_head_types(uint64_t seed, uint64_t index, clattn_problem *p)
{
    struct random random = random_start(seed ^ 0x6865616473, index);
    const int slopes_are_narrow = random_chance(&random, 0.3), sinks_are_narrow = random_chance(&random, 0.3);
    if (p->type == CLATTN_FLOAT64 && p->features & CLATTN_WITH_SLOPES) {
        p->slopes_type = slopes_are_narrow ? CLATTN_FLOAT32 : CLATTN_FLOAT64;
    }
    if (p->type == CLATTN_FLOAT64 && p->features & CLATTN_WITH_SINKS) {
        p->sinks_type = sinks_are_narrow ? CLATTN_TYPE_NONE : CLATTN_FLOAT64;
    }
}
