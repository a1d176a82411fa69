/* One call in host memory, for tests: a problem, its tensors, and the memory behind them, in which every
 * element that no tensor reaches is poison (all bits set: NaN in each floating-point type). Built by
 * hand (exact tests) or by random_call.c; run by the reference, the blocking call or device_call.c. */
#ifndef CLATTN_TESTS_SUPPORT_TEST_CALL_H
#define CLATTN_TESTS_SUPPORT_TEST_CALL_H

#include "operation/call.h"
#include "random.h"

struct test_array {
    unsigned char *data;
    unsigned char *reached; /* a byte for each element: 1 where a tensor reaches it */
    clattn_type type;       /* of its elements; bytes and ints: CLATTN_TYPE_NONE */
    size_t element_bytes;   /* of block types, elements are blocks */
    int64_t count;
    float *columns; /* of block types: the values that blocks are made of, else NULL */
};

struct test_call {
    clattn_problem problem; /* strategy may be changed between runs */
    clattn_call values;
    clattn_host_tensors tensors;
    struct test_array arrays[ALL_TENSOR_COUNT];
    enum tensor_id array_of[ALL_TENSOR_COUNT]; /* packed QKV: several tensors in one array */
    struct user_code *code;                    /* problem.code, checked; NULL: none */
    int64_t packed_queries, packed_keys;       /* varlen: rows in all */
    int64_t table_pages;                       /* of one page table for all sequences */
    int64_t pool_pages; /* what device_call.c makes the problem's: pages of a buffer, into which keys and values, that
                         * are in one here, are cut for the device (pooled_keys.c); 0: they are not */

    /* Set by test_call_validate. */
    struct problem checked; /* shares `code` */
    struct call call;

    double weight_rounding, factor_rounding, sum_roundings; /* of the plan that ran last (src/plan/strategy.h); set by
                                                             * device_call.c */
    int terms_are_alike; /* so that their errors are: the bound of any terms holds, not that of independent errors */
};

/* Starts a call for a problem: nothing allocated yet. Varlen: the packed rows must be set by then. */
void test_call_start(struct test_call *test, const clattn_problem *problem);
void test_call_free(struct test_call *test);

/* Extents of a tensor: batch, head, row, column; with packed rows for varlen. */
void test_call_shape(const struct test_call *test, enum tensor_id id, int64_t shape[4]);

/* How to lay a tensor into memory: axes from the outermost to the innermost one. */
struct test_layout {
    int order[4];
    int64_t padding[4]; /* poison elements after each run of this axis */
    int broadcast[4];   /* stride 0: inputs only */
    int reversed[4];    /* negative stride */
    int64_t offset;
    int64_t run_multiple; /* runs of the innermost axis begin at multiples of so many elements, poison between them */
};
#define TEST_LAYOUT_DENSE                                                                                              \
    {                                                                                                                  \
        { 0, 1, 2, 3 }, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, 0, 1                                           \
    }

/* Allocates a tensor's memory, poisoned; NULL layout: dense. */
void test_call_place(struct test_call *test, enum tensor_id id, const struct test_layout *layout);

/* Query, key and value as one projection leaves them: [batch, row, (query heads, kv heads, kv heads),
 * head_dim]. Needs query_len == key_len and head_dim == head_dim_v. */
void test_call_place_packed_qkv(struct test_call *test);

/* The tensor's elements are in memory of the caller's, where its strides say. */
void test_call_view(struct test_call *test, enum tensor_id id, void *data);

/* Dense memory for every tensor that the problem has. */
void test_call_place_all(struct test_call *test);

clattn_host_tensor *test_call_tensor(struct test_call *test, enum tensor_id id);
int test_call_has(const struct test_call *test, enum tensor_id id);
clattn_type test_call_type(const struct test_call *test, enum tensor_id id); /* floating-point ones */

/* Where the field of a tensor is in either public struct, by the operation's own table. */
clattn_tensor *device_tensor_of(clattn_tensors *tensors, int id);
clattn_host_tensor *host_tensor_of(clattn_host_tensors *tensors, int id);

/* Elements by index; ints and masks too. */
double test_call_get(const struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i, int64_t c);
void test_call_set(struct test_call *test, enum tensor_id id, int64_t b, int64_t h, int64_t i, int64_t c, double value);

/* Entry n of the page table of sequence b, of all heads. */
void test_call_set_page(struct test_call *test, int64_t b, int64_t n, double page);

/* Sets every element of a tensor to what `value` returns. */
typedef double test_value(struct random *random, const int64_t index[4], const void *context);
void test_call_fill(struct test_call *test, enum tensor_id id, struct random *random, test_value *value,
                    const void *context);

/* Checks problem and call as the library does; the status is an error of the test when it is not OK. */
clattn_status test_call_validate(struct test_call *test);

/* Poisons the outputs again, before another run. */
void test_call_reset_outputs(struct test_call *test);

/* FNV-1a: goes on with a hash over the memory of an array, nothing where it has none. */
#define TEST_HASH_BEGIN 14695981039346656037u
uint64_t test_array_hash(uint64_t hash, const struct test_array *array);

/* Elements outside of the tensors that are no longer poison; inputs count as a whole. */
uint64_t test_call_input_hash(const struct test_call *test);
uint64_t test_call_output_hash(const struct test_call *test);
int64_t test_call_touched(const struct test_call *test);

#endif
