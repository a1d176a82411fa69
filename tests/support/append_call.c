/* Draws problems, their memory and values; runs them. What must come out is append_expect.c's. */
#include "append_call.h"

#include <stdlib.h>
#include <string.h>

#include "append_memory.h"

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
        p->features |= CLATTN_WITH_STARTS | CLATTN_WITH_PAGES;
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
                                        : (clattn_type)between(random, CLATTN_INT8, CLATTN_Q5_1);
}

static void draw_scales(clattn_append_problem *p, struct random *random)
{
    const int64_t columns[3] = { 0, 1, 16 };
    if (p->key_type >= CLATTN_INT8 && p->key_type <= CLATTN_E5M2 && random_chance(random, 0.8)) {
        p->features |= CLATTN_WITH_KEY_SCALES;
        p->key_scale_rows = between(random, 0, 3);
        p->key_scale_columns = columns[between(random, 0, 2)];
    }
    if (p->value_type >= CLATTN_INT8 && p->value_type <= CLATTN_E5M2 && random_chance(random, 0.8)) {
        p->features |= CLATTN_WITH_VALUE_SCALES;
        p->value_scale_rows = between(random, 0, 3);
        p->value_scale_columns = columns[between(random, 0, 2)];
    }
}

static void draw_problem(clattn_append_problem *p, struct random *random, const struct append_wish *wish)
{
    const clattn_append_problem start = CLATTN_APPEND_PROBLEM_INIT;
    static const int64_t dims[] = { 64, 32, 96, 40, 10, 128 };
    *p = start;
    p->type = wish->type ? wish->type : (clattn_type)between(random, CLATTN_FLOAT32, CLATTN_BFLOAT16);
    p->key_type = draw_cache_type(wish->key_type, p->type, random);
    p->value_type = draw_cache_type(wish->value_type, p->type, random);
    p->head_dim = clattn_type_columns(p->key_type) > 1 ? dims[between(random, 0, 2)] : dims[between(random, 0, 5)];
    p->head_dim_v = clattn_type_columns(p->value_type) > 1 ? dims[between(random, 0, 2)] : dims[between(random, 0, 5)];
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
}

void append_call_free(struct append_call_test *test)
{
    for (int id = 0; id < ARRAYS; ++id) {
        free(test->array[id].data);
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
    return clattn_reference_append(&test->problem, &test->call, &tensors);
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
