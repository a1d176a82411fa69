/* Memory, strides and element access of a test's call. */
#include "test_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stored_types.h"

#define POISON 0xff

void test_call_start(struct test_call *test, const clattn_problem *problem)
{
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    const clattn_call defaults = CLATTN_CALL_INIT;
    memset(test, 0, sizeof(*test));
    test->problem = *problem;
    test->tensors = none;
    test->values = defaults;
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        test->array_of[id] = (enum tensor_id)id;
    }
    if (problem->code && user_code_new(problem->code, problem->type, &test->code) != CLATTN_OK) {
        fprintf(stderr, "tests: %s\n", clattn_last_error());
        exit(1);
    }
}

void test_call_free(struct test_call *test)
{
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        free(test->arrays[id].data);
        free(test->arrays[id].reached);
        free(test->arrays[id].columns);
    }
    memset(test->arrays, 0, sizeof(test->arrays));
    problem_release(&test->checked.any);
    user_code_free(test->code);
    test->code = NULL;
}

clattn_tensor *device_tensor_of(clattn_tensors *tensors, int id)
{
    return (clattn_tensor *)(void *)((char *)tensors + operation_forward.rows[id].device_at);
}

clattn_host_tensor *host_tensor_of(clattn_host_tensors *tensors, int id)
{
    return (clattn_host_tensor *)(void *)((char *)tensors + operation_forward.rows[id].host_at);
}

clattn_host_tensor *test_call_tensor(struct test_call *test, enum tensor_id id)
{
    return host_tensor_of(&test->tensors, (int)id);
}

static int64_t length_or(int64_t given, int64_t whole)
{
    return given == -1 ? whole : given;
}

/* What the library's table says of this call; the problem need not be valid. */
static struct operands measure(const struct test_call *test)
{
    const clattn_call *v = &test->values;
    const int64_t keys = length_or(v->key_len, test->problem.key_len);
    const struct forward_lengths lengths = {
        length_or(v->query_len, test->problem.query_len),
        keys,
        length_or(v->mask_key_len, keys - v->mask_first_key),
        length_or(v->bias_key_len, keys - v->mask_first_key),
        test->packed_queries,
        test->packed_keys,
        test->table_pages,
    };
    struct operands operands;
    operands_begin(&operands, &operation_forward);
    operands.asked = forward_asked(&test->problem, test->code);
    forward_measure(&test->problem, test->code, &lengths, &operands);
    return operands;
}

int test_call_has(const struct test_call *test, enum tensor_id id)
{
    return (int)(forward_asked(&test->problem, test->code) >> id & 1);
}

void test_call_shape(const struct test_call *test, enum tensor_id id, int64_t shape[4])
{
    const struct operands operands = measure(test);
    operand_shape(&operands, (int)id, shape);
    shape[3] *= operand_columns(&operands, (int)id);
}

/* Columns of an element: of a block, or 1. */
static int64_t block_columns(const struct test_call *test, enum tensor_id id)
{
    const struct operands operands = measure(test);
    return operand_columns(&operands, (int)id);
}

clattn_type test_call_type(const struct test_call *test, enum tensor_id id)
{
    const struct operands operands = measure(test);
    return operands.element[operation_forward.rows[id].element]; /* bytes and ints: CLATTN_TYPE_NONE */
}

/* ---- memory --------------------------------------------------------------------------------- */

void test_call_view(struct test_call *test, enum tensor_id id, void *data)
{
    const struct operands operands = measure(test);
    struct test_array *array = &test->arrays[id];
    array->type = operands.element[operation_forward.rows[id].element];
    array->element_bytes = operand_bytes(&operands, (int)id);
    array->data = data;
}

/* Memory for the tensor's elements, poisoned. */
static void array_create(struct test_call *test, enum tensor_id id, int64_t count)
{
    struct test_array *array = &test->arrays[id];
    size_t size = (size_t)(count > 0 ? count : 1);
    test_call_view(test, id, NULL);
    array->count = count;
    array->data = malloc(size * array->element_bytes);
    array->reached = calloc(size, 1);
    if (!array->data || !array->reached) {
        fprintf(stderr, "tests: out of memory\n");
        exit(1);
    }
    memset(array->data, POISON, size * array->element_bytes);
}

static void mark_reached(struct test_call *test, enum tensor_id id)
{
    const clattn_host_tensor *t = test_call_tensor(test, id);
    struct test_array *array = &test->arrays[test->array_of[id]];
    const int64_t block = block_columns(test, id);
    int64_t n[4];
    test_call_shape(test, id, n);
    for (int64_t b = 0; b < n[0]; ++b) {
        for (int64_t h = 0; h < n[1]; ++h) {
            for (int64_t i = 0; i < n[2]; ++i) {
                for (int64_t c = 0; c < n[3]; c += block) {
                    array->reached[(t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
                                    c * t->stride[3]) /
                                   block] = 1;
                }
            }
        }
    }
}

void test_call_place(struct test_call *test, enum tensor_id id, const struct test_layout *layout)
{
    const struct test_layout dense = TEST_LAYOUT_DENSE;
    clattn_host_tensor *tensor = test_call_tensor(test, id);
    const struct test_layout *l = layout ? layout : &dense;
    const int64_t block = block_columns(test, id);
    int64_t shape[4], step = 1;
    test_call_shape(test, id, shape);
    shape[3] /= block;
    tensor->offset = l->offset;
    for (int place = 3; place >= 0; --place) {
        int axis = l->order[place];
        step += axis == 3 ? l->padding[axis] : 0; /* columns apart from each other */
        int64_t extent = shape[axis] > 1 && !l->broadcast[axis] ? shape[axis] : 1;
        tensor->stride[axis] = l->broadcast[axis] ? 0 : l->reversed[axis] ? -step : step;
        tensor->offset += l->reversed[axis] && !l->broadcast[axis] ? (extent - 1) * step : 0;
        step = step * extent + (axis == 3 ? 0 : l->padding[axis]);
        step = place == 3 ? (step + l->run_multiple - 1) / l->run_multiple * l->run_multiple : step;
    }
    array_create(test, id, l->offset + step);
    tensor->data = test->arrays[id].data;
    if (block > 1) { /* what counted blocks counts columns */
        tensor->offset *= block;
        for (int axis = 0; axis < 3; ++axis) {
            tensor->stride[axis] *= block;
        }
        test->arrays[id].columns = calloc((size_t)(test->arrays[id].count * block), sizeof(float));
        if (!test->arrays[id].columns) {
            abort();
        }
    }
    mark_reached(test, id);
}

void test_call_place_packed_qkv(struct test_call *test)
{
    const clattn_problem *p = &test->problem;
    int64_t first_head[3] = { 0, p->query_heads, p->query_heads + p->kv_heads };
    int64_t heads = p->query_heads + 2 * p->kv_heads, rows[4];
    test_call_shape(test, TENSOR_QUERY, rows);
    array_create(test, TENSOR_QUERY, rows[0] * rows[2] * heads * p->head_dim);
    for (int id = TENSOR_QUERY; id <= TENSOR_VALUE; ++id) {
        clattn_host_tensor *tensor = test_call_tensor(test, (enum tensor_id)id);
        tensor->data = test->arrays[TENSOR_QUERY].data;
        tensor->offset = first_head[id] * p->head_dim;
        clattn_strides_bshd(heads, rows[2], p->head_dim, tensor->stride);
        test->array_of[id] = TENSOR_QUERY;
        mark_reached(test, (enum tensor_id)id);
    }
}

void test_call_place_all(struct test_call *test)
{
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        if (test_call_has(test, (enum tensor_id)id)) {
            test_call_place(test, (enum tensor_id)id, NULL);
        }
    }
}

/* ---- elements ------------------------------------------------------------------------------- */

static int64_t element_index(const struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i,
                             int64_t c)
{
    const clattn_host_tensor *t = test_call_tensor((struct test_call *)test, id);
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + c * t->stride[3];
}

double test_call_get(const struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i, int64_t c)
{
    const struct test_array *array = &test->arrays[test->array_of[id]];
    const void *data = array->data;
    int64_t index = element_index(test, id, b, h, i, c);
    if (array->type != CLATTN_TYPE_NONE) {
        return type_load(array->type, data, index);
    }
    return array->element_bytes == 1 ? ((const uint8_t *)data)[index] : ((const int32_t *)data)[index];
}

void test_call_set_page(struct test_call *test, int64_t b, int64_t n, double page)
{
    for (int64_t h = 0; h < test->problem.kv_heads; ++h) {
        test_call_set(test, TENSOR_PAGE_TABLE, b, h, 0, n, page);
    }
}

void test_call_set(struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i, int64_t c, double value)
{
    const struct test_array *array = &test->arrays[test->array_of[id]];
    void *data = array->data;
    int64_t index = element_index(test, id, b, h, i, c);
    if (type_is_blocks(array->type)) {
        const int64_t of_block = clattn_type_columns(array->type), first = index / of_block * of_block;
        array->columns[index] = (float)value;
        clattn_quantise(array->type, of_block, array->columns + first, NULL, 0,
                        (char *)data + clattn_row_bytes(array->type, first));
    } else if (array->type != CLATTN_TYPE_NONE) {
        type_store(array->type, data, index, value);
    } else if (array->element_bytes == 1) {
        if (!(value >= 0 && value <= UINT8_MAX)) {
            fprintf(stderr, "tests: a byte of tensor %d is set to %g\n", (int)id, value);
            exit(1);
        }
        ((uint8_t *)data)[index] = (uint8_t)value;
    } else {
        ((int32_t *)data)[index] = (int32_t)value;
    }
}

void test_call_fill(struct test_call *test, enum tensor_id id, struct random *random, test_value *value,
                    const void *context)
{
    int64_t n[4], at[4];
    test_call_shape(test, id, n);
    for (at[0] = 0; at[0] < n[0]; ++at[0]) {
        for (at[1] = 0; at[1] < n[1]; ++at[1]) {
            for (at[2] = 0; at[2] < n[2]; ++at[2]) {
                for (at[3] = 0; at[3] < n[3]; ++at[3]) {
                    test_call_set(test, id, at[0], at[1], at[2], at[3], value(random, at, context));
                }
            }
        }
    }
}

clattn_status test_call_validate(struct test_call *test)
{
    problem_release(&test->checked.any);
    clattn_status status = problem_init(&test->checked, &test->problem);
    return status == CLATTN_OK ? call_from_host(&test->checked, &test->values, &test->tensors, &test->call) : status;
}

void test_call_reset_outputs(struct test_call *test)
{
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        struct test_array *array = &test->arrays[id];
        if (forward_is_output(id) && array->data) {
            memset(array->data, POISON, (size_t)array->count * array->element_bytes);
        }
    }
}

uint64_t test_array_hash(uint64_t hash, const struct test_array *array)
{
    for (size_t n = 0; array->data && n < (size_t)array->count * array->element_bytes; ++n) {
        hash = (hash ^ array->data[n]) * 1099511628211u;
    }
    return hash;
}

/* A hash of the outputs, or of the inputs. */
static uint64_t hash_arrays(const struct test_call *test, int outputs)
{
    uint64_t hash = TEST_HASH_BEGIN;
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        hash = forward_is_output(id) == outputs ? test_array_hash(hash, &test->arrays[id]) : hash;
    }
    return hash;
}

uint64_t test_call_input_hash(const struct test_call *test)
{
    return hash_arrays(test, 0);
}

uint64_t test_call_output_hash(const struct test_call *test)
{
    return hash_arrays(test, 1);
}

int64_t test_call_touched(const struct test_call *test)
{
    int64_t touched = 0;
    for (int id = 0; id < ALL_TENSOR_COUNT; ++id) {
        const struct test_array *array = &test->arrays[id];
        for (int64_t n = 0; array->data && forward_is_output(id) && n < array->count; ++n) {
            int poisoned = 1;
            for (size_t byte = 0; byte < array->element_bytes; ++byte) {
                poisoned &= array->data[(size_t)n * array->element_bytes + byte] == POISON;
            }
            touched += !array->reached[n] && !poisoned;
        }
    }
    return touched;
}
