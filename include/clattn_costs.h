/* clattn: what things cost, and what a device can do, as numbers. For programs that plan their memory, that tell their
 * users what they wait for, or that choose between devices. clattn_plan_explain() and clattn_describe_devices() tell
 * the same, and more, as text for people.
 *
 *     clattn_plan_costs costs = CLATTN_PLAN_COSTS_INIT;
 *     clattn_plan_get_costs(plan, &costs);
 *     printf("%.0f ms, %llu bytes\n", costs.create_ms, (unsigned long long)costs.workspace_bytes);
 *
 * What each kernel of a call takes: clattn_kernel_times, below.
 *
 * All structs here are filled by the library. Each begins with struct_size, which its INIT macro sets; a field that the
 * library that runs does not know keeps its 0. Texts belong to the context or to the plan, and live as long as it.
 */
#ifndef CLATTN_COSTS_H
#define CLATTN_COSTS_H

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- costs ---------------------------------------------------------------------------------- */

/* What OpenCL says of a context's device, and what clattn makes of it. */
typedef struct clattn_device_facts {
    size_t struct_size; /* set by CLATTN_DEVICE_FACTS_INIT */
    const char *name;
    const char *vendor;
    const char *platform;
    const char *version; /* of OpenCL, on the device */
    const char *driver;  /* its version */
    uint64_t type;       /* CL_DEVICE_TYPE_CPU, _GPU or _ACCELERATOR */
    uint64_t compute_units;
    uint64_t memory_bytes;
    uint64_t allocation_bytes;  /* that one buffer may have */
    uint64_t local_bytes;       /* local memory of a work-group */
    uint64_t work_group_limit;  /* work-items of one */
    uint64_t sharing_alignment; /* calls on host memory use it where it lies: buffers begin at multiples of so many
                                 * bytes; 0: they copy */
    int has_float64;
    int has_compiler; /* without one programs come from CLATTN_BINARY_DIR */
    int is_tested;    /* clattn's tests run on this version of its driver */
    int has_clblast;  /* this build may multiply by it there */
} clattn_device_facts;

#define CLATTN_DEVICE_FACTS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(clattn_device_facts), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                     \
    }
CLATTN_API void clattn_device_facts_init(clattn_device_facts *facts, size_t struct_size);

/* Asks nothing of the driver. */
CLATTN_API clattn_status clattn_context_get_facts(const clattn_context *context, clattn_device_facts *facts);

/* The programs that a context has compiled or loaded so far, by plans, layers and merging alike, those of CLBlast not
 * among them. It keeps them until it is destroyed. */
typedef struct clattn_context_costs {
    size_t struct_size; /* set by CLATTN_CONTEXT_COSTS_INIT */
    uint64_t programs;  /* that it keeps */
    uint64_t compiled;  /* of these, from source; the others came from disk */
    double compile_ms;  /* that compiling and loading them took, of all threads together. Runtimes that compile a kernel
                          * when it first runs (PoCL) take the greater part of it there */
    uint64_t copied_bytes; /* clattn_bytes_copied() */
} clattn_context_costs;

#define CLATTN_CONTEXT_COSTS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(clattn_context_costs), 0, 0, 0.0, 0                                                                     \
    }
CLATTN_API void clattn_context_costs_init(clattn_context_costs *costs, size_t struct_size);

/* Waits for no program that another thread is compiling: that one is not among them yet. */
CLATTN_API clattn_status clattn_context_get_costs(clattn_context *context, clattn_context_costs *costs);

/* One program of a context. */
typedef struct clattn_program_costs {
    size_t struct_size;    /* set by CLATTN_PROGRAM_COSTS_INIT */
    const char *file;      /* of clattn's kernels, such as "simd/fused_simd.cl" */
    const char *options;   /* that it was compiled with, beside those of all programs */
    double compile_ms;     /* as of the context */
    uint64_t binary_bytes; /* of the compiled program, as the driver hands it out; 0: it does not */
    int is_compiled;       /* from source; 0: loaded from disk */
    int kernels;           /* of it that plans took so far */
} clattn_program_costs;

#define CLATTN_PROGRAM_COSTS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(clattn_program_costs), NULL, NULL, 0.0, 0, 0, 0                                                         \
    }
CLATTN_API void clattn_program_costs_init(clattn_program_costs *costs, size_t struct_size);

/* The program `index`, from 0 for the first that was done: a program keeps its number, whatever other threads compile.
 * One beyond the last is CLATTN_INVALID_ARGUMENT. The driver is asked for the size of its binary: runtimes that compile
 * late compile then, which may take seconds. */
CLATTN_API clattn_status clattn_context_get_program(clattn_context *context, uint64_t index,
                                                    clattn_program_costs *costs);

/* What a plan, of any kind, cost and will. */
typedef struct clattn_plan_costs {
    size_t struct_size;       /* set by CLATTN_PLAN_COSTS_INIT */
    double create_ms;         /* that making it took: choosing, compiling, probes, the self-check */
    double compile_ms;        /* of that, compiling and loading its kernels' programs that the context did not have yet;
                               * probes, and strategies that the self-check refused, are not among them */
    uint64_t programs;        /* so many */
    uint64_t workspace_bytes; /* clattn_plan_workspace() */
    uint64_t strategies;      /* that were looked at: what clattn_plan_get_estimate() can be asked for */
} clattn_plan_costs;

#define CLATTN_PLAN_COSTS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(clattn_plan_costs), 0.0, 0.0, 0, 0, 0                                                                   \
    }
CLATTN_API void clattn_plan_costs_init(clattn_plan_costs *costs, size_t struct_size);

/* What was counted when the plan was made: asks nothing of the driver. */
CLATTN_API clattn_status clattn_plan_get_costs(const clattn_plan *plan, clattn_plan_costs *costs);

/* What the planner thought of one strategy. */
typedef struct clattn_estimate {
    size_t struct_size;   /* set by CLATTN_ESTIMATE_INIT */
    const char *strategy; /* its name */
    const char *declined; /* why it does not take the problem, one sentence; NULL: it does, or was not asked */
    double call_ms;       /* its guess of the time of one call with the problem's lengths. It orders strategies; the
                           * device may need a tenth of it, or ten times as much. 0: it was not asked, or declined */
    int is_taken;         /* the plan's */
    int was_asked;        /* 0: the problem, or wisdom, names another one */
} clattn_estimate;

#define CLATTN_ESTIMATE_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(clattn_estimate), NULL, NULL, 0.0, 0, 0                                                                 \
    }
CLATTN_API void clattn_estimate_init(clattn_estimate *estimate, size_t struct_size);

/* The estimate of strategy `index`, from 0, in no order that counts; clattn_plan_costs.strategies and beyond are
 * CLATTN_INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_plan_get_estimate(const clattn_plan *plan, uint64_t index, clattn_estimate *estimate);

/* ---- times of kernels ----------------------------------------------------------------------- */

/* Which kernels calls put on a queue, and what each takes:
 *
 *     cl_command_queue queue = clCreateCommandQueue(clattn_context_cl(context), clattn_context_device(context),
 *                                                   CL_QUEUE_PROFILING_ENABLE, NULL);
 *     clattn_kernel_times *times;
 *     clattn_kernel_times_create(context, queue, &times);
 *     clattn_enqueue_forward(plan, queue, NULL, &tensors, 0, NULL, NULL);
 *     clFinish(queue);
 *     for (uint64_t i = 0; i < clattn_kernel_times_count(times); ++i) {
 *         clattn_kernel_time time = CLATTN_KERNEL_TIME_INIT;
 *         clattn_kernel_times_get(times, i, &time);
 *         printf("%s %.3f ms\n", time.kernel, (double)(time.ended_ns - time.started_ns) * 1e-6);
 *     }
 *     clattn_kernel_times_destroy(times);
 *
 * While it is there, every enqueue of this context on this queue adds its kernels, of attention, gradients, caches,
 * layers and merging alike: in the order of the queue, and those of calls that threads make at once among each other.
 * Enqueues wait for nothing, as ever. On other queues nothing is different. */
typedef struct clattn_kernel_times clattn_kernel_times;

/* One kernel of one call. */
typedef struct clattn_kernel_time {
    size_t struct_size; /* set by CLATTN_KERNEL_TIME_INIT */
    const char *kernel; /* its name, such as "softmax"; "CLBlastSgemm" and "CLBlastDgemm" are all kernels of one
                         * product of CLBlast's, from the end of the command before */
    const char *file;   /* of clattn's kernels that has it, such as "staged/staged_softmax.cl"; or "CLBlast" */
    uint64_t call;      /* the number of the call that enqueued it, from 0 */
    cl_event event;     /* of its last command; belongs to the clattn_kernel_times */
    int is_done;        /* 0: it has not ended yet, and the times are 0 */
    /* The device's clock, in nanoseconds: when it was enqueued, began and ended. */
    uint64_t queued_ns, started_ns, ended_ns;
} clattn_kernel_time;

#define CLATTN_KERNEL_TIME_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(clattn_kernel_time), NULL, NULL, 0, NULL, 0, 0, 0, 0                                                    \
    }
CLATTN_API void clattn_kernel_time_init(clattn_kernel_time *time, size_t struct_size);

/* The queue must be of the context's device and have CL_QUEUE_PROFILING_ENABLE, which the context's own has not; a
 * queue has one clattn_kernel_times at a time. It retains the queue. */
CLATTN_API clattn_status clattn_kernel_times_create(clattn_context *context, cl_command_queue queue,
                                                    clattn_kernel_times **times);

/* So many kernels were enqueued since it was made or cleared. NULL: 0. */
CLATTN_API uint64_t clattn_kernel_times_count(clattn_kernel_times *times);

/* The kernel `index`, from 0; clattn_kernel_times_count and beyond are CLATTN_INVALID_ARGUMENT. Waits for nothing:
 * after clFinish, or clWaitForEvents on a call's event, its kernels are done. A kernel that failed on the device is
 * CLATTN_OPENCL_ERROR, or the status that its code stands for. In a forked child: CLATTN_FORKED. */
CLATTN_API clattn_status clattn_kernel_times_get(clattn_kernel_times *times, uint64_t index, clattn_kernel_time *time);

/* Forgets them; the next call is number 0. While no other thread enqueues on the queue or asks for times. */
CLATTN_API void clattn_kernel_times_clear(clattn_kernel_times *times);

/* Forgets them for good and frees the object; before its context is destroyed. NULL is allowed. */
CLATTN_API void clattn_kernel_times_destroy(clattn_kernel_times *times);

#ifdef __cplusplus
}
#endif

#endif
