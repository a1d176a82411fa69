/* Programs and kernels: built once for each key, by one thread while others wait; the only file that builds. Kernels
 * hand out cl_kernel objects from a free list, because setting arguments on a shared one is a race. */
#include "program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "program/kernel_source.h"
#include "program/program_cache.h"
#include "program/program_parts.h"
#include "program/program_second.h"
#include "program/program_uses.h"
#include "program/verdicts.h"

/* Correctly rounded conversions and infinities are needed, so only these relaxations. And no warnings: some drivers
 * print them on the terminal of whoever calls (tests/offline takes -w out, and looks at them). */
#define COMMON_OPTIONS "-cl-std=CL1.2 -cl-mad-enable -w"

static clattn_status out_of_memory(void)
{
    return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a program");
}

/* ---- building ------------------------------------------------------------------------------- */

static clattn_status build_failure(const struct program *program, cl_int code)
{
    char *log = program_build_log(program->cl, program->device);
    clattn_status status = error_opencl(code, "clBuildProgram", "cl/%s with options \"%s\": %s", program->file,
                                        program->options, log && log[0] ? log : "no build log");
    free(log);
    return status;
}

static clattn_status build_source(clattn_context *context, struct program *program, const char *source,
                                  const char *options)
{
    cl_int code;
    program->cl = clCreateProgramWithSource(context->cl, 1, &source, NULL, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateProgramWithSource", "cl/%s", program->file);
    }
    code = clBuildProgram(program->cl, 1, &program->device, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        return build_failure(program, code);
    }
    char target[SECOND_TARGET_BYTES];
    return program_second_target(options, target) ? program_second_build(context->cl, program, options, target)
                                                  : CLATTN_OK;
}

static clattn_status missing_binary(const clattn_context *context, const struct program *program)
{
    char name[PROGRAM_FILE_NAME_BYTES];
    const char *folder = program_cache_binary_dir(context->cache);
    program_file_name(&program->key, name);
    return error_set(CLATTN_UNSUPPORTED,
                     "device \"%s\": has no online compiler, and CLATTN_BINARY_DIR (%s) has no good file %s, "
                     "which is cl/%s with options \"%s\"; `clattn compile --output DIR` with this problem's "
                     "options makes it where the same device and driver have a compiler",
                     context->device.name, folder ? folder : "not set", name, program->file, program->options);
}

/* What every program is told; the program's own options. */
static void append_options(const struct device *device, const char *own, struct text *text)
{
    text_append(text, COMMON_OPTIONS);
    if (device->device_class == DEVICE_GPU && device->sub_group_size_least > 0) {
        text_append(text, " -D SUB_GROUP_SIZE=%zu", device->sub_group_size_least);
    }
    if (device->quirks & QUIRK_ASSEMBLY_NEEDS_ALLOCAS) {
        text_append(text, " -D ASSEMBLY_NEEDS_ALLOCAS");
    }
    if (device->quirks & QUIRK_COPIES_KERNELS) {
        text_append(text, " -D COPIES_KERNELS");
    }
    if (device->quirks & QUIRK_COMPILES_AT_ENQUEUE) {
        text_append(text, " -D HAS_REHEARSALS");
    }
    text_append(text, " %s", own);
}

/* Builds from source, and says on disk before that the driver is asked to: should the process end there, the next one
 * does not ask. */
static clattn_status try_source(clattn_context *context, struct program_uses *uses, struct program *program,
                                const char *source, const char *options)
{
    if (!context->verdicts) {
        return build_source(context, program, source, options);
    }
    struct verdict_trial trial;
    struct text what = TEXT_INIT, why = TEXT_INIT;
    clattn_status status;
    text_append(&what, "to build cl/%s with options \"%s\"", program->file, options);
    if (verdicts_begin(context->verdicts, &program->tried, what.data ? what.data : "", &trial, &why) == VERDICT_BAD) {
        program_uses_refuse(uses);
        status = error_set(CLATTN_UNSUPPORTED, "self-check: %s", why.data ? why.data : "out of memory");
    } else {
        status = build_source(context, program, source, options);
        verdicts_end(&trial, VERDICT_NONE, "");
    }
    text_free(&what);
    text_free(&why);
    return status;
}

/* From its binary on disk, else from source. */
static clattn_status build(clattn_context *context, struct program_uses *uses,
                           const struct clattn_embedded_table *texts, struct program *program)
{
    char *source;
    clattn_status status = kernel_source(context->kernel_dir, texts, context->own_kernels, program->file, &source);
    if (status != CLATTN_OK) {
        return status;
    }
    struct text options = TEXT_INIT;
    program->has_barriers = strstr(source, "barrier(") != NULL;
    append_options(&context->device, program->options, &options);
    char *option_text = text_take(&options);
    if (option_text) {
        program_cache_key(context->cache, source, option_text, &program->key);
        if (context->verdicts) {
            verdicts_key(context->verdicts, (const char *const[]){ "build", source, option_text }, 3, &program->tried);
        }
        if (!context->device.has_compiler || !verdicts_start_again(context->verdicts)) {
            program->cl = program_cache_load(context->cache, context->cl, &program->key, option_text);
        }
        if (!program->cl && !context->device.has_compiler) {
            status = missing_binary(context, program);
        } else if (!program->cl) {
            status = try_source(context, uses, program, source, option_text);
            program->is_compiled = 1;
            program->store_at_end = status == CLATTN_OK && (context->device.quirks & QUIRK_COMPILES_AT_ENQUEUE);
            if (status == CLATTN_OK && !program->store_at_end) {
                program_cache_store(context->cache, &program->key, program->cl);
            }
        }
    } else {
        status = out_of_memory();
    }
    free(option_text);
    free(source);
    return status;
}

static struct program *find(clattn_context *context, const char *file, const char *options)
{
    for (struct program *p = context->programs; p; p = p->next) {
        if (strcmp(p->file, file) == 0 && strcmp(p->options, options) == 0) {
            return p;
        }
    }
    return NULL;
}

static void kernel_free(struct kernel *kernel)
{
    for (size_t i = 0; i < kernel->free_count; ++i) {
        clReleaseKernel(kernel->free_list[i].cl);
        free(kernel->free_list[i].params);
    }
    pthread_mutex_destroy(&kernel->lock);
    free(kernel->free_list);
    free(kernel->name);
    free(kernel);
}

static void program_free(struct program *program)
{
    while (program->kernels) {
        struct kernel *next = program->kernels->next;
        kernel_free(program->kernels);
        program->kernels = next;
    }
    if (program->cl) {
        clReleaseProgram(program->cl);
    }
    free(program->file);
    free(program->options);
    free(program);
}

static struct program *program_new(clattn_context *context, const char *file, const char *options)
{
    struct program *program = calloc(1, sizeof(*program));
    if (!program) {
        return NULL;
    }
    program->file = strdup(file);
    program->options = strdup(options);
    program->device = context->device.id;
    program->state = BUILDING;
    if (!program->file || !program->options) {
        program_free(program);
        return NULL;
    }
    return program;
}

static void link_program(clattn_context *context, struct program *program)
{
    program->next = context->programs;
    context->programs = program;
}

static void unlink_program(clattn_context *context, struct program *program)
{
    struct program **at = &context->programs;
    while (*at != program) {
        at = &(*at)->next;
    }
    *at = program->next;
}

/* With the context's program lock held, before and after; not while building. A failed program is
 * taken out, so that a later call tries again (memory may be there by then); those who waited for it
 * try for themselves. */
static clattn_status get_program(clattn_context *context, struct program_uses *uses, const struct program_source *of,
                                 struct program **result)
{
    struct program *program;
    while ((program = find(context, of->file, of->options)) && program->state == BUILDING) {
        pthread_cond_wait(&context->program_built, &context->program_lock);
    }
    if (!program) {
        program = program_new(context, of->file, of->options);
        if (!program) {
            return out_of_memory();
        }
        link_program(context, program);
        pthread_mutex_unlock(&context->program_lock);
        const double start_ms = clock_ms();
        clattn_status status = build(context, uses, of->texts, program);
        const double compile_ms = clock_ms() - start_ms;
        program_uses_pay(uses, compile_ms);
        pthread_mutex_lock(&context->program_lock);
        program->compile_ms = compile_ms;
        program->state = BUILT;
        pthread_cond_broadcast(&context->program_built);
        unlink_program(context, program);
        if (status != CLATTN_OK) {
            program_free(program);
            return status;
        }
        /* In the order in which they were done, which programs of threads side by side begin otherwise: who counts
         * programs finds one under the same number ever after. */
        link_program(context, program);
    }
    *result = program;
    return CLATTN_OK;
}

static clattn_status get_kernel(struct program *program, const char *name, struct kernel **result)
{
    for (struct kernel *k = program->kernels; k; k = k->next) {
        if (strcmp(k->name, name) == 0) {
            *result = k;
            return CLATTN_OK;
        }
    }
    struct kernel *kernel = calloc(1, sizeof(*kernel));
    char *copy = strdup(name);
    if (!kernel || !copy) {
        free(kernel);
        free(copy);
        return out_of_memory();
    }
    kernel->name = copy;
    kernel->program = program;
    pthread_mutex_init(&kernel->lock, NULL);
    kernel->next = program->kernels;
    program->kernels = kernel;
    *result = kernel;
    return CLATTN_OK;
}

void program_own_kernels(clattn_context *context, const struct clattn_embedded_table *table)
{
    context->own_kernels = table;
}

clattn_status program_kernel(clattn_context *context, const char *file, const char *options, const char *name,
                             struct kernel **kernel)
{
    const struct program_source source = { file, options, NULL };
    return program_kernel_of(context, NULL, &source, name, kernel);
}

clattn_status program_kernel_of(clattn_context *context, struct program_uses *uses, const struct program_source *source,
                                const char *name, struct kernel **kernel)
{
    struct program *program = NULL;
    pthread_mutex_lock(&context->program_lock);
    clattn_status status = get_program(context, uses, source, &program);
    if (status == CLATTN_OK) {
        status = get_kernel(program, name, kernel);
    }
    pthread_mutex_unlock(&context->program_lock);
    if (status == CLATTN_OK && context->verdicts) {
        program_uses_add(uses, &program->tried, name);
    }
    if (status == CLATTN_OK) {
        /* Make the first one now: a missing kernel is an error of planning, not of enqueueing. */
        struct taken_kernel first;
        status = kernel_take(*kernel, &first);
        if (status == CLATTN_OK) {
            kernel_put(*kernel, &first);
        }
    }
    return status;
}

void program_destroy_all(clattn_context *context)
{
    while (context->programs) {
        struct program *program = context->programs;
        context->programs = program->next;
        if (program->store_at_end) {
            program_cache_store(context->cache, &program->key, program->cl);
        }
        program_free(program);
    }
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* Makes a cl_kernel, and room on the free list for it to come back to. With the kernel's lock held. */
static clattn_status make(struct kernel *kernel, struct taken_kernel *made)
{
    struct taken_kernel *list = realloc(kernel->free_list, (kernel->made_count + 1) * sizeof(*list));
    if (!list) {
        return out_of_memory();
    }
    kernel->free_list = list;
    cl_int code;
    *made = (struct taken_kernel){ .cl = clCreateKernel(kernel->program->cl, kernel->name, &code) };
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateKernel", "kernel %s of cl/%s", kernel->name, kernel->program->file);
    }
    ++kernel->made_count;
    return CLATTN_OK;
}

clattn_status kernel_take(struct kernel *kernel, struct taken_kernel *taken)
{
    clattn_status status = CLATTN_OK;
    pthread_mutex_lock(&kernel->lock);
    if (kernel->free_count > 0) {
        *taken = kernel->free_list[--kernel->free_count];
    } else {
        status = make(kernel, taken);
    }
    pthread_mutex_unlock(&kernel->lock);
    return status;
}

void kernel_put(struct kernel *kernel, const struct taken_kernel *taken)
{
    pthread_mutex_lock(&kernel->lock);
    kernel->free_list[kernel->free_count++] = *taken;
    pthread_mutex_unlock(&kernel->lock);
}

const char *kernel_name(const struct kernel *kernel)
{
    return kernel->name;
}

const char *kernel_file(const struct kernel *kernel)
{
    return kernel->program->file;
}

/* What the driver tells of the kernel on the device, of type size_t or cl_ulong. */
static clattn_status ask_driver(struct kernel *kernel, cl_kernel_work_group_info what, size_t bytes, void *answer)
{
    struct taken_kernel taken;
    clattn_status status = kernel_take(kernel, &taken);
    if (status != CLATTN_OK) {
        return status;
    }
    cl_int code = clGetKernelWorkGroupInfo(taken.cl, kernel->program->device, what, bytes, answer, NULL);
    kernel_put(kernel, &taken);
    return code == CL_SUCCESS ? CLATTN_OK : error_opencl(code, "clGetKernelWorkGroupInfo", "kernel %s", kernel->name);
}

clattn_status kernel_work_group_limit(struct kernel *kernel, size_t *limit)
{
    return ask_driver(kernel, CL_KERNEL_WORK_GROUP_SIZE, sizeof(*limit), limit);
}

int kernel_waits(const struct kernel *kernel, const size_t local[3])
{
    return kernel->program->has_barriers && local[0] * local[1] * local[2] > 1;
}
