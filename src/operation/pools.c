/* Several buffers for one pool. */
#include "operation/pools.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

#define POOL_SHIFT_LOW ((int64_t)1 << 32)

_Static_assert(TENSOR_KEY_POOL_3 == TENSOR_KEY_POOL_1 + CLATTN_POOLS_MOST - 2 &&
                   TENSOR_VALUE_POOL_3 == TENSOR_VALUE_POOL_1 + CLATTN_POOLS_MOST - 2,
               "the further buffers of a pool follow one another");

static int64_t pools_needed(int64_t pages, int64_t pool_pages)
{
    return pool_pages > 0 ? pages / pool_pages + (pages % pool_pages > 0) : 1;
}

int pools_count(int64_t pages, int64_t pool_pages)
{
    const int64_t pools = pools_needed(pages, pool_pages);
    return pools > CLATTN_POOLS_MOST ? CLATTN_POOLS_MOST : pools > 1 ? (int)pools : 1;
}

int64_t pools_pages(int64_t pages, int64_t pool_pages, int pool)
{
    if (pool_pages <= 0) {
        return pool == 0 ? pages : 0;
    }
    const int64_t left = pages - pool * pool_pages;
    return left <= 0 ? 0 : left < pool_pages ? left : pool_pages;
}

clattn_status pools_check(int64_t pages, int64_t pool_pages)
{
    return pools_needed(pages, pool_pages) <= CLATTN_POOLS_MOST
               ? CLATTN_OK
               : error_set(CLATTN_INVALID_SHAPE,
                           "pool_pages %" PRId64 ": %" PRId64 " pages would need %" PRId64 " buffers, and there are at "
                           "most %d; use larger ones",
                           pool_pages, pages, pools_needed(pages, pool_pages), CLATTN_POOLS_MOST);
}

/* Behind TENSOR_KEY or TENSOR_VALUE. */
static int pool_tensor(enum tensor_id first, int pool)
{
    return pool == 0 ? (int)first : (int)(first == TENSOR_KEY ? TENSOR_KEY_POOL_1 : TENSOR_VALUE_POOL_1) + pool - 1;
}

/* Kernels take offsets in CLATTN_POOL_SHIFT_BITS, with a sign. */
static clattn_status check_place(const struct operands *operands, enum tensor_id first, int id)
{
    const int64_t most = ((int64_t)1 << (CLATTN_POOL_SHIFT_BITS - 1)) - 1;
    const struct tensor_place *one = &operands->tensor[first], *other = &operands->tensor[id];
    for (int axis = 0; axis < 4 && operand_is_given(operands, id) && operand_is_given(operands, (int)first); ++axis) {
        if (one->stride[axis] != other->stride[axis]) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s.stride[%d] %" PRId64 ": must be that of %s, %" PRId64 "; pages lie alike in all "
                             "buffers of a pool",
                             operand_name(operands, id), axis, other->stride[axis] * operand_columns(operands, id),
                             operand_name(operands, (int)first), one->stride[axis] * operand_columns(operands, id));
        }
    }
    if (other->offset - one->offset > most || one->offset - other->offset > most) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "%s.offset %" PRId64 ": must be within %" PRId64 " elements of that of %s",
                         operand_name(operands, id), other->offset * operand_columns(operands, id),
                         most * operand_columns(operands, id), operand_name(operands, (int)first));
    }
    return CLATTN_OK;
}

clattn_status pools_check_places(const struct any_problem *problem, const struct operands *operands)
{
    const clattn_problem *p = &attention_problem(problem)->p;
    clattn_status status = CLATTN_OK;
    for (int pool = 1; pool < pools_of(p) && status == CLATTN_OK; ++pool) {
        status = check_place(operands, TENSOR_KEY, pool_tensor(TENSOR_KEY, pool));
        if (status == CLATTN_OK) {
            status = check_place(operands, TENSOR_VALUE, pool_tensor(TENSOR_VALUE, pool));
        }
    }
    return status;
}

clattn_status pools_refuse(const void *tensors, int on_host)
{
    for (int id = ALL_TENSOR_COUNT; id < FORWARD_TENSOR_COUNT; ++id) {
        const struct tensor_row *row = &operation_forward.rows[id];
        const void *given; /* the buffer, or the memory: what both kinds of tensors begin with */
        memcpy(&given, (const char *)tensors + (on_host ? row->host_at : row->device_at), sizeof(given));
        if (given) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s: was given, and would be ignored: gradients know of one buffer of keys and values",
                             row->name);
        }
    }
    return CLATTN_OK;
}

static int64_t shift_of(const struct operands *operands, enum tensor_id first, int pool)
{
    return operands->tensor[pool_tensor(first, pool)].offset - operands->tensor[first].offset;
}

void pools_fill(const clattn_problem *p, const struct operands *operands, clattn_pools *pools)
{
    memset(pools, 0, sizeof(*pools));
    pools->pages = (int)p->pool_pages;
    for (int pool = 1; pool < pools_of(p); ++pool) {
        const int64_t key = shift_of(operands, TENSOR_KEY, pool), value = shift_of(operands, TENSOR_VALUE, pool);
        pools->key_shift[pool - 1] = (clattn_u32)key;
        pools->value_shift[pool - 1] = (clattn_u32)value;
        pools->key_shift_high[pool - 1] = (clattn_i8)((key - (clattn_u32)key) / POOL_SHIFT_LOW);
        pools->value_shift_high[pool - 1] = (clattn_i8)((value - (clattn_u32)value) / POOL_SHIFT_LOW);
    }
}

int pools_find(int64_t pool_pages, int64_t *page)
{
    const int pool = pool_pages > 0 ? (int)(*page / pool_pages) : 0;
    *page -= pool * pool_pages;
    return pool;
}

int pools_tensor_of(const clattn_problem *p, enum tensor_id first, int64_t *page)
{
    return pool_tensor(first, pools_find(p->pool_pages, page));
}
