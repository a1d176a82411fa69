/* CLBlast's strided-batched product ignores offsets and strides where its sizes are multiples of its tile
 * and so it copies nothing (seen in 1.5.3): results are wrong, the status is 0. Small products take another
 * path, which is right. Shared key/value heads and packed tensors are just that case, so clattn multiplies
 * with one plain product a head.
 *
 *     A                 right          strided-batched
 *     256^3             always         right
 *     1024^3            always         wrong with an offset, with a gap between matrices, with a shared A
 *
 * Fails when the plain product is wrong, or clattn's results are. What strided-batched does is printed: a
 * CLBlast in which it is right may be used for more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clattn.h"

#include <clblast_c.h>

#define BATCH 2
#define SAMPLES 500

struct layout {
    const char *what;
    size_t offset, gap;
    int shared_a;
};

static const struct layout layouts[] = {
    { "dense", 0, 0, 0 },
    { "an offset of 64", 64, 0, 0 },
    { "a gap of 64 between matrices", 0, 64, 0 },
    { "a shared A", 0, 0, 1 },
};

/* Three matrices of a batch, small integers, so that every sum is exact; A and B are inputs. */
struct products {
    size_t n, stride, total;
    const struct layout *layout;
    float *host[3];
    cl_mem buffer[3];
};

static size_t start_of(const struct products *p, int matrix, size_t batch)
{
    const int is_shared = matrix == 0 && p->layout->shared_a;
    return p->layout->offset + (is_shared ? 0 : batch * p->stride);
}

static int products_create(struct products *p, cl_context cl, size_t n, const struct layout *layout)
{
    *p = (struct products){ .n = n, .stride = n * n + layout->gap, .layout = layout };
    p->total = layout->offset + BATCH * p->stride;
    for (int m = 0; m < 3; ++m) {
        cl_int code;
        p->host[m] = malloc(p->total * sizeof(float));
        for (size_t i = 0; p->host[m] && i < p->total; ++i) {
            p->host[m][i] = (float)(((i * 2654435761u) >> 16) % 17) - 8 + (float)m;
        }
        p->buffer[m] = p->host[m] ? clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                                   p->total * sizeof(float), p->host[m], &code)
                                  : NULL;
        if (!p->buffer[m]) {
            return -1;
        }
    }
    return 0;
}

static void products_free(struct products *p)
{
    for (int m = 0; m < 3; ++m) {
        if (p->buffer[m]) {
            clReleaseMemObject(p->buffer[m]);
        }
        free(p->host[m]);
    }
}

/* C = A B^T, column-major: by one call for the batch, or one for each matrix. */
static int multiply(struct products *p, cl_command_queue queue, int strided_batched)
{
    const size_t n = p->n, offset = p->layout->offset;
    CLBlastStatusCode code = CLBlastSuccess;
    if (strided_batched) {
        code = CLBlastSgemmStridedBatched(CLBlastLayoutColMajor, CLBlastTransposeNo, CLBlastTransposeYes, n, n, n, 1,
                                          p->buffer[0], offset, n, p->layout->shared_a ? 0 : p->stride, p->buffer[1],
                                          offset, n, p->stride, 0, p->buffer[2], offset, n, p->stride, BATCH, &queue,
                                          NULL);
    }
    for (size_t b = 0; b < BATCH && !strided_batched && code == CLBlastSuccess; ++b) {
        code = CLBlastSgemm(CLBlastLayoutColMajor, CLBlastTransposeNo, CLBlastTransposeYes, n, n, n, 1, p->buffer[0],
                            start_of(p, 0, b), n, p->buffer[1], start_of(p, 1, b), n, 0, p->buffer[2],
                            start_of(p, 2, b), n, &queue, NULL);
    }
    if (code != CLBlastSuccess) {
        return (int)code;
    }
    return clEnqueueReadBuffer(queue, p->buffer[2], CL_TRUE, 0, p->total * sizeof(float), p->host[2], 0, NULL, NULL);
}

static int count_wrong(const struct products *p)
{
    int wrong = 0;
    for (size_t sample = 0; sample < SAMPLES; ++sample) {
        const size_t b = sample % BATCH, i = sample * 7919 % p->n, j = sample * 104729 % p->n;
        double sum = 0;
        for (size_t k = 0; k < p->n; ++k) {
            sum += (double)p->host[0][start_of(p, 0, b) + i + k * p->n] *
                   (double)p->host[1][start_of(p, 1, b) + j + k * p->n];
        }
        wrong += (double)p->host[2][start_of(p, 2, b) + i + j * p->n] != sum;
    }
    return wrong;
}

/* -1: CLBlast does not run here; else the number of wrong samples. */
static int try_one(clattn_context *context, size_t n, const struct layout *layout, int strided_batched)
{
    struct products p;
    int wrong = -1;
    if (products_create(&p, clattn_context_cl(context), n, layout) == 0) {
        const int status = multiply(&p, clattn_context_queue(context), strided_batched);
        wrong = status == 0 ? count_wrong(&p) : -1;
        printf("  %4zu^3, %s, %s: ", n, strided_batched ? "strided-batched" : "plain", layout->what);
        if (status != 0) {
            printf("status %d\n", status);
        } else {
            printf("%d of %d wrong\n", wrong, SAMPLES);
        }
    }
    products_free(&p);
    return wrong;
}

/* ---- clattn in the same case ------------------------------------------------------------------ */

#define LENGTH 1024 /* of queries, keys and head_dim: the sizes above */
#define HEADS 2
#define OFFSET 64

static float value_at(size_t index, unsigned salt)
{
    return (float)(((index * 2654435761u + salt) >> 12) % 2001) / 1000.0f - 1.0f;
}

/* Element c of row i of head h, by the definition; scores of the row are computed anew. */
static double out_of(const float *query, const float *key, const float *value, size_t h, size_t i, size_t c)
{
    static double weight[LENGTH];
    double maximum = -INFINITY, sum = 0, out = 0;
    for (size_t j = 0; j < LENGTH; ++j) {
        weight[j] = 0;
        for (size_t k = 0; k < LENGTH; ++k) {
            weight[j] += (double)query[(h * LENGTH + i) * LENGTH + k] * (double)key[j * LENGTH + k];
        }
        weight[j] /= sqrt((double)LENGTH);
        maximum = fmax(maximum, weight[j]);
    }
    for (size_t j = 0; j < LENGTH; ++j) {
        const double p = exp(weight[j] - maximum);
        sum += p;
        out += p * (double)value[j * LENGTH + c];
    }
    return out / sum;
}

static cl_mem upload(clattn_context *context, const float *data, size_t count)
{
    cl_int code;
    cl_mem buffer =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, (OFFSET + count) * sizeof(float), NULL, &code);
    if (code == CL_SUCCESS && data) {
        clEnqueueWriteBuffer(clattn_context_queue(context), buffer, CL_TRUE, OFFSET * sizeof(float),
                             count * sizeof(float), data, 0, NULL, NULL);
    }
    return buffer;
}

/* Two query heads on one key/value head, every tensor with an offset, by CLBlast. Returns wrong samples, -1
 * where the call failed. */
static int run_clattn(clattn_context *context)
{
    const size_t queries = HEADS * LENGTH * LENGTH, keys = LENGTH * LENGTH;
    float *query = malloc(queries * sizeof(float)), *key = malloc(keys * sizeof(float));
    float *value = malloc(keys * sizeof(float)), *out = malloc(queries * sizeof(float));
    for (size_t i = 0; i < queries; ++i) {
        query[i] = value_at(i, 1);
        key[i % keys] = value_at(i % keys, 2) * 2;
        value[i % keys] = value_at(i % keys, 3);
    }
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    problem.query_heads = HEADS;
    problem.query_len = problem.key_len = problem.head_dim = LENGTH;
    problem.matmul = CLATTN_MATMUL_CLBLAST;
    problem.strategy = "staged";
    clattn_plan *plan = NULL;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    int wrong = -1;
    if (clattn_plan_create(context, &problem, &plan) == CLATTN_OK) {
        cl_int code;
        tensors.query = (clattn_tensor){ upload(context, query, queries), OFFSET, { 0, 0, 0, 0 } };
        tensors.key = (clattn_tensor){ upload(context, key, keys), OFFSET, { 0, 0, 0, 0 } };
        tensors.value = (clattn_tensor){ upload(context, value, keys), OFFSET, { 0, 0, 0, 0 } };
        tensors.out = (clattn_tensor){ upload(context, NULL, queries), OFFSET, { 0, 0, 0, 0 } };
        clattn_tensor *all[] = { &tensors.query, &tensors.key, &tensors.value, &tensors.out };
        for (size_t t = 0; t < 4; ++t) {
            clattn_strides_bhsd(t == 0 || t == 3 ? HEADS : 1, LENGTH, LENGTH, all[t]->stride);
        }
        tensors.workspace =
            clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, clattn_plan_workspace(plan), NULL, &code);
        cl_command_queue queue = clattn_context_queue(context);
        if (clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL) == CLATTN_OK &&
            clEnqueueReadBuffer(queue, tensors.out.buffer, CL_TRUE, OFFSET * sizeof(float), queries * sizeof(float),
                                out, 0, NULL, NULL) == CL_SUCCESS) {
            wrong = 0;
            for (size_t sample = 0; sample < 32; ++sample) {
                const size_t h = sample % HEADS, i = sample * 331 % LENGTH, c = sample * 97 % LENGTH;
                const double should = out_of(query, key, value, h, i, c);
                wrong += !(fabs((double)out[(h * LENGTH + i) * LENGTH + c] - should) < 1e-5);
            }
        }
        for (size_t t = 0; t < 4; ++t) {
            clReleaseMemObject(all[t]->buffer);
        }
        clReleaseMemObject(tensors.workspace);
    }
    clattn_plan_destroy(plan);
    free(query);
    free(key);
    free(value);
    free(out);
    return wrong;
}

int main(void)
{
    clattn_context *context;
    if (clattn_context_open(NULL, NULL, &context) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
        return 1;
    }
    int failed = 0, defects = 0, passed = 0;
    for (size_t n = 256; n <= 1024; n *= 4) {
        for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); ++l) {
            const int plain = try_one(context, n, &layouts[l], 0);
            if (plain < 0) {
                printf("CLBlast does not run on this device\n0 passed, 0 failed, 1 skipped\n");
                clattn_context_destroy(context);
                return 77;
            }
            failed += plain > 0;
            passed += plain == 0;
            defects += try_one(context, n, &layouts[l], 1) != 0;
        }
    }
    printf("strided-batched: %s\n", defects > 0 ? "has the known defect; clattn does not use it"
                                                : "right in all cases: this CLBlast is repaired");
    const int wrong = run_clattn(context);
    printf("clattn, shared key/value head, offsets: %s\n", wrong == 0  ? "right"
                                                           : wrong > 0 ? "WRONG"
                                                                       : clattn_last_error());
    failed += wrong != 0;
    passed += wrong == 0;
    clattn_context_destroy(context);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
