/* From meta.json to problems of append, and the caches afterwards. */
#include "case_append.h"

#include <string.h>

#include "base/stored_types.h"
#include "case_rotary.h"
#include "clattn_cache.h"

enum {
    KEY,
    VALUE,
    QUERY,
    KEY_CACHE,
    VALUE_CACHE,
    SLOTS,
    PAGE_TABLE,
    PAGE_STARTS,
    KEY_SCALES,
    VALUE_SCALES,
    KEY_BLOCK_SCALES,
    VALUE_BLOCK_SCALES,
    KEY_ZERO_POINTS,
    VALUE_ZERO_POINTS,
    KEY_TENSOR_SCALE,
    VALUE_TENSOR_SCALE,
    QUERY_NORM_WEIGHT,
    KEY_NORM_WEIGHT,
    INPUTS
};

struct append_case {
    struct tensor input[INPUTS];
    struct tensor query_out;
    struct case_turning turning;
    clattn_append_problem problem;
    clattn_append_host_tensors tensors;
};

/* The type of files of a storage type: block types, and codes of 8 bits, are bytes as they are. */
static enum tensor_type file_type(clattn_type type)
{
    return type >= CLATTN_FLOAT32 && type <= CLATTN_FLOAT64 ? tensor_type_of_storage(type) : TENSOR_TYPES;
}

static clattn_type cache_type(const struct case_run *run, const char *name)
{
    const clattn_type type = meta_type(run->meta, "params", name);
    return type != CLATTN_TYPE_NONE ? type : meta_type(run->meta, NULL, "dtype");
}

static int read_inputs(const struct case_run *run, struct append_case *c, struct failure *failure)
{
    const clattn_append_problem *p = &c->problem;
    const struct {
        const char *name;
        enum tensor_type type;
    } inputs[INPUTS] = {
        [KEY] = { "key", file_type(p->type) },
        [VALUE] = { "value", file_type(p->type) },
        [QUERY] = { "query", file_type(p->type) },
        [KEY_CACHE] = { "key_cache", file_type(p->key_type) },
        [VALUE_CACHE] = { "value_cache", file_type(p->value_type) },
        [SLOTS] = { "slots", TENSOR_INT32 },
        [PAGE_TABLE] = { "page_table", TENSOR_INT32 },
        [PAGE_STARTS] = { "page_starts", TENSOR_INT32 },
        [KEY_SCALES] = { "key_scales", TENSOR_FLOAT32 },
        [VALUE_SCALES] = { "value_scales", TENSOR_FLOAT32 },
        [KEY_BLOCK_SCALES] = { "key_block_scales", TENSOR_TYPES },
        [VALUE_BLOCK_SCALES] = { "value_block_scales", TENSOR_TYPES },
        [KEY_ZERO_POINTS] = { "key_zero_points", TENSOR_FLOAT32 },
        [VALUE_ZERO_POINTS] = { "value_zero_points", TENSOR_FLOAT32 },
        [KEY_TENSOR_SCALE] = { "key_tensor_scale", TENSOR_FLOAT32 },
        [VALUE_TENSOR_SCALE] = { "value_tensor_scale", TENSOR_FLOAT32 },
        [QUERY_NORM_WEIGHT] = { "query_norm_weight", TENSOR_FLOAT32 },
        [KEY_NORM_WEIGHT] = { "key_norm_weight", TENSOR_FLOAT32 },
    };
    for (int i = 0; i < INPUTS; ++i) {
        if (case_input_read(run, inputs[i].name, inputs[i].type, &c->input[i], failure) != 0) {
            return -1;
        }
    }
    return case_turning_read(run, &c->turning, failure);
}

/* Files of block types have bytes where the tensor has columns. */
static int place_cache(struct tensor *file, const char *layout, clattn_type type, int64_t columns,
                       clattn_host_tensor *place, struct case_axes *axes, struct failure *failure)
{
    struct tensor columns_of = *file;
    if (columns_of.dims > 0 && clattn_type_columns(type) > 1) {
        columns_of.shape[columns_of.dims - 1] = columns;
    }
    if (case_axes_read(&columns_of, layout, 0, axes, failure) != 0) {
        return -1;
    }
    place->data = file->data;
    memcpy(place->stride, axes->stride, sizeof(axes->stride));
    return 0;
}

static int place_rows(struct tensor *file, const char *layout, int64_t heads, clattn_host_tensor *place,
                      struct case_axes *axes, struct failure *failure)
{
    if (case_axes_read(file, layout, heads, axes, failure) != 0) {
        return -1;
    }
    place->data = file->data;
    memcpy(place->stride, axes->stride, sizeof(axes->stride));
    return 0;
}

/* [B or 1, Hk or 1, groups of rows or 1, groups of columns or 1] */
static clattn_host_tensor place_scales(const struct tensor *scales)
{
    clattn_host_tensor place = { scales->data, 0, { 0, 0, 0, 0 } };
    int64_t step = 1;
    for (int axis = 3; axis >= 0 && scales->dims == 4; --axis) {
        place.stride[axis] = scales->shape[axis] > 1 ? step : 0;
        step *= scales->shape[axis];
    }
    return place;
}

static int place_all(const struct case_run *run, struct append_case *c, struct failure *failure)
{
    clattn_append_problem *p = &c->problem;
    clattn_append_host_tensors *t = &c->tensors;
    const char *layout = meta_text(meta_field(run->meta, NULL, "layout"));
    const char *cache_layout = meta_text(meta_field(run->meta, NULL, "kv_layout"));
    const int64_t q_heads = (int64_t)meta_number(meta_field(run->meta, "shape", "q_heads"), 0);
    const int64_t kv_heads = (int64_t)meta_number(meta_field(run->meta, "shape", "kv_heads"), 0);
    struct case_axes key, value, query, cache;
    if (place_rows(&c->input[KEY], layout, kv_heads, &t->key, &key, failure) != 0 ||
        place_rows(&c->input[VALUE], layout, kv_heads, &t->value, &value, failure) != 0 ||
        place_cache(&c->input[VALUE_CACHE], cache_layout, p->value_type, value.columns, &t->value_cache, &cache,
                    failure) != 0 ||
        place_cache(&c->input[KEY_CACHE], cache_layout, p->key_type, key.columns, &t->key_cache, &cache, failure) !=
            0) {
        return -1;
    }
    const int is_packed = c->turning.cu_query.data != NULL;
    p->batch = is_packed ? tensor_count(&c->turning.cu_query) - 1 : key.batch;
    p->query_len = is_packed ? case_longest(&c->turning.cu_query) : key.rows;
    p->kv_heads = key.heads;
    p->head_dim = key.columns;
    p->head_dim_v = value.columns;
    p->capacity = cache.rows;
    if (p->page_size > 0) {
        p->pages = cache.batch;
        p->capacity = c->input[PAGE_STARTS].data  ? tensor_count(&c->input[PAGE_TABLE]) * p->page_size
                      : c->input[PAGE_TABLE].data ? c->input[PAGE_TABLE].shape[1] * p->page_size
                                                  : 0;
    }
    if (c->input[QUERY].data) {
        if (place_rows(&c->input[QUERY], layout, q_heads, &t->query, &query, failure) != 0 ||
            tensor_create(&c->query_out, c->input[QUERY].type, c->input[QUERY].dims, c->input[QUERY].shape, "query_out",
                          failure) != 0) {
            return -1;
        }
        p->query_heads = query.heads;
        t->query_out = t->query;
        t->query_out.data = c->query_out.data;
    }
    return 0;
}

static void place_lists(struct append_case *c)
{
    clattn_append_problem *p = &c->problem;
    clattn_append_host_tensors *t = &c->tensors;
    const struct tensor *in = c->input;
    const struct case_turning_places places = case_turning_place(&c->turning);
    const struct {
        const struct tensor *tensor;
        uint32_t feature;
    } features[] = { { &in[SLOTS], CLATTN_WITH_SLOTS },
                     { &in[PAGE_TABLE], CLATTN_WITH_PAGES },
                     { &in[PAGE_STARTS], CLATTN_WITH_PAGE_STARTS },
                     { &in[KEY_SCALES], CLATTN_WITH_KEY_SCALES },
                     { &in[VALUE_SCALES], CLATTN_WITH_VALUE_SCALES },
                     { &in[KEY_BLOCK_SCALES], CLATTN_WITH_KEY_SCALES },
                     { &in[VALUE_BLOCK_SCALES], CLATTN_WITH_VALUE_SCALES } };
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); ++i) {
        p->features |= features[i].tensor->data ? features[i].feature : 0;
    }
    p->features |= c->turning.features & ((uint32_t)CLATTN_WITH_VARLEN | CLATTN_WITH_STARTS);
    if (c->turning.cosine.data) {
        p->features |= c->turning.features | CLATTN_WITH_ROTARY;
        p->positions = c->turning.table_rows;
        t->positions = places.positions;
    }
    t->cosine = places.cosine;
    t->sine = places.sine;
    t->starts = places.starts;
    t->cu_query = places.cu_query;
    t->slots.data = in[SLOTS].data;
    t->slots.stride[0] = in[SLOTS].dims == 2 ? in[SLOTS].shape[1] : 0;
    t->slots.stride[2] = 1;
    if (!(p->features & CLATTN_WITH_SLOTS)) {
        t->page_table.data = in[PAGE_TABLE].data;
        t->page_table.stride[0] = in[PAGE_TABLE].dims == 2 ? in[PAGE_TABLE].shape[1] : 0;
        t->page_table.stride[3] = 1;
        t->page_starts.data = in[PAGE_STARTS].data;
    } else { /* which say all that a table could */
        p->features &= ~(uint32_t)(CLATTN_WITH_PAGES | CLATTN_WITH_PAGE_STARTS);
        p->capacity = p->page_size > 0 ? 0 : p->capacity;
        if (!(p->features & CLATTN_WITH_ROTARY) || p->features & (CLATTN_WITH_POSITIONS | CLATTN_WITH_TOKEN_TABLES)) {
            p->features &= ~(uint32_t)CLATTN_WITH_STARTS;
            t->starts.data = NULL;
        }
    }
    t->query_norm_weight.data = in[QUERY_NORM_WEIGHT].data;
    t->key_norm_weight.data = in[KEY_NORM_WEIGHT].data;
    clattn_host_tensor *const keys = type_makes_scales(p->key_type) ? &t->key_scales_out : &t->key_scales;
    clattn_host_tensor *const values = type_makes_scales(p->value_type) ? &t->value_scales_out : &t->value_scales;
    *keys = place_scales(&in[in[KEY_SCALES].data ? KEY_SCALES : KEY_BLOCK_SCALES]);
    *values = place_scales(&in[in[VALUE_SCALES].data ? VALUE_SCALES : VALUE_BLOCK_SCALES]);
    t->key_zero_points = place_scales(&in[KEY_ZERO_POINTS]);
    t->value_zero_points = place_scales(&in[VALUE_ZERO_POINTS]);
    t->key_tensor_scale.data = in[KEY_TENSOR_SCALE].data;
    t->value_tensor_scale.data = in[VALUE_TENSOR_SCALE].data;
}

static void read_params(const struct case_run *run, clattn_append_problem *p)
{
    const cJSON *params = meta_field(run->meta, NULL, "params"), *rotary = meta_field(params, NULL, "rotary");
#define PARAM(name) (int64_t) meta_number(meta_field(params, NULL, #name), 0)
    p->type = meta_type(run->meta, NULL, "dtype");
    p->key_type = cache_type(run, "key_type");
    p->value_type = cache_type(run, "value_type");
    p->page_size = PARAM(page_size);
    p->ring = PARAM(ring);
    p->pinned = PARAM(pinned);
    p->key_scale_rows = PARAM(key_scale_rows);
    p->key_scale_columns = PARAM(key_scale_columns);
    p->value_scale_rows = PARAM(value_scale_rows);
    p->value_scale_columns = PARAM(value_scale_columns);
    case_norm_read(params, "query_norm", CLATTN_WITH_QUERY_NORM, &p->norm_epsilon, &p->features);
    case_norm_read(params, "key_norm", CLATTN_WITH_KEY_NORM, &p->norm_epsilon, &p->features);
    case_norm_read(params, "value_norm", CLATTN_WITH_VALUE_NORM, &p->norm_epsilon, &p->features);
    if (rotary) {
        p->pairs = case_pairs(rotary);
        p->first_column = (int64_t)meta_number(meta_field(rotary, NULL, "first_column"), 0);
        p->columns = (int64_t)meta_number(meta_field(rotary, NULL, "columns"), 0);
        p->inverse = meta_is_true(meta_field(rotary, NULL, "inverse"));
    }
}

static int solve(const struct case_run *run, struct append_case *c, struct failure *failure)
{
    read_params(run, &c->problem);
    if (read_inputs(run, c, failure) != 0 || place_all(run, c, failure) != 0) {
        return -1;
    }
    place_lists(c);
    const clattn_status status = run->context ? clattn_append_host(run->context, &c->problem, NULL, &c->tensors)
                                              : clattn_reference_append(&c->problem, NULL, &c->tensors);
    const struct {
        const char *name;
        struct tensor *tensor;
    } outputs[] = { { "key_cache_out", &c->input[KEY_CACHE] },
                    { "value_cache_out", &c->input[VALUE_CACHE] },
                    { "query_out", &c->query_out },
                    { "key_scales_out", &c->input[KEY_SCALES] },
                    { "value_scales_out", &c->input[VALUE_SCALES] },
                    { "key_block_scales_out", &c->input[KEY_BLOCK_SCALES] },
                    { "value_block_scales_out", &c->input[VALUE_BLOCK_SCALES] },
                    { "key_zero_points_out", &c->input[KEY_ZERO_POINTS] },
                    { "value_zero_points_out", &c->input[VALUE_ZERO_POINTS] } };
    int result = case_status(status, failure);
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]) && result == 0; ++i) {
        result = case_output_write(run, outputs[i].name, outputs[i].tensor, failure);
    }
    return result;
}

int case_append_solve(const struct case_run *run, struct failure *failure)
{
    static const struct append_case empty;
    const clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    const clattn_append_host_tensors tensors = CLATTN_APPEND_HOST_TENSORS_INIT;
    struct append_case c = empty;
    c.problem = problem;
    c.tensors = tensors;
    const int status = solve(run, &c, failure);
    for (int i = 0; i < INPUTS; ++i) {
        tensor_free(&c.input[i]);
    }
    tensor_free(&c.query_out);
    case_turning_free(&c.turning);
    return status;
}
