/* The per-thread record of the last failure, and how OpenCL's codes become statuses. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct error_record last;

#undef error_set
#undef error_opencl
#undef error_gemm

clattn_status error_set(clattn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last.text, sizeof(last.text), format, arguments);
    va_end(arguments);
    last.native = 0;
    return status;
}

static clattn_status status_of_code(cl_int code)
{
    switch (code) {
    case CL_OUT_OF_HOST_MEMORY:
        return CLATTN_OUT_OF_HOST_MEMORY;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
        return CLATTN_OUT_OF_DEVICE_MEMORY;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILER_NOT_AVAILABLE:
        return CLATTN_BUILD_FAILED;
    default:
        return CLATTN_OPENCL_ERROR;
    }
}

clattn_status error_opencl(cl_int code, const char *call, const char *format, ...)
{
    char detail[ERROR_TEXT_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof(detail), format, arguments);
    va_end(arguments);
    clattn_status status = error_set(status_of_code(code), "%s failed with %s (%d)%s%s", call, error_opencl_name(code),
                                     code, detail[0] ? ": " : "", detail);
    last.native = code;
    return status;
}

clattn_status error_gemm(int code, const char *call)
{
    clattn_status status = error_set(
        CLATTN_GEMM_ERROR, "%s failed with CLBlast status %d; matmul = CLATTN_MATMUL_TILES avoids CLBlast", call, code);
    last.native = code;
    return status;
}

const char *error_text(void)
{
    return last.text;
}

int error_native(void)
{
    return last.native;
}

void error_save(struct error_record *record)
{
    snprintf(record->text, sizeof(record->text), "%s", last.text);
    record->native = last.native;
}

void error_restore(const struct error_record *record)
{
    snprintf(last.text, sizeof(last.text), "%s", record->text);
    last.native = record->native;
}

const char *error_opencl_name(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
        { -1, "CL_DEVICE_NOT_FOUND" },
        { -2, "CL_DEVICE_NOT_AVAILABLE" },
        { -3, "CL_COMPILER_NOT_AVAILABLE" },
        { -4, "CL_MEM_OBJECT_ALLOCATION_FAILURE" },
        { -5, "CL_OUT_OF_RESOURCES" },
        { -6, "CL_OUT_OF_HOST_MEMORY" },
        { -7, "CL_PROFILING_INFO_NOT_AVAILABLE" },
        { -11, "CL_BUILD_PROGRAM_FAILURE" },
        { -13, "CL_MISALIGNED_SUB_BUFFER_OFFSET" },
        { -14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST" },
        { -30, "CL_INVALID_VALUE" },
        { -32, "CL_INVALID_PLATFORM" },
        { -33, "CL_INVALID_DEVICE" },
        { -34, "CL_INVALID_CONTEXT" },
        { -36, "CL_INVALID_COMMAND_QUEUE" },
        { -38, "CL_INVALID_MEM_OBJECT" },
        { -42, "CL_INVALID_BINARY" },
        { -43, "CL_INVALID_BUILD_OPTIONS" },
        { -44, "CL_INVALID_PROGRAM" },
        { -45, "CL_INVALID_PROGRAM_EXECUTABLE" },
        { -46, "CL_INVALID_KERNEL_NAME" },
        { -48, "CL_INVALID_KERNEL" },
        { -49, "CL_INVALID_ARG_INDEX" },
        { -50, "CL_INVALID_ARG_VALUE" },
        { -51, "CL_INVALID_ARG_SIZE" },
        { -52, "CL_INVALID_KERNEL_ARGS" },
        { -53, "CL_INVALID_WORK_DIMENSION" },
        { -54, "CL_INVALID_WORK_GROUP_SIZE" },
        { -55, "CL_INVALID_WORK_ITEM_SIZE" },
        { -57, "CL_INVALID_EVENT_WAIT_LIST" },
        { -58, "CL_INVALID_EVENT" },
        { -59, "CL_INVALID_OPERATION" },
        { -61, "CL_INVALID_BUFFER_SIZE" },
        { -63, "CL_INVALID_GLOBAL_WORK_SIZE" },
        { -1001, "CL_PLATFORM_NOT_FOUND_KHR" },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (names[i].code == code) {
            return names[i].name;
        }
    }
    return "unknown OpenCL error";
}
