/* Second builds. */
#include "program/program_second.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "program/program_binary.h"
#include "program/program_text.h"

#define OPTION "-D SECOND_BUILD="

int program_second_target(const char *options, char target[SECOND_TARGET_BYTES])
{
    const char *option = strstr(options, OPTION);
    const size_t length = option ? strcspn(option + strlen(OPTION), " ") : 0;
    if (length < 2 || length >= SECOND_TARGET_BYTES) {
        return 0;
    }
    memcpy(target, option + strlen(OPTION), length);
    target[length] = 0;
    return 1;
}

char *program_build_log(cl_program program, cl_device_id device)
{
    size_t length = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) == CL_SUCCESS &&
        (log = calloc(length + 1, 1)) != NULL) {
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, length, log, NULL);
    }
    return log;
}

/* The driver's text, which ends with 0, and whether that counts as a part of it, as NVIDIA's does; NULL: it has none to
 * show, or memory ran out. */
static char *text_of(const struct program *program, int *counts_end)
{
    size_t bytes = 0;
    unsigned char *binary = program_binary(program->cl, program->device, &bytes);
    char *text = binary ? calloc(bytes + 1, 1) : NULL;
    if (text) {
        memcpy(text, binary, bytes);
        *counts_end = text[bytes - 1] == 0;
    }
    free(binary);
    return text;
}

static clattn_status failure(const struct program *program, cl_program second, cl_int code, const char *text)
{
    char *log = program_build_log(second, program->device);
    size_t length = 0;
    const char *line = program_text_line(text, program_text_line_in_log(log ? log : ""), &length);
    const clattn_status status = error_opencl(code, "clBuildProgram",
                                              "cl/%s with options \"%s\", second build: %s%s%.*s", program->file,
                                              program->options, log && log[0] ? log : "no build log",
                                              length ? "\nthat line: " : "", (int)length, line);
    free(log);
    return status;
}

static clattn_status build_text(cl_context context, struct program *program, const char *options, const char *text,
                                size_t bytes)
{
    const unsigned char *binary = (const unsigned char *)text;
    cl_int state = CL_SUCCESS, code;
    cl_program second = clCreateProgramWithBinary(context, 1, &program->device, &bytes, &binary, &state, &code);
    if (code != CL_SUCCESS || state != CL_SUCCESS) {
        if (second) {
            clReleaseProgram(second);
        }
        return error_opencl(code != CL_SUCCESS ? code : state, "clCreateProgramWithBinary", "cl/%s, second build",
                            program->file);
    }
    code = clBuildProgram(second, 1, &program->device, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        const clattn_status status = failure(program, second, code, text);
        clReleaseProgram(second);
        return status;
    }
    clReleaseProgram(program->cl);
    program->cl = second;
    return CLATTN_OK;
}

clattn_status program_second_build(cl_context context, struct program *program, const char *options, const char *target)
{
    struct text why = TEXT_INIT;
    int counts_end = 0;
    char *first = text_of(program, &counts_end);
    char *text = first ? program_text_rewrite(first, target, &why) : NULL;
    clattn_status status;
    if (text) {
        status = build_text(context, program, options, text, strlen(text) + (size_t)counts_end);
    } else if (!first) {
        status =
            error_set(CLATTN_UNSUPPORTED, "cl/%s, second build: the driver shows no text of the first", program->file);
    } else if (why.data) {
        status = error_set(CLATTN_UNSUPPORTED, "cl/%s, second build: %s", program->file, why.data);
    } else {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a program");
    }
    text_free(&why);
    free(first);
    free(text);
    return status;
}
