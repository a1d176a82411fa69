#include "bench_read.h"

#include <stdio.h>
#include <string.h>

#define GROUP_VECTORS 4096 /* that a work-group reads: 256 KiB on a CPU, 64 KiB elsewhere */
#define GPU_ITEMS 256

/* Four sums, so that no addition waits for the one before it. Both tensors in one launch: group
 * id 1. What does not fill four rounds of a work-group is read singly. */
static const char source[] = "__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void plain_read(\n"
                             "    __global const VECTOR *key, ulong key_vectors, __global const VECTOR *value,\n"
                             "    ulong value_vectors, __global VECTOR *sums)\n"
                             "{\n"
                             "    __global const VECTOR *from = get_group_id(1) ? value : key;\n"
                             "    const ulong all = get_group_id(1) ? value_vectors : key_vectors;\n"
                             "    const ulong first = get_group_id(0) * GROUP_VECTORS;\n"
                             "    const ulong end = min(first + GROUP_VECTORS, all);\n"
                             "    VECTOR a = 0, b = 0, c = 0, d = 0;\n"
                             "    ulong i = first + get_local_id(0);\n"
                             "    for (; i + 3 * ITEMS < end; i += 4 * ITEMS) {\n"
                             "        a += from[i];\n"
                             "        b += from[i + ITEMS];\n"
                             "        c += from[i + 2 * ITEMS];\n"
                             "        d += from[i + 3 * ITEMS];\n"
                             "    }\n"
                             "    for (; i < end; i += ITEMS)\n"
                             "        a += from[i];\n"
                             "    sums[get_global_id(1) * get_global_size(0) + get_global_id(0)] = a + b + c + d;\n"
                             "}\n";

static cl_ulong vectors_of(cl_mem buffer, size_t vector_bytes)
{
    size_t bytes = 0;
    clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return bytes / vector_bytes;
}

static void add_part(cl_mem key, cl_mem value, size_t vector_bytes, struct bench_read *read)
{
    read->part[read->parts].key = key;
    read->part[read->parts].value = value;
    read->part[read->parts].key_vectors = vectors_of(key, vector_bytes);
    read->part[read->parts++].value_vectors = vectors_of(value, vector_bytes);
}

/* The first part has the most. */
static void find_parts(const struct bench_data *data, size_t vector_bytes, struct bench_read *read)
{
    add_part(data->buffer[BENCH_KEY], data->buffer[BENCH_VALUE], vector_bytes, read);
    for (int pool = 0; pool < 3 && data->more[0][pool]; pool++) {
        add_part(data->more[0][pool], data->more[1][pool], vector_bytes, read);
    }
    for (int i = 0; i < read->parts; i++) {
        read->bytes += (double)(read->part[i].key_vectors + read->part[i].value_vectors) * (double)vector_bytes;
    }
}

static int is_cpu(cl_device_id device)
{
    cl_device_type type = 0;
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return (type & CL_DEVICE_TYPE_CPU) != 0;
}

static cl_int build(clattn_context *context, const char *options, struct bench_read *read)
{
    const char *text = source;
    cl_device_id device = clattn_context_device(context);
    cl_int code = CL_SUCCESS;
    read->program = clCreateProgramWithSource(clattn_context_cl(context), 1, &text, NULL, &code);
    if (code == CL_SUCCESS) {
        code = clBuildProgram(read->program, 1, &device, options, NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        read->kernel = clCreateKernel(read->program, "plain_read", &code);
    }
    return code;
}

static cl_int set_arguments(const struct bench_read *read, int part)
{
    const struct {
        size_t bytes;
        const void *value;
    } arguments[] = {
        { sizeof(cl_mem), &read->part[part].key },
        { sizeof(cl_ulong), &read->part[part].key_vectors },
        { sizeof(cl_mem), &read->part[part].value },
        { sizeof(cl_ulong), &read->part[part].value_vectors },
        { sizeof(cl_mem), &read->sums },
    };
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < sizeof arguments / sizeof arguments[0] && code == CL_SUCCESS; i++) {
        code = clSetKernelArg(read->kernel, i, arguments[i].bytes, arguments[i].value);
    }
    return code;
}

int bench_read_make(clattn_context *context, const struct bench_data *data, struct bench_read *read,
                    struct failure *failure)
{
    const int cpu = is_cpu(clattn_context_device(context));
    const size_t vector_bytes = cpu ? 64 : 16;
    char options[96];
    cl_int code;
    memset(read, 0, sizeof *read);
    find_parts(data, vector_bytes, read);
    const cl_ulong keys = read->part[0].key_vectors, values = read->part[0].value_vectors;
    const size_t most = (size_t)(keys > values ? keys : values);
    read->items = cpu ? 1 : GPU_ITEMS;
    read->groups = most ? (most + GROUP_VECTORS - 1) / GROUP_VECTORS : 1;
    snprintf(options, sizeof options, "-D VECTOR=%s -D ITEMS=%zu -D GROUP_VECTORS=%d", cpu ? "uint16" : "uint4",
             read->items, GROUP_VECTORS);
    code = build(context, options, read);
    if (code == CL_SUCCESS) {
        read->sums = clCreateBuffer(clattn_context_cl(context), CL_MEM_WRITE_ONLY,
                                    2 * read->groups * read->items * vector_bytes, NULL, &code);
    }
    if (code != CL_SUCCESS) {
        return failure_failed(failure, "the kernel of the plain read: OpenCL error %d", code);
    }
    return bench_read_run(context, read, failure);
}

void bench_read_free(struct bench_read *read)
{
    if (read->sums) {
        clReleaseMemObject(read->sums);
    }
    if (read->kernel) {
        clReleaseKernel(read->kernel);
    }
    if (read->program) {
        clReleaseProgram(read->program);
    }
}

int bench_read_run(clattn_context *context, const struct bench_read *read, struct failure *failure)
{
    const size_t global[2] = { read->groups * read->items, 2 }, local[2] = { read->items, 1 };
    cl_command_queue queue = clattn_context_queue(context);
    cl_int code = CL_SUCCESS;
    for (int part = 0; part < read->parts && code == CL_SUCCESS; part++) {
        code = set_arguments(read, part);
        if (code == CL_SUCCESS) {
            code = clEnqueueNDRangeKernel(queue, read->kernel, 2, NULL, global, local, 0, NULL, NULL);
        }
    }
    if (code == CL_SUCCESS) {
        code = clFinish(queue);
    }
    if (code != CL_SUCCESS) {
        return failure_failed(failure, "the plain read: OpenCL error %d", code);
    }
    return 0;
}
