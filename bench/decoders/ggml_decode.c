// Decoding by ggml, llama.cpp's library of kernels: one float32 query row a head on a cache of a type of its own.
// usage: ggml_decode BATCH QUERY_HEADS KV_HEADS KEY_LEN HEAD_DIM f32|f16|q8_0|q4_0 THREADS SECONDS
// Prints the least and the median time of a call, in ms.
#define _POSIX_C_SOURCE 200809L
#include "ggml-cpu.h"
#include "ggml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES_MAX = 100000, TIMES_MIN = 5 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

// Numbers between -1 and 1, quantised where the tensor's type is.
static void fill(struct ggml_tensor *tensor)
{
    int64_t columns = tensor->ne[0], rows = ggml_nrows(tensor);
    float *row = malloc((size_t)columns * sizeof *row);
    if (!row)
        exit(1);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            row[c] = (float)rand() / (float)RAND_MAX * 2 - 1;
        char *to = (char *)tensor->data + (size_t)r * tensor->nb[1];
        if (tensor->type == GGML_TYPE_F32)
            memcpy(to, row, (size_t)columns * sizeof *row);
        else
            ggml_quantize_chunk(tensor->type, row, to, 0, 1, columns, NULL);
    }
    free(row);
}

static enum ggml_type type_named(const char *name)
{
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, ggml_type_name(types[i])))
            return types[i];
    fprintf(stderr, "ggml_decode: type %s: f32, f16, q8_0 or q4_0\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: ggml_decode BATCH QUERY_HEADS KV_HEADS KEY_LEN HEAD_DIM TYPE THREADS SECONDS\n");
        return 2;
    }
    int batch = atoi(argv[1]), query_heads = atoi(argv[2]), kv_heads = atoi(argv[3]), key_len = atoi(argv[4]);
    int dim = atoi(argv[5]), threads = atoi(argv[7]);
    enum ggml_type type = type_named(argv[6]);
    double end_ms = 1e3 * atof(argv[8]);

    size_t row_bytes = ggml_row_size(type, dim);
    size_t cache_bytes = 2 * row_bytes * (size_t)key_len * (size_t)kv_heads * (size_t)batch;
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){ .mem_size = cache_bytes + ((size_t)256 << 20) });
    if (!context)
        return 1;
    struct ggml_tensor *query = ggml_new_tensor_4d(context, GGML_TYPE_F32, dim, 1, query_heads, batch);
    struct ggml_tensor *key = ggml_new_tensor_4d(context, type, dim, key_len, kv_heads, batch);
    struct ggml_tensor *value = ggml_new_tensor_4d(context, type, dim, key_len, kv_heads, batch);
    fill(query);
    fill(key);
    fill(value);
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph,
                              ggml_flash_attn_ext(context, query, key, value, NULL, 1 / sqrtf((float)dim), 0, 0));

    struct ggml_cplan plan = ggml_graph_plan(graph, threads, NULL);
    plan.work_data = malloc(plan.work_size + 1);
    static double times_ms[TIMES_MAX];
    int count = 0;
    if (!plan.work_data || ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS)
        return 1;
    end_ms += now_ms();
    while (count < TIMES_MIN || (count < TIMES_MAX && now_ms() < end_ms)) {
        double start_ms = now_ms();
        if (ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS)
            return 1;
        times_ms[count++] = now_ms() - start_ms;
    }
    qsort(times_ms, (size_t)count, sizeof *times_ms, compare_doubles);
    printf("%.6f %.6f\n", times_ms[0], times_ms[count / 2]);
    free(plan.work_data);
    ggml_free(context);
    return 0;
}
