/* Overlaps. A tensor is a set of bytes: up to five axes, its element's bytes the innermost. Two sets are found to
 * meet where a corner of one is a byte of the other, which is how mistakes meet. Where rows of several tensors take
 * turns in one buffer, no corner is: that is legal. */
#include "operation/overlap.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"

#define AXES_MAX 5

struct axis {
    int number; /* of the tensor's; of several that were joined, the outermost */
    int64_t stride, count;
};

struct region {
    int64_t first; /* the lowest byte; the highest fits 64 bits too */
    int axes;
    struct axis axis[AXES_MAX]; /* the innermost first; strides > 0, counts > 1 */
};

/* As far as is known for sure. */
static void known_shape(const struct operands *operands, int id, int64_t shape[4])
{
    operand_stored_shape(operands, id, shape);
    for (int axis = 0; axis < 4; ++axis) {
        if (operands->unknown_extents >> operands->operation->rows[id].axis[axis] & 1 && shape[axis] > 1) {
            shape[axis] = 1;
        }
    }
}

/* Keeps the axes sorted by their strides. */
static void add_axis(struct region *region, int number, int64_t stride, int64_t count)
{
    int at = region->axes;
    if (stride == 0 || count <= 1) {
        return;
    }
    for (; at > 0 && region->axis[at - 1].stride > stride; --at) {
        region->axis[at] = region->axis[at - 1];
    }
    region->axis[at] = (struct axis){ number, stride, count };
    ++region->axes;
}

/* Axes that lie in one another without a gap are one. */
static void join_axes(struct region *region)
{
    int kept = 0;
    for (int i = 1; i < region->axes; ++i) {
        struct axis *inner = &region->axis[kept];
        const struct axis *outer = &region->axis[i];
        int64_t filled;
        if (checked_multiply(inner->stride, inner->count, &filled) && outer->stride == filled &&
            checked_multiply(inner->count, outer->count, &filled)) {
            inner->count = filled;
            inner->number = outer->number;
        } else {
            region->axis[++kept] = *outer;
        }
    }
    region->axes = region->axes > 0 ? kept + 1 : 0;
}

/* 0 where bytes do not fit 64 bits: no such memory exists. */
static int region_of(const struct operands *operands, int id, struct region *region)
{
    const struct tensor_place *place = &operands->tensor[id];
    const int64_t element_bytes = (int64_t)operand_bytes(operands, id);
    int64_t shape[4], first = 0, last = 0;
    memset(region, 0, sizeof(*region));
    known_shape(operands, id, shape);
    add_axis(region, 4, 1, element_bytes);
    int fits = checked_multiply(place->offset, element_bytes, &first) &&
               checked_add(first, (int64_t)(uintptr_t)place->data, &first) &&
               checked_add(first, element_bytes - 1, &last);
    for (int axis = 3; axis >= 0 && fits; --axis) {
        int64_t stride = 0, reach = 0;
        fits = checked_multiply(place->stride[axis], element_bytes, &stride) && stride != INT64_MIN &&
               checked_multiply(stride, shape[axis] - 1, &reach) &&
               (stride < 0 ? checked_add(first, reach, &first) : checked_add(last, reach, &last));
        add_axis(region, axis, stride < 0 ? -stride : stride, fits ? shape[axis] : 0);
    }
    region->first = first;
    join_axes(region);
    return fits;
}

/* ---- an output and itself ----------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Some steps on one axis lead to the same place as some on the other. */
static int axes_collide(const struct axis *inner, const struct axis *outer)
{
    if (outer->stride / inner->stride >= inner->count) {
        return 0; /* a step on the outer one is beyond the inner one: the usual case */
    }
    const int64_t divisor = common_divisor(inner->stride, outer->stride);
    return outer->stride / divisor < inner->count && inner->stride / divisor < outer->count;
}

/* The tensor's axis that leads to a place where another one was; -1: there is none. */
static int colliding_axis(const struct region *region)
{
    for (int outer = 1; outer < region->axes; ++outer) {
        for (int inner = 0; inner < outer; ++inner) {
            if (axes_collide(&region->axis[inner], &region->axis[outer])) {
                return region->axis[outer].number;
            }
        }
    }
    return -1;
}

/* A step on each axis is longer than all of those inside of it, heads around rows or rows around heads: the usual
 * case, found without a division. */
static int is_nested(const struct operands *operands, int id)
{
    static const int orders[2][4] = { { 3, 2, 1, 0 }, { 3, 1, 2, 0 } };
    const int64_t *stride = operands->tensor[id].stride;
    int64_t shape[4];
    int nested = 0;
    operand_stored_shape(operands, id, shape);
    for (int which = 0; which < 2 && !nested; ++which) {
        int64_t reach = 0;
        nested = 1;
        for (int i = 0; i < 4 && nested; ++i) {
            const int axis = orders[which][i];
            nested = shape[axis] == 1 || stride[axis] > reach;
            reach += nested ? (shape[axis] - 1) * stride[axis] : 0; /* operands_check found that it fits */
        }
    }
    return nested;
}

static clattn_status check_strides(const struct operands *operands, int id)
{
    struct region region;
    if (is_nested(operands, id)) {
        return CLATTN_OK;
    }
    const int axis = region_of(operands, id, &region) ? colliding_axis(&region) : -1;
    return axis < 0 ? CLATTN_OK
                    : error_set(CLATTN_INVALID_ARGUMENT,
                                "%s.stride[%d] %" PRId64 ": two elements of the output would be in one place; set "
                                "strides that keep them apart",
                                operand_name(operands, id), axis, operands->tensor[id].stride[axis]);
}

/* ---- an output and others ----------------------------------------------------------------------- */

/* Finds the indices from the outermost axis on; where axes do not nest, it may miss a byte that is there. */
static int region_has(const struct region *region, int64_t byte)
{
    int64_t rest;
    if (byte < region->first || !checked_add(byte, -region->first, &rest)) {
        return 0;
    }
    for (int i = region->axes - 1; i >= 0; --i) {
        const struct axis *axis = &region->axis[i];
        const int64_t index = axis->stride == 1 ? rest : rest / axis->stride; /* divisions are slow */
        rest -= (index < axis->count ? index : axis->count - 1) * axis->stride;
    }
    return rest == 0;
}

static int has_a_corner_of(const struct region *region, const struct region *other)
{
    for (unsigned corner = 0; corner < 1u << other->axes; ++corner) {
        int64_t byte = other->first;
        for (int i = 0; i < other->axes; ++i) {
            byte += corner >> i & 1 ? (other->axis[i].count - 1) * other->axis[i].stride : 0;
        }
        if (region_has(region, byte)) {
            return 1;
        }
    }
    return 0;
}

/* As operands_check found. */
static int has_memory(const struct operands *operands, int id)
{
    return operand_is_given(operands, id) && operands->tensor[id].high > operands->tensor[id].low;
}

int operands_are_one_place(const struct operands *operands, int a, int b)
{
    const struct tensor_place *x = &operands->tensor[a], *y = &operands->tensor[b];
    const struct tensor_row *rows = operands->operation->rows;
    int64_t shape[4], other[4];
    operand_shape(operands, a, shape);
    operand_shape(operands, b, other);
    int same = x->buffer == y->buffer && x->data == y->data && x->offset == y->offset &&
               operands->element[rows[a].element] == operands->element[rows[b].element];
    for (int axis = 0; axis < 4 && same; ++axis) {
        same = shape[axis] == other[axis] && (shape[axis] == 1 || x->stride[axis] == y->stride[axis]);
    }
    return same;
}

/* All of one lies before the other; as far as operands_check measured, which is too far where rows are not known. */
static int is_before(const struct operands *operands, int a, int b)
{
    const struct tensor_place *x = &operands->tensor[a], *y = &operands->tensor[b];
    int64_t end, begin;
    return checked_multiply(x->high, (int64_t)operand_bytes(operands, a), &end) &&
           checked_multiply(y->low, (int64_t)operand_bytes(operands, b), &begin) &&
           checked_add(end, (int64_t)(uintptr_t)x->data, &end) &&
           checked_add(begin, (int64_t)(uintptr_t)y->data, &begin) && end <= begin;
}

static int meet(const struct operands *operands, int written, int other)
{
    struct region a, b;
    if (!has_memory(operands, other) || is_before(operands, written, other) || is_before(operands, other, written) ||
        (operands->in_place >> other & operands->in_place >> written & 1 &&
         operands_are_one_place(operands, written, other))) {
        return 0;
    }
    return region_of(operands, written, &a) && region_of(operands, other, &b) &&
           (has_a_corner_of(&a, &b) || has_a_corner_of(&b, &a));
}

static clattn_status share(const char *name, const char *other)
{
    return error_set(CLATTN_INVALID_ARGUMENT, "%s: its memory is also %s's; what is written needs memory of its own",
                     name, other);
}

/* Two outputs are compared once. */
static clattn_status check_one_apart(const struct operands *operands, int written, int inputs_too)
{
    const cl_mem buffer = operands->tensor[written].buffer;
    for (int id = 0; operand_follows(operands, id); ++id) {
        if (operands->tensor[id].buffer != buffer || id == written) {
            continue; /* the usual case */
        }
        const int counts = operand_is_written(operands, id) ? id > written : inputs_too;
        if (counts && meet(operands, written, id)) {
            return share(operand_name(operands, written), operand_name(operands, id));
        }
    }
    return CLATTN_OK;
}

static clattn_status check_all_apart(const struct operands *operands, int inputs_too)
{
    clattn_status status = CLATTN_OK;
    for (int id = 0; operand_follows(operands, id) && status == CLATTN_OK; ++id) {
        if (operand_is_written(operands, id) && has_memory(operands, id)) {
            status = check_strides(operands, id);
            status = status == CLATTN_OK ? check_one_apart(operands, id, inputs_too) : status;
        }
    }
    return status;
}

clattn_status operands_check_outputs_apart(const struct operands *operands)
{
    return check_all_apart(operands, 0);
}

clattn_status operands_check_apart(const struct operands *operands, size_t workspace_bytes)
{
    struct region region;
    for (int id = 0; workspace_bytes > 0 && operand_follows(operands, id); ++id) {
        /* The workspace is the first bytes of its buffer. */
        if (operands->tensor[id].buffer == operands->workspace && has_memory(operands, id) &&
            region_of(operands, id, &region) && (uint64_t)region.first < workspace_bytes) {
            return share(operand_name(operands, id), "the workspace");
        }
    }
    return check_all_apart(operands, 1);
}
