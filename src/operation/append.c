/* The tensors of append, and the shapes of its calls. */
#include "operation/append.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/stored_types.h"
#include "base/text.h"
#include "operation/append_values.h"
#include "operation/rows.h"

#define AGREES(cl, c) _Static_assert((unsigned)(cl) == (unsigned)(c), #cl " must equal " #c)
AGREES(CLATTN_CL_WITH_PAGES, CLATTN_WITH_PAGES);
AGREES(CLATTN_CL_WITH_PAGE_STARTS, CLATTN_WITH_PAGE_STARTS);
AGREES(CLATTN_CL_WITH_KEY_SCALES, CLATTN_WITH_KEY_SCALES);
AGREES(CLATTN_CL_WITH_VALUE_SCALES, CLATTN_WITH_VALUE_SCALES);
AGREES(CLATTN_CL_WITH_SLOTS, CLATTN_WITH_SLOTS);
_Static_assert(sizeof(clattn_append_params) + 8 * APPEND_ARGUMENTS <= 1024,
               "every device takes 1,024 bytes of arguments");

/* ---- tensors ---------------------------------------------------------------------------------- */

enum append_extent {
    EXTENT_ONE,
    EXTENT_BATCH,
    EXTENT_PACKS, /* as of rotary */
    EXTENT_QUERY_HEADS,
    EXTENT_KV_HEADS,
    EXTENT_QUERY_ROWS,
    EXTENT_HEAD_DIM,
    EXTENT_HEAD_DIM_V,
    EXTENT_TABLE_PACKS,
    EXTENT_TABLE_ROWS,
    EXTENT_TABLE_COLUMNS,
    EXTENT_SEAMS,
    EXTENT_CACHE_PACKS, /* of a pool: its pages; else the batch */
    EXTENT_FIRST_POOL,  /* the same of a pool's first buffer; and of the others */
    EXTENT_POOL_1,
    EXTENT_POOL_2,
    EXTENT_POOL_3,
    EXTENT_CACHE_ROWS,
    EXTENT_TABLES, /* page tables: one for each sequence, or one line for all */
    EXTENT_TABLE_PAGES,
    EXTENT_KEY_SCALE_ROWS,
    EXTENT_KEY_SCALE_COLUMNS,
    EXTENT_VALUE_SCALE_ROWS,
    EXTENT_VALUE_SCALE_COLUMNS,
    APPEND_EXTENTS
};

enum append_element {
    ELEMENT_TYPE = OWN_ELEMENTS,
    ELEMENT_KEY,
    ELEMENT_VALUE,
    ELEMENT_KEY_SCALE,
    ELEMENT_VALUE_SCALE,
    APPEND_ELEMENTS
};

static const struct tensor_row tensor_rows[APPEND_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_append_tensors, clattn_append_host_tensors,                 \
               clattn_append_params),
    CLATTN_APPEND_TENSORS(ROW)
#undef ROW
#define ROW(id, field, axes, element, pool)                                                                            \
    TENSOR_ROW(field, axes, element, UPDATED, POOL, clattn_append_tensors, clattn_append_host_tensors,                 \
               clattn_append_params),
        CLATTN_APPEND_POOLS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(APPEND_TENSOR_COUNT, APPEND_EXTENTS, APPEND_ELEMENTS);

/* ---- problem ---------------------------------------------------------------------------------- */

static int equal(const struct any_problem *a, const struct any_problem *b)
{
    const clattn_append_problem *x = &append_problem_of(a)->p, *y = &append_problem_of(b)->p;
    return x->type == y->type && x->pairs == y->pairs && x->key_type == y->key_type && x->value_type == y->value_type &&
           x->batch == y->batch && x->query_heads == y->query_heads && x->kv_heads == y->kv_heads &&
           x->query_len == y->query_len && x->head_dim == y->head_dim && x->head_dim_v == y->head_dim_v &&
           x->capacity == y->capacity && x->page_size == y->page_size && x->pages == y->pages && x->ring == y->ring &&
           x->pinned == y->pinned && x->first_column == y->first_column && x->columns == y->columns &&
           x->positions == y->positions && x->key_scale_rows == y->key_scale_rows &&
           x->key_scale_columns == y->key_scale_columns && x->value_scale_rows == y->value_scale_rows &&
           x->value_scale_columns == y->value_scale_columns && x->features == y->features && x->inverse == y->inverse &&
           x->strided_columns == y->strided_columns && x->pool_pages == y->pool_pages &&
           x->norm_epsilon == y->norm_epsilon;
}

static void describe(const struct any_problem *any, struct text *text)
{
    const clattn_append_problem *p = &append_problem_of(any)->p;
    text_append(text, "batch %" PRId64 ", heads %" PRId64 " and %" PRId64 ", %" PRId64 " rows, head_dim %" PRId64,
                p->batch, p->query_heads, p->kv_heads, p->query_len, p->head_dim);
    if (p->head_dim_v != p->head_dim) {
        text_append(text, " and %" PRId64, p->head_dim_v);
    }
    text_append(text, ", %s to %s keys and %s values", clattn_type_name(p->type), clattn_type_name(p->key_type),
                clattn_type_name(p->value_type));
    if (p->page_size > 0) {
        text_append(text, ", %" PRId64 " pages of %" PRId64 " rows", p->pages, p->page_size);
    }
    if (append_pools(p) > 1) {
        text_append(text, " in %d buffers", append_pools(p));
    }
    if (p->ring > 0) {
        text_append(text, ", a ring of %" PRId64 " rows, %" PRId64 " pinned", p->ring, p->pinned);
    }
    text_append(text, ", by %s", p->features & CLATTN_WITH_SLOTS ? "slots" : "starts");
    if (p->features & CLATTN_WITH_ROTARY) {
        text_append(text, ", ");
        turning_describe(&append_problem_of(any)->turning, text);
    } else if (p->features & CLATTN_WITH_VARLEN) {
        text_append(text, ", varlen");
    }
    norms_describe(&append_problem_of(any)->norms, text);
}

/* ---- calls ------------------------------------------------------------------------------------ */

#define ALWAYS 1
#define FEATURE(name) ((p->features & CLATTN_WITH_##name) != 0)
#define FIELD(condition) (condition)
#define WEIGHT_OF(norm) (FEATURE(norm) && FEATURE(NORM_WEIGHTS))
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << APPEND_##id : 0)
#define ASKED_OF_POOL(id, field, axes, element, pool) | (append_pools(p) > pool ? 1u << APPEND_##id : 0)
static uint32_t asked_of(const clattn_append_problem *p)
{
    return 0u CLATTN_APPEND_TENSORS(ASKED_OF_ROW) CLATTN_APPEND_POOLS(ASKED_OF_POOL);
}

static clattn_status measure(const struct any_problem *any, const void *values, struct operands *operands)
{
    const struct append_problem *problem = append_problem_of(any);
    const clattn_append_problem *p = &problem->p;
    struct append_call *call = (struct append_call *)operands;
    const clattn_status status = turning_query_len(values, p->query_len, &call->query_len);
    if (status != CLATTN_OK) {
        return status;
    }
    const struct turn_extents turn = turning_extents(&problem->turning, operands, p->batch, call->query_len);
    const int is_pool = p->page_size > 0, one_table = (p->features & CLATTN_WITH_PAGE_STARTS) != 0;
    const int64_t cache_rows = is_pool ? p->page_size : p->capacity;
    const int64_t extents[APPEND_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_PACKS] = turn.packs,
        [EXTENT_QUERY_HEADS] = p->query_heads,
        [EXTENT_KV_HEADS] = p->kv_heads,
        [EXTENT_QUERY_ROWS] = turn.rows,
        [EXTENT_HEAD_DIM] = p->head_dim,
        [EXTENT_HEAD_DIM_V] = p->head_dim_v,
        [EXTENT_TABLE_PACKS] = turn.table_packs,
        [EXTENT_TABLE_ROWS] = turn.table_rows,
        [EXTENT_TABLE_COLUMNS] = problem->turning.columns / 2,
        [EXTENT_SEAMS] = p->batch + 1,
        [EXTENT_CACHE_PACKS] = is_pool ? p->pages : p->batch,
        [EXTENT_FIRST_POOL] = is_pool ? pools_pages(p->pages, p->pool_pages, 0) : p->batch,
        [EXTENT_POOL_1] = pools_pages(p->pages, p->pool_pages, 1),
        [EXTENT_POOL_2] = pools_pages(p->pages, p->pool_pages, 2),
        [EXTENT_POOL_3] = pools_pages(p->pages, p->pool_pages, 3),
        [EXTENT_CACHE_ROWS] = cache_rows,
        [EXTENT_TABLES] = one_table ? 1 : p->batch,
        [EXTENT_TABLE_PAGES] =
            one_table ? operands_last_seam(operands, APPEND_PAGE_STARTS, p->batch, p->batch > 0 && p->capacity > 0)
                      : groups_of(p->capacity, is_pool ? p->page_size : 1),
        [EXTENT_KEY_SCALE_ROWS] = groups_of(cache_rows, p->key_scale_rows),
        [EXTENT_KEY_SCALE_COLUMNS] = groups_of(p->head_dim, p->key_scale_columns),
        [EXTENT_VALUE_SCALE_ROWS] = groups_of(cache_rows, p->value_scale_rows),
        [EXTENT_VALUE_SCALE_COLUMNS] = groups_of(p->head_dim_v, p->value_scale_columns),
    };
    memcpy(operands->extent, extents, sizeof(extents));
    if (turn.rows_are_unknown) {
        operands->unknown_extents = 1u << EXTENT_QUERY_ROWS |
                                    (p->features & CLATTN_WITH_TOKEN_TABLES ? 1u << EXTENT_TABLE_ROWS : 0);
    }
    operands->asked = asked_of(p);
    operands->in_place = 1u << APPEND_QUERY | 1u << APPEND_QUERY_OUT;
    operands->strided_columns = p->strided_columns;
    operands_set_type(operands, ELEMENT_TYPE, p->type);
    operands_set_type(operands, ELEMENT_KEY, p->key_type);
    operands_set_type(operands, ELEMENT_VALUE, p->value_type);
    operands_set_type(operands, ELEMENT_KEY_SCALE, type_of_scales(p->key_type));
    operands_set_type(operands, ELEMENT_VALUE_SCALE, type_of_scales(p->value_type));
    return CLATTN_OK;
}

/* ---- the operation ---------------------------------------------------------------------------- */

GROWTH(clattn_append_problem, "problem", capacity, norm_epsilon, CLATTN_APPEND_PROBLEM_INIT);
GROWTH(clattn_append_tensors, "tensors", value_cache, value_tensor_scale, CLATTN_APPEND_TENSORS_INIT);
GROWTH(clattn_append_host_tensors, "tensors", value_cache, value_tensor_scale, CLATTN_APPEND_HOST_TENSORS_INIT);
CALL_HAS_ROOM(struct append_call);

const struct operation operation_append = {
    .name = "append",
    .rows = tensor_rows,
    .count = APPEND_TENSOR_COUNT,
    PROBLEM_OF(struct append_problem, clattn_append_problem),
    .resolve = append_resolve,
    .equal = equal,
    .describe = describe,
    .tensors = { TENSORS_OF(clattn_append_tensors, clattn_append_host_tensors, APPEND_TENSOR_COUNT, 0) },
    .measure = measure,
    .check_values = append_check_values,
    .reference = reference_append,
};
