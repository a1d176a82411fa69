/* What to compute: dimensions and features. Where it lies and what values it has: random_values.c. */
#include "random_call.h"

#include "base/stored_types.h"
#include "long_sequences.h"
#include "pooled_keys.h"
#include "random_features.h"
#include "random_values.h"
#include "user_codes.h"

static int64_t pick(struct random *random, const int64_t *values, int64_t count)
{
    return values[random_between(random, 0, count - 1)];
}
#define PICK(random, array) pick(random, array, (int64_t)(sizeof(array) / sizeof((array)[0])))

/* Around the sizes that tiles have, and everything between. */
static int64_t random_length(struct random *random, int64_t most)
{
    static const int64_t edges[] = { 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257 };
    double kind = random_unit(random);
    int64_t length = kind < 0.03   ? 0
                     : kind < 0.15 ? 1
                     : kind < 0.35 ? random_between(random, 2, 12)
                     : kind < 0.65 ? PICK(random, edges)
                                   : random_between(random, 1, most);
    return length < most ? length : most;
}

#define BATCH_MOST 6

static int64_t random_head_dim(struct random *random)
{
    static const int64_t usual[] = { 8, 16, 32, 40, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256 };
    double kind = random_unit(random);
    return kind < 0.4   ? PICK(random, usual)
           : kind < 0.8 ? random_between(random, 1, 40)
                        : random_between(random, 41, 300);
}

static void random_shape(struct random *random, clattn_problem *p, int64_t work_limit)
{
    static const int64_t groups[] = { 1, 1, 1, 2, 3, 4, 8 };
    p->batch = random_chance(random, 0.02) ? 0 : random_between(random, 1, 3);
    p->kv_heads = random_chance(random, 0.02) ? 0 : random_between(random, 1, 4);
    p->query_heads = p->kv_heads * PICK(random, groups);
    p->query_len = random_length(random, 300);
    p->key_len = random_chance(random, 0.25) ? p->query_len : random_length(random, 700);
    if (random_chance(random, 0.1)) { /* decoding: few rows against many keys */
        p->batch = random_between(random, 1, BATCH_MOST);
        p->query_len = random_between(random, 1, 4);
        p->key_len = random_between(random, 500, 2500);
    }
    p->head_dim = random_head_dim(random);
    p->head_dim_v = random_chance(random, 0.6) ? p->head_dim : random_head_dim(random);
    /* Small enough: halved in turn, from anywhere on. */
    int64_t *const shrink[] = { &p->batch, &p->query_heads, &p->query_len, &p->key_len };
    for (int step = (int)random_between(random, 0, 3);
         p->batch * p->query_heads * p->query_len * p->key_len * (p->head_dim + p->head_dim_v) > work_limit; ++step) {
        int64_t *extent = shrink[step % 4];
        *extent = *extent > 1 ? *extent / 2 : *extent;
        if (extent == &p->query_heads) {
            p->kv_heads = p->query_heads % p->kv_heads ? p->query_heads : p->kv_heads;
        }
    }
}

/* Features that ask for more than a tensor: random_codes, random_places. */
#define DRAWN_BY_THEMSELVES                                                                                            \
    ((uint32_t)(CLATTN_WITH_KEY_SCALES | CLATTN_WITH_VALUE_SCALES | CLATTN_WITH_PAGES | CLATTN_WITH_PAGE_STARTS |      \
                CLATTN_WITH_ROW_RANGES | CLATTN_WITH_BLOCK_MASK | CLATTN_WITH_KEY_LISTS))

static void random_masking(struct random *random, clattn_problem *p)
{
    p->causal = random_chance(random, 0.4);
    if (random_chance(random, 0.25)) {
        int64_t most = p->key_len + 2;
        p->window_left = random_chance(random, 0.3) ? -1 : random_between(random, 0, most);
        p->window_right = random_chance(random, 0.5) ? -1 : random_between(random, 0, most / 4 + 1);
        if (random_chance(random, 0.3) && (p->window_left >= 0 || p->window_right >= 0)) {
            const int64_t few = random_between(random, -8, 8); /* below 0: eighths of all keys */
            p->always_visible_keys = few >= 0 ? few : p->key_len * -few / 8;
        }
    }
    static const struct {
        clattn_feature feature;
        double probability;
    } features[] = {
        { CLATTN_WITH_MASK, 0.2 },  { CLATTN_WITH_KEY_LENGTHS, 0.25 }, { CLATTN_WITH_SLOPES, 0.15 },
        { CLATTN_WITH_SINKS, 0.1 }, { CLATTN_WITH_VARLEN, 0.15 },      { CLATTN_WITH_LSE, 0.6 },
    };
    uint32_t others = forward_features & ~DRAWN_BY_THEMSELVES;
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); ++i) {
        p->features |= random_chance(random, features[i].probability) ? (uint32_t)features[i].feature : 0;
        others &= ~(uint32_t)features[i].feature;
    }
    for (int bit = 0; bit < 32; ++bit) {
        p->features |= (others >> bit & 1) != 0 && random_chance(random, 0.1) ? 1u << bit : 0;
    }
    int positional = p->causal || p->window_left >= 0 || p->window_right >= 0 ||
                     (p->features & CLATTN_WITH_SLOPES) != 0;
    p->alignment = positional || random_chance(random, 0.1)
                       ? (clattn_alignment)random_between(random, CLATTN_ALIGN_TOP_LEFT, CLATTN_ALIGN_OFFSETS)
                       : CLATTN_ALIGN_UNSET;
}

static void random_options(struct random *random, clattn_problem *p, clattn_type type)
{
    static const clattn_type types[] = { CLATTN_FLOAT32, CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    p->type = type != CLATTN_TYPE_NONE ? type : types[random_between(random, 0, 3)];
    if (random_chance(random, 0.25)) {
        p->bias_type = (clattn_type)random_between(random, CLATTN_FLOAT32,
                                                   p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_BFLOAT16);
    }
    p->weights = random_chance(random, 0.2)
                     ? (clattn_weights)random_between(random, CLATTN_WEIGHTS_SCORES, CLATTN_WEIGHTS_SOFTMAX)
                     : CLATTN_WEIGHTS_NONE;
    p->softcap = random_chance(random, 0.12) ? 0.5 + 60 * random_unit(random) : 0;
    p->dropout = random_chance(random, 0.1) ? 0.05 + 0.9 * random_unit(random) : 0;
    p->strided_columns = random_chance(random, 0.1);
    p->allow_tf32 = p->type == CLATTN_FLOAT32 && random_chance(random, 0.5);
}

/* Types of their own, drawn from another seed, as what the functions below draw is, so that the other draws stay. Half
 * of the problems are the usual mixtures: a cache of 16 bits under wider queries, and float32 out of 16-bit inputs. */
static void random_types(uint64_t seed, uint64_t index, clattn_problem *p)
{
    struct random random = random_start(~seed, index);
    clattn_type own[3];
    for (int i = 0; i < 3; ++i) {
        own[i] = (clattn_type)random_between(&random, CLATTN_FLOAT32, CLATTN_BFLOAT16);
    }
    const double kind = random_unit(&random);
    if (p->type == CLATTN_FLOAT64) {
        return;
    }
    p->key_type = kind < 0.25 ? p->type : own[0];
    p->value_type = kind < 0.5 ? p->key_type : own[1];
    p->out_type = kind < 0.25 ? CLATTN_FLOAT32 : kind < 0.5 ? p->type : own[2];
}

/* Keys and values that are codes, each of a type of its own. */
static void random_codes(uint64_t seed, uint64_t index, clattn_problem *p)
{
    static const int64_t shares[] = { 0, 0, 1, 1, 2, 16, 24, 32 };
    struct random random = random_start(seed ^ 0x636f646573, index);
    clattn_type *const types[] = { &p->key_type, &p->value_type };
    int64_t *const dims[] = { &p->head_dim, &p->head_dim_v };
    int64_t *const share[][2] = { { &p->key_scale_rows, &p->key_scale_columns },
                                  { &p->value_scale_rows, &p->value_scale_columns } };
    for (int i = 0; i < 2 && p->type != CLATTN_FLOAT64; ++i) {
        const int is_float = random_chance(&random, 0.15);
        *types[i] = is_float ? *types[i] : (clattn_type)random_between(&random, CLATTN_INT8, CACHE_TYPES - 1);
        const int64_t of_element = clattn_type_columns(*types[i]);
        if (of_element > 1) {
            *dims[i] = (*dims[i] % 256 + of_element - 1) / of_element * of_element;
            *dims[i] = *dims[i] ? *dims[i] : of_element;
        }
        if (type_takes_scales(*types[i]) && (random_chance(&random, 0.8) || type_makes_scales(*types[i]))) {
            const int64_t columns = type_scale_columns(*types[i]), drawn = PICK(&random, shares);
            p->features |= (uint32_t)(i ? CLATTN_WITH_VALUE_SCALES : CLATTN_WITH_KEY_SCALES);
            *share[i][0] = columns ? 1 : drawn;
            *share[i][1] = columns ? columns : PICK(&random, shares);
        }
    }
}

/* A ring, with a window, which decides how many rows are kept. */
static void random_ring(uint64_t seed, uint64_t index, clattn_problem *p)
{
    struct random random = random_start(seed ^ 0x72696e67, index);
    const int is_packed = (p->features & CLATTN_WITH_VARLEN) != 0 && p->page_size == 0;
    if (is_packed || !random_chance(&random, 0.3)) {
        return;
    }
    const int64_t most = p->key_len > p->query_len ? p->key_len - p->query_len : 0;
    p->window_left = random_between(&random, 0, most / 2 + 1);
    p->always_visible_keys = random_chance(&random, 0.5) ? random_between(&random, 0, 9) : 0;
    p->ring = p->always_visible_keys + p->window_left + p->query_len + random_between(&random, 0, 5);
    p->ring += p->ring == p->always_visible_keys; /* no queries, no window: one row */
    p->alignment = random_chance(&random, 0.5) ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_OFFSETS;
}

/* Weights that a matrix unit may round. */
static void random_rounding(uint64_t seed, uint64_t index, clattn_problem *p)
{
    struct random random = random_start(seed ^ 0x726f756e64, index);
    p->allow_rounded_weights = (p->type == CLATTN_FLOAT16 || p->type == CLATTN_BFLOAT16) &&
                               random_chance(&random, 0.25);
}

/* Keys in pages of every size; rows with ranges of keys. */
static void random_places(uint64_t seed, uint64_t index, clattn_problem *p)
{
    static const int64_t page_sizes[] = { 1, 2, 3, 7, 16, 16, 17, 64, 256 };
    struct random random = random_start(seed ^ 0x7061676573, index);
    const int varlen = (p->features & CLATTN_WITH_VARLEN) != 0;
    const int paged = random_chance(&random, 0.12), ranged = random_chance(&random, varlen ? 0.3 : 0.1);
    p->page_size = paged ? PICK(&random, page_sizes) : 0;
    p->features |= paged ? (uint32_t)(CLATTN_WITH_PAGES | CLATTN_WITH_KEY_LENGTHS) : 0;
    p->features |= paged && random_chance(&random, 0.3) ? (uint32_t)CLATTN_WITH_PAGE_STARTS : 0;
    p->features |= ranged ? (uint32_t)CLATTN_WITH_ROW_RANGES : 0;
}

/* Masks of blocks of every size, lists of keys, masks of bits, by themselves too. */
static void random_blocks(uint64_t seed, uint64_t index, const struct random_call_options *options, clattn_problem *p)
{
    struct random random = random_start(seed ^ 0x626c6f636b73, index);
    if (random_chance(&random, options->code ? 0.5 : 0.1)) {
        random_features_add("blocks", seed, index, p);
    }
    if (random_chance(&random, 0.06)) {
        random_features_add("lists", seed, index, p);
    }
    p->mask_bits = p->features & CLATTN_WITH_MASK && random_chance(&random, 0.3);
}

/* What kernels are told at run time takes other values; what they were built for stays. */
static void random_variation(struct random *random, clattn_problem *p, int64_t work_limit)
{
    p->batch = random_between(random, 1, 3);
    p->query_len = random_length(random, 300);
    p->key_len = random_chance(random, 0.25) ? p->query_len : random_length(random, 700);
    int64_t *const shrink[] = { &p->batch, &p->query_len, &p->key_len };
    for (int step = (int)random_between(random, 0, 2);
         p->batch * p->query_heads * p->query_len * p->key_len * (p->head_dim + p->head_dim_v) > work_limit; ++step) {
        int64_t *extent = shrink[step % 3];
        if (p->batch == 1 && p->query_len <= 1 && p->key_len <= 1) {
            break;
        }
        *extent = *extent > 1 ? *extent / 2 : *extent;
    }
    if (p->window_left >= 0) {
        p->window_left = random_between(random, 0, p->key_len + 2);
    }
    if (p->window_right >= 0) {
        p->window_right = random_between(random, 0, p->key_len / 4 + 1);
    }
    if (p->alignment != CLATTN_ALIGN_UNSET) {
        p->alignment = (clattn_alignment)random_between(random, CLATTN_ALIGN_TOP_LEFT, CLATTN_ALIGN_OFFSETS);
    }
}

/* Values of the call that are not tensors. */
static void random_call_values(struct random *random, struct test_call *test)
{
    clattn_call *call = &test->values;
    const clattn_problem *p = &test->problem;
    int varlen = (p->features & CLATTN_WITH_VARLEN) != 0;
    if (!varlen && random_chance(random, 0.15)) {
        call->query_len = random_between(random, 0, p->query_len);
    }
    if (!varlen && random_chance(random, 0.15)) {
        call->key_len = random_between(random, 0, p->key_len);
    }
    random_masked_keys(random, p, call);
    if (random_chance(random, 0.3)) {
        static const double scales[] = { 0, -0.25, 1, 0.125, 0.05 };
        call->has_scale = 1;
        call->scale = random_chance(random, 0.5) ? scales[random_between(random, 0, 4)] : random_normal(random) * 0.3;
    }
    call->dropout_seed = random_bits(random);
    call->dropout_offset = (uint32_t)random_bits(random);
}

/* Lengths of packed sequences: the rows of query and key that there are. */
static void random_sequences(struct random *random, const clattn_problem *p, int32_t *cu_query, int32_t *cu_key)
{
    cu_query[0] = cu_key[0] = 0;
    for (int64_t b = 0; b < p->batch; ++b) {
        int64_t queries = random_chance(random, 0.15) ? 0 : random_between(random, 0, p->query_len);
        int64_t keys = random_chance(random, 0.15) ? 0 : random_between(random, 0, p->key_len);
        cu_query[b + 1] = cu_query[b] + (int32_t)queries;
        cu_key[b + 1] = cu_key[b] + (int32_t)keys;
    }
}

/* A pool with some pages too few or too many, which several sequences may share; where the table is one line for all,
 * each sequence's pages have some room behind them. */
static void random_pool(struct random *random, struct test_call *test, int32_t *page_starts)
{
    clattn_problem *p = &test->problem;
    const int64_t needed = (p->key_len + p->page_size - 1) / p->page_size;
    const int64_t pages = p->batch * needed + random_between(random, -3, 3);
    p->pages = random_chance(random, 0.03) || pages < 0 ? 0 : pages;
    page_starts[0] = (int32_t)random_between(random, 0, 2);
    for (int64_t b = 0; b < p->batch; ++b) {
        page_starts[b + 1] = page_starts[b] + (int32_t)(needed + random_between(random, 0, 2));
    }
    test->table_pages = page_starts[p->batch];
}

/* In up to four buffers, the last of which has as many pages as chance leaves. A kernel is built for how many. */
static void random_pools(uint64_t seed, uint64_t first, uint64_t index, struct test_call *test)
{
    struct random random = random_start(seed ^ 0x706f6f6c73, first), each = random_start(seed ^ 0x706f6f6c73, ~index);
    const int pools = random_chance(&random, 0.5) ? 1 : (int)random_between(&random, 2, CLATTN_POOLS_MOST);
    const int64_t fill = random_between(&each, 0, 99);
    test->pool_pages = pools > 1 ? pooled_call_pages(test->problem.pages, pools, fill) : 0;
}

static double seam(struct random *random, const int64_t index[4], const void *seams)
{
    (void)random;
    return ((const int32_t *)seams)[index[3]];
}

/* Rows of outputs that packed sequences have past the problem's maxima. */
static void leave_long_rows(struct test_call *test)
{
    for (int id = 0; id < TENSOR_COUNT; ++id) {
        const struct tensor_row *row = &operation_forward.rows[id], *out = &operation_forward.rows[TENSOR_OUT];
        int64_t shape[4];
        if (forward_is_output(id) && row->axis[2] == out->axis[2] && test_call_has(test, (enum tensor_id)id)) {
            test_call_shape(test, (enum tensor_id)id, shape);
            long_sequences_leave(test, TENSOR_CU_QUERY, test->problem.query_len,
                                 test_call_tensor(test, (enum tensor_id)id), shape, &test->arrays[id]);
        }
    }
}

clattn_status random_call_create(struct test_call *test, uint64_t seed, uint64_t index,
                                 const struct random_call_options *options, enum value_family *family)
{
    const uint64_t neighbour = options->calls_a_program > 1 ? index % options->calls_a_program : 0;
    struct random random = random_start(seed, index - neighbour);
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    int32_t cu_query[BATCH_MOST + 1] = { 0 }, cu_key[BATCH_MOST + 1] = { 0 }, page_starts[BATCH_MOST + 1] = { 0 };
    int64_t limit = options->work_limit ? options->work_limit : 2000000;
    random_shape(&random, &problem, random_chance(&random, 0.05) ? 4 * limit : limit);
    random_masking(&random, &problem);
    random_options(&random, &problem, options->type);
    if (options->mixed || options->codes) {
        random_types(seed, index - neighbour, &problem);
    }
    random_head_types(seed, index - neighbour, &problem);
    random_rounding(seed, index - neighbour, &problem);
    if (!options->dense) {
        random_places(seed, index - neighbour, &problem);
    }
    random_blocks(seed, index - neighbour, options, &problem);
    if (options->gradients) {
        problem.weights = CLATTN_WEIGHTS_NONE;
        problem.features |= CLATTN_WITH_LSE;
        problem.features &= ~(uint32_t)(CLATTN_WITH_PAGES | CLATTN_WITH_PAGE_STARTS);
        problem.page_size = 0;
    }
    if (neighbour > 0) {
        random = random_start(seed, index);
        random_variation(&random, &problem, limit);
    }
    if (options->codes) {
        random_codes(seed, index - neighbour, &problem);
        random_ring(seed, index - neighbour, &problem);
    }
    random_features_add(options->with, seed, index - neighbour, &problem);
    const struct test_code *code = test_code_of(options->code, index - neighbour);
    problem.code = code ? test_code_problem(code) : NULL;
    random_sequences(&random, &problem, cu_query, cu_key);
    if (options->on_device && problem.features & CLATTN_WITH_VARLEN) {
        long_sequences_draw(seed, index, &problem, cu_query, problem.page_size > 0 ? NULL : cu_key);
    }
    test_call_start(test, &problem);
    test->packed_queries = cu_query[problem.batch];
    test->packed_keys = cu_key[problem.batch];
    if (problem.page_size > 0) {
        struct random apart = random_start(~seed ^ 0x7061676573, index);
        random_pool(&apart, test, page_starts);
        random_pools(seed, index - neighbour, index, test);
    }
    random_call_values(&random, test);
    random_layouts(&random, test);
    if (problem.features & CLATTN_WITH_VARLEN) {
        test_call_fill(test, TENSOR_CU_QUERY, &random, seam, cu_query);
        leave_long_rows(test);
    }
    if (test_call_has(test, TENSOR_CU_KEY)) {
        test_call_fill(test, TENSOR_CU_KEY, &random, seam, cu_key);
    }
    if (test_call_has(test, TENSOR_PAGE_STARTS)) {
        test_call_fill(test, TENSOR_PAGE_STARTS, &random, seam, page_starts);
    }
    *family = random_values(&random, test);
    if (code) {
        test_code_fill(code, test);
    }
    clattn_status status = test_call_validate(test);
    if (status == CLATTN_OK) {
        poison_hidden_keys(&random, test);
        if (*family == VALUES_NOT_FINITE) {
            spoil_some(&random, test);
        }
    }
    return status;
}
