/* Arguments of kernels: each launch has its own, whatever the launches before it had or failed with. */
#include <string.h>

#include "api.h"
#include "program/context.h"
#include "program/embedded_cl.h"
#include "program/launch.h"

#define KERNEL                                                                                                         \
    "__kernel void seen(__global const int *a, __global int *out, __global const int *b, ulong c, __local int *d)\n"   \
    "{\n"                                                                                                              \
    "    d[0] = (int)c;\n"                                                                                             \
    "    out[0] = a ? a[0] : -1;\n"                                                                                    \
    "    out[1] = b ? b[0] : -1;\n"                                                                                    \
    "    out[2] = d[0];\n"                                                                                             \
    "}\n"

enum { SEEN = 3 };

/* Launches the kernel; `bytes`: what is said of the size of a. */
static clattn_status launch_seen(struct kernel *kernel, cl_mem a, size_t bytes, cl_mem b, cl_ulong c, cl_mem out)
{
    const size_t one = 1;
    const struct launch_argument arguments[] = {
        { bytes, &a }, ARGUMENT(out), ARGUMENT(b), ARGUMENT(c), { sizeof(cl_ulong), NULL },
    };
    struct chain chain;
    const clattn_status status = chain_begin(&chain, context->queue, 0, NULL, NULL);
    return status == CLATTN_OK ? chain_end(&chain, launch(&chain, kernel, 1, &one, &one, 5, arguments)) : status;
}

static void expect_seen(struct kernel *kernel, cl_mem a, cl_mem b, cl_ulong c, cl_mem out)
{
    cl_int seen[SEEN] = { 0 }, expected[2] = { -1, -1 };
    EXPECT_OK(launch_seen(kernel, a, sizeof(a), b, c, out));
    ck_assert_int_eq(clEnqueueReadBuffer(context->queue, out, CL_TRUE, 0, sizeof(seen), seen, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        const cl_mem buffer = i == 0 ? a : b;
        if (buffer) {
            clEnqueueReadBuffer(context->queue, buffer, CL_TRUE, 0, sizeof(expected[i]), &expected[i], 0, NULL, NULL);
        }
    }
    ck_assert_int_eq(seen[0], expected[0]);
    ck_assert_int_eq(seen[1], expected[1]);
    ck_assert_int_eq(seen[2], (cl_int)c);
}

static cl_mem buffer_of(cl_int first)
{
    cl_int values[SEEN] = { first }, code;
    cl_mem buffer =
        clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(values), values, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return buffer;
}

/* Tensors come and go from call to call, and a kernel keeps what was set before. */
START_TEST(test_absent_and_given)
{
    const struct clattn_embedded_file file = { "seen.cl", KERNEL, strlen(KERNEL) };
    const struct clattn_embedded_table own = { &file, 1 };
    cl_mem x = buffer_of(5), y = buffer_of(7), out = buffer_of(0);
    struct kernel *kernel;
    program_own_kernels(context, &own);
    EXPECT_OK(program_kernel(context, "seen.cl", "", "seen", &kernel));
    expect_seen(kernel, NULL, NULL, 0, out);
    expect_seen(kernel, NULL, x, 3, out);
    expect_seen(kernel, x, NULL, 0, out);
    expect_seen(kernel, NULL, NULL, 0, out);
    expect_seen(kernel, y, x, 9, out);
    expect_seen(kernel, NULL, y, 0, out);
    expect_error(launch_seen(kernel, y, 3, NULL, 0, out), CLATTN_OPENCL_ERROR, "clSetKernelArg", "launch");
    expect_seen(kernel, NULL, NULL, 2, out);
    program_own_kernels(context, NULL);
    clReleaseMemObject(x);
    clReleaseMemObject(y);
    clReleaseMemObject(out);
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_absent_and_given);
}

int main(void)
{
    return api_main("arguments", add);
}
