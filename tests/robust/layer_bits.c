#include "layer_bits.h"

#include <string.h>

#include "layer_calls.h"
#include "support/small_cache.h"

struct all {
    struct layer_calls layers;
    struct small_cache cache;
};

static clattn_status run(const struct all *all, int step, cl_command_queue queue)
{
    switch (step) {
    case 0:
        return layer_calls_mha(&all->layers, queue, NULL);
    case 1:
        return layer_calls_additive(&all->layers, queue, NULL);
    case 2:
        return layer_calls_backward(&all->layers, queue, NULL);
    case 3:
        return layer_calls_mha_backward(&all->layers, queue, NULL);
    case 4:
        return layer_calls_additive_backward(&all->layers, queue, NULL);
    case 5:
        return small_cache_rotary(&all->cache, queue, NULL);
    default:
        return small_cache_append(&all->cache, queue, NULL);
    }
}

/* Blocks; not more than the buffer has. */
static int move(cl_command_queue queue, cl_mem buffer, float numbers[LAYER_FLOATS], int to_device)
{
    size_t bytes = 0;
    if (clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL) != CL_SUCCESS) {
        return 0;
    }
    bytes = bytes < LAYER_FLOATS * sizeof(float) ? bytes : LAYER_FLOATS * sizeof(float);
    return (to_device ? clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, numbers, 0, NULL, NULL)
                      : clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, numbers, 0, NULL, NULL)) == CL_SUCCESS;
}

static int compute(struct all *all, cl_command_queue queue, struct layer_bits *bits)
{
    float numbers[LAYER_FLOATS]; /* in results too, so that what is not written shows */
    for (int i = 0; i < LAYER_FLOATS; ++i) {
        numbers[i] = 0.3F * (float)(i % 7) - 0.7F;
    }
    int good = move(queue, all->layers.numbers, numbers, 1) && move(queue, all->layers.results, numbers, 1);
    for (int i = 0; i < 3; ++i) {
        good = good && move(queue, all->cache.results[i], numbers, 1);
    }
    for (int step = 0; step < LAYER_STEPS && good; ++step) {
        const cl_mem result = step < 5 ? all->layers.results : all->cache.results[step - 5];
        good = run(all, step, queue) == CLATTN_OK && clFinish(queue) == CL_SUCCESS &&
               move(queue, result, bits->after[step], 0);
    }
    return good;
}

int layer_bits_compute(clattn_context *context, cl_command_queue queue, struct layer_bits *bits)
{
    struct all all;
    memset(&all, 0, sizeof(all));
    memset(bits, 0, sizeof(*bits));
    const int good = layer_calls_create(&all.layers, context) && small_cache_create(&all.cache, context) &&
                     compute(&all, queue, bits);
    small_cache_release(&all.cache);
    layer_calls_release(&all.layers);
    return good;
}
