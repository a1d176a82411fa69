/* The rules on the fields of append's problem. */
#include <inttypes.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "operation/append.h"
#include "operation/field_rules.h"

static clattn_status check_types(const clattn_append_problem *p)
{
    const struct own_type caches[2] = { { "key_type", p->key_type, "head_dim", p->head_dim },
                                        { "value_type", p->value_type, "head_dim_v", p->head_dim_v } };
    const uint32_t scales[2] = { CLATTN_WITH_KEY_SCALES, CLATTN_WITH_VALUE_SCALES };
    const struct shared_scales shares[2] = {
        { "key", p->key_type, p->features & scales[0], p->key_scale_rows, p->key_scale_columns },
        { "value", p->value_type, p->features & scales[1], p->value_scale_rows, p->value_scale_columns }
    };
    clattn_status status = check_type(p->type);
    for (int i = 0; i < 2 && status == CLATTN_OK; ++i) {
        status = check_own_type(&caches[i], p->type);
        if (status == CLATTN_OK) {
            status = check_scales_of_type(&shares[i]);
        }
        if (status == CLATTN_OK && type_has_zero_points(caches[i].type) && shares[i].rows != 1) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "%s_scale_rows %" PRId64 ": scales of %s are made of one row's values; set it to 1",
                               shares[i].name, shares[i].rows, clattn_type_name(caches[i].type));
        }
        if (status == CLATTN_OK && type_has_zero_points(caches[i].type) &&
            shares[i].columns % clattn_type_columns(caches[i].type) != 0) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "%s_scale_columns %" PRId64 ": two columns of %s share a byte, and must share a scale",
                               shares[i].name, shares[i].columns, clattn_type_name(caches[i].type));
        }
    }
    return status;
}

static clattn_status check_shape(const clattn_append_problem *p)
{
    const struct dimension dimensions[] = {
        { "batch", p->batch, 0 },
        { "query_heads", p->query_heads, 0 },
        { "kv_heads", p->kv_heads, 0 },
        { "query_len", p->query_len, 0 },
        { "head_dim", p->head_dim, 1 },
        { "head_dim_v", p->head_dim_v, 1 },
        { "capacity", p->capacity, 0 },
        { "page_size", p->page_size, 0 },
        { "pages", p->pages, 0 },
        { "pool_pages", p->pool_pages, 0 },
        { "ring", p->ring, 0 },
        { "pinned", p->pinned, 0 },
        { "key_scale_rows", p->key_scale_rows, 0 },
        { "key_scale_columns", p->key_scale_columns, 0 },
        { "value_scale_rows", p->value_scale_rows, 0 },
        { "value_scale_columns", p->value_scale_columns, 0 },
    };
    clattn_status status = check_dimensions(dimensions, sizeof(dimensions) / sizeof(dimensions[0]));
    const struct dimension products[] = {
        { "batch * query_len", status == CLATTN_OK ? p->batch * p->query_len : 0, 0 },
        { "query_heads + kv_heads", status == CLATTN_OK ? p->query_heads + p->kv_heads : 0, 0 },
    };
    return status == CLATTN_OK ? check_dimensions(products, 2) : status;
}

static clattn_status check_features(const clattn_append_problem *p)
{
    const uint32_t known = CLATTN_WITH_VARLEN | CLATTN_WITH_PAGES | CLATTN_WITH_PAGE_STARTS | CLATTN_WITH_KEY_SCALES |
                           CLATTN_WITH_VALUE_SCALES | CLATTN_WITH_POSITIONS | CLATTN_WITH_STARTS |
                           CLATTN_WITH_TOKEN_TABLES | CLATTN_WITH_SLOTS | CLATTN_WITH_ROTARY | CLATTN_WITH_QUERY_NORM |
                           CLATTN_WITH_KEY_NORM | CLATTN_WITH_VALUE_NORM | CLATTN_WITH_NORM_WEIGHTS;
    const uint32_t by_position = CLATTN_WITH_POSITIONS | CLATTN_WITH_TOKEN_TABLES;
    if (p->features & ~known) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features 0x%x: append does not know bits 0x%x", p->features,
                         p->features & ~known);
    }
    if (!(p->features & (CLATTN_WITH_STARTS | CLATTN_WITH_SLOTS))) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features 0x%x: nothing says where new rows go; set CLATTN_WITH_STARTS or CLATTN_WITH_SLOTS",
                         p->features);
    }
    if (p->features & CLATTN_WITH_SLOTS && p->features & CLATTN_WITH_STARTS &&
        (!(p->features & CLATTN_WITH_ROTARY) || p->features & by_position)) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: with CLATTN_WITH_SLOTS, CLATTN_WITH_STARTS would be "
                                                  "ignored where it does not tell by how much rows are turned");
    }
    return CLATTN_OK;
}

/* A pool, and what finds rows in it. */
static clattn_status check_pages(const clattn_append_problem *p)
{
    const int by_slots = (p->features & CLATTN_WITH_SLOTS) != 0, has_table = (p->features & CLATTN_WITH_PAGES) != 0;
    if (p->page_size == 0 && (p->pages != 0 || p->pool_pages != 0 || has_table)) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "page_size 0, pages %" PRId64 ", pool_pages %" PRId64
                         ": pages and CLATTN_WITH_PAGES need the rows of a page",
                         p->pages, p->pool_pages);
    }
    if (p->features & CLATTN_WITH_PAGE_STARTS && !has_table) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: CLATTN_WITH_PAGE_STARTS needs CLATTN_WITH_PAGES");
    }
    if (by_slots && has_table) {
        return error_set(CLATTN_INVALID_ARGUMENT, "features: with CLATTN_WITH_SLOTS no page table is read; leave "
                                                  "CLATTN_WITH_PAGES out");
    }
    if (p->page_size > 0 && !by_slots && !has_table) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "page_size %" PRId64
                         ": needs CLATTN_WITH_PAGES or CLATTN_WITH_SLOTS, to find rows in the pool",
                         p->page_size);
    }
    if (p->page_size > 0 && by_slots && p->capacity != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "capacity %" PRId64 ": slots of a pool are bounded by its pages; leave it 0", p->capacity);
    }
    return pools_check(p->pages, p->pool_pages);
}

static clattn_status check_ring(const clattn_append_problem *p)
{
    if (p->ring == 0) {
        return p->pinned == 0 ? CLATTN_OK
                              : error_set(CLATTN_INVALID_ARGUMENT, "pinned %" PRId64 ": needs a ring", p->pinned);
    }
    if (p->features & CLATTN_WITH_SLOTS) {
        return error_set(CLATTN_INVALID_ARGUMENT, "ring %" PRId64 ": slots say themselves where rows go; leave it 0",
                         p->ring);
    }
    if (p->ring <= p->pinned || p->ring > p->capacity) {
        return error_set(CLATTN_INVALID_SHAPE,
                         "ring %" PRId64 ": must be more than pinned %" PRId64 " and at most capacity %" PRId64,
                         p->ring, p->pinned, p->capacity);
    }
    return CLATTN_OK;
}

static clattn_status check_scales(const clattn_append_problem *p)
{
    if ((!(p->features & CLATTN_WITH_KEY_SCALES) && (p->key_scale_rows || p->key_scale_columns)) ||
        (!(p->features & CLATTN_WITH_VALUE_SCALES) && (p->value_scale_rows || p->value_scale_columns))) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "key_scale_rows %" PRId64 ", key_scale_columns %" PRId64 ", value_scale_rows %" PRId64
                         ", value_scale_columns %" PRId64 ": would be ignored without CLATTN_WITH_KEY_SCALES, "
                         "CLATTN_WITH_VALUE_SCALES; set them, or leave these 0",
                         p->key_scale_rows, p->key_scale_columns, p->value_scale_rows, p->value_scale_columns);
    }
    return CLATTN_OK;
}

static clattn_status check_norms(const struct append_problem *problem)
{
    if (problem->norms.features & CLATTN_WITH_QUERY_NORM && problem->p.query_heads == 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "features: CLATTN_WITH_QUERY_NORM would be ignored, since query_heads "
                         "is 0; leave it out");
    }
    return norms_check(&problem->norms, problem->p.inverse);
}

static clattn_status check_problem(const struct append_problem *problem)
{
    clattn_status (*const checks[])(const clattn_append_problem *) = { check_shape, check_types, check_features,
                                                                       check_pages, check_ring,  check_scales };
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == CLATTN_OK; ++i) {
        status = checks[i](&problem->p);
    }
    if (status == CLATTN_OK) {
        status = check_norms(problem);
    }
    return status == CLATTN_OK ? turning_check(&problem->turning, problem->p.head_dim) : status;
}

clattn_status append_resolve(struct any_problem *any)
{
    struct append_problem *problem = (struct append_problem *)any;
    clattn_append_problem *p = &problem->p;
    p->inverse = p->inverse != 0;
    p->strided_columns = p->strided_columns != 0;
    p->key_type = p->key_type != CLATTN_TYPE_NONE ? p->key_type : p->type;
    p->value_type = p->value_type != CLATTN_TYPE_NONE ? p->value_type : p->type;
    p->head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    problem->turning = (struct turning){ p->pairs, p->inverse, p->first_column, p->columns, p->positions, p->features };
    problem->norms = (struct norms){ p->features, p->norm_epsilon };
    turning_resolve(&problem->turning, p->head_dim);
    p->columns = problem->turning.columns;
    const clattn_status status = check_problem(problem);
    own_shares(p->key_type, &p->key_scale_rows, &p->key_scale_columns);
    own_shares(p->value_type, &p->value_scale_rows, &p->value_scale_columns);
    return status;
}
