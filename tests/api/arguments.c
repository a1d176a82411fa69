/* Arguments of kernels: each launch has its own, whatever the launches before it had or failed with. */
#include <string.h>

#include "api.h"
#include "program/context.h"
#include "program/embedded_cl.h"
#include "program/launch.h"

#define KERNEL                                                                                                         \
    "typedef struct params { long n[32]; } params;\n"                                                                  \
    "__kernel void seen(__global const int *a, __global int *out, __global const int *b, ulong c, __local int *d,\n"   \
    "                   params e, params f)\n"                                                                         \
    "{\n"                                                                                                              \
    "    d[0] = (int)c;\n"                                                                                             \
    "    out[0] = a ? a[0] : -1;\n"                                                                                    \
    "    out[1] = b ? b[0] : -1;\n"                                                                                    \
    "    out[2] = d[0];\n"                                                                                             \
    "    out[3] = (int)(e.n[31] + 100 * f.n[31]);\n"                                                                   \
    "}\n"

enum { SEEN = 4 };

struct params {
    cl_long n[32];
};

/* The arguments of one launch. */
struct given {
    cl_mem a, b;
    cl_ulong c;
    cl_long e, f;   /* last numbers of the params */
    size_t a_bytes; /* what is said of the size of a; 0: the right one */
};

static clattn_status launch_seen(struct kernel *kernel, const struct given *given, cl_mem out)
{
    const size_t one = 1;
    const struct params e = { { [31] = given->e } }, f = { { [31] = given->f } };
    const struct launch_argument arguments[] = {
        { given->a_bytes ? given->a_bytes : sizeof(given->a), &given->a },
        ARGUMENT(out),
        ARGUMENT(given->b),
        ARGUMENT(given->c),
        { sizeof(cl_ulong), NULL },
        ARGUMENT(e),
        ARGUMENT(f),
    };
    struct chain chain;
    const clattn_status status = chain_begin(&chain, context->queue, 0, NULL, NULL);
    return status == CLATTN_OK ? chain_end(&chain, launch(&chain, kernel, 1, &one, &one, 7, arguments)) : status;
}

static void expect_seen(struct kernel *kernel, struct given given, cl_mem out)
{
    cl_int seen[SEEN] = { 0 }, expected[2] = { -1, -1 };
    EXPECT_OK(launch_seen(kernel, &given, out));
    ck_assert_int_eq(clEnqueueReadBuffer(context->queue, out, CL_TRUE, 0, sizeof(seen), seen, 0, NULL, NULL),
                     CL_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        const cl_mem buffer = i == 0 ? given.a : given.b;
        if (buffer) {
            clEnqueueReadBuffer(context->queue, buffer, CL_TRUE, 0, sizeof(expected[i]), &expected[i], 0, NULL, NULL);
        }
    }
    ck_assert_int_eq(seen[0], expected[0]);
    ck_assert_int_eq(seen[1], expected[1]);
    ck_assert_int_eq(seen[2], (cl_int)given.c);
    ck_assert_int_eq(seen[3], (cl_int)(given.e + 100 * given.f));
}

static cl_mem buffer_of(cl_int first)
{
    cl_int values[SEEN] = { first }, code;
    cl_mem buffer =
        clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(values), values, &code);
    ck_assert_int_eq(code, CL_SUCCESS);
    return buffer;
}

static void expect_refused(struct kernel *kernel, struct given given, cl_mem out)
{
    expect_error(launch_seen(kernel, &given, out), CLATTN_OPENCL_ERROR, "clSetKernelArg", "launch");
}

/* Tensors come and go from call to call, parameters change or do not, and a kernel keeps what was set before. */
START_TEST(test_absent_and_given)
{
    const struct clattn_embedded_file file = { "seen.cl", KERNEL, strlen(KERNEL) };
    const struct clattn_embedded_table own = { &file, 1 };
    cl_mem x = buffer_of(5), y = buffer_of(7), out = buffer_of(0);
    struct kernel *kernel;
    program_own_kernels(context, &own);
    EXPECT_OK(program_kernel(context, "seen.cl", "", "seen", &kernel));
    expect_seen(kernel, (struct given){ .e = 1, .f = 1 }, out);
    expect_seen(kernel, (struct given){ .b = x, .c = 3, .e = 1, .f = 1 }, out);
    expect_seen(kernel, (struct given){ .a = x, .e = 2, .f = 1 }, out);
    expect_seen(kernel, (struct given){ .e = 2, .f = 2 }, out);
    expect_seen(kernel, (struct given){ .a = y, .b = x, .c = 9, .e = 1, .f = 2 }, out);
    expect_seen(kernel, (struct given){ .b = y, .e = 1, .f = 2 }, out);
    expect_refused(kernel, (struct given){ .a = y, .a_bytes = 3, .e = 3, .f = 2 }, out);
    expect_seen(kernel, (struct given){ .c = 2, .e = 3, .f = 2 }, out);
    expect_seen(kernel, (struct given){ .e = 4, .f = 2 }, out);
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
