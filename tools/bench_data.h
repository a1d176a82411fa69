/* The tensors of one measured problem, in host memory and in device buffers. */
#ifndef CLATTN_TOOLS_BENCH_DATA_H
#define CLATTN_TOOLS_BENCH_DATA_H

#include "clattn.h"
#include "failure.h"
#include "tensor.h"
#include "user_blocks.h"
#include "user_text.h"

enum bench_tensor {
    BENCH_QUERY,
    BENCH_KEY,
    BENCH_VALUE,
    BENCH_MASK,
    BENCH_BIAS,
    BENCH_SLOPES,
    BENCH_SINKS,
    BENCH_KEY_LENGTHS,
    BENCH_PAGE_TABLE,
    BENCH_KEY_SCALES, /* what lies beside codes, keys' before values' */
    BENCH_VALUE_SCALES,
    BENCH_KEY_ZERO_POINTS,
    BENCH_VALUE_ZERO_POINTS,
    BENCH_KEY_TENSOR_SCALE,
    BENCH_VALUE_TENSOR_SCALE,
    BENCH_OUTPUTS, /* from here on */
    BENCH_OUT = BENCH_OUTPUTS,
    BENCH_LSE,
    BENCH_TENSORS
};

struct bench_data {
    struct tensor tensor[BENCH_TENSORS]; /* data NULL where the problem has none */
    cl_mem buffer[BENCH_TENSORS];        /* of a pool in several buffers the first one's */
    cl_mem more[2][3];                   /* the others, of keys and of values; clattn_tensors.key_pools, value_pools */
    clattn_host_tensors host;
    clattn_tensors device;
    cl_mem code_buffer[USER_TEXT_MOST], block_buffer; /* of a text of the user's own */
    struct user_blocks blocks;
    clattn_call values;
};

/* Normal random inputs, the same in each run, copied to the device; slopes are ALiBi's own, key lengths
 * those of bench_key_length, pages in an order of chance. The caller ends with bench_data_free, after failures too. */
int bench_data_make(const clattn_problem *problem, clattn_context *context, struct bench_data *data,
                    struct failure *failure);

/* A buffer with the bytes of `content`; NULL: of an output, which has none. */
int bench_data_buffer(clattn_context *context, const void *content, size_t bytes, cl_mem *buffer,
                      struct failure *failure);

/* The tensors and scalars of a text, which is the problem's, and its blocks, where the problem has such. */
int bench_data_add_text(const struct user_text *text, const clattn_problem *problem, clattn_context *context,
                        struct bench_data *data, struct failure *failure);
void bench_data_free(struct bench_data *data);

/* Normal random numbers, the same for the same seed. */
void bench_data_fill_normal(struct tensor *tensor, uint64_t seed);

/* Fills the outputs with NaN, so that what a call does not write shows. */
int bench_data_spoil_outputs(clattn_context *context, struct bench_data *data, struct failure *failure);

/* Copies the outputs from the device into data->host. */
int bench_data_read_outputs(clattn_context *context, struct bench_data *data, struct failure *failure);

/* Bytes of all inputs and outputs. */
double bench_data_bytes(const struct bench_data *data);

#endif
