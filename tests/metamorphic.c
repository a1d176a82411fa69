/* usage: metamorphic [--strategy S,S...] [--type T,T...] [--shape NAME] [--device D]
 *
 * Two calls that must agree, without asking what either should be: keys in another order, keys appended that
 * a mask hides, any bias behind a mask, causal and the same mask given explicitly (with another mask or without), as
 * are windows, row ranges and holes, one batch entry by itself, grouped heads and repeated ones, the keys in two calls
 * whose results are merged, the dropout of a slice that says where it stands, the keys in pages, or as codes. And
 * packed sequences that are longer than the problem says, whose rest is not there. On many rows and on few rows with
 * many keys (decoding: splits of keys). To the last bit where the order of the sums is the same, else within the error
 * bound. In float32 unless types are named: most strategies do other types with other loads and stores, matrix units
 * with other products. NAME: "many rows" or "few rows"; where it is not given both, by turns where a strategy compiles
 * for each call (exact_by_turns). Environment: CLATTN_TEST_STRATEGIES. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/coded_keys.h"
#include "support/device_options.h"
#include "support/dropout_slices.h"
#include "support/exact_call.h"
#include "support/key_bounds.h"
#include "support/long_sequences.h"
#include "support/merge_two.h"
#include "support/paged_keys.h"
#include "support/split_edges.h"

#define HEADS 4
#define KV_HEADS 2
#define HEAD_DIM 40
#define HEAD_DIM_V 24

#define DIAGONALS 3

/* Diagonals, as offsets: one hides all keys from the first of many rows, some end between blocks of keys: inside a tile
 * of rows, of which the last then see a whole block that the first do not. */
struct shape {
    const char *name;
    int64_t query_len, key_len, diagonals[DIAGONALS];
};
static const struct shape shapes[] = {
    { "many rows", 45, 200, { -5, 57, 120 } },
    { "few rows", 2, 1100, { 511, 1023, 1091 } },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static clattn_problem problem_of(const struct exact *e, const struct shape *shape, int64_t batch)
{
    return exact_problem(e, batch, HEADS, KV_HEADS, shape->query_len, shape->key_len, HEAD_DIM, HEAD_DIM_V);
}

/* Two of three keys, another two for each row and head; keys past *context are hidden. */
static double two_of_three(struct random *random, const int64_t index[4], const void *context)
{
    (void)random;
    return index[3] < *(const int64_t *)context && (index[1] + index[2] + index[3]) % 3 != 0;
}

/* Key j of `from` becomes key (j * 7 + 3) % n of `to`. */
static void permute_keys(struct test_call *to, const struct test_call *from, enum tensor_id id)
{
    int64_t n[4];
    test_call_shape(from, id, n);
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
        int64_t b = at / (n[1] * n[2] * n[3]), h = at / (n[2] * n[3]) % n[1];
        int64_t i = at / n[3] % n[2], c = at % n[3];
        double value = test_call_get(from, id, b, h, i, c);
        if (id == TENSOR_MASK) {
            test_call_set(to, id, b, h, i, (c * 7 + 3) % n[3], value);
        } else {
            test_call_set(to, id, b, h, (i * 7 + 3) % n[2], c, value);
        }
    }
}

static int permuted_keys(struct exact *e, const struct shape *shape)
{
    clattn_problem p = problem_of(e, shape, 2);
    struct random random = random_start(1, 0);
    struct test_call call, permuted;
    p.features = CLATTN_WITH_MASK | CLATTN_WITH_LSE;
    exact_build(&call, &p, 0);
    exact_build(&permuted, &p, 0);
    test_call_fill(&call, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    permute_keys(&permuted, &call, TENSOR_KEY);
    permute_keys(&permuted, &call, TENSOR_VALUE);
    permute_keys(&permuted, &call, TENSOR_MASK);
    int status = exact_run(e, &permuted) != 0 || exact_within_bound(e, &permuted, &call) != 0;
    test_call_free(&call);
    test_call_free(&permuted);
    return status ? -1 : 0;
}

/* The appended keys and values are NaN. */
static int appended_masked_keys(struct exact *e, const struct shape *shape)
{
    clattn_problem p = problem_of(e, shape, 1);
    struct random random = random_start(1, 0);
    struct test_call call, longer;
    p.features = CLATTN_WITH_MASK;
    exact_build(&call, &p, 0);
    p.key_len += 600;
    test_call_start(&longer, &p);
    test_call_place_all(&longer); /* poison */
    longer.values = call.values;
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        exact_copy_entry(&longer, 0, &call, 0, (enum tensor_id)id);
    }
    test_call_fill(&call, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    test_call_fill(&longer, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    int status = exact_run(e, &call) || exact_run(e, &longer) || exact_same_entry(e, &longer, 0, &call, 0);
    test_call_free(&call);
    test_call_free(&longer);
    return status ? -1 : 0;
}

/* NaN and infinities where *context is set and the mask hides the key, 0 elsewhere. */
static double bias_behind_mask(struct random *random, const int64_t index[4], const void *context)
{
    const int64_t all = INT64_MAX;
    const double odd[] = { NAN, INFINITY, -INFINITY };
    const int shows = two_of_three(random, index, &all) > 0;
    return shows ? 0.25 * (double)(index[3] % 5) : *(const int *)context ? odd[index[3] % 3] : 0;
}

static int hidden_bias(struct exact *e, const struct shape *shape)
{
    const int odd = 1, zero = 0;
    clattn_problem p = problem_of(e, shape, 1);
    struct random random = random_start(1, 0);
    struct test_call call, spoilt;
    p.features = CLATTN_WITH_MASK;
    p.bias_type = CLATTN_FLOAT32;
    exact_build(&call, &p, 0);
    exact_build(&spoilt, &p, 0);
    test_call_fill(&call, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    test_call_fill(&spoilt, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    test_call_fill(&call, TENSOR_BIAS, &random, bias_behind_mask, &zero);
    test_call_fill(&spoilt, TENSOR_BIAS, &random, bias_behind_mask, &odd);
    int status = exact_run(e, &call) || exact_run(e, &spoilt) || exact_same_entry(e, &spoilt, 0, &call, 0);
    test_call_free(&call);
    test_call_free(&spoilt);
    return status ? -1 : 0;
}

/* Key j is hidden from rows i < j - offset; `thinned`: and one of three keys besides. */
struct diagonal {
    int64_t offset;
    int thinned;
};

static double below_diagonal(struct random *random, const int64_t index[4], const void *context)
{
    const struct diagonal *diagonal = context;
    const int64_t all = INT64_MAX;
    return index[3] <= index[2] + diagonal->offset && (!diagonal->thinned || two_of_three(random, index, &all) > 0);
}

static int causal_is_a_mask_with(struct exact *e, const struct shape *shape, const struct diagonal *diagonal)
{
    clattn_problem p = problem_of(e, shape, 1);
    struct random random = random_start(1, 0);
    struct test_call causal, masked;
    p.features = CLATTN_WITH_MASK;
    exact_build(&masked, &p, 0);
    test_call_fill(&masked, TENSOR_MASK, &random, below_diagonal, diagonal);
    p.features = diagonal->thinned ? CLATTN_WITH_MASK : 0;
    p.causal = 1;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    exact_build(&causal, &p, 0);
    test_call_set(&causal, TENSOR_QUERY_OFFSETS, 0, 0, 0, 0, (double)diagonal->offset);
    if (diagonal->thinned) {
        test_call_fill(&causal, TENSOR_MASK, &random, two_of_three, &shape->key_len);
    }
    int status = exact_run(e, &causal) || exact_run(e, &masked) || exact_same_entry(e, &causal, 0, &masked, 0);
    test_call_free(&causal);
    test_call_free(&masked);
    return status ? -1 : 0;
}

static int causal_is_a_mask(struct exact *e, const struct shape *shape)
{
    int status = 0;
    for (int n = 0; n < 2 * DIAGONALS && status == 0; ++n) {
        const struct diagonal diagonal = { shape->diagonals[n / 2], n % 2 };
        status = causal_is_a_mask_with(e, shape, &diagonal);
    }
    return status;
}

/* From four key/value heads a compute unit on, split does other launches than for one batch entry. */
static int64_t batch_that_fills(const struct exact *e)
{
    cl_uint units = 1;
    clGetDeviceInfo(clattn_context_device(e->context), CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    const int64_t batch = (4 * (int64_t)units + KV_HEADS - 1) / KV_HEADS;
    return batch < 3 ? 3 : batch < 256 ? batch : 256;
}

static int batch_slice(struct exact *e, const struct shape *shape)
{
    const int64_t batch = batch_that_fills(e), entries[] = { 0, batch / 2, batch - 1 };
    clattn_problem p = problem_of(e, shape, batch);
    struct test_call all, alone;
    exact_build(&all, &p, 0);
    int status = exact_run(e, &all);
    for (size_t n = 0; n < sizeof(entries) / sizeof(entries[0]) && status == 0; ++n) {
        p.batch = 1;
        exact_build(&alone, &p, 0);
        for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
            exact_copy_entry(&alone, 0, &all, entries[n], (enum tensor_id)id);
        }
        status = exact_run(e, &alone) || exact_same_entry(e, &alone, 0, &all, entries[n]) ? -1 : 0;
        test_call_free(&alone);
    }
    test_call_free(&all);
    return status;
}

static int grouped_heads(struct exact *e, const struct shape *shape)
{
    clattn_problem p = problem_of(e, shape, 1);
    struct test_call grouped, repeated;
    exact_build(&grouped, &p, 0);
    p.kv_heads = HEADS;
    exact_build(&repeated, &p, 0);
    for (int id = TENSOR_KEY; id <= TENSOR_VALUE; ++id) {
        int64_t n[4];
        test_call_shape(&repeated, (enum tensor_id)id, n);
        for (int64_t at = 0; at < n[1] * n[2] * n[3]; ++at) {
            int64_t h = at / (n[2] * n[3]), i = at / n[3] % n[2];
            test_call_set(&repeated, (enum tensor_id)id, 0, h, i, at % n[3],
                          test_call_get(&grouped, (enum tensor_id)id, 0, h / (HEADS / KV_HEADS), i, at % n[3]));
        }
    }
    int status = exact_run(e, &grouped) || exact_run(e, &repeated) || exact_same_entry(e, &grouped, 0, &repeated, 0);
    test_call_free(&grouped);
    test_call_free(&repeated);
    return status ? -1 : 0;
}

/* Keys [from, to) of a call with one batch entry. */
static void cut_keys(struct test_call *part, const struct test_call *whole, int64_t from, int64_t to)
{
    clattn_problem p = whole->problem;
    p.key_len = to - from;
    exact_build(part, &p, 0);
    for (int id = TENSOR_KEY; id <= TENSOR_VALUE; ++id) {
        int64_t n[4];
        test_call_shape(part, (enum tensor_id)id, n);
        for (int64_t at = 0; at < n[1] * n[2] * n[3]; ++at) {
            int64_t h = at / (n[2] * n[3]), j = at / n[3] % n[2];
            test_call_set(part, (enum tensor_id)id, 0, h, j, at % n[3],
                          test_call_get(whole, (enum tensor_id)id, 0, h, from + j, at % n[3]));
        }
    }
}

static void merge_into(struct test_call *whole, const struct test_call *first, const struct test_call *second)
{
    for (int64_t row = 0; row < HEADS * whole->problem.query_len; ++row) {
        const int64_t h = row / whole->problem.query_len, i = row % whole->problem.query_len;
        double a[HEAD_DIM_V], b[HEAD_DIM_V], lse;
        for (int64_t c = 0; c < HEAD_DIM_V; ++c) {
            a[c] = test_call_get(first, TENSOR_OUT, 0, h, i, c);
            b[c] = test_call_get(second, TENSOR_OUT, 0, h, i, c);
        }
        merge_row(HEAD_DIM_V, a, test_call_get(first, TENSOR_LSE, 0, h, i, 0), b,
                  test_call_get(second, TENSOR_LSE, 0, h, i, 0), a, &lse);
        for (int64_t c = 0; c < HEAD_DIM_V; ++c) {
            test_call_set(whole, TENSOR_OUT, 0, h, i, c, a[c]);
        }
        test_call_set(whole, TENSOR_LSE, 0, h, i, 0, lse);
    }
}

static int split_lengths(struct exact *e, const struct shape *shape)
{
    const int64_t n = shape->key_len, cuts[] = { 1, 16, 127, n / 2, n < 513 ? n - 2 : 512, n - 1 };
    clattn_problem p = problem_of(e, shape, 1);
    struct test_call whole, first, second;
    int status = 0;
    p.features = CLATTN_WITH_LSE;
    exact_build(&whole, &p, 0);
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]) && status == 0; ++k) {
        cut_keys(&first, &whole, 0, cuts[k]);
        cut_keys(&second, &whole, cuts[k], n);
        status = exact_run(e, &first) || exact_run(e, &second) ? -1 : 0;
        if (status == 0) {
            merge_into(&whole, &first, &second);
            status = exact_within_bound(e, &whole, &whole);
        }
        test_call_free(&first);
        test_call_free(&second);
    }
    test_call_free(&whole);
    return status;
}

/* A property of its own file, of the shape's lengths. */
#define OF_LENGTHS(name, property)                                                                                     \
    static int name(struct exact *e, const struct shape *shape)                                                        \
    {                                                                                                                  \
        return property(e, shape->query_len, shape->key_len);                                                          \
    }
OF_LENGTHS(dropped_slice, dropout_of_a_slice)
OF_LENGTHS(dropped_keys, dropout_of_cut_keys)
OF_LENGTHS(paged_keys, pages_keep_bits)
OF_LENGTHS(holes, holes_are_a_mask)
OF_LENGTHS(windowed_keys, window_is_a_mask)
OF_LENGTHS(ranged_keys, ranges_are_a_mask)
OF_LENGTHS(coded_keys, codes_are_their_values)
OF_LENGTHS(long_sequences, long_sequences_are_cut)

static int window_rows(struct exact *e, const struct shape *shape)
{
    return window_rows_stand_alone(e, shape->key_len);
}

static int split_edges(struct exact *e, const struct shape *shape)
{
    (void)shape;
    return split_edges_are_a_mask(e);
}

static int ring_holes(struct exact *e, const struct shape *shape)
{
    (void)shape;
    return holes_of_rings_hide(e);
}

static const struct {
    const char *name;
    int (*holds)(struct exact *e, const struct shape *shape);
    int of_rounded;     /* also where outputs are rounded to 16 bits */
    const char *not_of; /* sums go in another order there, and random calls judge them; NULL: of all */
} properties[] = {
    { "keys in another order", permuted_keys, 1, NULL },
    { "appended keys that a mask hides", appended_masked_keys, 1, NULL },
    { "bias of keys that a mask hides", hidden_bias, 1, NULL },
    { "causal is the same as its mask", causal_is_a_mask, 1, NULL },
    { "a batch entry stands alone", batch_slice, 1, NULL },
    { "grouped heads are repeated heads", grouped_heads, 1, NULL },
    { "keys in two calls, merged", split_lengths, 0, NULL },
    { "dropout of a slice is that of the whole", dropped_slice, 1, NULL },
    { "dropout of keys in two calls, merged", dropped_keys, 0, NULL },
    { "keys in pages", paged_keys, 1, NULL },
    { "codes are what they stand for", coded_keys, 0, "split_simt" },
    { "holes are the same as their mask", holes, 1, NULL },
    { "holes of rings hide their keys", ring_holes, 1, NULL },
    { "a window is the same as its mask", windowed_keys, 1, NULL },
    { "rows of a window stand alone", window_rows, 1, NULL },
    { "row ranges are the same as their mask", ranged_keys, 1, NULL },
    { "packed sequences are cut at the problem's maxima", long_sequences, 1, NULL },
    { "ends of splits are the same as their mask", split_edges, 1, NULL },
};

/* `only`: the name of a shape; NULL: all, or by turns the first that the strategy takes. */
static void run_properties(struct exact *e, const char *strategy, clattn_type type, const char *only)
{
    const int rounds = type == CLATTN_FLOAT16 || type == CLATTN_BFLOAT16;
    const int by_turns = !only && exact_by_turns(strategy);
    const int before = exact_count(e);
    for (size_t n = 0; n < sizeof(properties) / sizeof(properties[0]); ++n) {
        const char *not_of = properties[n].not_of;
        int over = (rounds && !properties[n].of_rounded) || (not_of && strategy && strcmp(not_of, strategy) == 0);
        for (size_t turn = 0; turn < SHAPES && !over; ++turn) {
            const struct shape *shape = &shapes[(n + turn) % SHAPES];
            if (only && strcmp(only, shape->name) != 0) {
                continue;
            }
            exact_begin(e, strategy, type);
            exact_end(e, properties[n].holds(e, shape) == 0, properties[n].name, shape->name);
            over = by_turns && !e->declined;
        }
    }
    exact_tested(e, strategy, type, exact_count(e) - before);
}

int main(int argc, char **argv)
{
    struct device_options options;
    const char *shape = NULL;
    const struct device_option more[] = { { "shape", &shape }, { NULL, NULL } };
    if (device_options_parse_more(argc, argv, "all", "float32", more, &options) != 0) {
        return device_options_usage("metamorphic");
    }
    struct exact e = { .context = device_options_open(&options) };
    if (!e.context) {
        return 1;
    }
    for (int s = 0; s < options.n_strategies; ++s) {
        for (int t = 0; t < options.n_types; ++t) {
            run_properties(&e, options.strategies[s], options.types[t], shape);
        }
    }
    return exact_close(&e);
}
