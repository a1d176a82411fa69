/* usage: additive_gradients [--seed N] [--count N | --index N]
 *
 * The gradients of additive attention against their reference: random shapes, both kinds of calls, gradients alone and
 * together, added to what is there, rows and keys that nobody sees; and what must hold whatever the reference says. A
 * failure prints the command that repeats it. */
#include "additive_gradient_case.h"
#include "reference/reference_additive_backward.h"

#define CALLS 120 /* or CLATTN_TEST_LAYER_CALLS */
#define BOUND 2   /* units of rounding, as that of attention's gradients */

/* ---- random calls ----------------------------------------------------------------------------- */

static double unit_of(clattn_type type)
{
    return type == CLATTN_FLOAT16 ? 0x1p-11 : type == CLATTN_BFLOAT16 ? 0x1p-8 : 0x1p-24;
}

/* What the errors are of the bound, the largest. */
static void compare(const struct additive_gradient_case *c, const struct operands *operands,
                    const struct gradient_detail *detail, struct layer_worst *worst)
{
    const clattn_type type = additive_gradient_type(c);
    for (int g = 0; g < GRADIENTS; ++g) {
        const int id = ADDITIVE_DQUERY + g, adds = (c->problem.accumulate >> g & 1) != 0;
        for (int64_t i = 0; detail->value[id] && i < c->layer.count[g]; ++i) {
            const double before = adds ? type_load(type, c->before[g], i) : 0;
            const double want = before + detail->value[id][i], got = type_load(type, c->got[g], i);
            const double bound = BOUND * 0x1p-24 * detail->unit[id][i];
            const double rounding = unit_of(type) * (fabs(want) + bound) + (type == CLATTN_FLOAT16 ? 0x1p-25 : 0);
            const double excess = fabs(got - want) - rounding;
            const double share = excess <= 0 ? 0 : excess > 0 && bound > 0 ? excess / bound : (double)INFINITY;
            if (share > worst->share) {
                *worst = (struct layer_worst){ share, got, want, operand_name(operands, id), 1, { 0, 0, 0, i } };
            }
        }
    }
}

static void choose(struct additive_gradient_case *c, struct random *random)
{
    additive_case_choose(&c->layer, random);
    c->layer.problem.weights = 0;
    c->problem.gradients = random_chance(random, 0.6) ? ALL_GRADIENTS
                                                      : (uint32_t)random_between(random, 1, ALL_GRADIENTS);
    c->problem.gradient_type = random_chance(random, 0.5) ? CLATTN_FLOAT32 : CLATTN_TYPE_NONE;
    if (additive_gradient_type(c) == CLATTN_FLOAT32) {
        c->problem.accumulate = c->problem.gradients & (uint32_t)random_between(random, 0, ALL_GRADIENTS);
    }
}

static clattn_status compare_with_reference(struct additive_gradient_case *c, struct layer_worst *worst)
{
    struct additive_backward_problem checked;
    struct gradient_detail detail;
    struct operands operands;
    clattn_status status = any_problem_init(&checked.layer.any, &operation_additive_backward, &c->problem);
    if (status == CLATTN_OK) {
        status = any_call_from_host(&checked.layer.any, GIVEN(NULL, &c->layer.arrays, &c->arrays), &operands);
    }
    if (status == CLATTN_OK) {
        status = reference_additive_backward_detail(&checked, &operands, &detail);
    }
    if (status == CLATTN_OK) {
        compare(c, &operands, &detail, worst);
        gradient_detail_free(&detail);
    }
    return status;
}

static void random_call(struct layer_test *test, uint64_t index)
{
    struct random random = random_start(test->seed, index);
    struct additive_gradient_case c;
    struct layer_worst worst = { .share = 0 };
    char layer[512], problem[640];
    additive_gradient_begin(&c);
    choose(&c, &random);
    additive_gradient_fill(&c, &random);
    const int is_enqueued = random_chance(&random, 0.5), out_of_order = random_chance(&random, 0.5);
    clattn_status status = is_enqueued ? additive_gradient_run_enqueued(test, &c, out_of_order)
                                       : additive_gradient_run_host(test, &c);
    if (status == CLATTN_OK) {
        status = compare_with_reference(&c, &worst);
    }
    additive_case_describe(&c.layer.problem, layer, sizeof(layer));
    snprintf(problem, sizeof(problem), "%s, %s; gradients %#x in %s, accumulate %#x",
             !is_enqueued   ? "blocking"
             : out_of_order ? "enqueued out of order"
                            : "enqueued",
             layer, (unsigned)c.problem.gradients, clattn_type_name(additive_gradient_type(&c)),
             (unsigned)c.problem.accumulate);
    layer_test_judge(test, index, c.layer.problem.type, status, &worst, problem);
    additive_gradient_end(&c);
}

/* ---- the same bits ---------------------------------------------------------------------------- */

static int same_bits(const struct additive_gradient_case *c, void *const *want, uint32_t gradients)
{
    int same = 1;
    for (int i = 0; i < GRADIENTS; ++i) {
        same = same &&
               (!(gradients >> i & 1) || memcmp(c->got[i], want[i], (size_t)c->layer.count[i] * sizeof(float)) == 0);
    }
    return same;
}

/* Float32 gradients, times a factor, into `to`, which the caller frees. */
static void copy_all(const struct additive_gradient_case *c, float factor, void **to)
{
    for (int i = 0; i < GRADIENTS; ++i) {
        to[i] = layer_test_poison(c->layer.count[i]);
        for (int64_t n = 0; n < c->layer.count[i]; ++n) {
            ((float *)to[i])[n] = factor * ((const float *)c->got[i])[n];
        }
    }
}

static void free_all(void **arrays)
{
    for (int i = 0; i < GRADIENTS; ++i) {
        free(arrays[i]);
    }
}

/* More keys than are summed in one go, and than a work-item's rows and lanes have room for. */
static void begin_fixed(struct additive_gradient_case *c, clattn_type type)
{
    additive_gradient_begin(c);
    clattn_additive_problem *p = &c->layer.problem;
    p->type = type;
    p->batch = 2;
    p->rows = 37;
    p->keys = 150;
    p->query_dim = 24;
    p->key_dim = 10;
    p->hidden_dim = 33;
    p->value_dim = 70;
    p->strategy = "plain";
    c->problem.gradient_type = CLATTN_FLOAT32;
}

/* A gradient alone, added to something, again, of twice the dout: of a problem with all of them. `strategy` NULL: the
 * best, which is another for each of attention's two gradients. */
static void bits(struct layer_test *test, clattn_type type, const char *strategy)
{
    struct random random = random_start(test->seed, 1000 + (uint64_t)type);
    struct additive_gradient_case c;
    struct layer_worst worst = { .share = 0 };
    void *all[GRADIENTS];
    begin_fixed(&c, type);
    c.layer.problem.strategy = c.problem.strategy = strategy;
    additive_gradient_fill(&c, &random);
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK, "all gradients");
    layer_test_note(test, compare_with_reference(&c, &worst) == CLATTN_OK && worst.share <= 1, "and they are right");
    copy_all(&c, 1, all);
    layer_test_note(test, additive_gradient_run_enqueued(test, &c, 1) == CLATTN_OK && same_bits(&c, all, ALL_GRADIENTS),
                    "again");
    for (int i = 0; i < GRADIENTS; ++i) {
        c.problem.gradients = 1u << i;
        memset(c.got[i], 0xff, (size_t)c.layer.count[i] * sizeof(float));
        layer_test_note(test,
                        additive_gradient_run_host(test, &c) == CLATTN_OK && same_bits(&c, all, c.problem.gradients),
                        "a gradient by itself");
    }
    c.problem.accumulate = c.problem.gradients = ALL_GRADIENTS;
    for (int i = 0; i < GRADIENTS; ++i) {
        for (int64_t n = 0; n < c.layer.count[i]; ++n) {
            const float before = (float)random_normal(&random);
            ((float *)c.got[i])[n] = before;
            ((float *)all[i])[n] += before;
        }
    }
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK && same_bits(&c, all, ALL_GRADIENTS),
                    "accumulate");
    free_all(all);
    additive_gradient_end(&c);
}

/* Gradients of 4 dout are 4 times those of dout, to the bit; those of 0 are 0. */
static void scaled_dout(struct layer_test *test)
{
    struct random random = random_start(test->seed, 1500);
    struct additive_gradient_case c;
    void *four[GRADIENTS], *none[GRADIENTS];
    begin_fixed(&c, CLATTN_FLOAT32);
    additive_gradient_fill(&c, &random);
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK, "dout");
    copy_all(&c, 4, four);
    copy_all(&c, 0, none);
    for (int64_t n = 0; n < c.layer.out_count; ++n) {
        ((float *)c.dout)[n] *= 4;
    }
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK && same_bits(&c, four, ALL_GRADIENTS),
                    "dout times 4");
    memset(c.dout, 0, (size_t)c.layer.out_count * sizeof(float));
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK, "dout 0");
    for (int i = 0; i < GRADIENTS; ++i) {
        int zero = 1;
        for (int64_t n = 0; n < c.layer.count[i]; ++n) {
            zero = zero && ((const float *)c.got[i])[n] == 0;
        }
        layer_test_note(test, zero, "gradients of dout 0");
    }
    free_all(four);
    free_all(none);
    additive_gradient_end(&c);
}

/* ---- what nobody sees ------------------------------------------------------------------------- */

static int is_zero(const void *gradient, int64_t from, int64_t to)
{
    int zero = 1;
    for (int64_t n = from; n < to; ++n) {
        zero = zero && ((const float *)gradient)[n] == 0;
    }
    return zero;
}

static void set_nan(void *values, int64_t from, int64_t to)
{
    for (int64_t n = from; n < to; ++n) {
        ((float *)values)[n] = NAN;
    }
}

/* A row that sees no key and a key that no row sees, in the first batch entry, and a batch entry without keys: their
 * gradients are 0, and whatever they hold, the others are the same. */
static void hidden(struct layer_test *test)
{
    struct random random = random_start(test->seed, 2000);
    struct additive_gradient_case c;
    void *all[GRADIENTS];
    begin_fixed(&c, CLATTN_FLOAT32);
    const clattn_additive_problem *p = &c.layer.problem;
    const int row = 5, key = 70;
    c.layer.problem.features = CLATTN_WITH_MASK | CLATTN_WITH_KEY_LENGTHS;
    additive_gradient_fill(&c, &random);
    c.layer.lengths[0] = 140;
    c.layer.lengths[1] = 0;
    for (int64_t n = 0; n < p->keys; ++n) {
        c.layer.mask[row * p->keys + n] = 0;
    }
    for (int64_t n = 0; n < p->rows; ++n) {
        c.layer.mask[n * p->keys + key] = 0;
    }
    for (int i = 0; i < 3; ++i) {
        free(c.layer.inputs[i]);
        c.layer.inputs[i] = layer_test_normal(&random, CLATTN_FLOAT32, c.layer.count[i], 1);
    }
    c.layer.arrays.query = c.layer.inputs[0];
    c.layer.arrays.key = c.layer.inputs[1];
    c.layer.arrays.value = c.layer.inputs[2];
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK, "masks");
    copy_all(&c, 1, all);
    layer_test_note(test, is_zero(c.got[0], row * p->query_dim, (row + 1) * p->query_dim),
                    "dquery of a row without keys");
    layer_test_note(test, is_zero(c.got[1], key * p->key_dim, (key + 1) * p->key_dim), "dkey of a key without rows");
    layer_test_note(test, is_zero(c.got[2], key * p->value_dim, (key + 1) * p->value_dim), "dvalue of that key");
    layer_test_note(test, is_zero(c.got[1], 140 * p->key_dim, 300 * p->key_dim), "dkey past the key lengths");
    layer_test_note(test, is_zero(c.got[2], 140 * p->value_dim, 300 * p->value_dim), "dvalue past the key lengths");
    layer_test_note(test, !is_zero(c.got[1], 0, p->key_dim) && !is_zero(c.got[5], 0, p->hidden_dim), "others");
    set_nan(c.layer.inputs[0], row * p->query_dim, (row + 1) * p->query_dim);
    set_nan(c.layer.inputs[1], key * p->key_dim, (key + 1) * p->key_dim);
    set_nan(c.layer.inputs[2], key * p->value_dim, (key + 1) * p->value_dim);
    set_nan(c.layer.inputs[1], 140 * p->key_dim, 300 * p->key_dim);
    set_nan(c.layer.inputs[2], 140 * p->value_dim, 300 * p->value_dim);
    set_nan(c.dout, row * p->value_dim, (row + 1) * p->value_dim);
    set_nan(c.layer.inputs[0], p->rows * p->query_dim, 2 * p->rows * p->query_dim);
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK && same_bits(&c, all, ALL_GRADIENTS),
                    "NaN in what nobody sees");
    free_all(all);
    additive_gradient_end(&c);
}

/* Scores that leave float32's range downwards hide their keys, as a bias of -inf does. A row of such alone adds
 * nothing. */
static void no_score(struct layer_test *test)
{
    struct random random = random_start(test->seed, 2500);
    struct additive_gradient_case c;
    additive_gradient_begin(&c);
    clattn_additive_problem *p = &c.layer.problem;
    p->rows = p->keys = 3;
    p->query_dim = p->value_dim = 2;
    p->hidden_dim = 2;
    p->strategy = "plain";
    additive_gradient_fill(&c, &random);
    for (int n = 0; n < 6; ++n) {
        ((float *)c.layer.inputs[0])[n] = ((float *)c.layer.inputs[1])[n] = 20;
    }
    for (int n = 0; n < 4; ++n) {
        ((float *)c.layer.inputs[3])[n] = ((float *)c.layer.inputs[4])[n] = 1; /* each tanh is 1 */
    }
    ((float *)c.layer.inputs[5])[0] = ((float *)c.layer.inputs[5])[1] = -3e38f;
    layer_test_note(test, additive_gradient_run_host(test, &c) == CLATTN_OK, "scores of -inf");
    for (int i = 0; i < GRADIENTS; ++i) {
        layer_test_note(test, is_zero(c.got[i], 0, c.layer.count[i]), "gradients of scores of -inf");
    }
    additive_gradient_end(&c);
}

int main(int argc, char **argv)
{
    struct layer_test test;
    const int skip = layer_test_start(&test, "tests/layers/additive_gradients", argc, argv, CALLS);
    if (skip) {
        return skip;
    }
    for (uint64_t i = 0; i < test.count; ++i) {
        random_call(&test, test.first + i);
    }
    if (test.first == 0) {
        bits(&test, CLATTN_FLOAT32, "plain");
        bits(&test, CLATTN_FLOAT16, "plain");
        bits(&test, CLATTN_BFLOAT16, NULL);
        scaled_dout(&test);
        hidden(&test);
        no_score(&test);
    }
    return layer_test_end(&test);
}
