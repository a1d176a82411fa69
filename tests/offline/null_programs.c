/* The programs and kernels of the null driver. */
#include "null_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct _cl_program {
    int number;
    char *source, *options, file[64];
    int is_loaded; /* from a binary, which has both */
    int is_second; /* from one that was made ready for a second build */
    struct _cl_kernel *kernels;
};

struct _cl_kernel {
    struct _cl_kernel *next;
    char name[64];
};

static void (*on_kernel)(const struct null_kernel *kernel);
static int program_count, bad_binaries;

void null_driver_on_kernel(void (*take)(const struct null_kernel *kernel))
{
    on_kernel = take;
}

/* The library's sources open with #line 1 "FILE". */
static void read_file_name(const char *source, char file[64])
{
    const char *start = strchr(source, '"');
    const size_t length = start ? strcspn(start + 1, "\"\n") : 0;
    if (length > 0 && length < 64) {
        memcpy(file, start + 1, length);
    }
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
    read_file_name(text[0], program->file);
    *code = CL_SUCCESS;
    return program;
}

/* A copy of the options without -w: warnings are what is looked for. */
static char *with_warnings(const char *options)
{
    char *copy = strdup(options), *quiet = copy ? strstr(copy, " -w ") : NULL;
    if (quiet) {
        memmove(quiet, quiet + 3, strlen(quiet + 3) + 1);
    }
    return copy;
}

cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                                  void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    char *wanted = with_warnings(options);
    if (program->is_loaded) {
        bad_binaries += strcmp(wanted, program->options) != 0;
        free(wanted);
    } else {
        program->options = wanted;
    }
    return CL_SUCCESS;
}

/* ---- binaries: options and source, between marks ------------------------------------------------ */

#define BINARY_BEGIN "null binary: "
#define BINARY_END "\nnull end\n"

/* Where options ask for a second build, the source stands behind what the library changes in a text of PTX. */
#define FIRST_TEXT ".version 7.8\n.target sm_90\n\t//@second;\n"
#define SECOND_TEXT ".version 8.0\n.target sm_90a\n\tsecond;\n"

static const char *text_before(cl_program program)
{
    return !strstr(program->options, "-D SECOND_BUILD=") ? "" : program->is_second ? SECOND_TEXT : FIRST_TEXT;
}

int null_driver_bad_binaries(void)
{
    return bad_binaries;
}

static char *binary_of(cl_program program, size_t *bytes)
{
    const char *before = text_before(program);
    *bytes = strlen(BINARY_BEGIN) + strlen(program->options) + 1 + strlen(before) + strlen(program->source) +
             strlen(BINARY_END);
    char *binary = malloc(*bytes + 1);
    snprintf(binary, *bytes + 1, BINARY_BEGIN "%s\n%s%s" BINARY_END, program->options, before, program->source);
    return binary;
}

cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value, size_t *needed)
{
    const cl_device_id device = null_driver_device_id();
    size_t bytes = 0;
    if (what == CL_PROGRAM_DEVICES) {
        return null_driver_answer(&device, sizeof(device), size, value, needed);
    }
    char *binary = binary_of(program, &bytes);
    if (what == CL_PROGRAM_BINARIES) {
        memcpy(*(unsigned char **)value, binary, bytes);
    }
    free(binary);
    return what == CL_PROGRAM_BINARIES ? CL_SUCCESS : null_driver_answer(&bytes, sizeof(bytes), size, value, needed);
}

/* What is no whole binary must never come here: real drivers die of it. */
cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                 const size_t *sizes, const unsigned char **binaries, cl_int *states,
                                                 cl_int *code)
{
    const char *text = (const char *)binaries[0], *options = text + strlen(BINARY_BEGIN);
    const size_t least = strlen(BINARY_BEGIN) + 1 + strlen(BINARY_END), end = sizes[0] - strlen(BINARY_END);
    (void)context;
    (void)count;
    (void)devices;
    (void)states;
    *code = CL_INVALID_BINARY;
    if (sizes[0] < least || strncmp(text, BINARY_BEGIN, strlen(BINARY_BEGIN)) != 0 ||
        memcmp(text + end, BINARY_END, strlen(BINARY_END)) != 0) {
        ++bad_binaries;
        return NULL;
    }
    const char *source = (const char *)memchr(options, '\n', sizes[0] - strlen(BINARY_BEGIN)) + 1;
    cl_program program = calloc(1, sizeof(*program));
    program->number = ++program_count;
    program->is_loaded = 1;
    program->options = strndup(options, (size_t)(source - 1 - options));
    program->is_second = strncmp(source, SECOND_TEXT, strlen(SECOND_TEXT)) == 0;
    bad_binaries += strncmp(source, text_before(program), strlen(text_before(program))) != 0;
    source += program->is_second ? strlen(SECOND_TEXT) : 0;
    program->source = strndup(source, (size_t)(text + end - source));
    read_file_name(program->source, program->file);
    *code = CL_SUCCESS;
    return program;
}

cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    while (program->kernels) {
        struct _cl_kernel *next = program->kernels->next;
        free(program->kernels);
        program->kernels = next;
    }
    free(program->source);
    free(program->options);
    free(program);
    return CL_SUCCESS;
}

cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    cl_kernel kernel = program->kernels;
    *code = CL_SUCCESS;
    while (kernel && strcmp(kernel->name, name) != 0) {
        kernel = kernel->next;
    }
    if (!kernel) {
        const struct null_kernel seen = { program->number, name, program->file, program->source, program->options };
        kernel = calloc(1, sizeof(*kernel));
        strncpy(kernel->name, name, sizeof(kernel->name) - 1);
        kernel->next = program->kernels;
        program->kernels = kernel;
        on_kernel(&seen);
    }
    return kernel;
}

cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel) /* they go with their program */
{
    (void)kernel;
    return CL_SUCCESS;
}
