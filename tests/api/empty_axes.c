/* What has no rows is done at once, however long its other axes are: of an empty tensor they cost no memory, and so may
 * be anything. References and calls on host memory of every operation. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api.h"
#include "clattn_additive.h"
#include "clattn_backward.h"
#include "clattn_cache.h"
#include "clattn_layers.h"
#include "support/small_calls.h"

#define HUGE_AXIS (INT32_MAX - 4096) /* the most of any axis of any operation */
#define SECONDS_MOST 0.5             /* of the processor, a call; a walk along the axis takes from 1 to minutes */

static float one[64]; /* where empty tensors begin, and what those of strides 0 read */
static int32_t zero[2];

/* Each has no row in all. */
static const struct {
    int64_t batch, heads, rows, keys;
} shapes[] = {
    { HUGE_AXIS, 1, 0, 0 }, { HUGE_AXIS, 1, 0, 3 }, { HUGE_AXIS, 0, 1, 3 }, { HUGE_AXIS, 0, 0, 0 },
    { 1, HUGE_AXIS, 0, 3 }, { 0, HUGE_AXIS, 3, 3 }, { 0, 1, HUGE_AXIS, 3 },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void at_once(clattn_status status, clock_t began, const char *what, int shape)
{
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    char title[256];
    snprintf(title, sizeof(title), "%.60s: batch %lld, heads %lld, rows %lld, keys %lld", what,
             (long long)shapes[shape].batch, (long long)shapes[shape].heads, (long long)shapes[shape].rows,
             (long long)shapes[shape].keys);
    ck_assert_msg(status == CLATTN_OK, "%s: %s", title, clattn_last_error());
    ck_assert_msg(seconds < SECONDS_MOST, "%s: takes %.1f s", title, seconds);
}

/* Twice: what comes first may compile. */
#define AT_ONCE(call, shape)                                                                                           \
    do {                                                                                                               \
        clattn_status status = call;                                                                                   \
        const clock_t began = clock();                                                                                 \
        status = status == CLATTN_OK ? call : status;                                                                  \
        at_once(status, began, #call, shape);                                                                          \
    } while (0)

static clattn_host_tensor tensor_of(int writes)
{
    clattn_host_tensor tensor = { one, 0, { 0, 0, 0, 1 } };
    for (int axis = 0; axis < 3 && writes; ++axis) {
        tensor.stride[axis] = 1;
    }
    return tensor;
}

static clattn_problem problem_of(size_t i)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.batch = shapes[i].batch;
    problem.query_heads = problem.kv_heads = shapes[i].heads;
    problem.query_len = shapes[i].rows;
    problem.key_len = shapes[i].keys;
    problem.head_dim = problem.head_dim_v = 4;
    problem.features = CLATTN_WITH_LSE;
    return problem;
}

static clattn_host_tensors tensors_of(void)
{
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    tensors.query = tensors.key = tensors.value = tensor_of(0);
    tensors.out = tensors.lse = tensor_of(1);
    return tensors;
}

START_TEST(test_forward)
{
    clattn_problem problem = problem_of((size_t)_i);
    const clattn_host_tensors tensors = tensors_of();
    AT_ONCE(clattn_reference_forward(&problem, NULL, &tensors), _i);
    for (size_t i = 0; sample_strategy(i); ++i) {
        clattn_plan *plan;
        problem.strategy = strchr(sample_strategy(i), '/') ? NULL : sample_strategy(i);
        if (clattn_plan_create(context, &problem, &plan) == CLATTN_OK) {
            clattn_plan_destroy(plan);
            AT_ONCE(clattn_forward_host(context, &problem, NULL, &tensors), _i);
        }
    }
}
END_TEST

/* Lists of keys that no query head has rows for. */
START_TEST(test_key_lists)
{
    static const char *const strategies[] = { "plain", "split", "split_simt" };
    clattn_problem problem = problem_of(0);
    clattn_host_tensors tensors = tensors_of();
    problem.batch = 1;
    problem.query_heads = 0;
    problem.kv_heads = 2;
    problem.query_len = problem.key_len = 3;
    problem.features |= CLATTN_WITH_KEY_LISTS;
    problem.key_list_rows = problem.key_list_keys = 1;
    problem.strategy = strategies[_i];
    tensors.key_lists = tensor_of(0);
    tensors.key_lists.data = zero;
    EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
}
END_TEST

/* dquery alone: gradients of keys have as many elements as there are keys. */
START_TEST(test_backward)
{
    const clattn_problem forward = problem_of((size_t)_i);
    clattn_host_tensors tensors = tensors_of();
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    problem.forward = &forward;
    problem.gradients = CLATTN_GRADIENT_QUERY;
    gradients.dout = tensor_of(0);
    gradients.dquery = tensor_of(1);
    AT_ONCE(clattn_reference_backward(&problem, NULL, &tensors, &gradients), _i);
    AT_ONCE(clattn_backward_host(context, &problem, NULL, &tensors, &gradients), _i);
}
END_TEST

START_TEST(test_rotary)
{
    clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
    problem.batch = shapes[_i].batch;
    problem.heads = shapes[_i].heads;
    problem.query_len = shapes[_i].rows;
    problem.head_dim = 4;
    problem.pairs = CLATTN_PAIRS_HALVES;
    problem.positions = HUGE_AXIS;
    problem.features = CLATTN_WITH_STARTS;
    tensors.x = tensors.cosine = tensors.sine = tensor_of(0);
    tensors.out = tensor_of(1);
    tensors.starts.data = zero;
    if (shapes[_i].batch > 1) { /* starts are a dense array */
        problem.features = CLATTN_WITH_POSITIONS;
        tensors.positions = (clattn_host_tensor){ zero, 0, { 0, 0, 0, 0 } };
        tensors.starts.data = NULL;
    }
    AT_ONCE(clattn_reference_rotary(&problem, NULL, &tensors), _i);
    AT_ONCE(clattn_rotary_host(context, &problem, NULL, &tensors), _i);
}
END_TEST

START_TEST(test_append)
{
    clattn_append_problem problem = CLATTN_APPEND_PROBLEM_INIT;
    clattn_append_host_tensors tensors = CLATTN_APPEND_HOST_TENSORS_INIT;
    problem.batch = shapes[_i].batch;
    problem.kv_heads = shapes[_i].heads;
    problem.query_len = shapes[_i].rows;
    problem.pages = problem.page_size = 8;
    problem.head_dim = problem.head_dim_v = 4;
    problem.features = CLATTN_WITH_SLOTS;
    tensors.key = tensors.value = tensor_of(0);
    tensors.slots = (clattn_host_tensor){ zero, 0, { 0, 0, 0, 0 } };
    if (shapes[_i].heads > 0) {
        return; /* a cache of many heads takes memory */
    }
    tensors.key_cache = tensors.value_cache = tensor_of(1);
    AT_ONCE(clattn_reference_append(&problem, NULL, &tensors), _i);
    AT_ONCE(clattn_append_host(context, &problem, NULL, &tensors), _i);
}
END_TEST

static clattn_mha_problem layer_of(size_t i)
{
    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    problem.batch = shapes[i].batch;
    problem.rows = shapes[i].rows;
    problem.model_dim = 4;
    return problem;
}

static clattn_mha_host_arrays layer_arrays(void)
{
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    arrays.x = arrays.wq = arrays.wk = arrays.wv = arrays.wo = one;
    arrays.y = one + 32;
    return arrays;
}

START_TEST(test_layer)
{
    static float dy[4], dx[4];
    const clattn_mha_problem layer = layer_of((size_t)_i);
    const clattn_mha_host_arrays arrays = layer_arrays();
    clattn_mha_backward_problem problem = CLATTN_MHA_BACKWARD_PROBLEM_INIT;
    clattn_mha_host_gradients gradients = CLATTN_MHA_HOST_GRADIENTS_INIT;
    if (layer.batch > 0 && layer.rows > 0) {
        return;
    }
    AT_ONCE(clattn_mha_reference(&layer, &arrays), _i);
    problem.forward = &layer;
    problem.gradients = CLATTN_MHA_GRADIENT_X;
    gradients.dy = dy;
    gradients.dx = dx;
    AT_ONCE(clattn_mha_backward_reference(&problem, &arrays, &gradients), _i);
}
END_TEST

START_TEST(test_additive)
{
    static float w[16], dout[4], dquery[4];
    clattn_additive_problem layer = CLATTN_ADDITIVE_PROBLEM_INIT;
    clattn_additive_host_arrays arrays = CLATTN_ADDITIVE_HOST_ARRAYS_INIT;
    clattn_additive_backward_problem problem = CLATTN_ADDITIVE_BACKWARD_PROBLEM_INIT;
    clattn_additive_host_gradients gradients = CLATTN_ADDITIVE_HOST_GRADIENTS_INIT;
    layer.batch = shapes[_i].batch;
    layer.rows = shapes[_i].rows;
    layer.keys = 0;
    layer.query_dim = layer.key_dim = layer.hidden_dim = layer.value_dim = 2;
    if (layer.batch > 0 && layer.rows > 0) {
        return;
    }
    arrays.query = arrays.key = arrays.value = one;
    arrays.wq = arrays.wk = arrays.score = w;
    arrays.out = one + 32;
    AT_ONCE(clattn_additive_reference(&layer, &arrays), _i);
    problem.forward = &layer;
    problem.gradients = CLATTN_ADDITIVE_GRADIENT_QUERY;
    gradients.dout = dout;
    gradients.dquery = dquery;
    AT_ONCE(clattn_additive_backward_reference(&problem, &arrays, &gradients), _i);
}
END_TEST

static void add(TCase *tests)
{
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, test_forward, 0, SHAPES);
    tcase_add_loop_test(tests, test_key_lists, 0, 3);
    tcase_add_loop_test(tests, test_backward, 0, SHAPES);
    tcase_add_loop_test(tests, test_rotary, 0, SHAPES);
    tcase_add_loop_test(tests, test_append, 0, SHAPES);
    tcase_add_loop_test(tests, test_layer, 0, SHAPES);
    tcase_add_loop_test(tests, test_additive, 0, SHAPES);
}

int main(void)
{
    return api_main("empty axes", add);
}
