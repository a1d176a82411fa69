/* CLBlast behind one function. What is guarded against here was read in its source and seen (1.5.3):
 *
 *   - two threads in its first call can collide in its program cache: one lock in the process around all
 *   - it takes no wait list, and its own kernels rely on the queue's order: in-order queues only
 *   - offsets and leading dimensions end in an int: nothing of 2^31 elements or more
 *   - its strided-batched product is wrong for large matrices with an offset or a shared matrix (see
 *     tests/clblast_strided_batched.c): one plain product a head
 *   - row-major results cost it a copy: column-major is asked for the transposed product
 *   - it sums a long row in one go, in float32: the product is cut along its depth instead, up to a limit */
#include "program/gemm.h"

#include <clblast_c.h>

#include "base/error.h"

/* Elements of a row that are summed in one go. Rounding errors of equal terms all point the same way, so
 * they grow like this number, not like its root. */
#define DEPTH_AT_ONCE 256

/* Such sums are added one after the other: beyond this depth errors would be more than plans say. */
#define DEPTH_MOST ((int64_t)256 * DEPTH_AT_ONCE)

#define ELEMENTS_MAX INT32_MAX

static pthread_mutex_t clblast_lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts_with_programs; /* with the lock held */

int gemm_is_built(void)
{
    return 1;
}

/* Whether [rows][columns] lies in memory as CLBlast expects, and below its limit. */
static int matrix_fits(const struct gemm_matrix *matrix, int64_t rows, int64_t columns)
{
    return matrix->row_stride >= columns && matrix->offset >= 0 && matrix->row_stride <= ELEMENTS_MAX &&
           matrix->offset <= ELEMENTS_MAX && matrix->offset + matrix->row_stride * (rows - 1) + columns <= ELEMENTS_MAX;
}

const char *gemm_declines(const struct chain *chain, const struct gemm_product *product)
{
    const struct gemm_product *p = product;
    const int transposed = p->right_is_transposed;
    if (chain->rehearses) {
        return "a rehearsal multiplies nothing";
    }
    if (!chain->in_order) {
        return "the queue is out of order";
    }
    if (p->depth > DEPTH_MOST) {
        return "its sums of more than 65,536 terms err by more, the more there are";
    }
    if (!matrix_fits(&p->left, p->rows, p->depth) || !matrix_fits(&p->result, p->rows, p->columns) ||
        !matrix_fits(&p->right, transposed ? p->columns : p->depth, transposed ? p->depth : p->columns)) {
        return "a row stride is below the row's length, or a matrix reaches beyond 2^31 elements";
    }
    return NULL;
}

static clattn_status failure(CLBlastStatusCode code, const char *call)
{
    switch (code) {
    case CLBlastTempBufferAllocFailure:
    case CLBlastOpenCLOutOfResources:
    case CLBlastOpenCLOutOfHostMemory:
        return error_opencl((cl_int)code, call, "in CLBlast, which matmul = CLATTN_MATMUL_TILES avoids");
    default:
        return error_gemm((int)code, call);
    }
}

/* Codes that the device and the type decide, whatever else goes on. */
static int is_of_the_device(int code)
{
    switch (code) {
    case CLBlastOpenCLCompilerNotAvailable:
    case CLBlastOpenCLBuildProgramFailure:
    case CLBlastInvalidBuildOptions:
    case CLBlastInvalidLocalNumDimensions:
    case CLBlastInvalidLocalThreadsTotal:
    case CLBlastInvalidLocalThreadsDim:
    case CLBlastNotImplemented:
    case CLBlastInvalidLocalMemUsage:
    case CLBlastNoDoublePrecision:
    case CLBlastDatabaseError:
        return 1;
    default:
        return 0;
    }
}

static const char *call_name(const struct gemm_product *p)
{
    return p->type == CLATTN_FLOAT64 ? "CLBlastDgemm" : "CLBlastSgemm";
}

/* One call: depth columns of left from `start` on, added to the result unless they are the first. */
static clattn_status multiply(struct chain *chain, const struct gemm_product *p, int64_t start, int64_t depth,
                              cl_event *last)
{
    const CLBlastTranspose transpose = p->right_is_transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const size_t m = (size_t)p->columns, n = (size_t)p->rows, k = (size_t)depth;
    const size_t right_at = (size_t)(p->right.offset + start * (p->right_is_transposed ? 1 : p->right.row_stride));
    const size_t left_at = (size_t)(p->left.offset + start), result_at = (size_t)p->result.offset;
    const size_t right_ld = (size_t)p->right.row_stride, left_ld = (size_t)p->left.row_stride;
    const size_t result_ld = (size_t)p->result.row_stride;
    const double beta = start > 0;
    CLBlastStatusCode code;
    if (p->type == CLATTN_FLOAT64) {
        code = CLBlastDgemm(CLBlastLayoutColMajor, transpose, CLBlastTransposeNo, m, n, k, p->alpha, p->right.buffer,
                            right_at, right_ld, p->left.buffer, left_at, left_ld, beta, p->result.buffer, result_at,
                            result_ld, &chain->queue, last);
    } else {
        code = CLBlastSgemm(CLBlastLayoutColMajor, transpose, CLBlastTransposeNo, m, n, k, (float)p->alpha,
                            p->right.buffer, right_at, right_ld, p->left.buffer, left_at, left_ld, (float)beta,
                            p->result.buffer, result_at, result_ld, &chain->queue, last);
    }
    return code == CLBlastSuccess ? CLATTN_OK : failure(code, call_name(p));
}

static clattn_status multiply_timed(struct chain *chain, const struct gemm_product *p, int64_t start, int64_t depth)
{
    cl_event before = NULL, last = NULL;
    clattn_status status = kernel_times_begin(chain->times, &before);
    if (status == CLATTN_OK) {
        status = multiply(chain, p, start, depth, &last);
    }
    kernel_times_end(chain->times, call_name(p), "CLBlast", before, last, &chain->timed_call);
    return status;
}

clattn_status gemm_enqueue(struct chain *chain, const struct gemm_product *product)
{
    clattn_status status = chain_flush_waits(chain);
    pthread_mutex_lock(&clblast_lock);
    for (int64_t start = 0; start < product->depth && status == CLATTN_OK; start += DEPTH_AT_ONCE) {
        const int64_t rest = product->depth - start, depth = rest < DEPTH_AT_ONCE ? rest : DEPTH_AT_ONCE;
        status = chain->times ? multiply_timed(chain, product, start, depth)
                              : multiply(chain, product, start, depth, NULL);
    }
    pthread_mutex_unlock(&clblast_lock);
    return status;
}

/* A product of one element in both forms that attention needs: enough for CLBlast to build. */
static clattn_status multiply_one(clattn_context *context, cl_mem buffer, clattn_type type)
{
    struct chain chain;
    clattn_status status = chain_begin(&chain, context->queue, 0, NULL, NULL);
    for (int transposed = 0; transposed < 2 && status == CLATTN_OK; ++transposed) {
        const struct gemm_product one = {
            .type = type,
            .rows = 1,
            .columns = 1,
            .depth = 1,
            .alpha = 1,
            .right_is_transposed = transposed,
            .left = { buffer, 0, 1 },
            .right = { buffer, 1, 1 },
            .result = { buffer, 2, 1 },
        };
        status = gemm_enqueue(&chain, &one);
    }
    return chain_end(&chain, status);
}

static clattn_status first_product(clattn_context *context, clattn_type type)
{
    pthread_mutex_lock(&clblast_lock);
    contexts_with_programs += !context->used_clblast;
    context->used_clblast = 1;
    pthread_mutex_unlock(&clblast_lock);
    cl_int code;
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, 3 * clattn_type_size(type), NULL, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateBuffer", "%s", "for CLBlast's first product");
    }
    clattn_status status = multiply_one(context, buffer, type);
    clReleaseMemObject(buffer);
    return status;
}

clattn_status gemm_prepare(clattn_context *context, clattn_type type, const char **declines)
{
    struct error_record before;
    error_save(&before);
    const clattn_status status = first_product(context, type);
    const int never = status == CLATTN_GEMM_ERROR && is_of_the_device(error_native());
    if (declines) {
        *declines = never ? "its kernels do not build or run on this device" : NULL;
    }
    if (!declines || !never) {
        return status;
    }
    error_restore(&before);
    return CLATTN_OK;
}

void gemm_forget(clattn_context *context)
{
    pthread_mutex_lock(&clblast_lock);
    if (context->used_clblast && --contexts_with_programs == 0) {
        CLBlastClearCache();
    }
    context->used_clblast = 0;
    pthread_mutex_unlock(&clblast_lock);
}
