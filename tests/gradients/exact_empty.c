/* Gradients of problems that have no batch entry, head, row or key: what is left of each is the sum of nothing, which
 * is 0, or what was there where it is added to. The reference is asked too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clattn_backward.h"
#include "exact_others.h"
#include "kinds.h"

#define OLD 3.0 /* what gradients are added to */

static const struct kind kinds[] = {
    { "no batch", 0, 4, 2, 5, 7, 20, 12, 0, 0 },       { "no heads", 2, 0, 0, 5, 7, 20, 12, 0, 0 },
    { "no query heads", 2, 0, 2, 5, 7, 20, 12, 0, 0 }, { "no rows", 2, 4, 2, 0, 7, 20, 12, 0, 0 },
    { "no keys", 2, 4, 2, 5, 0, 20, 12, 0, 0 },        { "nothing", 0, 0, 0, 0, 0, 20, 12, 0, 0 },
};

/* A call of one of the kinds, and how it is made. */
struct empty_call {
    const struct kind *kind;
    const char *strategy;
    clattn_type type;
    unsigned summed; /* axes of the gradients that may be sums, bits */
    int accumulates, is_strided, blocks;
};

static void place(struct gradient_call *g, const struct empty_call *e, int id)
{
    struct test_layout layout = TEST_LAYOUT_DENSE;
    for (int axis = 0; axis < 4; ++axis) {
        layout.broadcast[axis] = id >= GRADIENT_DBIAS && e->summed >> axis & 1;
        layout.padding[axis] = e->is_strided && (axis < 3 || id >= GRADIENT_DBIAS) ? axis + 1 : 0;
    }
    layout.reversed[1] = e->is_strided;
    layout.offset = e->is_strided ? 5 : 0;
    gradient_call_place(g, id, &layout);
    for (int64_t at = 0; at < g->arrays[id].count && e->accumulates && id >= GRADIENT_DQUERY; ++at) {
        kind_set(&g->arrays[id], at, OLD);
    }
}

/* Elements are 0 or what they were, and nothing else was written. */
static int is_sum_of_nothing(const struct gradient_call *g, const struct empty_call *e, int id)
{
    const struct test_array *array = &g->arrays[id];
    int good = 1;
    for (int64_t at = 0; at < array->count; ++at) {
        const size_t byte = (size_t)at * array->element_bytes;
        good &= array->reached[at] ? kind_get(array, at) == (e->accumulates ? OLD : 0)
                                   : memcmp(array->data + byte, g->before[id] + byte, array->element_bytes) == 0;
    }
    return good ||
           !printf("%s, %s: %s, summed axes 0x%x, strided %d, blocking %d\n", e->kind->name, clattn_type_name(e->type),
                   operation_backward.rows[id].name, e->summed, e->is_strided, e->blocks);
}

static void check_call(const struct empty_call *e)
{
    const int is_reference = strcmp(e->strategy, "reference") == 0;
    struct gradient_call g;
    struct kind kind = *e->kind;
    kind.features = CLATTN_WITH_SLOPES | CLATTN_WITH_SINKS;
    clattn_problem p = kind_problem(&kind);
    p.type = p.bias_type = e->type;
    p.alignment = CLATTN_ALIGN_TOP_LEFT;
    kind_begin(&g, &p, is_reference ? NULL : e->strategy, kind_normal);
    g.problem.gradients = ALL_THREE_AND_SCALE | CLATTN_GRADIENT_BIAS | CLATTN_GRADIENT_SLOPES | CLATTN_GRADIENT_SINKS;
    g.problem.features = 0; /* rows without keys would have their dlse in dsinks */
    g.problem.accumulate = e->accumulates ? g.problem.gradients : 0;
    g.problem.gradient_type = e->accumulates ? CLATTN_FLOAT32 : CLATTN_TYPE_NONE;
    int good = gradient_call_start(&g) == CLATTN_OK;
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (gradient_call_has(&g, id)) {
            place(&g, e, id);
        }
    }
    gradient_call_keep(&g);
    good = good && gradient_call_run(is_reference ? NULL : kind_context, &g, e->blocks) == CLATTN_OK;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT && good; ++id) {
        good = is_sum_of_nothing(&g, e, id);
    }
    kind_report(e->strategy, e->kind->name, good);
    gradient_call_free(&g);
}

void exact_empty(const char *strategy)
{
    /* The type that kind_main found the strategy to take, and bfloat16, which all take. */
    const clattn_type types[] = { kind_in_bfloat16() ? CLATTN_BFLOAT16 : CLATTN_FLOAT32, CLATTN_BFLOAT16 };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); ++k) {
        for (unsigned summed = 0; summed < 16; ++summed) {
            for (int way = 0; way < 8; ++way) {
                check_call(&(struct empty_call){ &kinds[k], strategy, types[way & 1], summed, way >> 1 & 1, way >> 2,
                                                 summed & 1 });
            }
        }
    }
}
