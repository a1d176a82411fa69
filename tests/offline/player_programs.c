/* Programs of a driver that plays PTX: each source is compiled by clang as tests/offline/nvidia does for sm_90, in the
 * folder that PLAYED_FOLDER names, and its binary is that text, as NVIDIA's driver has it; so what is built a second
 * time is what the library makes of a real text. PLAYED_SEED: of the order of warps, copies and products. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "player.h"
#include "ptx.h"

#define TEXT_BYTES_MAX ((size_t)16 << 20)

struct _cl_program {
    int number;
    char *source, *text;
};

struct _cl_kernel {
    struct ptx_text *text;
    unsigned char params[8192];
};

static int program_count;
static unsigned launches;

/* Before main, which opens a context. */
__attribute__((constructor)) static void use_hopper(void)
{
    for (size_t i = 0; i < null_device_count; ++i) {
        if (strcmp(null_devices[i].target, "sm_90") == 0) {
            null_driver_use(&null_devices[i]);
        }
    }
}

static char *path_of(int number, const char *suffix)
{
    static char path[4096];
    const char *folder = getenv("PLAYED_FOLDER");
    snprintf(path, sizeof(path), "%s/%03d.%s", folder ? folder : "/tmp", number, suffix);
    return path;
}

static void write_text(int number, const char *suffix, const char *text)
{
    FILE *stream = fopen(path_of(number, suffix), "w");
    if (!stream || fputs(text, stream) < 0 || fclose(stream) != 0) {
        perror(path_of(number, suffix));
        exit(1);
    }
}

static char *read_text(int number, const char *suffix)
{
    FILE *stream = fopen(path_of(number, suffix), "r");
    char *text = calloc(TEXT_BYTES_MAX, 1);
    if (!stream || fread(text, 1, TEXT_BYTES_MAX - 1, stream) == 0) {
        perror(path_of(number, suffix));
        exit(1);
    }
    fclose(stream);
    return realloc(text, strlen(text) + 1);
}

cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count, const char **text,
                                                 const size_t *sizes, cl_int *code)
{
    cl_program program = calloc(1, sizeof(*program));
    (void)context;
    (void)count; /* clattn gives one, ending with a 0 */
    (void)sizes;
    program->number = ++program_count;
    program->source = strdup(text[0]);
    *code = CL_SUCCESS;
    return program;
}

cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                 const size_t *sizes, const unsigned char **binaries, cl_int *states,
                                                 cl_int *code)
{
    cl_program program = calloc(1, sizeof(*program));
    (void)context;
    (void)count;
    (void)devices;
    (void)states;
    program->text = calloc(sizes[0] + 1, 1);
    memcpy(program->text, binaries[0], sizes[0]);
    *code = CL_SUCCESS;
    return program;
}

cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                                  void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const char *folder = getenv("PLAYED_FOLDER"), *compile = getenv("PLAYED_COMPILER");
    char command[8192];
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    if (program->text) {
        return CL_SUCCESS;
    }
    write_text(program->number, "cl", program->source);
    write_text(program->number, "options", options);
    snprintf(command, sizeof(command), "FIRST_TEXT=yes %s sm_90 %s %03d", compile ? compile : "false",
             folder ? folder : "/tmp", program->number);
    if (system(command) != 0) {
        return CL_BUILD_PROGRAM_FAILURE;
    }
    program->text = read_text(program->number, "asm");
    return CL_SUCCESS;
}

cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value, size_t *needed)
{
    const cl_device_id device = null_driver_device_id();
    const size_t bytes = strlen(program->text) + 1;
    if (what == CL_PROGRAM_DEVICES) {
        return null_driver_answer(&device, sizeof(device), size, value, needed);
    }
    if (what == CL_PROGRAM_BINARIES) {
        memcpy(*(unsigned char **)value, program->text, bytes);
        return CL_SUCCESS;
    }
    return null_driver_answer(&bytes, sizeof(bytes), size, value, needed);
}

cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                                         size_t size, void *value, size_t *needed)
{
    (void)program;
    (void)device;
    (void)what;
    return null_driver_answer("see the folder", sizeof("see the folder"), size, value, needed);
}

cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    free(program->source);
    free(program->text);
    free(program);
    return CL_SUCCESS;
}

static unsigned seed_of_run(void)
{
    const char *seed = getenv("PLAYED_SEED");
    return seed ? (unsigned)atoi(seed) : 1u;
}

/* What the driver gives a kernel: with odd seeds no more than OpenCL says. */
static int local_bytes(void)
{
    return (seed_of_run() % 2 ? 48 : 227) * 1024;
}

cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    cl_kernel kernel = calloc(1, sizeof(*kernel));
    kernel->text = ptx_read(program->text, name);
    *code = kernel->text->n_code == 0                    ? CL_INVALID_KERNEL_NAME
            : kernel->text->shared_bytes > local_bytes() ? CL_OUT_OF_RESOURCES
                                                         : CL_SUCCESS;
    return kernel;
}

cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    ptx_free(kernel->text);
    free(kernel);
    return CL_SUCCESS;
}

int player_is_buffer(cl_kernel kernel, cl_uint index)
{
    return kernel->text->param_bytes[index] == 8;
}

void player_set(cl_kernel kernel, cl_uint index, const void *value, size_t bytes)
{
    if (bytes != (size_t)kernel->text->param_bytes[index]) {
        fprintf(stderr, "player: argument %u has %zu bytes, the text %d\n", index, bytes,
                kernel->text->param_bytes[index]);
        exit(1);
    }
    memcpy(kernel->params + kernel->text->param_at[index], value, bytes);
}

void player_run(cl_kernel kernel, const size_t groups[3], const size_t items[3])
{
    ptx_run(kernel->text, kernel->params, groups, items, seed_of_run() * 7919u + ++launches);
}
