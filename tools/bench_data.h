/* The tensors of one measured shape, in host memory and in device buffers. Used by cmd_bench.c. */
#ifndef CLATTN_TOOLS_BENCH_DATA_H
#define CLATTN_TOOLS_BENCH_DATA_H

#include "clattn.h"
#include "failure.h"
#include "tensor.h"

enum bench_tensor { BENCH_QUERY, BENCH_KEY, BENCH_VALUE, BENCH_MASK, BENCH_OUT, BENCH_TENSORS };

struct bench_data {
    struct tensor
        tensor[BENCH_TENSORS]; /* BENCH_MASK: mask or bias; data NULL where there is none */
    cl_mem buffer[BENCH_TENSORS];
    clattn_host_tensors host;
    clattn_tensors device;
};

/* Normal random inputs, the same in each run, copied to the device. The caller ends with
 * bench_data_free, after failures too. */
int bench_data_make(const clattn_problem *problem, clattn_context *context, struct bench_data *data,
                    struct failure *failure);
void bench_data_free(struct bench_data *data);

/* Copies the output from the device into data->host.out. */
int bench_data_read_out(clattn_context *context, struct bench_data *data, struct failure *failure);

/* Bytes of all inputs and the output. */
double bench_data_bytes(const struct bench_data *data);

#endif
