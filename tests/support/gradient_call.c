/* Memory, values and runs of a backward call. */
#include "gradient_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"
#include "long_sequences.h"
#include "operation/forward_rows.h"
#include "reference/reference.h"

#define POISON 0xff

/* Made of the rows of src/operation/gradient_tensors.h. */
enum { TENSOR_SCALE = -1 }; /* a number */
static const struct {
    uint32_t gradient; /* 0: an input */
    int as;            /* the tensor of the forward that it has the shape of, or TENSOR_SCALE */
    uint32_t flag;     /* that the forward must have */
} tensor_table[BACKWARD_TENSOR_COUNT] = {
#define ALWAYS 0, TENSOR_OUT, 0
#define FEATURE(name) 0, TENSOR_LSE, 0
#define GRADIENT(name) CLATTN_GRADIENT_##name, TENSOR_##name, 0
#define GRADIENT_OF(name, asked_by) CLATTN_GRADIENT_##name, TENSOR_##name, CLATTN_FLAG_##name
#define ROW(id, field, axes, element, access, place, asked_by) [GRADIENT_##id] = { asked_by },
    CLATTN_GRADIENT_TENSORS(ROW)
#undef ALWAYS
#undef FEATURE
#undef GRADIENT
#undef GRADIENT_OF
#undef ROW
};

static int is_sum(int id)
{
    return operation_backward.rows[id].role == TENSOR_SUMMED;
}

void gradient_call_begin(struct gradient_call *g)
{
    const clattn_host_gradients none = CLATTN_HOST_GRADIENTS_INIT;
    g->problem.forward = &g->test.problem;
    g->gradients = none;
    memset(g->arrays, 0, sizeof(g->arrays));
    memset(g->before, 0, sizeof(g->before));
}

clattn_status gradient_call_start(struct gradient_call *g)
{
    gradient_call_begin(g);
    /* Not by the blocking call, which refuses what a device takes. */
    const clattn_status status = test_call_validate(&g->test);
    return status == CLATTN_OK ? reference_forward(&g->test.checked.any, &g->test.call.operands) : status;
}

void gradient_call_free(struct gradient_call *g)
{
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        free(g->arrays[id].data);
        free(g->arrays[id].reached);
        free(g->before[id]);
    }
    test_call_free(&g->test);
}

int gradient_call_has(const struct gradient_call *g, int id)
{
    return id == GRADIENT_DOUT   ? 1
           : id == GRADIENT_DLSE ? (g->problem.features & CLATTN_WITH_DLSE) != 0
                                 : (g->problem.gradients & tensor_table[id].gradient) != 0;
}

void gradient_call_shape(const struct gradient_call *g, int id, int64_t shape[4])
{
    for (int axis = 0; axis < 4; ++axis) {
        shape[axis] = 1;
    }
    if (tensor_table[id].as != TENSOR_SCALE) {
        test_call_shape(&g->test, (enum tensor_id)tensor_table[id].as, shape);
    }
}

clattn_host_tensor *gradient_call_tensor(struct gradient_call *g, int id)
{
    return &(&g->gradients.dout)[id - GRADIENT_DOUT]; /* they follow one another as the rows do */
}

static clattn_type type_of(const struct gradient_call *g, int id)
{
    const int wide = g->test.problem.type == CLATTN_FLOAT64;
    if (id == GRADIENT_DLSE) {
        return CLATTN_FLOAT32;
    }
    if (operation_backward.rows[id].element == ELEMENT_WEIGHTS) {
        return wide ? CLATTN_FLOAT64 : CLATTN_FLOAT32;
    }
    return id != GRADIENT_DOUT && g->problem.gradient_type != CLATTN_TYPE_NONE
               ? g->problem.gradient_type
               : test_call_type(&g->test, (enum tensor_id)tensor_table[id].as);
}

/* ---- memory --------------------------------------------------------------------------------- */

static int64_t index_of(const struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const clattn_host_tensor *t = gradient_call_tensor((struct gradient_call *)g, id);
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + c * t->stride[3];
}

void gradient_call_place(struct gradient_call *g, int id, const struct test_layout *layout)
{
    const struct test_layout dense = TEST_LAYOUT_DENSE;
    const struct test_layout *l = layout ? layout : &dense;
    clattn_host_tensor *tensor = gradient_call_tensor(g, id);
    struct test_array *array = &g->arrays[id];
    int64_t n[4], step = 1;
    gradient_call_shape(g, id, n);
    tensor->offset = l->offset;
    for (int place = 3; place >= 0; --place) {
        const int axis = l->order[place];
        step += axis == 3 ? l->padding[axis] : 0;
        const int64_t extent = n[axis] > 1 && !l->broadcast[axis] ? n[axis] : 1;
        tensor->stride[axis] = l->broadcast[axis] ? 0 : l->reversed[axis] ? -step : step;
        tensor->offset += l->reversed[axis] && !l->broadcast[axis] ? (extent - 1) * step : 0;
        step = step * extent + (axis == 3 ? 0 : l->padding[axis]);
    }
    array->element_bytes = clattn_type_size(type_of(g, id));
    array->count = l->offset + step;
    array->data = malloc((size_t)array->count * array->element_bytes);
    array->reached = calloc((size_t)array->count, 1);
    if (!array->data || !array->reached) {
        abort();
    }
    memset(array->data, POISON, (size_t)array->count * array->element_bytes);
    tensor->data = array->data;
    for (int axis = 0; axis < 4; ++axis) {
        n[axis] = l->broadcast[axis] ? 1 : n[axis]; /* of nothing, there is a sum */
    }
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
        const int64_t i = at / n[3], h = i / n[2];
        array->reached[index_of(g, id, h / n[1], h % n[1], i % n[2], at % n[3])] = 1;
    }
}

void gradient_call_place_all(struct gradient_call *g)
{
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (gradient_call_has(g, id)) {
            gradient_call_place(g, id, NULL);
        }
    }
}

double gradient_call_get(const struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return type_load(type_of(g, id), g->arrays[id].data, index_of(g, id, b, h, i, c));
}

void gradient_call_set(struct gradient_call *g, int id, int64_t b, int64_t h, int64_t i, int64_t c, double value)
{
    type_store(type_of(g, id), g->arrays[id].data, index_of(g, id, b, h, i, c), value);
}

void gradient_call_fill(struct gradient_call *g, int id, struct random *random, test_value *value, const void *context)
{
    int64_t n[4], at[4];
    gradient_call_shape(g, id, n);
    for (at[0] = 0; at[0] < n[0]; ++at[0]) {
        for (at[1] = 0; at[1] < n[1]; ++at[1]) {
            for (at[2] = 0; at[2] < n[2]; ++at[2]) {
                for (at[3] = 0; at[3] < n[3]; ++at[3]) {
                    gradient_call_set(g, id, at[0], at[1], at[2], at[3], value(random, at, context));
                }
            }
        }
    }
}

/* ---- random --------------------------------------------------------------------------------- */

static double normal(struct random *random, const int64_t index[4], const void *context)
{
    (void)index;
    return *(const double *)context * random_normal(random);
}

static struct test_layout random_layout(struct random *random, const struct gradient_call *g, int id)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 2, 0, 1 } };
    struct test_layout layout = TEST_LAYOUT_DENSE;
    const int *order = orders[random_between(random, 0, 3)];
    const int sums = is_sum(id) && id != GRADIENT_DSCALE;
    const int is_input = id <= GRADIENT_DLSE;
    const int any_column = sums || is_input || g->test.problem.strided_columns;
    const int column_at = any_column && random_chance(random, 0.2) ? (int)random_between(random, 0, 3) : 3;
    for (int place = 0, next = 0; place < 4; ++place) {
        layout.order[place] = place == column_at ? 3 : order[next++];
    }
    for (int axis = 0; axis < 4; ++axis) {
        const int may = axis < 3 || any_column;
        layout.padding[axis] = may && random_chance(random, 0.2) ? random_between(random, 1, 5) : 0;
        layout.reversed[axis] = may && random_chance(random, 0.04);
        layout.broadcast[axis] = sums ? random_chance(random, 0.4) : is_input && random_chance(random, 0.05);
    }
    layout.offset = random_chance(random, 0.4) ? random_between(random, 1, 37) : 0;
    return layout;
}

/* Rows that packed sequences have past the problem's maxima have no gradients. */
static void leave_long_rows(struct gradient_call *g, int id)
{
    const clattn_problem *p = &g->test.problem;
    const int of_rows = tensor_table[id].as == TENSOR_QUERY;
    const int of_keys = tensor_table[id].as == TENSOR_KEY || tensor_table[id].as == TENSOR_VALUE;
    int64_t shape[4];
    if (p->features & CLATTN_WITH_VARLEN && (of_rows || of_keys)) {
        gradient_call_shape(g, id, shape);
        long_sequences_leave(&g->test, of_rows ? TENSOR_CU_QUERY : TENSOR_CU_KEY, of_rows ? p->query_len : p->key_len,
                             gradient_call_tensor(g, id), shape, &g->arrays[id]);
    }
}

/* All gradients that the call has. */
static uint32_t gradients_of(const struct gradient_call *g)
{
    uint32_t all = 0;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        const int as = tensor_table[id].as;
        const int is_there = tensor_table[id].flag == 0 || test_call_has(&g->test, (enum tensor_id)as);
        const int is_refused = id == GRADIENT_DBIAS && g->test.values.mask_first_key != 0;
        all |= is_there && !is_refused ? tensor_table[id].gradient : 0;
    }
    return all;
}

clattn_status gradient_call_random(struct gradient_call *g, struct random *random)
{
    const clattn_backward_problem defaults = CLATTN_BACKWARD_PROBLEM_INIT;
    const clattn_problem *p = &g->test.problem;
    const uint32_t can = gradients_of(g);
    const double size = random_chance(random, 0.1) ? 100 : 1;
    g->problem = defaults;
    g->problem.gradients = random_chance(random, 0.6) ? can : (uint32_t)random_bits(random) & can;
    g->problem.gradients = g->problem.gradients ? g->problem.gradients : CLATTN_GRADIENT_QUERY;
    g->problem.features = random_chance(random, 0.5) ? CLATTN_WITH_DLSE : 0;
    g->problem.gradient_type = p->type != CLATTN_FLOAT64 && random_chance(random, 0.5) ? CLATTN_FLOAT32
                                                                                       : CLATTN_TYPE_NONE;
    clattn_status status = gradient_call_start(g);
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        const struct test_layout layout = random_layout(random, g, id);
        if (gradient_call_has(g, id)) {
            gradient_call_place(g, id, &layout);
            leave_long_rows(g, id);
            const int sums = type_of(g, id) == CLATTN_FLOAT32 || type_of(g, id) == CLATTN_FLOAT64;
            if (id > GRADIENT_DLSE && sums && random_chance(random, 0.3)) {
                g->problem.accumulate |= tensor_table[id].gradient;
            }
            if (id <= GRADIENT_DLSE || g->problem.accumulate & tensor_table[id].gradient) {
                gradient_call_fill(g, id, random, normal, &size);
            }
        }
    }
    gradient_call_keep(g);
    return status;
}

/* ---- runs ----------------------------------------------------------------------------------- */

void gradient_call_keep(struct gradient_call *g)
{
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        const size_t bytes = (size_t)g->arrays[id].count * g->arrays[id].element_bytes;
        free(g->before[id]);
        g->before[id] = NULL;
        if (g->arrays[id].data) {
            g->before[id] = malloc(bytes);
            if (!g->before[id]) {
                abort();
            }
            memcpy(g->before[id], g->arrays[id].data, bytes);
        }
    }
}

static void reset(struct gradient_call *g)
{
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (g->arrays[id].data) {
            memcpy(g->arrays[id].data, g->before[id], (size_t)g->arrays[id].count * g->arrays[id].element_bytes);
        }
    }
}

static cl_mem upload(cl_context cl, const void *data, size_t bytes)
{
    return clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes ? bytes : 1, (void *)data, NULL);
}

static void place_on_device(clattn_tensor *to, const clattn_host_tensor *from, cl_mem buffer)
{
    to->buffer = from->data ? buffer : NULL;
    to->offset = from->offset;
    memcpy(to->stride, from->stride, sizeof(to->stride));
}

static clattn_status enqueue(clattn_context *context, struct gradient_call *g, clattn_plan *plan)
{
    cl_command_queue queue = clattn_context_queue(context);
    cl_context cl = clattn_context_cl(context);
    cl_mem buffers[BACKWARD_TENSOR_COUNT] = { NULL };
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_gradients gradients = CLATTN_GRADIENTS_INIT;
    const size_t bytes = clattn_plan_workspace(plan);
    unsigned char *poison = malloc(bytes + 1);
    for (int id = 0; id < BACKWARD_TENSOR_COUNT; ++id) {
        const struct test_array *array = id < ALL_TENSOR_COUNT ? &g->test.arrays[id] : &g->arrays[id];
        buffers[id] = array->data ? upload(cl, array->data, (size_t)array->count * array->element_bytes) : NULL;
    }
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        place_on_device(device_tensor_of(&tensors, id), test_call_tensor(&g->test, (enum tensor_id)id),
                        buffers[g->test.array_of[id]]);
    }
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT; ++id) {
        place_on_device(&(&gradients.dout)[id - GRADIENT_DOUT], gradient_call_tensor(g, id), buffers[id]);
    }
    if (bytes && poison) {
        memset(poison, POISON, bytes);
        gradients.workspace = upload(cl, poison, bytes);
    }
    free(poison);
    clattn_status status = clattn_enqueue_backward(plan, queue, &g->test.values, &tensors, &gradients, 0, NULL, NULL);
    clFinish(queue);
    for (int id = 0; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (id >= GRADIENT_DQUERY && buffers[id] && status == CLATTN_OK) {
            const struct test_array *array = &g->arrays[id];
            status = clEnqueueReadBuffer(queue, buffers[id], CL_TRUE, 0, (size_t)array->count * array->element_bytes,
                                         array->data, 0, NULL, NULL) == CL_SUCCESS
                         ? CLATTN_OK
                         : CLATTN_OPENCL_ERROR;
        }
        if (buffers[id]) {
            clReleaseMemObject(buffers[id]);
        }
    }
    if (gradients.workspace) {
        clReleaseMemObject(gradients.workspace);
    }
    return status;
}

clattn_status gradient_call_run(clattn_context *context, struct gradient_call *g, int blocks)
{
    clattn_plan *plan = NULL;
    reset(g);
    g->problem.forward = &g->test.problem;
    g->weight_rounding = g->sum_roundings = 0;
    if (!context) {
        return clattn_reference_backward(&g->problem, &g->test.values, &g->test.tensors, &g->gradients);
    }
    clattn_status status = clattn_backward_plan_create(context, &g->problem, &plan);
    g->weight_rounding = clattn_plan_weight_rounding(plan);
    g->sum_roundings = clattn_plan_sum_roundings(plan);
    if (blocks) { /* by a plan of its own, which is the same */
        status = clattn_backward_host(context, &g->problem, &g->test.values, &g->test.tensors, &g->gradients);
    } else if (status == CLATTN_OK) {
        status = enqueue(context, g, plan);
    }
    clattn_plan_destroy(plan);
    return status;
}

uint64_t gradient_call_hash(const struct gradient_call *g)
{
    uint64_t hash = TEST_HASH_BEGIN;
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        hash = test_array_hash(hash, &g->arrays[id]);
    }
    return hash;
}
