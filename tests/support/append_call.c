/* Draws problems, their memory and values; runs them. What must come out is append_expect.c's. */
#include "append_call.h"

#include <stdlib.h>
#include <string.h>

#include "append_memory.h"
#include "base/stored_types.h"

/* ---- problems --------------------------------------------------------------------------------- */

static int64_t between(struct random *random, int64_t low, int64_t high)
{
    return random_between(random, low, high);
}

static void draw_cache(clattn_append_problem *p, struct random *random)
{
    switch (between(random, 0, 5)) {
    case 0: /* dense */
        p->features |= CLATTN_WITH_STARTS;
        break;
    case 1: /* a ring, at times as large as the cache */
        p->features |= CLATTN_WITH_STARTS;
        p->pinned = between(random, 0, 3);
        p->ring = between(random, p->pinned + 1, p->pinned + 4);
        p->capacity = p->ring > p->capacity ? p->ring : p->capacity;
        break;
    case 2:
    case 3: /* pages, at times with a ring in them */
        p->features |= (uint32_t)CLATTN_WITH_STARTS | CLATTN_WITH_PAGES;
        p->page_size = between(random, 1, 5);
        p->features |= random_chance(random, 0.5) ? CLATTN_WITH_PAGE_STARTS : 0;
        p->ring = random_chance(random, 0.2) ? p->capacity : 0;
        break;
    case 4: /* slots of dense caches */
        p->features |= CLATTN_WITH_SLOTS;
        break;
    default: /* slots of a pool */
        p->features |= CLATTN_WITH_SLOTS;
        p->page_size = between(random, 1, 5);
    }
    p->pages = p->page_size > 0 ? p->batch * ((p->capacity + p->page_size - 1) / p->page_size) + 2 : 0;
    p->capacity = p->features & CLATTN_WITH_SLOTS && p->page_size > 0 ? 0 : p->capacity;
    if (p->page_size > 0 && random_chance(random, 0.5)) {
        p->pool_pages = between(random, (p->pages + 3) / 4, p->pages);
    }
}

static void draw_rotary(clattn_append_problem *p, struct random *random)
{
    p->features |= CLATTN_WITH_ROTARY;
    p->pairs = random_chance(random, 0.5) ? CLATTN_PAIRS_HALVES : CLATTN_PAIRS_INTERLEAVED;
    p->inverse = random_chance(random, 0.2);
    if (random_chance(random, 0.4) && p->head_dim >= 32) {
        p->first_column = between(random, 0, 1) * 16;
        p->columns = p->head_dim - p->first_column - (p->head_dim % 32 == 0 && random_chance(random, 0.5) ? 16 : 0);
        p->columns -= p->columns % 2;
    }
    p->query_heads = between(random, 0, 3);
    p->positions = 40;
    if (random_chance(random, 0.3)) {
        p->features |= CLATTN_WITH_TOKEN_TABLES;
        p->positions = 0;
    } else if (p->features & CLATTN_WITH_SLOTS || p->ring > 0 || random_chance(random, 0.5)) {
        p->features |= CLATTN_WITH_POSITIONS;
    }
}

static clattn_type draw_cache_type(clattn_type wished, clattn_type type, struct random *random)
{
    return wished                       ? wished
           : type == CLATTN_FLOAT64     ? type
           : random_chance(random, 0.4) ? (clattn_type)between(random, CLATTN_FLOAT32, CLATTN_BFLOAT16)
                                        : (clattn_type)between(random, CLATTN_INT8, CACHE_TYPES - 1);
}

static void draw_scales(clattn_append_problem *p, struct random *random)
{
    const int64_t columns[3] = { 0, 1, 16 };
    const struct {
        clattn_type type;
        clattn_feature feature;
        int64_t *rows, *columns;
    } of[] = { { p->key_type, CLATTN_WITH_KEY_SCALES, &p->key_scale_rows, &p->key_scale_columns },
               { p->value_type, CLATTN_WITH_VALUE_SCALES, &p->value_scale_rows, &p->value_scale_columns } };
    for (int i = 0; i < 2; ++i) {
        const int is_made = type_makes_scales(of[i].type);
        if (!type_takes_scales(of[i].type) || !(random_chance(random, 0.8) || is_made)) {
            continue;
        }
        p->features |= (uint32_t)of[i].feature;
        *of[i].rows = is_made ? 1 : between(random, 0, 3);
        *of[i].columns = columns[between(random, 0, 2)] * (type_has_zero_points(of[i].type) ? 2 : 1);
        if (type_scale_columns(of[i].type)) {
            *of[i].columns = type_scale_columns(of[i].type);
        }
    }
}

static void draw_norms(clattn_append_problem *p, struct random *random)
{
    p->features |= p->query_heads > 0 && random_chance(random, 0.6) ? CLATTN_WITH_QUERY_NORM : 0;
    p->features |= random_chance(random, 0.6) ? CLATTN_WITH_KEY_NORM : 0;
    p->features |= random_chance(random, 0.5) ? CLATTN_WITH_VALUE_NORM : 0;
    if (p->features & ((uint32_t)CLATTN_WITH_QUERY_NORM | CLATTN_WITH_KEY_NORM) && random_chance(random, 0.6)) {
        p->features |= CLATTN_WITH_NORM_WEIGHTS;
    }
    if (p->features & APPEND_NORMS) {
        p->norm_epsilon = random_chance(random, 0.5) ? 1e-6 : 0.25;
        p->inverse = 0;
    }
}

/* A number of columns that a cache of the type has whole elements for. */
static int64_t draw_dim(clattn_type type, struct random *random)
{
    static const int64_t dims[] = { 64, 128, 32, 96, 40, 10 };
    const int64_t of_element = clattn_type_columns(type);
    return dims[between(random, 0, of_element > 32 ? 1 : of_element > 2 ? 3 : 5)];
}

static void draw_problem(clattn_append_problem *p, struct random *random, const struct append_wish *wish)
{
    const clattn_append_problem start = CLATTN_APPEND_PROBLEM_INIT;
    *p = start;
    p->type = wish->type ? wish->type : (clattn_type)between(random, CLATTN_FLOAT32, CLATTN_BFLOAT16);
    p->key_type = draw_cache_type(wish->key_type, p->type, random);
    p->value_type = draw_cache_type(wish->value_type, p->type, random);
    p->head_dim = draw_dim(p->key_type, random);
    p->head_dim_v = draw_dim(p->value_type, random);
    p->batch = between(random, 1, 3);
    p->kv_heads = between(random, 1, 3);
    p->query_len = between(random, 1, 7);
    p->capacity = p->query_len + between(random, 0, 9);
    p->features = random_chance(random, 0.4) ? CLATTN_WITH_VARLEN : 0;
    p->strided_columns = clattn_type_columns(p->key_type) == 1 && clattn_type_columns(p->value_type) == 1 &&
                         random_chance(random, 0.15);
    draw_cache(p, random);
    if (wish->rotary > 0 || (wish->rotary < 0 && random_chance(random, 0.6))) {
        draw_rotary(p, random);
    }
    draw_scales(p, random);
    if (wish->norms > 0 || (wish->norms < 0 && random_chance(random, 0.4))) {
        draw_norms(p, random);
    }
}

void append_call_draw(struct append_call_test *test, struct random *random, const struct append_wish *wish)
{
    memset(test, 0, sizeof(*test));
    clattn_cache_call_init(&test->call, sizeof(test->call));
    draw_problem(&test->problem, random, wish);
    if (!(test->problem.features & CLATTN_WITH_VARLEN) && random_chance(random, 0.3)) {
        test->call.query_len = between(random, 0, test->problem.query_len);
    }
    test->in_place = random_chance(random, 0.4);
    append_memory_make(test, random);
    append_memory_fill(test, random, wish->hostile);
    if (wish->ends) {
        append_memory_put_ends(test, random);
    }
}

void append_call_free(struct append_call_test *test)
{
    for (int id = 0; id < ARRAYS; ++id) {
        free(test->array[id].data);
    }
}

/* ---- pools of several buffers ----------------------------------------------------------------- */

#define POOLS_MOST 4

/* The caches, each in buffers of its own: copies of the whole, in which only the pages of the buffer may change. */
struct cut {
    int pools;
    unsigned char *data[2][POOLS_MOST];
    size_t lead[POOLS_MOST]; /* bytes before the copy, of whole elements; so that offsets differ */
};

static const struct append_memory *cache_of(const struct append_call_test *test, int value)
{
    return &test->array[value ? ARRAY_VALUE_CACHE : ARRAY_KEY_CACHE];
}

static size_t cut_bytes(const struct append_call_test *test, const struct cut *cut, int value, int pool)
{
    return cache_of(test, value)->bytes + cut->lead[pool] * clattn_type_size(cache_of(test, value)->type);
}

static void cut_caches(const struct append_call_test *test, struct cut *cut)
{
    const clattn_append_problem *p = &test->problem;
    memset(cut, 0, sizeof(*cut));
    cut->pools = p->pool_pages > 0 ? (int)((p->pages + p->pool_pages - 1) / p->pool_pages) : 1;
    for (int n = 0; n < 2 * cut->pools; ++n) {
        const int value = n % 2, pool = n / 2;
        cut->lead[pool] = (size_t)(pool * 3);
        cut->data[value][pool] = calloc(cut_bytes(test, cut, value, pool) + 1, 1);
        memcpy(cut->data[value][pool] + cut->lead[pool] * clattn_type_size(cache_of(test, value)->type),
               cache_of(test, value)->data, cache_of(test, value)->bytes);
    }
}

static int64_t cut_offset(const struct append_call_test *test, const struct cut *cut, int value, int pool)
{
    const struct append_memory *cache = cache_of(test, value);
    return cache->offset + pool * test->problem.pool_pages * cache->stride[0] +
           (int64_t)cut->lead[pool] * clattn_type_columns(cache->type);
}

/* Back into one: elements of its pages out of each buffer; what else was changed in it becomes wrong here too. */
static void join_cache(struct append_call_test *test, const struct cut *cut, int value)
{
    struct append_memory *cache = &test->array[value ? ARRAY_VALUE_CACHE : ARRAY_KEY_CACHE];
    const size_t unit = clattn_type_size(cache->type);
    const int64_t block = clattn_type_columns(cache->type);
    unsigned char *before = malloc(cache->bytes), *owner = calloc(cache->bytes / unit + 1, 1);
    memcpy(before, cache->data, cache->bytes);
    for (int64_t n = 0; n < cache->shape[0] * cache->shape[1] * cache->shape[2]; ++n) {
        const int64_t i = n % cache->shape[2], h = n / cache->shape[2] % cache->shape[1];
        const int64_t page = n / cache->shape[2] / cache->shape[1];
        for (int64_t c = 0; c < cache->shape[3]; ++c) {
            owner[append_memory_at(cache, page, h, i, c) / block] =
                (unsigned char)(1 + page / test->problem.pool_pages);
        }
    }
    for (int pool = 0; pool < cut->pools; ++pool) {
        const unsigned char *from = cut->data[value][pool] + cut->lead[pool] * unit;
        for (size_t n = 0; n < cache->bytes / unit; ++n) {
            if (owner[n] == pool + 1) {
                memcpy(cache->data + n * unit, from + n * unit, unit);
            } else if (memcmp(from + n * unit, before + n * unit, unit) != 0) {
                cache->data[n * unit] ^= 0x55;
            }
        }
    }
    free(before);
    free(owner);
}

static void cut_free(struct cut *cut)
{
    for (int n = 0; n < 2 * cut->pools; ++n) {
        free(cut->data[n % 2][n / 2]);
    }
}

/* ---- running ---------------------------------------------------------------------------------- */

clattn_status append_call_reference(struct append_call_test *test)
{
    clattn_append_host_tensors tensors = CLATTN_APPEND_HOST_TENSORS_INIT;
    clattn_host_tensor *const places = &tensors.key;
    for (int id = 0; id < ARRAYS; ++id) {
        const struct append_memory *from = &test->array[id == ARRAY_QUERY_OUT && test->in_place ? ARRAY_QUERY : id];
        places[id].data = from->data;
        places[id].offset = from->offset;
        memcpy(places[id].stride, from->stride, sizeof(from->stride));
    }
    struct cut cut;
    cut_caches(test, &cut);
    for (int n = 0; n < 2 * cut.pools && test->problem.pool_pages > 0; ++n) {
        const int value = n % 2, pool = n / 2;
        clattn_host_tensor *pools = value ? tensors.value_pools : tensors.key_pools;
        clattn_host_tensor *to = pool == 0 ? &places[value ? ARRAY_VALUE_CACHE : ARRAY_KEY_CACHE] : &pools[pool - 1];
        to->data = cut.data[value][pool];
        to->offset = cut_offset(test, &cut, value, pool);
        memcpy(to->stride, cache_of(test, value)->stride, sizeof(to->stride));
    }
    const clattn_status status = clattn_reference_append(&test->problem, &test->call, &tensors);
    for (int value = 0; value < 2 && test->problem.pool_pages > 0; ++value) {
        join_cache(test, &cut, value);
    }
    cut_free(&cut);
    return status;
}

/* Buffers for the caches of a pool that was cut. */
static void give_pools(const struct append_call_test *test, const struct cut *cut, cl_context cl,
                       clattn_append_tensors *tensors, cl_mem buffers[2][POOLS_MOST])
{
    for (int n = 0; n < 2 * cut->pools && test->problem.pool_pages > 0; ++n) {
        const int value = n % 2, pool = n / 2;
        clattn_tensor *pools = value ? tensors->value_pools : tensors->key_pools;
        clattn_tensor *to = pool > 0 ? &pools[pool - 1] : value ? &tensors->value_cache : &tensors->key_cache;
        buffers[value][pool] = clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                              cut_bytes(test, cut, value, pool), cut->data[value][pool], NULL);
        to->buffer = buffers[value][pool];
        to->offset = cut_offset(test, cut, value, pool);
        memcpy(to->stride, cache_of(test, value)->stride, sizeof(to->stride));
    }
}

static void take_pools(struct append_call_test *test, struct cut *cut, cl_command_queue queue,
                       cl_mem buffers[2][POOLS_MOST])
{
    for (int n = 0; n < 2 * cut->pools && test->problem.pool_pages > 0; ++n) {
        const int value = n % 2, pool = n / 2;
        clEnqueueReadBuffer(queue, buffers[value][pool], CL_TRUE, 0, cut_bytes(test, cut, value, pool),
                            cut->data[value][pool], 0, NULL, NULL);
        clReleaseMemObject(buffers[value][pool]);
    }
    for (int value = 0; value < 2 && test->problem.pool_pages > 0; ++value) {
        join_cache(test, cut, value);
    }
}

static clattn_status run(struct append_call_test *test, clattn_context *context, cl_mem *buffers)
{
    cl_command_queue queue = clattn_context_queue(context);
    clattn_append_tensors tensors = CLATTN_APPEND_TENSORS_INIT;
    clattn_tensor *const places = &tensors.key;
    clattn_plan *plan = NULL;
    for (int id = 0; id < ARRAYS; ++id) {
        const struct append_memory *from = &test->array[id];
        if (from->data) {
            buffers[id] = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         from->bytes, from->data, NULL);
        }
    }
    for (int id = 0; id < ARRAYS; ++id) {
        const int of = id == ARRAY_QUERY_OUT && test->in_place ? ARRAY_QUERY : id;
        places[id].buffer = buffers[of];
        places[id].offset = test->array[of].offset;
        memcpy(places[id].stride, test->array[of].stride, sizeof(places[id].stride));
    }
    struct cut cut;
    cl_mem pools[2][POOLS_MOST] = { { NULL } };
    cut_caches(test, &cut);
    give_pools(test, &cut, clattn_context_cl(context), &tensors, pools);
    clattn_status status = clattn_append_plan_create(context, &test->problem, &plan);
    if (status == CLATTN_OK) {
        status = clattn_enqueue_append(plan, queue, &test->call, &tensors, 0, NULL, NULL);
    }
    for (int id = 0; id < ARRAYS && status == CLATTN_OK; ++id) {
        if (buffers[id]) {
            clEnqueueReadBuffer(queue, buffers[id], CL_TRUE, 0, test->array[id].bytes, test->array[id].data, 0, NULL,
                                NULL);
        }
    }
    clFinish(queue);
    take_pools(test, &cut, queue, pools);
    cut_free(&cut);
    clattn_plan_destroy(plan);
    return status;
}

clattn_status append_call_run(struct append_call_test *test, clattn_context *context)
{
    cl_mem buffers[ARRAYS] = { NULL };
    const clattn_status status = run(test, context, buffers);
    for (int id = 0; id < ARRAYS; ++id) {
        if (buffers[id]) {
            clReleaseMemObject(buffers[id]);
        }
    }
    return status;
}
