/* Where the tensors of a random call lie and what is in them. */
#include "random_values.h"

#include <math.h>
#include <stdlib.h>

#include "base/stored_types.h"
#include "listed_keys.h"
#include "random_ends.h"
#include "reference/visibility.h"

const char *value_family_name(enum value_family family)
{
    static const char *const names[VALUE_FAMILIES] = { "normal",  "sharp",      "one-hot",     "extreme",
                                                       "integer", "not finite", "equal terms", "ends of ranges" };
    return names[family];
}

/* ---- layouts -------------------------------------------------------------------------------- */

static int is_storage(enum tensor_id id)
{
    return id <= TENSOR_OUT;
}

/* An optional input that query rows have: others than these share it now and then. */
static int is_of_rows(enum tensor_id id)
{
    const struct tensor_row *row = &operation_forward.rows[id], *query = &operation_forward.rows[TENSOR_QUERY];
    return !is_storage(id) && row->axis[1] == query->axis[1] && row->axis[2] != 0;
}

static struct test_layout random_layout(struct random *random, const struct test_call *test, enum tensor_id id)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 2, 0, 1 }, { 2, 1, 0 } };
    struct test_layout layout = TEST_LAYOUT_DENSE;
    const int has_whole_elements = clattn_type_columns(test_call_type(test, id)) <= 1;
    int any_column = has_whole_elements && (!is_storage(id) || test->problem.strided_columns);
    const int *order = orders[random_between(random, 0, random_chance(random, 0.7) ? 1 : 4)];
    int column_at = any_column && random_chance(random, 0.3) ? (int)random_between(random, 0, 3) : 3;
    for (int place = 0, next = 0; place < 4; ++place) {
        layout.order[place] = place == column_at ? 3 : order[next++];
    }
    for (int axis = 0; axis < 4; ++axis) {
        int may = axis < 3 || any_column;
        layout.padding[axis] = may && random_chance(random, 0.2) ? random_between(random, 1, 5) : 0;
        layout.reversed[axis] = may && random_chance(random, 0.04);
        double chance = is_of_rows(id) ? 0.3 : axis == 3 && id == TENSOR_KEY_LISTS ? 0 : 0.03; /* no key twice */
        layout.broadcast[axis] = may && !forward_is_output((int)id) && random_chance(random, chance);
    }
    layout.offset = random_chance(random, 0.4) ? random_between(random, 1, 37) : 0;
    layout.run_multiple = random_chance(random, 0.2) ? (int64_t)1 << random_between(random, 1, 4) : 1;
    return layout;
}

void random_layouts(struct random *random, struct test_call *test)
{
    const clattn_problem *p = &test->problem;
    int64_t query[4], key[4];
    test_call_shape(test, TENSOR_QUERY, query);
    test_call_shape(test, TENSOR_KEY, key);
    const clattn_type type = test_call_type(test, TENSOR_QUERY);
    const int one_type = test_call_type(test, TENSOR_KEY) == type && test_call_type(test, TENSOR_VALUE) == type;
    int packed = one_type && p->page_size == 0 && query[2] == key[2] && p->head_dim == p->head_dim_v &&
                 random_chance(random, 0.4);
    if (packed) {
        test_call_place_packed_qkv(test);
    }
    for (int i = packed ? TENSOR_OUT : 0; i < TENSOR_COUNT; ++i) {
        enum tensor_id id = (enum tensor_id)i;
        if (!test_call_has(test, id)) {
            continue;
        }
        struct test_layout layout = random_layout(random, test, id);
        if (operation_forward.rows[id].dense) {
            const struct test_layout list = { { 0, 1, 2, 3 }, { 0 }, { 0 }, { 0 }, layout.offset, 1 };
            layout = list; /* these have no strides */
        }
        test_call_place(test, id, &layout);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

struct spread {
    double factor, shift;
};

static double normal(struct random *random, const int64_t index[4], const void *context)
{
    const struct spread *spread = context;
    (void)index;
    return spread->shift + spread->factor * random_normal(random);
}

static double integer(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    (void)context;
    return (double)random_between(random, -4, 4);
}

/* How the terms of the sums over keys go on: columns of a key are alike, and column 0 makes the logit. */
enum run_of_terms { TERMS_EQUAL, TERMS_ALTERNATE, TERMS_ONE_LARGE, TERMS_LIGHT, TERMS_RISE, TERMS_FALL, RUNS_OF_TERMS };

struct terms {
    enum run_of_terms run;
    int64_t keys;
};

static double equal_value(struct random *random, const int64_t index[4], const void *context)
{
    const struct terms *terms = context;
    const double share = (double)index[2] / (double)terms->keys;
    (void)random;
    return terms->run == TERMS_ALTERNATE   ? (index[2] % 2 ? -1.1 : 1.3)
           : terms->run == TERMS_ONE_LARGE ? (index[2] == 0 ? 4096 : 1.1)
           : terms->run == TERMS_RISE      ? 1.1 + share
           : terms->run == TERMS_FALL      ? 2.1 - share
                                           : 1.1;
}

/* Logits: of weights of 2^-24 beside one, of a maximum that creeps, or equal ones. */
static double equal_key(struct random *random, const int64_t index[4], const void *context)
{
    const struct terms *terms = context;
    const double share = (double)index[2] / (double)terms->keys;
    (void)random;
    return index[3] > 0                ? 0.7
           : terms->run == TERMS_LIGHT ? (index[2] == 0 ? 0 : -16.7)
           : terms->run == TERMS_RISE  ? 8 * share
           : terms->run == TERMS_FALL  ? -8 * share
                                       : 0.3;
}

/* Column 0 alone makes the logit, exactly one of the values that break exp. */
static double extreme_key(struct random *random, const int64_t index[4], const void *context)
{
    static const double logits[] = { 88, -88, 104, -104, 1e4, -1e4, 89, -89, 0 };
    (void)context;
    return index[3] == 0 ? logits[random_between(random, 0, 8)] : 0;
}

static double one_in_column_0(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    (void)context;
    return index[3] == 0;
}

static double fill_mask(struct random *random, const int64_t index[4], const void *context)
{
    const double *density = context;
    (void)index;
    return random_chance(random, *density) ? (double)random_between(random, 1, 255) : 0;
}

/* Any byte but 0 and 2 stands for 1. */
static double fill_block(struct random *random, const int64_t index[4], const void *context)
{
    static const double blocks[] = { 0, 0, 0, 1, 1, 1, 2, 2, 2, 255 };
    (void)index;
    (void)context;
    return blocks[random_between(random, 0, 9)];
}

static double fill_bias(struct random *random, const int64_t index[4], const void *context)
{
    const double *density = context;
    (void)index;
    double kind = random_unit(random);
    return kind < *density ? -(double)INFINITY : kind > 0.98 ? -1e4 : 2 * random_normal(random);
}

static double fill_slope(struct random *random, const int64_t index[4], const void *context)
{
    (void)context;
    return exp2(-(double)(index[1] % 8 + 1)) * (random_chance(random, 0.1) ? -0.1 : 1);
}

/* Scales of either sign, shared by few or many. */
static double fill_scale(struct random *random, const int64_t index[4], const void *context)
{
    const int has_sign = type_of_scales(*(const clattn_type *)context) != CLATTN_E8M0;
    (void)index;
    return (random_chance(random, 0.1) && has_sign ? -1 : 1) * (0.2 + random_unit(random));
}

static double fill_length(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t *most = context;
    (void)index;
    return (double)(random_chance(random, 0.1) ? 0 : random_between(random, 0, *most));
}

static double fill_offset(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t *keys = context;
    (void)index;
    return (double)random_between(random, -10, *keys);
}

/* A hole now and then. */
static double fill_page(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t *pages = context;
    (void)index;
    return (double)(random_chance(random, 0.04) ? -1 : random_between(random, -1, *pages - 1));
}

/* Beyond the keys on both sides; sometimes nothing at all. */
static double fill_bound(struct random *random, const int64_t index[4], const void *context)
{
    const double *bound = context;
    (void)index;
    return *bound + (double)random_between(random, -20, 20);
}

static void fill_query_and_key(struct random *random, struct test_call *test, enum value_family family,
                               const struct terms *terms)
{
    struct spread one = { 1, 0 }, query = { 1, 0 };
    query.factor = family == VALUES_SHARP        ? 3 + 20 * random_unit(random)
                   : family == VALUES_ONE_HOT    ? 200
                   : random_chance(random, 0.05) ? 0
                                                 : 1;
    if (family == VALUES_EXTREME) {
        test->values.has_scale = 1;
        test->values.scale = 1;
        test_call_fill(test, TENSOR_QUERY, random, one_in_column_0, NULL);
        test_call_fill(test, TENSOR_KEY, random, extreme_key, NULL);
    } else if (family == VALUES_EQUAL) {
        test->values.has_scale = 1;
        test->values.scale = 1;
        test_call_fill(test, TENSOR_QUERY, random, one_in_column_0, NULL);
        test_call_fill(test, TENSOR_KEY, random, equal_key, terms);
    } else if (family == VALUES_INTEGER) {
        test_call_fill(test, TENSOR_QUERY, random, integer, NULL);
        test_call_fill(test, TENSOR_KEY, random, integer, NULL);
    } else {
        test_call_fill(test, TENSOR_QUERY, random, normal, &query);
        test_call_fill(test, TENSOR_KEY, random, normal, &one);
    }
}

/* They are there already, and say how long the tensors are. */
static int is_seams(int id)
{
    return operation_forward.rows[id].axis[3] == operation_forward.rows[TENSOR_CU_QUERY].axis[3];
}

/* By their own values, or else by those that are usual for numbers of their kind. */
static void fill_optional(struct random *random, struct test_call *test)
{
    int64_t keys[4];
    test_call_shape(test, TENSOR_WEIGHTS, keys);
    double density = random_chance(random, 0.2) ? 0.02 : random_unit(random);
    double hidden = random_chance(random, 0.3) ? 0.9 : 0.3 * random_unit(random);
    const struct spread wide = { 3, 0 };
    const double low = random_chance(random, 0.5) ? 0 : 0.4 * (double)keys[3];
    const double high = random_chance(random, 0.5) ? (double)keys[3] : 0.6 * (double)keys[3];
    const struct filler {
        test_value *value;
        const void *context;
    } own[TENSOR_COUNT] = {
        [TENSOR_BIAS] = { fill_bias, &hidden },
        [TENSOR_SLOPES] = { fill_slope, NULL },
        [TENSOR_QUERY_OFFSETS] = { fill_offset, &keys[3] },
        [TENSOR_PAGE_TABLE] = { fill_page, &test->problem.pages },
        [TENSOR_ROW_LOW] = { fill_bound, &low },
        [TENSOR_ROW_HIGH] = { fill_bound, &high },
        [TENSOR_BLOCK_MASK] = { fill_block, NULL },
        [TENSOR_KEY_LISTS] = { listed_keys_fill, &keys[3] },
        [TENSOR_KEY_SCALES] = { fill_scale, &test->problem.key_type },
        [TENSOR_VALUE_SCALES] = { fill_scale, &test->problem.value_type },
    };
    const struct filler floats = { normal, &wide }, bytes = { fill_mask, &density }, ints = { fill_length, &keys[3] };
    for (int id = TENSOR_OUT + 1; id < TENSOR_COUNT; ++id) {
        if (test_call_has(test, (enum tensor_id)id) && !forward_is_output(id) && !is_seams(id)) {
            const struct test_array *array = &test->arrays[test->array_of[id]];
            const struct filler usual = array->type != CLATTN_TYPE_NONE ? floats
                                        : array->element_bytes == 1     ? bytes
                                                                        : ints;
            const struct filler filler = own[id].value ? own[id] : usual;
            test_call_fill(test, (enum tensor_id)id, random, filler.value, filler.context);
        }
    }
}

enum value_family random_values(struct random *random, struct test_call *test)
{
    double kind = random_unit(random);
    enum value_family family = kind < 0.06   ? VALUES_EQUAL
                               : kind < 0.12 ? (test->problem.code ? VALUES_NORMAL : VALUES_ENDS)
                               : kind < 0.35 ? VALUES_NORMAL
                               : kind < 0.6  ? VALUES_SHARP
                               : kind < 0.7  ? VALUES_ONE_HOT
                               : kind < 0.82 ? VALUES_EXTREME
                               : kind < 0.92 ? VALUES_INTEGER
                                             : VALUES_NOT_FINITE;
    struct spread value = { 1, random_chance(random, 0.2) ? 10 : 0 };
    int64_t keys[4];
    test_call_shape(test, TENSOR_KEY, keys);
    const struct terms terms = { (enum run_of_terms)(kind * (int)RUNS_OF_TERMS / 0.06), keys[2] > 0 ? keys[2] : 1 };
    test->terms_are_alike = family == VALUES_EQUAL;
    fill_query_and_key(random, test, family, &terms);
    if (family == VALUES_INTEGER) {
        test_call_fill(test, TENSOR_VALUE, random, integer, NULL);
    } else if (family == VALUES_EQUAL) {
        test_call_fill(test, TENSOR_VALUE, random, equal_value, &terms);
    } else {
        test_call_fill(test, TENSOR_VALUE, random, normal, &value);
    }
    fill_optional(random, test);
    if (family == VALUES_ENDS) {
        random_ends_put(random, test, (kind - 0.06) / 0.06);
    }
    return family;
}

static double not_finite(struct random *random)
{
    double kind = random_unit(random);
    return kind < 0.5 ? (double)NAN : kind < 0.75 ? (double)INFINITY : -(double)INFINITY;
}

/* A row of a tensor is known by the index of its first element: broadcast rows are the same row. */
static int64_t row_at(const struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i)
{
    return place_index(&test->call.operands.tensor[id], b, h, i, 0);
}

static void mark_seen(const struct test_call *test, unsigned char *seen[TENSOR_COUNT])
{
    const clattn_problem *p = &test->checked.p;
    int varlen = (p->features & CLATTN_WITH_VARLEN) != 0;
    for (int64_t b = 0; b < p->batch; ++b) {
        struct sequence s = sequence_of(&test->checked, &test->call, b);
        for (int64_t h = 0; h < p->query_heads; ++h) {
            int64_t group = h / (p->query_heads / p->kv_heads);
            for (int64_t i = 0; i < s.query_len; ++i) {
                for (int64_t j = 0; j < s.key_len; ++j) {
                    if (key_is_allowed(&test->checked, &test->call, &s, b, h, i, j)) {
                        const int paged = p->page_size > 0;
                        int64_t entry = paged ? key_page(&test->checked, &test->call, b, group, j) : varlen ? 0 : b;
                        const int64_t kept = key_row_of(&test->checked, j);
                        int64_t row = paged ? kept % p->page_size : s.key_row + kept;
                        seen[TENSOR_KEY][row_at(test, TENSOR_KEY, entry, group, row)] = 1;
                        seen[TENSOR_VALUE][row_at(test, TENSOR_VALUE, entry, group, row)] = 1;
                    }
                }
            }
        }
    }
}

static void poison_rows(struct random *random, struct test_call *test, enum tensor_id id, const unsigned char *seen)
{
    int64_t n[4];
    test_call_shape(test, id, n);
    for (int64_t b = 0; b < n[0]; ++b) {
        for (int64_t h = 0; h < n[1]; ++h) {
            for (int64_t i = 0; i < n[2]; ++i) {
                for (int64_t c = 0; c < n[3] && !seen[row_at(test, id, b, h, i)]; ++c) {
                    test_call_set(test, id, b, h, i, c, not_finite(random));
                }
            }
        }
    }
}

void poison_hidden_keys(struct random *random, struct test_call *test)
{
    unsigned char *seen[TENSOR_COUNT] = { NULL };
    for (int id = TENSOR_KEY; id <= TENSOR_VALUE; ++id) {
        int64_t count = test->arrays[test->array_of[id]].count;
        seen[id] = calloc((size_t)(count ? count : 1), 1);
        if (!seen[id]) {
            abort();
        }
    }
    mark_seen(test, seen);
    for (int id = TENSOR_KEY; id <= TENSOR_VALUE; ++id) {
        poison_rows(random, test, (enum tensor_id)id, seen[id]);
        free(seen[id]);
    }
}

void spoil_some(struct random *random, struct test_call *test)
{
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        int64_t n[4];
        test_call_shape(test, (enum tensor_id)id, n);
        if (n[0] && n[1] && n[2] && random_chance(random, 0.5)) {
            test_call_set(test, (enum tensor_id)id, random_between(random, 0, n[0] - 1),
                          random_between(random, 0, n[1] - 1), random_between(random, 0, n[2] - 1),
                          random_between(random, 0, n[3] - 1), not_finite(random));
        }
    }
}
