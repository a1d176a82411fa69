/* Overlaps of outputs, against every element: what is refused does collide, and nearly all that collides is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn.h"
#include "support/random.h"

#include "suite.h"

#define MEMORY_BYTES 16384
/* Calls of each kind: 30,000, or what CLATTN_TEST_CALLS says. */
static int call_count(void)
{
    const char *count = getenv("CLATTN_TEST_CALLS");
    return count ? atoi(count) : 30000;
}

struct place {
    int64_t offset, stride[4], shape[4], element_bytes;
};

struct scene {
    clattn_problem problem;
    clattn_call call;
    struct place query, out;
};

/* Axes in one another, in any order, with gaps now and then; else whatever. Some run backwards. */
static void draw_place(struct random *random, struct place *place, int nested)
{
    int64_t filled = 1, lowest = 0, left = 15;
    while (left) {
        const int axis = left & 8 && random_chance(random, 0.7) ? 3 : (int)random_between(random, 0, 3);
        if (!(left >> axis & 1)) {
            continue;
        }
        left &= ~(1 << axis);
        place->stride[axis] = nested ? filled + (random_chance(random, 0.3) ? random_between(random, 0, 9) : 0)
                                     : random_between(random, 1, 16);
        filled = place->stride[axis] * place->shape[axis];
        place->stride[axis] *= random_chance(random, 0.1) ? -1 : 1;
        lowest += place->stride[axis] < 0 ? place->stride[axis] * (place->shape[axis] - 1) : 0;
    }
    place->offset = -lowest + random_between(random, 0, nested ? 60 : 20);
}

static void draw(struct random *random, int nested, struct scene *scene)
{
    const clattn_type types[3] = { CLATTN_FLOAT32, CLATTN_FLOAT16, CLATTN_BFLOAT16 };
    clattn_problem p = CLATTN_PROBLEM_INIT;
    p.type = types[random_between(random, 0, 2)];
    p.out_type = types[random_between(random, 0, 2)];
    p.batch = random_between(random, 1, 3);
    p.query_heads = p.kv_heads = random_between(random, 1, 3);
    p.query_len = random_between(random, 1, 4);
    p.head_dim = random_between(random, 1, 4);
    p.head_dim_v = random_between(random, 1, 4);
    p.strided_columns = 1;
    scene->problem = p;
    scene->query = (struct place){ .shape = { p.batch, p.query_heads, p.query_len, p.head_dim },
                                   .element_bytes = (int64_t)clattn_type_size(p.type) };
    scene->out = (struct place){ .shape = { p.batch, p.query_heads, p.query_len, p.head_dim_v },
                                 .element_bytes = (int64_t)clattn_type_size(p.out_type) };
    draw_place(random, &scene->query, nested);
    draw_place(random, &scene->out, nested);
}

/* Counts the tensor's elements on each byte. */
static void lay(const struct place *place, unsigned char *bytes)
{
    const int64_t *shape = place->shape, *stride = place->stride;
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
        const int64_t c = n % shape[3], i = n / shape[3] % shape[2], h = n / shape[3] / shape[2] % shape[1],
                      b = n / shape[3] / shape[2] / shape[1];
        const int64_t at = place->offset + b * stride[0] + h * stride[1] + i * stride[2] + c * stride[3];
        for (int64_t k = 0; k < place->element_bytes; ++k) {
            ck_assert_int_lt(at * place->element_bytes + k, MEMORY_BYTES);
            ++bytes[at * place->element_bytes + k];
        }
    }
}

static int collides(const struct scene *scene)
{
    static unsigned char query[MEMORY_BYTES], out[MEMORY_BYTES];
    memset(query, 0, sizeof(query));
    memset(out, 0, sizeof(out));
    lay(&scene->query, query);
    lay(&scene->out, out);
    for (size_t i = 0; i < MEMORY_BYTES; ++i) {
        if (out[i] > 1 || (out[i] && query[i])) {
            return 1;
        }
    }
    return 0;
}

static int is_refused(const struct scene *scene)
{
    static float memory[MEMORY_BYTES / sizeof(float)];
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = (clattn_host_tensor){ memory, scene->query.offset, { 0 } };
    tensors.out = (clattn_host_tensor){ memory, scene->out.offset, { 0 } };
    memcpy(tensors.query.stride, scene->query.stride, sizeof(scene->query.stride));
    memcpy(tensors.out.stride, scene->out.stride, sizeof(scene->out.stride));
    const clattn_status status = clattn_reference_forward(&scene->problem, NULL, &tensors);
    ck_assert_msg(status == CLATTN_OK || status == CLATTN_INVALID_ARGUMENT, "%s", clattn_last_error());
    return status != CLATTN_OK;
}

static void show(const struct scene *scene)
{
    const struct place *places[2] = { &scene->query, &scene->out };
    for (int i = 0; i < 2; ++i) {
        const int64_t *n = places[i]->shape, *stride = places[i]->stride;
        printf("%s: %d bytes, offset %d, shape %d %d %d %d, strides %d %d %d %d\n", i ? "out" : "query",
               (int)places[i]->element_bytes, (int)places[i]->offset, (int)n[0], (int)n[1], (int)n[2], (int)n[3],
               (int)stride[0], (int)stride[1], (int)stride[2], (int)stride[3]);
    }
}

/* At most so many of a hundred calls that collide are not noticed. */
static void expect(int nested, int missed_percent)
{
    const int calls = call_count();
    int colliding = 0, missed = 0;
    for (int n = 0; n < calls; ++n) {
        struct scene scene;
        struct random random = random_start(1, (uint64_t)n);
        draw(&random, nested, &scene);
        const int is_wrong = collides(&scene), refused = is_refused(&scene);
        if (refused && !is_wrong) {
            show(&scene);
        }
        ck_assert_msg(is_wrong || !refused, "call %d is legal, and refused: %s", n, clattn_last_error());
        colliding += is_wrong;
        missed += is_wrong && !refused;
    }
    printf("%d calls collide, %.1f %% of them unnoticed; %d legal calls, none refused\n", colliding,
           100.0 * missed / colliding, calls - colliding);
    ck_assert_int_gt(calls - colliding, calls / 20);
    ck_assert_int_gt(colliding, calls / 10);
    ck_assert_int_le(missed * 100, colliding * missed_percent);
}

START_TEST(test_nested_axes)
{
    expect(1, 19);
}
END_TEST

START_TEST(test_any_strides)
{
    expect(0, 5);
}
END_TEST

SUITE("overlap", test_nested_axes, test_any_strides)
