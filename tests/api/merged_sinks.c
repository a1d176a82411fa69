/* Parts of the keys with sinks, merged, against attention over all of them: whichever part has the sinks, and where
 * each has a share. Causal calls and windows leave rows that see no key of a part. */
#include <math.h>
#include <string.h>

#include "api.h"
#include "support/merge_two.h"
#include "support/random.h"

#define HEADS 2
#define ROWS 7
#define KEYS 23
#define DIM 8
#define PARTS_MOST 9
#define PROBLEMS 60

struct arrays {
    float query[HEADS * ROWS * DIM], key[HEADS * KEYS * DIM], value[HEADS * KEYS * DIM], sinks[HEADS];
    float out[HEADS * ROWS * DIM], lse[HEADS * ROWS];
};

static void fill(struct random *random, float *x, int n)
{
    for (int i = 0; i < n; ++i) {
        x[i] = (float)random_normal(random);
    }
}

/* Attention over keys [from, from + count), row 0 standing at key `offset` of all. */
static void attend(struct arrays *a, const clattn_problem *whole, int from, int count, int64_t offset, int is_right)
{
    clattn_problem p = *whole;
    clattn_host_tensors t = CLATTN_HOST_TENSORS_INIT;
    int32_t of_part = (int32_t)(offset - from);
    p.key_len = count;
    t.query.data = a->query;
    t.key.data = a->key + from * DIM;
    t.value.data = a->value + from * DIM;
    t.out.data = a->out;
    t.lse.data = a->lse;
    t.sinks.data = a->sinks;
    t.query_offsets.data = &of_part;
    clattn_strides_bhsd(HEADS, ROWS, DIM, t.query.stride);
    clattn_strides_bhsd(HEADS, KEYS, DIM, t.key.stride);
    clattn_strides_bhsd(HEADS, KEYS, DIM, t.value.stride);
    clattn_strides_bhsd(HEADS, ROWS, DIM, t.out.stride);
    clattn_strides_bhsd(HEADS, ROWS, 1, t.lse.stride);
    t.sinks.stride[1] = 1;
    if (is_right) {
        EXPECT_OK(clattn_reference_forward(&p, NULL, &t));
    } else {
        EXPECT_OK(clattn_forward_host(context, &p, NULL, &t));
    }
}

/* A problem of its own for each number: causal, or a window; where row 0 stands. */
static clattn_problem problem_of(struct random *random, int64_t *offset)
{
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.query_heads = p.kv_heads = HEADS;
    p.query_len = ROWS;
    p.key_len = KEYS;
    p.head_dim = DIM;
    p.features = CLATTN_WITH_LSE | CLATTN_WITH_SINKS;
    p.alignment = CLATTN_ALIGN_OFFSETS;
    p.causal = random_chance(random, 0.6);
    p.window_left = random_chance(random, 0.5) ? random_between(random, 0, 9) : -1;
    p.window_right = random_chance(random, 0.3) ? random_between(random, 0, 9) : -1;
    *offset = random_between(random, -3, KEYS);
    return p;
}

/* The part's share of the sinks: all of one part, or all shares alike. */
static void set_sinks(struct arrays *a, const float sinks[HEADS], int part, int parts, int chosen)
{
    for (int h = 0; h < HEADS; ++h) {
        a->sinks[h] = chosen < 0 ? sinks[h] - logf((float)parts) : part == chosen ? sinks[h] : -INFINITY;
    }
}

static void merge_part(const struct arrays *part, double *out, double *lse)
{
    for (int row = 0; row < HEADS * ROWS; ++row) {
        double part_out[DIM];
        for (int c = 0; c < DIM; ++c) {
            part_out[c] = (double)part->out[row * DIM + c];
        }
        merge_row(DIM, out + row * DIM, lse[row], part_out, (double)part->lse[row], out + row * DIM, &lse[row]);
    }
}

static void expect_whole(const struct arrays *whole, const double *out, const double *lse, int problem)
{
    for (int n = 0; n < HEADS * ROWS; ++n) {
        ck_assert_msg(fabs(lse[n] - (double)whole->lse[n]) <= 1e-5, "problem %d, row %d: lse %g, not %g", problem, n,
                      lse[n], (double)whole->lse[n]);
        for (int c = 0; c < DIM; ++c) {
            ck_assert_msg(fabs(out[n * DIM + c] - (double)whole->out[n * DIM + c]) <= 1e-5,
                          "problem %d, row %d, column %d: %g, not %g", problem, n, c, out[n * DIM + c],
                          (double)whole->out[n * DIM + c]);
        }
    }
}

START_TEST(test_parts_with_sinks)
{
    static const char *const strategies[] = { NULL, "plain", "staged" };
    for (int n = 0; n < PROBLEMS; ++n) {
        struct random random = random_start(31, (uint64_t)n);
        struct arrays whole, part;
        double out[HEADS * ROWS * DIM] = { 0 }, lse[HEADS * ROWS];
        float sinks[HEADS];
        int64_t offset;
        clattn_problem p = problem_of(&random, &offset);
        const int parts = 1 + n % PARTS_MOST, chosen = n % 3 == 0 ? -1 : (int)random_between(&random, 0, parts - 1);
        fill(&random, whole.query, HEADS * ROWS * DIM);
        fill(&random, whole.key, HEADS * KEYS * DIM);
        fill(&random, whole.value, HEADS * KEYS * DIM);
        fill(&random, sinks, HEADS);
        part = whole;
        memcpy(whole.sinks, sinks, sizeof(sinks));
        attend(&whole, &p, 0, KEYS, offset, 1);
        for (int i = 0; i < HEADS * ROWS; ++i) {
            lse[i] = -(double)INFINITY;
        }
        p.strategy = strategies[n / PARTS_MOST % 3];
        for (int i = 0; i < parts; ++i) {
            const int from = KEYS * i / parts, end = KEYS * (i + 1) / parts;
            set_sinks(&part, sinks, i, parts, chosen);
            attend(&part, &p, from, end - from, offset, 0);
            merge_part(&part, out, lse);
        }
        expect_whole(&whole, out, lse, n);
    }
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_parts_with_sinks);
}

int main(void)
{
    return api_main("merged sinks", add);
}
