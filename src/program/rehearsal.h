/* Launching the kernels of a plan before its first call. Some runtimes compile a kernel again when it is first launched
 * with a work-group of some size (QUIRK_COMPILES_AT_ENQUEUE): no call is to wait for that. */
#ifndef CLATTN_SRC_REHEARSAL_H
#define CLATTN_SRC_REHEARSAL_H

#include "program/launch.h"

/* Enqueues the largest call of a plan into a chain; `of` is what rehearse() was given. */
typedef clattn_status rehearsed_call(const void *of, struct chain *chain);

/* When all is built. `call` goes through its launches as any other, but launch() puts zeros in place of every argument
 * and one work-group in place of the range, for which kernels do nothing (cl/common/rehearsal.clh), and what another
 * plan of the context has rehearsed it leaves out. Kernels whose work-items wait for each other are left out too, and
 * CLBlast multiplies nothing. Waits until all is compiled, which programs count as compiling them, and
 * chain->rehearsal_ms has. On runtimes without the quirk nothing is done. */
clattn_status rehearse(clattn_context *context, rehearsed_call *call, const void *of);

/* What launch() does in a rehearsal. */
clattn_status rehearsal_launch(struct chain *chain, struct kernel *kernel, cl_uint dims, const size_t *global,
                               const size_t *local, size_t n_arguments, const struct launch_argument *arguments);

#endif
