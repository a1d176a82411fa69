/* The probe ladder: matrix units and other instructions that OpenCL C does not name, each tried before it
 * is used. A rung is one of them: what must be true before it may be run at all, and a tiny program that
 * multiplies two matrices with it, whose result is compared. Rungs are rows of ladder_table.c.
 *
 * Strategies ask ladder_has when they plan. The first question in a context costs milliseconds (a program
 * is built and run on a queue of its own); the answer and its reason are remembered in the context. */
#ifndef CLATTN_SRC_LADDER_H
#define CLATTN_SRC_LADDER_H

#include "plan/ask.h"

/* In the order of ladder_table. */
enum rung_id {
    RUNG_AVX2,
    RUNG_AVX512,
    RUNG_NEON,
    RUNG_AVX512_BF16,
    RUNG_AMX_BF16,
    RUNG_NVIDIA_90_F16,
    RUNG_NVIDIA_90_BF16,
    RUNG_NVIDIA_90_LOCAL,
    RUNG_NVIDIA_80_F16,
    RUNG_NVIDIA_80_BF16,
    RUNG_NVIDIA_75_F16,
    RUNG_NVIDIA_70_F16,
    RUNG_NVIDIA_TF32,
    RUNG_INTEL_16_F16,
    RUNG_INTEL_16_BF16,
    RUNG_INTEL_8_F16,
    RUNG_INTEL_8_BF16,
    RUNG_WMMA_12_F16,
    RUNG_WMMA_12_BF16,
    RUNG_WMMA_11_F16,
    RUNG_WMMA_11_BF16,
    RUNG_MFMA_F16,
    RUNG_MFMA_BF16,
    RUNG_COUNT
};

/* A probe kernel has the signature
 *
 *     (global const float *a, global const float *b, global float *product)
 *
 * and computes product[m][n] = sum over k of a[m][k] * b[k][n], dense, in one work-group. The numbers are
 * integers from -8 to 7, which every type holds, so that the product is exact. */
struct rung {
    const char *name;    /* "amx_bf16" */
    const char *summary; /* one line for people: which instructions */
    unsigned classes;    /* that it may be asked on: bits RUNG_CLASS(DEVICE_CPU), ... */
    const char *vendor;  /* part of the vendor's name of devices that may be asked; NULL: all */

    /* What must hold before a program with the instruction may run: the vendor, an extension, what the CPU
     * and the operating system say. 0: appends one sentence why not. NULL: nothing to ask. */
    int (*host_check)(const struct device *device, struct text *why);

    const char *file, *options, *kernel; /* the probe: cl/`file` built with `options` */
    const char *without_kernel;          /* why, where the program has no such kernel; NULL: it always has one */
    int builds_everywhere; /* where there is no compiler, a missing program is then a hole in CLATTN_BINARY_DIR, not a
                              device without the rung */
    int asks_for_memory;   /* so a failure for want of the device's is an answer: no */
    int m, n, k;           /* of the two matrices, at most 64 each */
    int work_items;        /* of the one work-group */

    /* Where the instruction is not always the faster way: kernels (global float *data, int rounds) that do
     * the same arithmetic with it and without it, and how many times faster it must be. NULL: always. */
    const char *speed_kernel, *rival_kernel;
    int rounds;
    double gain_least; /* far from what any device has, so that the answer does not change */
};

#define RUNG_CLASS(device_class) (1u << (device_class))

extern const struct rung ladder_table[RUNG_COUNT];

/* 1: the device has the rung. 0: it does not, and one sentence why is appended to `why` (NULL: not wanted); or the
 * probe failed for want of memory, or of a program that is to come from CLATTN_BINARY_DIR, which is no answer:
 * ask->failure then says so. Any thread may ask. */
int ladder_has(struct ask *ask, enum rung_id id, struct text *why);

/* Tries a rung that is not of the table, on any device; nothing is remembered. */
int ladder_try(clattn_context *context, const struct rung *rung, struct text *why);

/* Whether devices like this one are asked at all; others are not worth a line in a list. */
int ladder_asks(const struct device *device, enum rung_id id);

/* How many times faster than the rival the instruction was; 0: not measured. After ladder_has. */
double ladder_gain(const clattn_context *context, enum rung_id id);

/* For tests, before the context's first plan: a rung that computes right is had, however slow it is here. */
void ladder_ignore_speed(clattn_context *context);

/* The ladder of a new context, which ends with it. */
clattn_status ladder_create(clattn_context *context);

#endif
