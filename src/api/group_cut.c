/* How a call on host memory is cut: every tensor by the axes that its row names. */
#include "api/group_cut.h"

#include <stdlib.h>
#include <string.h>

#include "api/entry.h"
#include "api/group_keys.h"
#include "base/error.h"
#include "base/growth.h"
#include "operation/backward.h"
#include "operation/forward_rows.h"

const char *const group_axis_names[GROUP_AXES] = { "batch", "heads", "rows", "keys" };

GROWTH_ELSEWHERE(clattn_problem);
GROWTH_ELSEWHERE(clattn_call);
GROWTH_ELSEWHERE(clattn_host_tensors);
GROWTH_ELSEWHERE(clattn_backward_problem);
GROWTH_ELSEWHERE(clattn_host_gradients);

/* ---- reading ---------------------------------------------------------------------------------- */

clattn_status group_call_read(const clattn_problem *problem, const clattn_backward_problem *backward,
                              const clattn_call *call, const clattn_host_tensors *tensors,
                              const clattn_host_gradients *gradients, struct group_call *whole)
{
    const clattn_call defaults = CLATTN_CALL_INIT;
    clattn_status status = growth_copy(GROWTH_OF(clattn_problem), problem, &whole->problem);
    whole->operation = backward ? &operation_backward : &operation_forward;
    whole->call = defaults;
    if (status == CLATTN_OK && backward) {
        status = growth_copy(GROWTH_OF(clattn_backward_problem), backward, &whole->backward);
    }
    if (status == CLATTN_OK && backward) {
        status = growth_copy(GROWTH_OF(clattn_host_gradients), gradients, &whole->gradients);
    }
    if (status == CLATTN_OK && call) {
        status = growth_copy(GROWTH_OF(clattn_call), call, &whole->call);
    }
    return status == CLATTN_OK ? growth_copy(GROWTH_OF(clattn_host_tensors), tensors, &whole->tensors) : status;
}

int64_t group_rows(const struct group_call *call)
{
    return call->call.query_len < 0 ? call->problem.query_len : call->call.query_len;
}

int64_t group_key_len(const struct group_call *call)
{
    return call->call.key_len < 0 ? call->problem.key_len : call->call.key_len;
}

/* ---- axes ------------------------------------------------------------------------------------- */

static int is_packed(const clattn_problem *p)
{
    return (p->features & CLATTN_WITH_VARLEN) != 0;
}

/* Whether an axis of this extent has an element, or as many as a piece has, for each piece. */
static int extent_is_cut(const clattn_problem *p, enum group_axis axis, int extent)
{
    const int is_paged = (p->features & CLATTN_WITH_PAGES) != 0;
    switch (axis) {
    case GROUP_BATCH:
        return extent == EXTENT_BATCH || extent == EXTENT_PACKS || extent == EXTENT_TABLES ||
               (!is_paged && (extent == EXTENT_KEY_PACKS || extent == EXTENT_FIRST_POOL));
    case GROUP_HEADS:
        return extent == EXTENT_KV_HEADS || extent == EXTENT_QUERY_HEADS;
    case GROUP_ROWS:
        return extent == EXTENT_QUERY_ROWS || extent == EXTENT_QUERY_LEN;
    default:
        return extent == EXTENT_KEY_ROWS || extent == EXTENT_KEY_LEN || extent == EXTENT_MASK_KEYS ||
               extent == EXTENT_BIAS_KEYS;
    }
}

/* The public field of a tensor. */
static clattn_host_tensor *field_of(struct group_call *call, int id)
{
    const int forward = call->operation->tensors[0].rows;
    char *fields = id < forward ? (char *)&call->tensors : (char *)&call->gradients;
    return (clattn_host_tensor *)(void *)(fields + call->operation->rows[id].host_at);
}

static int is_written(const struct group_call *call, int id)
{
    const enum tensor_role role = call->operation->rows[id].role;
    return role == TENSOR_OUTPUT || role == TENSOR_UPDATED || role == TENSOR_SUMMED;
}

/* What is summed over parts of keys. */
static int is_summed(const struct group_call *whole, enum group_axis axis, const clattn_host_tensor *tensor)
{
    return axis == GROUP_KEYS &&
           (whole->operation == &operation_forward ? tensor == &whole->tensors.out || tensor == &whole->tensors.lse
                                                   : tensor == &whole->gradients.dquery);
}

/* Whether every part would write elements of its own, or what is summed. */
static int parts_write_apart(const struct group_call *whole, enum group_axis axis)
{
    for (int id = 0; id < whole->operation->count; ++id) {
        const struct tensor_row *row = &whole->operation->rows[id];
        const clattn_host_tensor *tensor = field_of((struct group_call *)whole, id);
        int is_cut = 0;
        for (int i = 0; i < 4; ++i) {
            is_cut |= extent_is_cut(&whole->problem, axis, row->axis[i]) && tensor->stride[i] != 0;
        }
        if (tensor->data && is_written(whole, id) && !is_cut && !is_summed(whole, axis, tensor)) {
            return 0;
        }
    }
    return 1;
}

int64_t group_pieces(const struct group_call *whole, enum group_axis axis)
{
    const clattn_problem *p = &whole->problem;
    const int has_batch = !is_packed(p) && !(p->features & CLATTN_WITH_PAGE_STARTS);
    const int has_blocks = (p->features & (CLATTN_WITH_BLOCK_MASK | CLATTN_WITH_KEY_LISTS)) != 0; /* of rows */
    const int has_rows = !is_packed(p) && !has_blocks;
    const int64_t pieces[GROUP_AXES] = { has_batch ? p->batch : 1, p->kv_heads, has_rows ? group_rows(whole) : 1,
                                         axis == GROUP_KEYS ? group_keys(whole) : 1 };
    return pieces[axis] > 1 && parts_write_apart(whole, axis) ? pieces[axis] : 1;
}

/* ---- cutting ---------------------------------------------------------------------------------- */

static void move_tensors(struct group_call *part, enum group_axis axis, int64_t first, int64_t group)
{
    for (int id = 0; id < part->operation->count; ++id) {
        const struct tensor_row *row = &part->operation->rows[id];
        clattn_host_tensor *tensor = field_of(part, id);
        for (int i = 0; i < 4 && tensor->data; ++i) {
            if (extent_is_cut(&part->problem, axis, row->axis[i])) {
                const int64_t each = row->axis[i] == EXTENT_QUERY_HEADS ? group : 1;
                tensor->offset += first * each * (row->dense ? 1 : tensor->stride[i]);
            }
        }
    }
}

/* At which key row 0 of sequence b stands, as the problem's alignment has it. */
static int64_t offset_of(const struct group_call *whole, int64_t b)
{
    const clattn_problem *p = &whole->problem;
    const clattn_host_tensor *lengths = &whole->tensors.key_lengths, *offsets = &whole->tensors.query_offsets;
    switch (p->alignment) {
    case CLATTN_ALIGN_OFFSETS:
        return ((const int32_t *)offsets->data)[offsets->offset + b];
    case CLATTN_ALIGN_BOTTOM_RIGHT:
        return (p->features & CLATTN_WITH_KEY_LENGTHS ? ((const int32_t *)lengths->data)[lengths->offset + b]
                                                      : group_key_len(whole)) -
               group_rows(whole);
    default:
        return 0;
    }
}

/* Rows further down stand at other keys. */
static void place_rows(const struct group_call *whole, int64_t first, int32_t *offsets, struct group_call *part)
{
    if (whole->problem.alignment == CLATTN_ALIGN_UNSET) {
        return;
    }
    for (int64_t b = 0; b < whole->problem.batch; ++b) {
        offsets[b] = (int32_t)(offset_of(whole, b) + first);
    }
    const clattn_host_tensor placed = { offsets, 0, { 0, 0, 0, 1 } };
    part->problem.alignment = CLATTN_ALIGN_OFFSETS;
    part->tensors.query_offsets = placed;
}

static clattn_status cut(const struct group_parts *parts, int64_t first, int64_t count, struct group_part *part)
{
    const struct group_call *whole = parts->whole;
    const clattn_problem *p = &whole->problem;
    const int64_t group = p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
    struct group_call *call = &part->call;
    *call = *whole;
    part->offsets = malloc(2 * (size_t)(p->batch > 0 ? p->batch : 1) * sizeof(*part->offsets));
    if (!part->offsets) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the parts of a call");
    }
    call->call.whole_heads = whole->call.whole_heads ? whole->call.whole_heads : p->query_heads;
    move_tensors(call, parts->axis, first, group);
    switch (parts->axis) {
    case GROUP_BATCH:
        call->problem.batch = count;
        call->call.first_batch += first;
        return CLATTN_OK;
    case GROUP_HEADS:
        call->problem.kv_heads = count;
        call->problem.query_heads = count * group;
        call->call.first_head += first * group;
        return CLATTN_OK;
    case GROUP_ROWS:
        call->problem.query_len = count;
        call->call.query_len = -1;
        call->call.first_row += first;
        place_rows(whole, first, part->offsets, call);
        return CLATTN_OK;
    default:
        return group_keys_cut(whole, first, count, part);
    }
}

clattn_status group_parts_begin(struct group_parts *parts, const struct group_call *whole, enum group_axis axis,
                                size_t shares, const int64_t *first)
{
    *parts = (struct group_parts){ whole, axis, 0, calloc(shares, sizeof(*parts->part)) };
    clattn_status status = parts->part ? CLATTN_OK
                                       : error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the parts of a call");
    for (size_t n = 0; n < shares && status == CLATTN_OK; ++n) {
        if (first[n] < first[n + 1]) {
            parts->part[parts->count].share = n;
            status = cut(parts, first[n], first[n + 1] - first[n], &parts->part[parts->count++]);
        }
    }
    return status;
}

clattn_status group_parts_sum(const struct group_parts *parts)
{
    return parts->axis == GROUP_KEYS && parts->count > 0 ? group_keys_sum(parts) : CLATTN_OK;
}

void group_parts_free(struct group_parts *parts)
{
    for (size_t n = 0; n < parts->count; ++n) {
        free(parts->part[n].offsets);
        free(parts->part[n].results);
    }
    free(parts->part);
}
