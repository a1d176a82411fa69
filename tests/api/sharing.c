/* Calls on host memory, used where it lies and copied: the same bits, nothing written beside the outputs, and as many
 * bytes copied as is said. Devices that share no memory with the host do the copying half alone. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "api.h"
#include "clattn_layers.h"
#include "program/context.h"
#include "support/random_call.h"

#define RANDOM_CALLS 24
#define PAGE 4096

static size_t alignment; /* of the device; 0: it shares nothing */

static void remember(void)
{
    alignment = context->sharing_alignment;
}

static void restore(void)
{
    context->sharing_alignment = alignment;
}

/* ---- random calls --------------------------------------------------------------------------------- */

static clattn_status blocking(struct test_call *test)
{
    return clattn_forward_host(context, &test->problem, &test->values, &test->tensors);
}

static clattn_status enqueued(struct test_call *test)
{
    clattn_plan *plan;
    cl_event done = NULL;
    EXPECT_OK(clattn_plan_create(context, &test->problem, &plan));
    const clattn_status status =
        clattn_enqueue_host(plan, clattn_context_queue(context), &test->values, &test->tensors, 0, NULL, &done);
    if (status == CLATTN_OK) {
        ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
        clReleaseEvent(done);
    }
    clattn_plan_destroy(plan);
    return status;
}

/* Outputs of one way to call, after it was seen to leave all else alone. */
static uint64_t outputs_of(struct test_call *test, clattn_status (*way)(struct test_call *test), uint64_t index)
{
    const uint64_t inputs = test_call_input_hash(test);
    test_call_reset_outputs(test);
    const clattn_status status = way(test);
    ck_assert_msg(status == CLATTN_OK, "call %d: %s", (int)index, clattn_last_error());
    ck_assert_msg(test_call_touched(test) == 0, "call %d wrote beside its outputs", (int)index);
    ck_assert_msg(test_call_input_hash(test) == inputs, "call %d changed its inputs", (int)index);
    return test_call_output_hash(test);
}

/* Views of larger arrays, strides of 0 and below it, projections in one array, every type. */
START_TEST(test_the_same_bits)
{
    const struct random_call_options options = { .calls_a_program = 6, .mixed = 1 };
    for (uint64_t index = 0; index < RANDOM_CALLS; ++index) {
        struct test_call test;
        enum value_family family;
        EXPECT_OK(random_call_create(&test, 21, index, &options, &family));
        context->sharing_alignment = 0;
        const uint64_t copied = outputs_of(&test, blocking, index);
        restore();
        ck_assert_msg(outputs_of(&test, blocking, index) == copied, "call %d: other bits", (int)index);
        if (alignment > 0) {
            ck_assert_msg(outputs_of(&test, enqueued, index) == copied, "call %d enqueued: other bits", (int)index);
        }
        test_call_free(&test);
    }
}
END_TEST

/* ---- places ----------------------------------------------------------------------------------------- */

#define ROWS 5
#define COLUMNS 16
#define FLOATS (ROWS * COLUMNS)

/* Equal weights: the mean of the rows of `value`, its rows 0, 1, 2, ... */
static clattn_status mean(const void *zeros, const void *value, void *out)
{
    return clattn_attention(context, CLATTN_FLOAT32, 1, 1, 1, ROWS, ROWS, COLUMNS, CLATTN_ALIGN_UNSET, zeros, zeros,
                            value, out);
}

static void fill_rows(unsigned char *value)
{
    for (int i = 0; i < FLOATS; ++i) {
        const float row = (float)(i / COLUMNS);
        memcpy(value + (size_t)i * sizeof(row), &row, sizeof(row));
    }
}

static void expect_mean(const unsigned char *out, int at)
{
    for (int i = 0; i < FLOATS; ++i) {
        float element;
        memcpy(&element, out + (size_t)i * sizeof(element), sizeof(element));
        ck_assert_msg(element > 1.99999f && element < 2.00001f, "at byte %d: element %d is %g", at, i, (double)element);
    }
}

static void expect_byte(const unsigned char *from, size_t count, int byte, const char *what)
{
    for (size_t i = 0; i < count; ++i) {
        ck_assert_msg(from[i] == byte, "byte %d %s was written", (int)i, what);
    }
}

/* Begins at any byte of a page: what lies at a multiple of an element is not copied, the rest is, and counted. */
START_TEST(test_any_address)
{
    static unsigned char values[3 * PAGE] __attribute__((aligned(PAGE)));
    static unsigned char outs[3 * PAGE] __attribute__((aligned(PAGE)));
    static const float zeros[FLOATS];
    for (int at = 0; at < 160; ++at) {
        const uint64_t before = clattn_bytes_copied(context);
        const uint64_t once = alignment > 0 && at % 4 == 0 ? 0 : sizeof(zeros);
        const uint64_t inputs = alignment > 0 ? 0 : 2 * sizeof(zeros);
        memset(outs, 0xee, sizeof(outs));
        fill_rows(values + at);
        EXPECT_OK(mean(zeros, values + at, outs + PAGE + at));
        expect_mean(outs + PAGE + at, at);
        expect_byte(outs, (size_t)(PAGE + at), 0xee, "before the output");
        expect_byte(outs + PAGE + at + sizeof(zeros), PAGE - (size_t)at, 0xee, "behind the output");
        ck_assert_uint_eq(clattn_bytes_copied(context) - before, inputs + 2 * once);
    }
}
END_TEST

/* What may not be written is never touched, as a file that is mapped to be read. */
START_TEST(test_memory_that_may_only_be_read)
{
    static const float zeros[FLOATS];
    unsigned char out[FLOATS * sizeof(float)];
    unsigned char *value = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(value != MAP_FAILED);
    fill_rows(value + PAGE - sizeof(zeros)); /* up to the last byte of the page */
    ck_assert_int_eq(mprotect(value, PAGE, PROT_READ), 0);
    EXPECT_OK(mean(zeros, value + PAGE - sizeof(zeros), out));
    expect_mean(out, 0);
    munmap(value, PAGE);
}
END_TEST

/* Inputs are read before anything is written, also where both lie in one place. */
START_TEST(test_an_output_on_an_input)
{
    static const float zeros[FLOATS];
    unsigned char value[FLOATS * sizeof(float) + 8];
    const uint64_t before = clattn_bytes_copied(context);
    for (int shift = 0; shift <= 8; shift += 4) {
        fill_rows(value);
        EXPECT_OK(mean(zeros, value, value + shift));
        expect_mean(value + shift, shift);
    }
    if (alignment > 0) {
        ck_assert_uint_eq(clattn_bytes_copied(context) - before, 3 * sizeof(zeros));
    }
}
END_TEST

/* ---- threads ---------------------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 60

/* Eight heads side by side in rows, as a projection leaves them: each thread writes its own one. */
static float heads_out[ROWS][THREADS][COLUMNS];
static float heads_value[ROWS][THREADS][COLUMNS];

static void *one_head(void *argument)
{
    const int head = *(const int *)argument;
    static const float zeros[FLOATS];
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = COLUMNS;
    tensors.query = tensors.key = clattn_host_tensor_bhsd(zeros, 1, ROWS, COLUMNS);
    tensors.value = clattn_host_tensor_bshd(heads_value, THREADS, ROWS, COLUMNS);
    tensors.out = clattn_host_tensor_bshd(heads_out, THREADS, ROWS, COLUMNS);
    tensors.value.offset = tensors.out.offset = head * COLUMNS;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < ROWS; ++i) {
            memset(heads_out[i][head], 0xff, sizeof(heads_out[i][head]));
        }
        EXPECT_OK(clattn_forward_host(context, &problem, NULL, &tensors));
        for (int i = 0; i < FLOATS; ++i) {
            const float element = heads_out[i / COLUMNS][head][i % COLUMNS], right = 2.0f + (float)head;
            ck_assert_msg(element > right - 0.0001f && element < right + 0.0001f, "head %d, round %d: %g", head, round,
                          (double)element);
        }
    }
    return NULL;
}

START_TEST(test_threads_write_side_by_side)
{
    pthread_t threads[THREADS];
    int heads[THREADS];
    const uint64_t before = clattn_bytes_copied(context);
    for (int i = 0; i < FLOATS * THREADS; ++i) {
        const int row = i / (THREADS * COLUMNS), head = i / COLUMNS % THREADS;
        heads_value[row][head][i % COLUMNS] = (float)(row + head);
    }
    for (int i = 0; i < THREADS; ++i) {
        heads[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, one_head, &heads[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    if (alignment > 0) {
        ck_assert_uint_eq(clattn_bytes_copied(context), before);
    }
}
END_TEST

/* ---- without waiting -------------------------------------------------------------------------------- */

struct enqueue {
    clattn_plan *plan;
    clattn_host_tensors tensors;
    float zeros[FLOATS], value[FLOATS], out[2 * FLOATS];
};

static void enqueue_begin(struct enqueue *e)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_host_tensors none = CLATTN_HOST_TENSORS_INIT;
    memset(e, 0, sizeof(*e));
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = COLUMNS;
    EXPECT_OK(clattn_plan_create(context, &problem, &e->plan));
    e->tensors = none;
    e->tensors.query = e->tensors.key = clattn_host_tensor_bhsd(e->zeros, 1, ROWS, COLUMNS);
    e->tensors.value = clattn_host_tensor_bhsd(e->value, 1, ROWS, COLUMNS);
    e->tensors.out = clattn_host_tensor_bhsd(e->out, 1, ROWS, COLUMNS);
}

/* Values that are written while the call waits are those that count, whether they are copied or not. */
static void check_late_values(cl_command_queue_properties kind)
{
    struct enqueue e;
    cl_event gate = clCreateUserEvent(clattn_context_cl(context), NULL), done;
    cl_command_queue queue =
        clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context), kind, NULL);
    enqueue_begin(&e);
    EXPECT_OK(clattn_enqueue_host(e.plan, queue, NULL, &e.tensors, 1, &gate, &done));
    fill_rows((unsigned char *)e.value);
    clSetUserEventStatus(gate, CL_COMPLETE);
    ck_assert_int_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    expect_mean((const unsigned char *)e.out, 0);
    clReleaseEvent(done);
    clReleaseEvent(gate);
    clReleaseCommandQueue(queue);
    clattn_plan_destroy(e.plan);
}

START_TEST(test_values_count_when_the_call_runs)
{
    for (int copies = 0; copies < 2; ++copies) {
        context->sharing_alignment = copies ? 0 : alignment;
        check_late_values(0);
        check_late_values(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    }
    restore();
}
END_TEST

START_TEST(test_a_copied_output_with_gaps)
{
    struct enqueue e;
    cl_event done = NULL;
    cl_command_queue queue = clattn_context_queue(context);
    enqueue_begin(&e);
    e.tensors.out.stride[2] = 2 * COLUMNS;
    context->sharing_alignment = 0;
    expect_error(clattn_enqueue_host(e.plan, queue, NULL, &e.tensors, 0, NULL, &done), CLATTN_UNSUPPORTED,
                 "out: has gaps between its elements", "enqueue_host");
    ck_assert_ptr_null(done);
    restore();
    if (alignment > 0) {
        EXPECT_OK(clattn_enqueue_host(e.plan, queue, NULL, &e.tensors, 0, NULL, NULL));
        clFinish(queue);
    }
    clattn_plan_destroy(e.plan);
}
END_TEST

START_TEST(test_waits_are_checked_before_copies)
{
    struct enqueue e;
    cl_event done = NULL;
    const cl_event none = NULL;
    cl_command_queue queue = clattn_context_queue(context);
    enqueue_begin(&e);
    for (int shares = 0; shares < 2; ++shares) {
        context->sharing_alignment = shares ? alignment : 0;
        expect_error(clattn_enqueue_host(e.plan, queue, NULL, &e.tensors, 1, &none, &done), CLATTN_INVALID_ARGUMENT,
                     "wait[0]: must not be NULL", "enqueue_host");
        expect_error(clattn_enqueue_host(e.plan, queue, NULL, &e.tensors, 1, NULL, &done), CLATTN_INVALID_ARGUMENT,
                     "n_wait 1: must be 0", "enqueue_host");
        ck_assert_ptr_null(done);
    }
    restore();
    clattn_plan_destroy(e.plan);
}
END_TEST

/* ---- what is said ------------------------------------------------------------------------------------ */

START_TEST(test_explain)
{
    struct enqueue e;
    enqueue_begin(&e);
    const char *wanted = alignment > 0 ? "host memory: used where it lies" : "host memory: copied";
    ck_assert_msg(strstr(clattn_plan_explain(e.plan), wanted) != NULL, "%s", clattn_plan_explain(e.plan));
    clattn_plan_destroy(e.plan);
    context->sharing_alignment = 0;
    enqueue_begin(&e);
    ck_assert_ptr_nonnull(strstr(clattn_plan_explain(e.plan), "host memory: copied"));
    clattn_plan_destroy(e.plan);
    restore();
    ck_assert_uint_eq(clattn_bytes_copied(NULL), 0);
}
END_TEST

/* Weights that are packed into one matrix are a copy too. */
START_TEST(test_packed_weights_are_counted)
{
    static const float x[ROWS * COLUMNS], w[COLUMNS * COLUMNS];
    float y[ROWS * COLUMNS];
    clattn_mha_problem problem = CLATTN_MHA_PROBLEM_INIT;
    clattn_mha_host_arrays arrays = CLATTN_MHA_HOST_ARRAYS_INIT;
    problem.rows = ROWS;
    problem.model_dim = COLUMNS;
    arrays.x = x;
    arrays.wq = arrays.wk = arrays.wv = arrays.wo = w;
    arrays.y = y;
    const uint64_t before = clattn_bytes_copied(context);
    EXPECT_OK(clattn_mha_forward_host(context, &problem, &arrays));
    const uint64_t buffers = alignment > 0 ? 0 : sizeof(x) + 4 * sizeof(w) + sizeof(y);
    ck_assert_uint_eq(clattn_bytes_copied(context) - before, buffers + 3 * sizeof(w));
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_unchecked_fixture(tests, remember, NULL);
    tcase_add_test(tests, test_the_same_bits);
    tcase_add_test(tests, test_any_address);
    tcase_add_test(tests, test_memory_that_may_only_be_read);
    tcase_add_test(tests, test_an_output_on_an_input);
    tcase_add_test(tests, test_threads_write_side_by_side);
    tcase_add_test(tests, test_values_count_when_the_call_runs);
    tcase_add_test(tests, test_a_copied_output_with_gaps);
    tcase_add_test(tests, test_waits_are_checked_before_copies);
    tcase_add_test(tests, test_explain);
    tcase_add_test(tests, test_packed_weights_are_counted);
}

int main(void)
{
    return api_main("sharing", add);
}
