/* usage: build SOURCE OPTIONS
 *
 * Builds an OpenCL program on the first device and asks for its binary, for which PoCL compiles the kernels and keeps
 * them in its cache. Runs nothing. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

/* The whole file, or the end of this process. */
static char *read_text(const char *path)
{
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    const long bytes = ftell(stream);
    rewind(stream);
    char *text = bytes > 0 ? calloc(1, (size_t)bytes + 1) : NULL;
    if (!text || fread(text, 1, (size_t)bytes, stream) != (size_t)bytes) {
        perror(path);
        exit(1);
    }
    fclose(stream);
    return text;
}

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    size_t bytes;
    if (argc != 3) {
        fprintf(stderr, "usage: build SOURCE OPTIONS\n");
        return 2;
    }
    const char *source = read_text(argv[1]);
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        fprintf(stderr, "build: no device\n");
        return 1;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    code = clBuildProgram(program, 1, &device, argv[2], NULL, NULL);
    if (code == CL_SUCCESS) {
        code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, NULL);
    }
    if (code != CL_SUCCESS) {
        fprintf(stderr, "build: error %d\n", (int)code);
    }
    return code != CL_SUCCESS;
}
