/* The per-thread record of the last failure. Every floor sets it; only api.c's callers read it. */
#ifndef CLATTN_SRC_ERROR_H
#define CLATTN_SRC_ERROR_H

#include "clattn.h"

#if defined(__MINGW32__) /* its own printf, which knows %zu, not that of Windows */
#define CLATTN_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define CLATTN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLATTN_PRINTF(text, first)
#endif

/* In the exported functions: a pointer that the caller must give. */
#define REQUIRE(pointer)                                                                                               \
    do {                                                                                                               \
        if (!(pointer)) {                                                                                              \
            return error_set(CLATTN_INVALID_ARGUMENT, "%s: must not be NULL", #pointer);                               \
        }                                                                                                              \
    } while (0)

/* Records a message and returns `status`, so that callers write `return error_set(...)`. */
clattn_status error_set(clattn_status status, const char *format, ...) CLATTN_PRINTF(2, 3);

/* Records a failed OpenCL call: names the call and its code, picks the status that fits the code
 * (memory codes become CLATTN_OUT_OF_*_MEMORY). `call` is the function's name. */
clattn_status error_opencl(cl_int code, const char *call, const char *format, ...) CLATTN_PRINTF(3, 4);

/* Records a failed call of CLBlast. */
clattn_status error_gemm(int code, const char *call);

/* What the static analyzer (tests/analyze) does not see in a header: none of them returns CLATTN_OK. */
#ifdef __clang_analyzer__
#define error_set(status, ...) (error_set(status, __VA_ARGS__), (status))
#define error_opencl(...) (error_opencl(__VA_ARGS__), CLATTN_OPENCL_ERROR)
#define error_gemm(...) (error_gemm(__VA_ARGS__), CLATTN_GEMM_ERROR)
#endif

const char *error_text(void);
int error_native(void);

/* A copy of the record. Around what may fail without the call failing (a probe, say): save, try, read the failure,
 * restore, so that a call that succeeds leaves the record as it was. */
#define ERROR_TEXT_BYTES 8192 /* room for a build log's beginning; longer messages are cut */
struct error_record {
    char text[ERROR_TEXT_BYTES];
    int native;
};
void error_save(struct error_record *record);
void error_restore(const struct error_record *record);

/* "CL_OUT_OF_RESOURCES"; "unknown OpenCL error" for others. */
const char *error_opencl_name(cl_int code);

#endif
