/* Kept programs: the library holds a handle, which is no cl_program, and its calls get the kept one in its place. */
#include "kept_programs.h"

#include <stdlib.h>
#include <string.h>

/* Built from this source with these options. */
struct kept {
    struct kept *next;
    char *source, *options;
    cl_program program;
};

/* What the library has instead of a program. */
struct handle {
    struct handle *next;
    char *source;
    cl_program program; /* NULL: not built yet */
    int is_own;         /* its build failed: it goes with the handle */
};

static struct kept *kept;
static struct handle *handles;
static cl_context keeps; /* programs of this one */
static cl_device_id keeps_on;
static struct fault_layer *layer;

/* The library's memory fails (failing_memory.h); this one's does not. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);

static char *copy_of(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    return memcpy(__real_malloc(bytes), text, bytes);
}

void kept_programs_start(cl_context context, cl_device_id device, struct fault_layer *of)
{
    keeps = context;
    keeps_on = device;
    layer = of;
}

/* As the layer has it, of a call that does not reach it. */
static int fails(const char *name)
{
    const long number = atomic_fetch_add(&layer->calls, 1) + 1;
    if (number != atomic_load(&layer->fail_at) && number != atomic_load(&layer->fail_also_at)) {
        return 0;
    }
    atomic_store(&layer->failed, name);
    return 1;
}

/* Calls of this file's own: the layer neither counts nor fails them. */
struct unseen {
    long calls, fail_at, fail_also_at;
};

static struct unseen unseen_begin(void)
{
    return (struct unseen){ atomic_load(&layer->calls), atomic_exchange(&layer->fail_at, 0),
                            atomic_exchange(&layer->fail_also_at, 0) };
}

static void unseen_end(const struct unseen *unseen)
{
    atomic_store(&layer->calls, unseen->calls);
    atomic_store(&layer->fail_at, unseen->fail_at);
    atomic_store(&layer->fail_also_at, unseen->fail_also_at);
}

static struct handle *handle_of(cl_program program)
{
    struct handle *handle = handles;
    while (handle && (void *)handle != (void *)program) {
        handle = handle->next;
    }
    return handle;
}

static cl_program behind(cl_program program)
{
    const struct handle *handle = handle_of(program);
    return handle ? handle->program : program;
}

/* Each function of OpenCL that the library calls with a program. */
#define WRAPPED(type, name, parameters)                                                                                \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters

/* Who makes a context of the same device, as clattn_describe_devices does for probes, gets the one whose programs are
 * kept. */
WRAPPED(cl_context, clCreateContext,
        (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
         void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code))
{
    if (!keeps || count != 1 || devices[0] != keeps_on) {
        return __real_clCreateContext(properties, count, devices, notify, user, code);
    }
    if (fails("clCreateContext")) {
        *code = CL_OUT_OF_RESOURCES;
        return NULL;
    }
    const struct unseen unseen = unseen_begin();
    *code = clRetainContext(keeps);
    unseen_end(&unseen);
    return keeps;
}

WRAPPED(cl_int, clReleaseProgram, (cl_program program))
{
    struct handle *handle = handle_of(program), **at = &handles;
    if (!handle) {
        return __real_clReleaseProgram(program);
    }
    while (*at != handle) {
        at = &(*at)->next;
    }
    *at = handle->next;
    if (handle->is_own) {
        __real_clReleaseProgram(handle->program);
    }
    atomic_fetch_sub(&layer->live[FAULT_PROGRAM], 1);
    free(handle->source);
    free(handle);
    return CL_SUCCESS;
}

WRAPPED(cl_program, clCreateProgramWithSource,
        (cl_context context, cl_uint count, const char **text, const size_t *sizes, cl_int *code))
{
    if (context != keeps) {
        return __real_clCreateProgramWithSource(context, count, text, sizes, code);
    }
    if (fails("clCreateProgramWithSource")) {
        *code = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    struct handle *handle = __real_calloc(1, sizeof(*handle));
    atomic_fetch_add(&layer->live[FAULT_PROGRAM], 1);
    handle->source = copy_of(text[0]); /* clattn gives one, ending with a 0 */
    handle->next = handles;
    handles = handle;
    *code = CL_SUCCESS;
    return (cl_program)(void *)handle;
}

static const struct kept *find(const struct handle *handle, const char *options)
{
    const struct kept *one = kept;
    while (one && (strcmp(one->source, handle->source) != 0 || strcmp(one->options, options) != 0)) {
        one = one->next;
    }
    return one;
}

static void keep(const struct handle *handle, const char *options)
{
    struct kept *one = __real_calloc(1, sizeof(*one));
    one->source = copy_of(handle->source);
    one->options = copy_of(options);
    one->program = handle->program;
    one->next = kept;
    kept = one;
}

#define BUILD_PARAMETERS                                                                                               \
    cl_uint count, const cl_device_id *devices, const char *options, void(CL_CALLBACK * notify)(cl_program, void *),   \
        void *user
cl_int __real_clBuildProgram(cl_program program, BUILD_PARAMETERS);

static cl_int build(struct handle *handle, BUILD_PARAMETERS)
{
    cl_int code;
    const char *source = handle->source;
    handle->program = __real_clCreateProgramWithSource(keeps, 1, &source, NULL, &code);
    code = code == CL_SUCCESS ? __real_clBuildProgram(handle->program, count, devices, options, notify, user) : code;
    handle->is_own = code != CL_SUCCESS && handle->program;
    return code;
}

WRAPPED(cl_int, clBuildProgram, (cl_program program, BUILD_PARAMETERS))
{
    struct handle *handle = handle_of(program);
    if (!handle) {
        return __real_clBuildProgram(program, count, devices, options, notify, user);
    }
    const struct kept *found = find(handle, options);
    handle->program = found ? found->program : NULL;
    if (fails("clBuildProgram")) {
        return CL_BUILD_PROGRAM_FAILURE;
    }
    if (found) {
        return CL_SUCCESS;
    }
    const long living = atomic_load(&layer->live[FAULT_PROGRAM]);
    const struct unseen unseen = unseen_begin(); /* the first time */
    const cl_int code = build(handle, count, devices, options, notify, user);
    unseen_end(&unseen);
    if (code == CL_SUCCESS) {
        atomic_store(&layer->live[FAULT_PROGRAM], living);
        keep(handle, options);
    }
    return code;
}

WRAPPED(cl_int, clGetProgramInfo, (cl_program program, cl_program_info what, size_t size, void *value, size_t *needed))
{
    return __real_clGetProgramInfo(behind(program), what, size, value, needed);
}

WRAPPED(cl_int, clGetProgramBuildInfo,
        (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void *value, size_t *needed))
{
    return __real_clGetProgramBuildInfo(behind(program), device, what, size, value, needed);
}

WRAPPED(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code))
{
    return __real_clCreateKernel(behind(program), name, code);
}
