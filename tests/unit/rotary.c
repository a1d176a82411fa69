/* Rotary embedding without a device: tables, the reference by hand, what is refused. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "clattn_cache.h"
#include "operation/rotary.h"
#include "suite.h"

#define EXPECT_OK(call) ck_assert_msg((call) == CLATTN_OK, "%s: %s", #call, clattn_last_error())

static void expect_error(clattn_status status, clattn_status expected, const char *text)
{
    ck_assert_msg(status == expected && strstr(clattn_last_error(), text), "%s, \"%s\"; expected %s, \"%s\"",
                  clattn_status_name(status), clattn_last_error(), clattn_status_name(expected), text);
}

/* ---- tables ----------------------------------------------------------------------------------- */

#define COLUMNS 16
#define PAIRS (COLUMNS / 2)

/* The frequencies of a scaling, from the sines of a position that is small enough to have no turns. */
static void frequencies(const clattn_rotary_scaling *scaling, double *f)
{
    const int64_t one = 1;
    float cosine[PAIRS], sine[PAIRS];
    EXPECT_OK(clattn_rotary_table(scaling, COLUMNS, 1, &one, cosine, sine));
    for (int i = 0; i < PAIRS; ++i) {
        f[i] = atan2((double)sine[i], (double)cosine[i]);
    }
}

static void expect_near(double got, double wanted)
{
    ck_assert_msg(fabs(got - wanted) < 2e-7 * (1 + fabs(wanted)), "%.9g, must be %.9g", got, wanted);
}

START_TEST(test_plain_tables)
{
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    float cosine[5 * PAIRS], sine[5 * PAIRS], picked[2 * PAIRS], other[2 * PAIRS];
    const int64_t positions[2] = { 3, 100000000 };
    EXPECT_OK(clattn_rotary_table(&scaling, COLUMNS, 5, NULL, cosine, sine));
    for (int r = 0; r < 5; ++r) {
        for (int i = 0; i < PAIRS; ++i) {
            const double angle = r * pow(10000, -2.0 * i / COLUMNS);
            ck_assert_float_eq(cosine[r * PAIRS + i], (float)cos(angle));
            ck_assert_float_eq(sine[r * PAIRS + i], (float)sin(angle));
        }
    }
    EXPECT_OK(clattn_rotary_table(&scaling, COLUMNS, 2, positions, picked, other));
    ck_assert_mem_eq(picked, cosine + 3 * PAIRS, PAIRS * sizeof(float));
    /* cos(1e8), correctly rounded */
    ck_assert_float_eq(picked[PAIRS], -0.36338509f);
    scaling.magnitude = 2;
    EXPECT_OK(clattn_rotary_table(&scaling, COLUMNS, 1, NULL, picked, other));
    ck_assert_float_eq(picked[0], 2);
    EXPECT_OK(clattn_rotary_table(&scaling, COLUMNS, 0, NULL, NULL, NULL));
}
END_TEST

START_TEST(test_scalings)
{
    double plain[PAIRS], f[PAIRS], factors[2][PAIRS];
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    frequencies(&scaling, plain);
    scaling.factor = 4;
    scaling.original_positions = 100;
    scaling.kind = CLATTN_SCALING_LINEAR;
    frequencies(&scaling, f);
    expect_near(f[0], plain[0] / 4);
    expect_near(f[7], plain[7] / 4);
    scaling.kind = CLATTN_SCALING_NTK; /* the fastest as it was, the slowest 4 times as slow */
    frequencies(&scaling, f);
    expect_near(f[0], plain[0]);
    expect_near(f[7], plain[7] / 4);
    scaling.kind = CLATTN_SCALING_DYNAMIC; /* nothing changes up to the original length */
    scaling.sequence_length = 90;
    frequencies(&scaling, f);
    expect_near(f[7], plain[7]);
    scaling.sequence_length = 200; /* 4 * 2 - 3 */
    frequencies(&scaling, f);
    expect_near(f[7], plain[7] / 5);
    scaling.kind = CLATTN_SCALING_YARN;
    frequencies(&scaling, f);
    for (int i = 0; i < PAIRS; ++i) { /* a ramp from pair 0, which turns less than 32 times in 100 positions, */
        const double ramp = i < 3 ? i / 3.0 : 1; /* to 3, the first that turns less than once */
        expect_near(f[i], plain[i] * (1 - ramp + ramp / 4));
    }
    scaling.truncate = 0; /* to the place between 2 and 3 that turns once */
    frequencies(&scaling, f);
    expect_near(f[1], plain[1] * (1 - 0.75 / (8 * log(100 / (2 * 3.14159265358979323846)) / log(10000))));
    scaling.kind = CLATTN_SCALING_LLAMA3; /* wavelengths 2 pi / f: below 25 fast, above 100 slow */
    frequencies(&scaling, f);
    expect_near(f[0], plain[0]);
    expect_near(f[1], plain[1]);
    expect_near(f[4], plain[4] / 4);
    const double smooth = (100 * plain[2] / (2 * 3.14159265358979323846) - 1) / 3;
    expect_near(f[2], plain[2] * (smooth + (1 - smooth) / 4));
    scaling.kind = CLATTN_SCALING_LONGROPE;
    for (int i = 0; i < PAIRS; ++i) {
        factors[0][i] = 1 + i;
        factors[1][i] = 2 + i;
    }
    scaling.short_factor = factors[0];
    scaling.long_factor = factors[1];
    frequencies(&scaling, f);
    expect_near(f[3], plain[3] / 5);
    scaling.sequence_length = 100;
    frequencies(&scaling, f);
    expect_near(f[3], plain[3] / 4);
}
END_TEST

START_TEST(test_magnitudes)
{
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    const double ones[1] = { 1 };
    float cosine, sine;
    scaling.original_positions = 4096;
    scaling.factor = 8;
    scaling.short_factor = scaling.long_factor = ones;
    scaling.kind = CLATTN_SCALING_YARN;
    EXPECT_OK(clattn_rotary_table(&scaling, 2, 1, NULL, &cosine, &sine));
    expect_near((double)cosine, 0.1 * log(8) + 1);
    scaling.kind = CLATTN_SCALING_LONGROPE;
    EXPECT_OK(clattn_rotary_table(&scaling, 2, 1, NULL, &cosine, &sine));
    expect_near((double)cosine, sqrt(1 + log(8) / log(4096)));
    scaling.factor = 0.5;
    EXPECT_OK(clattn_rotary_table(&scaling, 2, 1, NULL, &cosine, &sine));
    expect_near((double)cosine, 1);
}
END_TEST

START_TEST(test_refused_tables)
{
    const clattn_rotary_scaling start = CLATTN_ROTARY_SCALING_INIT;
    const double zeros[PAIRS] = { 0 };
    const int64_t far[1] = { (int64_t)1 << 40 };
    float table[PAIRS];
    clattn_rotary_scaling s = start;
#define TABLE(columns, rows) clattn_rotary_table(&s, columns, rows, NULL, table, table)
#define REFUSED(status, text, ...)                                                                                     \
    do {                                                                                                               \
        s = start;                                                                                                     \
        s.original_positions = 100;                                                                                    \
        __VA_ARGS__;                                                                                                   \
        expect_error(TABLE(COLUMNS, 1), status, text);                                                                 \
    } while (0)
    expect_error(TABLE(3, 1), CLATTN_INVALID_SHAPE, "columns 3: must be even");
    expect_error(TABLE(0, 1), CLATTN_INVALID_SHAPE, "columns 0: must be even");
    expect_error(TABLE(2, -1), CLATTN_INVALID_SHAPE, "rows -1: must be 0 to");
    expect_error(clattn_rotary_table(&s, 2, 1, NULL, NULL, table), CLATTN_INVALID_ARGUMENT, "cosine: must not be NULL");
    expect_error(clattn_rotary_table(&s, 2, 1, NULL, table, NULL), CLATTN_INVALID_ARGUMENT, "sine: must not be NULL");
    expect_error(clattn_rotary_table(NULL, 2, 1, NULL, table, table), CLATTN_INVALID_ARGUMENT, "scaling: must not be");
    expect_error(clattn_rotary_table(&s, 2, 1, far, table, table), CLATTN_INVALID_ARGUMENT,
                 "positions[0] 1099511627776");
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.kind 9", s.kind = (clattn_rotary_scaling_kind)9);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.base 1: must be a finite number above 1", s.base = 1);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.factor 0", s.kind = CLATTN_SCALING_LINEAR; s.factor = 0);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.original_positions 1", s.kind = CLATTN_SCALING_YARN;
            s.original_positions = 1);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.magnitude -1", s.magnitude = -1);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.sequence_length -5", s.kind = CLATTN_SCALING_DYNAMIC;
            s.sequence_length = -5);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.beta_slow 0", s.kind = CLATTN_SCALING_YARN; s.beta_slow = 0);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.high_frequency_factor 1: must be a finite number above 1",
            s.kind = CLATTN_SCALING_LLAMA3;
            s.high_frequency_factor = 1);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.short_factor: must not be NULL", s.kind = CLATTN_SCALING_LONGROPE);
    REFUSED(CLATTN_INVALID_ARGUMENT, "scaling.long_factor[0] 0", s.kind = CLATTN_SCALING_LONGROPE;
            s.short_factor = (const double[PAIRS]){ 1, 1, 1, 1, 1, 1, 1, 1 }; s.long_factor = zeros);
    s.kind = CLATTN_SCALING_NTK;
    expect_error(TABLE(2, 1), CLATTN_INVALID_SHAPE, "columns 2: must be at least 4 for ntk");
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------- */

/* One row of six columns, at a position whose first pair turns by 90 degrees and whose second by 180. */
struct scene {
    clattn_rotary_problem problem;
    clattn_rotary_host_tensors tensors;
    float x[6], out[6], cosine[4], sine[4];
    int32_t position[1];
};

static void scene_begin(struct scene *s, clattn_rotary_pairs pairs)
{
    const clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    const clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
    const struct scene start = {
        problem, tensors, { 1, 2, 3, 4, 5, 6 }, { 0 }, { 1, 1, 0, -1 }, { 0, 0, 1, 0 }, { 1 }
    };
    *s = start;
    s->problem.pairs = pairs;
    s->problem.query_len = 1;
    s->problem.head_dim = 6;
    s->problem.columns = 4;
    s->problem.positions = 2;
    s->problem.features = CLATTN_WITH_POSITIONS;
    s->tensors.x = clattn_host_tensor_bhsd(s->x, 1, 1, 6);
    s->tensors.out = clattn_host_tensor_bhsd(s->out, 1, 1, 6);
    s->tensors.cosine = clattn_host_tensor_bhsd(s->cosine, 1, 2, 2);
    s->tensors.sine = clattn_host_tensor_bhsd(s->sine, 1, 2, 2);
    s->tensors.positions.data = s->position;
}

static void expect_row(struct scene *s, const float *wanted)
{
    EXPECT_OK(clattn_reference_rotary(&s->problem, NULL, &s->tensors));
    for (int c = 0; c < 6; ++c) {
        ck_assert_msg(fabs((double)(s->out[c] - wanted[c])) < 1e-6, "column %d: %g, must be %g", c, (double)s->out[c],
                      (double)wanted[c]);
    }
}

START_TEST(test_pairs)
{
    static const float halves[6] = { -3, -2, 1, -4, 5, 6 }, interleaved[6] = { -2, 1, -3, -4, 5, 6 };
    static const float back[6] = { 3, -2, -1, -4, 5, 6 }, later[6] = { 1, 2, -5, -4, 3, -6 };
    struct scene s;
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    expect_row(&s, halves);
    s.problem.inverse = 1;
    expect_row(&s, back);
    scene_begin(&s, CLATTN_PAIRS_INTERLEAVED);
    expect_row(&s, interleaved);
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    s.problem.first_column = 2;
    expect_row(&s, later);
    s.problem.columns = 0; /* all from there on */
    expect_row(&s, later);
}
END_TEST

/* A row whose mean square is 91 / 6, and one whose squares no float32 holds. */
START_TEST(test_norms)
{
    static float weights[6] = { 1, 2, 1, 1, 1, -1 };
    static const float large[6] = { 1e30f, 2e30f, 3e30f, 4e30f, 5e30f, 6e30f };
    const float root = (float)sqrt(91.0 / 6 + 0.5), large_root = (float)sqrt(91.0 / 6);
    const float normed[6] = { -3 / root, -4 / root, 1 / root, -4 / root, 5 / root, -6 / root };
    const float large_normed[6] = { -3 / large_root, -2 / large_root, 1 / large_root,
                                    -4 / large_root, 5 / large_root,  6 / large_root };
    struct scene s;
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    s.problem.features |= CLATTN_WITH_NORM | CLATTN_WITH_NORM_WEIGHTS;
    s.problem.norm_epsilon = 0.5;
    s.tensors.norm_weight.data = weights;
    expect_row(&s, normed);
    memcpy(s.x, large, sizeof(large));
    s.problem.features &= ~(uint32_t)CLATTN_WITH_NORM_WEIGHTS;
    s.tensors.norm_weight.data = NULL;
    expect_row(&s, large_normed);
}
END_TEST

START_TEST(test_where_rows_stand)
{
    static const float halves[6] = { -3, -2, 1, -4, 5, 6 };
    struct scene s;
    int32_t starts[1] = { 1 };
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    s.problem.features = CLATTN_WITH_STARTS;
    s.tensors.positions.data = NULL;
    s.tensors.starts.data = starts;
    expect_row(&s, halves);
    s.problem.features = CLATTN_WITH_TOKEN_TABLES;
    s.problem.positions = 0;
    s.tensors.starts.data = NULL;
    s.tensors.cosine.offset = s.tensors.sine.offset = 2;
    expect_row(&s, halves);
}
END_TEST

/* What attention sees of positions is their difference; with the pairs of another model it is not. */
START_TEST(test_only_the_difference_counts)
{
    clattn_rotary_scaling scaling = CLATTN_ROTARY_SCALING_INIT;
    enum { DIM = 8, POSITIONS = 40 };
    float cosine[POSITIONS * DIM / 2], sine[POSITIONS * DIM / 2], q[DIM], k[DIM], a[DIM], b[DIM];
    double products[2][2];
    EXPECT_OK(clattn_rotary_table(&scaling, DIM, POSITIONS, NULL, cosine, sine));
    for (int c = 0; c < DIM; ++c) {
        q[c] = (float)sin(c + 1.0);
        k[c] = (float)cos(3 * c + 2.0);
    }
    for (int mixed = 0; mixed < 2; ++mixed) {
        for (int far = 0; far < 2; ++far) {
            const float *const from[2] = { q, k };
            float *const to[2] = { a, b };
            for (int side = 0; side < 2; ++side) {
                clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
                clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
                int32_t position = (side ? 2 : 9) + 30 * far;
                problem.pairs = mixed && side ? CLATTN_PAIRS_INTERLEAVED : CLATTN_PAIRS_HALVES;
                problem.query_len = 1;
                problem.head_dim = DIM;
                problem.positions = POSITIONS;
                problem.features = CLATTN_WITH_POSITIONS;
                tensors.x = clattn_host_tensor_bhsd(from[side], 1, 1, DIM);
                tensors.out = clattn_host_tensor_bhsd(to[side], 1, 1, DIM);
                tensors.cosine = clattn_host_tensor_bhsd(cosine, 1, POSITIONS, DIM / 2);
                tensors.sine = clattn_host_tensor_bhsd(sine, 1, POSITIONS, DIM / 2);
                tensors.positions.data = &position;
                EXPECT_OK(clattn_reference_rotary(&problem, NULL, &tensors));
            }
            products[mixed][far] = 0;
            for (int c = 0; c < DIM; ++c) {
                products[mixed][far] += (double)a[c] * (double)b[c];
            }
        }
    }
    ck_assert_double_eq_tol(products[0][0], products[0][1], 1e-6);
    ck_assert_double_gt(fabs(products[1][0] - products[1][1]), 0.01);
}
END_TEST

START_TEST(test_refused_rows)
{
    struct scene s;
#define ROW_REFUSED(status, text, ...)                                                                                 \
    do {                                                                                                               \
        scene_begin(&s, CLATTN_PAIRS_HALVES);                                                                          \
        __VA_ARGS__;                                                                                                   \
        expect_error(clattn_reference_rotary(&s.problem, NULL, &s.tensors), status, text);                             \
    } while (0)
    clattn_cache_call call = CLATTN_CACHE_CALL_INIT;
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "pairs 0: must be CLATTN_PAIRS_INTERLEAVED or", s.problem.pairs = 0);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "type 99", s.problem.type = (clattn_type)99);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "type 8", s.problem.type = CLATTN_Q8_0);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "columns 3: must be even", s.problem.columns = 3);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "first_column 4, columns 4: end beyond head_dim 6", s.problem.first_column = 4);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "first_column -2", s.problem.first_column = -2);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "heads -1", s.problem.heads = -1);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "positions 0: must be > 0", s.problem.positions = 0);
    ROW_REFUSED(CLATTN_INVALID_SHAPE, "batch * query_len", s.problem.batch = 70000; s.problem.query_len = 70000);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "features: nothing says where rows stand", s.problem.features = 0);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "features 0x10001: rotary does not know bits 0x1", s.problem.features |= 1);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "CLATTN_WITH_POSITIONS and CLATTN_WITH_TOKEN_TABLES both",
                s.problem.features |= CLATTN_WITH_TOKEN_TABLES);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_STARTS beside",
                s.problem.features |= CLATTN_WITH_STARTS);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "positions 2: must be 0 with CLATTN_WITH_TOKEN_TABLES",
                s.problem.features = CLATTN_WITH_TOKEN_TABLES);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "cannot be turned back", s.problem.features |= CLATTN_WITH_NORM;
                s.problem.norm_epsilon = 1; s.problem.inverse = 1);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "norm_epsilon -1: must be", s.problem.features |= CLATTN_WITH_NORM;
                s.problem.norm_epsilon = -1);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "norm_weight: was given", s.tensors.norm_weight.data = s.x);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "positions: row 0 of sequence 0 stands at 2, outside", s.position[0] = 2);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "positions: row 0 of sequence 0 stands at -1, outside", s.position[0] = -1);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "positions: must be given", s.tensors.positions.data = NULL);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "starts: was given", s.tensors.starts.data = s.position);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "x.stride[3] 2: must be 1", s.tensors.x.stride[3] = 2);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "out: its memory is also x's", s.tensors.out.data = s.x + 1);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "tensors.struct_size 0", s.tensors.struct_size = 0);
    ROW_REFUSED(CLATTN_INVALID_ARGUMENT, "problem.struct_size 8", s.problem.struct_size = 8);
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    call.query_len = 2;
    expect_error(clattn_reference_rotary(&s.problem, &call, &s.tensors), CLATTN_INVALID_SHAPE,
                 "query_len 2: must be -1 or 0 to 1");
    s.tensors.out = s.tensors.x; /* in place is not */
    EXPECT_OK(clattn_reference_rotary(&s.problem, NULL, &s.tensors));
}
END_TEST

/* Kept plans are found by it. A bit of each byte: but the size, the same of all, and what stands beside the strategy,
 * which is kept by its name. */
START_TEST(test_equality_sees_every_field)
{
    struct rotary_problem one, other;
    struct scene s;
    scene_begin(&s, CLATTN_PAIRS_HALVES);
    EXPECT_OK(any_problem_init(&one.any, &operation_rotary, &s.problem));
    ck_assert_int_ne(problem_equal(&one.any, &one.any), 0);
    for (size_t at = offsetof(clattn_rotary_problem, type); at < sizeof(one.p); ++at) {
        if (at == offsetof(clattn_rotary_problem, strided_columns) + sizeof(one.p.strided_columns)) {
            at = offsetof(clattn_rotary_problem, strategy) + sizeof(one.p.strategy);
        }
        other = one;
        ((unsigned char *)&other.p)[at] ^= 1;
        ck_assert_msg(!problem_equal(&one.any, &other.any), "byte %zu of the problem was not seen", at);
    }
}
END_TEST

SUITE("rotary", test_plain_tables, test_scalings, test_magnitudes, test_refused_tables, test_pairs, test_norms,
      test_where_rows_stand, test_only_the_difference_counts, test_refused_rows, test_equality_sees_every_field)
