/* The small calls of gradients that the self-check makes, without a device: whether what is wrong would show. */
#include <math.h>

#include "reference/reference_backward.h"
#include "self_check/self_check_call.h"

#include "suite.h"

static const int64_t lengths[][2] = { { 2, 40 }, { 3, 100 }, { 4, 299 }, { 2, 2000 }, { 70, 149 }, { 300, 2000 } };
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static const struct {
    const char *name;
    int causal;
    int64_t window_left, heads;
    uint32_t features, gradients;
    clattn_type bias_type;
} problems[] = {
    { "no mask", 0, -1, 2, 0, 0, CLATTN_TYPE_NONE },
    { "causal", 1, -1, 1, 0, 0, CLATTN_TYPE_NONE },
    { "window", 0, 9, 2, 0, 0, CLATTN_TYPE_NONE },
    { "mask", 0, -1, 2, CLATTN_WITH_MASK, 0, CLATTN_TYPE_NONE },
    { "bias", 0, -1, 2, 0, CLATTN_GRADIENT_BIAS, CLATTN_FLOAT32 },
    { "sinks", 0, -1, 2, CLATTN_WITH_SINKS, CLATTN_GRADIENT_SINKS, CLATTN_TYPE_NONE },
};
enum { PROBLEMS = sizeof(problems) / sizeof(problems[0]) };

static void make_problem(int kind, const int64_t length[2], struct backward_problem *problem)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    clattn_backward_problem given = CLATTN_BACKWARD_PROBLEM_INIT;
    p.type = CLATTN_FLOAT32;
    p.batch = 1;
    p.kv_heads = problems[kind].heads;
    p.query_heads = 2 * p.kv_heads;
    p.query_len = length[0];
    p.key_len = length[1];
    p.head_dim = p.head_dim_v = 16;
    p.causal = problems[kind].causal;
    p.window_left = problems[kind].window_left;
    p.features = problems[kind].features;
    p.bias_type = problems[kind].bias_type;
    p.alignment = CLATTN_ALIGN_BOTTOM_RIGHT;
    given.forward = &p;
    given.gradients = CLATTN_GRADIENT_QUERY | CLATTN_GRADIENT_KEY | CLATTN_GRADIENT_VALUE | problems[kind].gradients;
    ck_assert_msg(backward_problem_init(problem, &given) == CLATTN_OK, "%s", clattn_last_error());
}

/* How many of dquery, dkey and dvalue are no numbers, of which there must be fewer than others but in a few rows. */
static int64_t lost_gradients(const struct backward_problem *problem, enum check_turn turn, const char *name)
{
    struct check_gradients check;
    struct backward_detail detail = { .own_forward = 0 };
    int64_t lost = 0, all = 0;
    ck_assert_int_eq(check_gradients_create(problem, turn, &check), CLATTN_OK);
    ck_assert_int_eq(reference_backward_detail(&check.problem, &check.call, &detail), CLATTN_OK);
    for (int id = GRADIENT_DQUERY; id <= GRADIENT_DVALUE; ++id) {
        for (int64_t i = 0; i < detail.sums[id].count; ++i) {
            all += detail.sums[id].sums[i].terms > 0;
            lost += !isfinite((double)detail.sums[id].sums[i].sum);
        }
    }
    ck_assert_msg(2 * lost < all || turn == CHECK_FEW || check.call.query_len < 5,
                  "%s, turn %d: %d of %d gradients are lost", name, (int)turn, (int)lost, (int)all);
    backward_detail_free(&detail);
    check_gradients_free(&check);
    return lost;
}

/* Without numbers nothing else could be told; but in some call a row is lost, and takes with it what it sees. */
START_TEST(test_most_gradients_are_numbers)
{
    for (int n = 0; n < PROBLEMS * LENGTHS; ++n) {
        const char *name = problems[n % PROBLEMS].name;
        struct backward_problem problem;
        int64_t lost = 0;
        make_problem(n % PROBLEMS, lengths[n / PROBLEMS], &problem);
        for (enum check_turn turn = CHECK_TILES; turn < CHECK_NONE; ++turn) {
            lost += check_has_turn(&problem.attention, turn, 1) ? lost_gradients(&problem, turn, name) : 0;
        }
        ck_assert_msg(lost > 0, "%s, %d rows: all gradients are numbers", name, (int)lengths[n / PROBLEMS][0]);
    }
}
END_TEST

/* In some call or other. */
START_TEST(test_gradients_are_summed_over_each_axis)
{
    static const int64_t length[2] = { 70, 2000 };
    unsigned summed = 0;
    struct backward_problem problem;
    make_problem(4, length, &problem);
    for (enum check_turn turn = CHECK_TILES; turn < CHECK_NONE; ++turn) {
        struct check_gradients check;
        ck_assert_int_eq(check_gradients_create(&problem, turn, &check), CLATTN_OK);
        for (int axis = 0; axis < 4; ++axis) {
            summed |= (unsigned)(check.call.operands.tensor[GRADIENT_DBIAS].stride[axis] == 0) << axis;
        }
        check_gradients_free(&check);
    }
    ck_assert_uint_eq(summed, 15);
}
END_TEST

/* Kernels own tiles of rows, or of keys, of 64 or less: what is wrong where a second one begins must show. */
START_TEST(test_there_are_several_tiles_of_rows_and_of_keys)
{
    static const int64_t length[2] = { 300, 2000 };
    for (int head_dim = 16; head_dim <= 128; head_dim *= 2) { /* two query heads on each key/value head */
        struct backward_problem problem;
        struct check_gradients check;
        make_problem(0, length, &problem);
        problem.attention.p.head_dim = problem.attention.p.head_dim_v = head_dim;
        ck_assert_int_eq(check_gradients_create(&problem, CHECK_TILES, &check), CLATTN_OK);
        ck_assert_int_gt(check.call.query_len, 64);
        ck_assert_int_gt(check.call.key_len, 64);
        check_gradients_free(&check);
    }
}
END_TEST

SUITE("self_check_gradients", test_most_gradients_are_numbers, test_gradients_are_summed_over_each_axis,
      test_there_are_several_tiles_of_rows_and_of_keys)
