/* What a measured problem has of a text of the user's own, on the host and in device buffers. */
#include <string.h>

#include "bench_data.h"

static int add_blocks(const struct options *options, const clattn_problem *problem, clattn_context *context,
                      struct bench_data *data, struct failure *failure)
{
    if (user_blocks_make(options, context, problem, &data->values, &data->host, &data->blocks, failure) != 0) {
        return -1;
    }
    if (data->blocks.all == 0) {
        return failure_misuse(failure, "--shape: has no pairs of rows and keys, whose blocks --blocks could ask for");
    }
    memcpy(data->device.block_mask.stride, data->host.block_mask.stride, sizeof data->host.block_mask.stride);
    const struct tensor *mask = &data->blocks.mask;
    const int status = bench_data_buffer(context, mask->data, tensor_bytes(mask), &data->block_buffer, failure);
    data->device.block_mask.buffer = data->block_buffer;
    return status;
}

int bench_data_add_text(const struct user_text *text, const clattn_problem *problem, clattn_context *context,
                        struct bench_data *data, struct failure *failure)
{
    user_text_place(text, &data->values, &data->host);
    for (int i = 0; i < text->code.tensor_count; i++) {
        const struct tensor *tensor = &text->load[i].tensor;
        if (bench_data_buffer(context, tensor->data, tensor_bytes(tensor), &data->code_buffer[i], failure) != 0) {
            return -1;
        }
        data->device.code_tensors[i].buffer = data->code_buffer[i];
        data->device.code_tensors[i].stride[3] = 1;
    }
    return problem->block_mask_rows > 0 ? add_blocks(text->options, problem, context, data, failure) : 0;
}
