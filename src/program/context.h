/* The context: one device, its programs, a queue of its own, and the plans that the blocking calls
 * keep. Everything that outlives a call lives here, so that destroying it leaves nothing behind. */
#ifndef CLATTN_SRC_CONTEXT_H
#define CLATTN_SRC_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/process_mark.h"
#include "clattn.h"
#include "device/device.h"

struct clattn_kernel_times;
struct ladder;
struct program;
struct program_cache;
struct verdicts;
struct wisdom;
struct clattn_embedded_table;

#define KEPT_PLANS 8

/* Gives back what a floor above keeps in the context. `forked`: the process is a child of the context's own, and
 * no OpenCL call is allowed. */
typedef void context_end(clattn_context *context, int forked);
#define CONTEXT_ENDS_MAX 4

struct clattn_context {
    cl_context cl;
    cl_command_queue queue; /* in-order */
    struct device device;
    char *kernel_dir;                                /* NULL: embedded kernels */
    const struct clattn_embedded_table *own_kernels; /* see program_own_kernels; NULL: none */
    size_t workspace_limit_bytes;
    char *clblast_flags;       /* a copy of environment_clblast_flags(), for explain; NULL: not set */
    int used_clblast;          /* gemm.c's: its programs for this context must be given back */
    struct process_mark maker; /* the process that created it */
    size_t sharing_alignment;  /* host_sharing_alignment() */
    atomic_ullong copied;      /* bytes that calls on host memory copied so far */

    pthread_mutex_t program_lock;
    pthread_cond_t program_built;
    struct program *programs;    /* a list; owned */
    struct program_cache *cache; /* on disk; NULL: none */
    struct verdicts *verdicts;   /* NULL: programs are not checked */

    pthread_mutex_t times_lock;
    struct clattn_kernel_times *times; /* a list; each is its maker's (kernel_times.h) */
    atomic_int timed_queues;           /* how many there are */

    /* What floors above keep here, each with its end. */
    struct ladder *ladder; /* what the device was found to have */
    struct wisdom *wisdom; /* what `clattn tune` found on it; const but for that command */
    pthread_mutex_t plan_lock;
    struct clattn_plan *kept_plans[KEPT_PLANS]; /* most recent first */
    context_end *ends[CONTEXT_ENDS_MAX];
};

clattn_status context_create(cl_context cl, cl_device_id device, const clattn_context_options *options,
                             clattn_context **context);
void context_destroy(clattn_context *context);

/* `end` is called when the context is destroyed, before programs and queue go; the last one that was asked first. */
void context_at_end(clattn_context *context, context_end *end);

/* CLATTN_FORKED in a child of a process that made contexts or listed devices before. Calls that have no
 * context yet begin with it. */
clattn_status context_check_process(void);

/* CLATTN_FORKED in a child process. Every public call on a context begins with it. */
clattn_status context_check(const clattn_context *context);

#endif
