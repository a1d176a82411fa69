/* Which tensors of a call share a buffer on host memory: random tensors in a small memory, against a plain count of the
 * blocks that they touch. */
#include <string.h>

#include "plan/host_regions.h"
#include "support/random.h"

#include "suite.h"

#define MEMORY_BYTES 2048
#define TENSORS 7
#define CALLS 20000

static unsigned char memory[MEMORY_BYTES] __attribute__((aligned(64)));

struct scene {
    struct tensor_row rows[TENSORS];
    struct operation operation;
    struct operands operands;
    int64_t alignment, most_bytes;
};

/* Tensors of 1 to 8 bytes an element, at any byte; some have no memory, or no element. */
static void draw(struct random *random, struct scene *scene)
{
    static const enum tensor_role roles[3] = { TENSOR_INPUT, TENSOR_OUTPUT, TENSOR_UPDATED };
    memset(scene, 0, sizeof(*scene));
    scene->operation = (struct operation){ .rows = scene->rows, .count = TENSORS };
    scene->operands.operation = &scene->operation;
    scene->alignment = (int64_t)16 << random_between(random, 0, 2);
    scene->most_bytes = random_between(random, 64, 512);
    for (int id = 0; id < TENSORS; ++id) {
        struct tensor_place *place = &scene->operands.tensor[id];
        const int64_t bytes = (int64_t)1 << random_between(random, 0, 3);
        scene->rows[id].element = (unsigned char)id;
        scene->rows[id].role = roles[random_chance(random, 0.6) ? 0 : random_between(random, 1, 2)];
        scene->operands.element_bytes[id] = (size_t)bytes;
        place->low = random_between(random, -4, 4);
        place->high = place->low + random_between(random, 0, 90 / bytes);
        place->data = random_chance(random, 0.1) ? NULL : memory + random_between(random, 64, MEMORY_BYTES - 256);
    }
}

static int64_t first_byte(const struct scene *scene, int id)
{
    const struct tensor_place *place = &scene->operands.tensor[id];
    return (unsigned char *)place->data - memory + place->low * (int64_t)scene->operands.element_bytes[id];
}

static int64_t end_byte(const struct scene *scene, int id)
{
    const struct tensor_place *place = &scene->operands.tensor[id];
    return first_byte(scene, id) + (place->high - place->low) * (int64_t)scene->operands.element_bytes[id];
}

static int has_bytes(const struct scene *scene, int id)
{
    const struct tensor_place *place = &scene->operands.tensor[id];
    return place->data && place->high > place->low;
}

/* Whether two tensors are in one unit of memory: a byte, or a block of the alignment. */
static int meet(const struct scene *scene, int a, int b, int64_t unit)
{
    return first_byte(scene, a) / unit <= (end_byte(scene, b) - 1) / unit &&
           first_byte(scene, b) / unit <= (end_byte(scene, a) - 1) / unit;
}

static int is_wrapped(const struct scene *scene, int id)
{
    if (!has_bytes(scene, id)) {
        return 0;
    }
    for (int other = 0; other < TENSORS && scene->rows[id].role != TENSOR_INPUT; ++other) {
        if (other != id && has_bytes(scene, other) && meet(scene, id, other, 1)) {
            return 0;
        }
    }
    return 1;
}

struct group {
    int of[TENSORS]; /* 1: wrapped with the tensor that was asked for */
    int64_t first, end;
    int is_written;
};

/* All tensors that share blocks with this one, or with one that does. */
static struct group group_of(const struct scene *scene, int id)
{
    struct group group = { .of = { 0 }, .first = MEMORY_BYTES };
    group.of[id] = 1;
    for (int round = 0; round < TENSORS; ++round) {
        for (int a = 0; a < TENSORS; ++a) {
            for (int b = 0; b < TENSORS; ++b) {
                group.of[b] |= group.of[a] && is_wrapped(scene, b) && meet(scene, a, b, scene->alignment);
            }
        }
    }
    for (int a = 0; a < TENSORS; ++a) {
        if (group.of[a]) {
            const int64_t first = first_byte(scene, a) / scene->alignment * scene->alignment;
            const int64_t end = ((end_byte(scene, a) - 1) / scene->alignment + 1) * scene->alignment;
            group.first = first < group.first ? first : group.first;
            group.end = end > group.end ? end : group.end;
            group.is_written |= scene->rows[a].role != TENSOR_INPUT;
        }
    }
    return group;
}

START_TEST(test_regions_are_the_blocks_that_tensors_touch)
{
    int wrapped = 0, joined = 0;
    for (int n = 0; n < CALLS; ++n) {
        struct scene scene;
        struct host_regions regions;
        struct random random = random_start(1, (uint64_t)n);
        draw(&random, &scene);
        host_regions_find(&regions, &scene.operands, (size_t)scene.alignment, (uint64_t)scene.most_bytes);
        for (int id = 0; id < TENSORS; ++id) {
            const int64_t bytes = (int64_t)scene.operands.element_bytes[id];
            const struct group group = is_wrapped(&scene, id) ? group_of(&scene, id) : (struct group){ .end = -1 };
            const int wanted = group.end >= 0 && group.end - group.first <= scene.most_bytes &&
                               (first_byte(&scene, id) - group.first) % bytes == 0;
            ck_assert_msg((regions.of[id] >= 0) == wanted, "call %d: tensor %d is %swrapped", n, id,
                          wanted ? "not " : "");
            if (wanted) {
                const struct host_region *region = &regions.region[regions.of[id]];
                ck_assert_msg((int64_t)(region->first - (uintptr_t)memory) == group.first &&
                                  (int64_t)(region->end - (uintptr_t)memory) == group.end &&
                                  !region->is_written == !group.is_written,
                              "call %d: the buffer of tensor %d is another one", n, id);
                ++wrapped;
                joined += group.end - group.first > end_byte(&scene, id) - first_byte(&scene, id) + 2 * scene.alignment;
            }
        }
    }
    ck_assert_int_gt(wrapped, CALLS);
    ck_assert_int_gt(joined, CALLS / 20);
}
END_TEST

START_TEST(test_no_alignment_wraps_nothing)
{
    struct scene scene;
    struct host_regions regions;
    struct random random = random_start(2, 0);
    draw(&random, &scene);
    host_regions_find(&regions, &scene.operands, 0, MEMORY_BYTES);
    for (int id = 0; id < TENSORS; ++id) {
        ck_assert_int_eq(regions.of[id], -1);
    }
    ck_assert_int_eq(regions.count, 0);
}
END_TEST

SUITE("host regions", test_regions_are_the_blocks_that_tensors_touch, test_no_alignment_wraps_nothing)
