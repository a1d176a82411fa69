/* A grid that is cut into launches: each item of each plane in one launch, none of them with more work than is allowed,
 * and the last one known as such. */
#include <string.h>

#include "program/launch.h"
#include "suite.h"

#define ITEMS_MOST 9
#define PLANES_MOST 7

static void cut(int64_t items, int64_t planes, double at_once)
{
    struct launch_part part = launch_parts(items, planes, at_once);
    int seen[PLANES_MOST][ITEMS_MOST] = { { 0 } };
    int is_done = 0;
    while (launch_next(&part)) {
        ck_assert(!is_done);
        ck_assert(part.count * part.planes == 1 || (double)(part.count * part.planes) <= at_once);
        ck_assert(part.count == items || part.planes == 1);
        for (int64_t plane = 0; plane < part.planes; ++plane) {
            for (int64_t item = 0; item < part.count; ++item) {
                ++seen[part.first_plane + plane][part.first + item];
            }
        }
        is_done = part.is_last;
    }
    ck_assert_int_eq(is_done, items > 0 && planes > 0);
    for (int64_t plane = 0; plane < planes; ++plane) {
        for (int64_t item = 0; item < items; ++item) {
            ck_assert_int_eq(seen[plane][item], 1);
        }
    }
}

START_TEST(test_each_item_once)
{
    for (int64_t items = 0; items <= ITEMS_MOST; ++items) {
        for (int64_t planes = 0; planes <= PLANES_MOST; ++planes) {
            for (int at_once = 1; at_once <= ITEMS_MOST * PLANES_MOST + 1; ++at_once) {
                cut(items, planes, at_once - 0.5);
                cut(items, planes, at_once);
            }
        }
    }
}
END_TEST

/* NVIDIA's GPUs take no more along the third axis, however small the work is. */
START_TEST(test_planes_have_a_limit)
{
    struct launch_part part = launch_parts(1, 2 * LAUNCH_GROUPS_MOST, 1e30);
    ck_assert(launch_next(&part));
    ck_assert_int_eq(part.planes, LAUNCH_GROUPS_MOST);
    ck_assert(!part.is_last);
    ck_assert(launch_next(&part));
    ck_assert_int_eq(part.first_plane, LAUNCH_GROUPS_MOST);
    ck_assert(part.is_last);
    ck_assert(!launch_next(&part));
}
END_TEST

SUITE("launch parts", test_each_item_once, test_planes_have_a_limit)
