/* Programs and kernels: source + options -> cl_program, built once for each key, by one thread while
 * others wait. The only file that builds. */
#ifndef CLATTN_SRC_PROGRAM_H
#define CLATTN_SRC_PROGRAM_H

#include "program/context.h"

/* Defined in program_parts.h. Kernels live as long as the context. */
struct kernel;

/* Gets kernel `name` of cl/`file` ("plain/plain.cl") built with `options` (such as "-D TYPE=1"; the language
 * version and the include path are added here). */
clattn_status program_kernel(clattn_context *context, const char *file, const char *options, const char *name,
                             struct kernel **kernel);

/* What a program is made of: a file of cl/, options as above, and texts that are included as files are, beside the
 * library's (NULL: none). Programs of equal file and options are one, so options tell texts apart. */
struct program_source {
    const char *file, *options;
    const struct clattn_embedded_table *texts;
};

/* program_kernel for a plan: what it takes, and what that costs, is added to `uses`, unless NULL. */
struct program_uses;
clattn_status program_kernel_of(clattn_context *context, struct program_uses *uses, const struct program_source *source,
                                const char *name, struct kernel **kernel);

/* For a program beside the library: kernel files of its own, which program_kernel finds before those of cl/, and which
 * may include the library's headers. The table outlives the context. */
void program_own_kernels(clattn_context *context, const struct clattn_embedded_table *table);

/* The largest work-group the device can run this kernel with. */
clattn_status kernel_work_group_limit(struct kernel *kernel, size_t *limit);

/* A cl_kernel, and what it has kept of its arguments: whoever sets one keeps that true. */
struct taken_kernel {
    cl_kernel cl;
    uint64_t absent;     /* a bit for each of the first 64 that is NULL */
    void *params;        /* a copy of the argument that is a struct, of number `params_at` */
    size_t params_bytes; /* 0: none is known */
    size_t params_at;
};

/* A cl_kernel must not be shared by threads: take one that nobody else has (made when none is free),
 * set arguments, enqueue, put it back. launch.c is the only caller. */
clattn_status kernel_take(struct kernel *kernel, struct taken_kernel *taken);
void kernel_put(struct kernel *kernel, const struct taken_kernel *taken);
const char *kernel_name(const struct kernel *kernel);
const char *kernel_file(const struct kernel *kernel); /* that program_kernel was asked for */

/* Whether the work-items of such a work-group wait for each other. Its source is asked, which may say yes for a
 * neighbour's sake, and not the driver: of local memory, which is why they wait, PoCL 6 says that each kernel has 0
 * bytes. */
int kernel_waits(const struct kernel *kernel, const size_t local[3]);

/* Destroys all programs of a context. */
void program_destroy_all(clattn_context *context);

#endif
