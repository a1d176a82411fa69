/* What one device can do, read once. */
#ifndef CLATTN_SRC_DEVICE_H
#define CLATTN_SRC_DEVICE_H

#include "base/sha256.h"
#include "base/text.h"
#include "clattn.h"

enum device_class { DEVICE_CPU, DEVICE_GPU, DEVICE_ACCELERATOR };

/* What single runtimes need: bits, from the table in device_quirks.c. */
enum device_quirk {
    QUIRK_KEEPS_PROGRAMS = 1,         /* it has a cache of compiled programs on disk */
    QUIRK_COMPILES_AT_ENQUEUE = 2,    /* kernels, at their first launch; a program's binary is complete after it */
    QUIRK_NO_LARGE_VECTORS = 4,       /* kernels with arrays of wide vectors do not compile in useful time */
    QUIRK_ASSEMBLY_NEEDS_ALLOCAS = 8, /* see cl/x86/assembly.clh */
    QUIRK_COPIES_KERNELS = 16         /* see cl/common/group_kernel.clh */
};

struct device {
    cl_device_id id;
    cl_platform_id platform;
    enum device_class device_class;
    char name[256], vendor[256], version[256], driver[256], platform_name[256];
    cl_uint compute_units;
    size_t work_group_limit; /* work-items a work-group, all dimensions together */
    size_t work_item_limit[3];
    cl_ulong local_bytes, global_bytes, allocation_bytes;
    size_t parameter_bytes; /* of a kernel's arguments together */
    int has_fp64;
    size_t sub_group_size_least; /* Intel: of those that a kernel can require; elsewhere 0 */
    int has_intel_matrix;        /* cl_intel_subgroup_matrix_multiply_accumulate */
    int has_compiler;
    int runs_clblast; /* which compiles its own programs */
    int little_endian;
    unsigned quirks; /* of enum device_quirk */
    unsigned char
        texts_digest[SHA256_BYTES]; /* of all that it says of itself in words, the names whole, the extensions,
                                               * and the version of its platform */
};

/* What a driver does not answer is its failure, with a native code; else memory ran out. */
clattn_status device_read(cl_device_id id, struct device *device);

/* The quirks of a device whose names and versions are filled in. */
unsigned device_quirks(const struct device *device);

/* The index-th row of their table that a device matches, as text for people; NULL behind the last. */
const char *device_quirk_reason(const struct device *device, size_t index);

/* Why a platform of this name may have no device, and what to do: the end of a sentence; "" where nothing is known. */
#define DEVICE_EMPTY_REASON_BYTES 1024
const char *device_empty_reason(const char *platform, char reason[DEVICE_EMPTY_REASON_BYTES]);

/* Whether the tests run on this very version of its driver: PoCL's and Intel's CPU runtime's, some of them. */
int device_is_tested(const struct device *device);

/* Whether it computes with numbers of a type. 0: appends one sentence why not. */
int device_computes(const struct device *device, clattn_type type, struct text *why);

const char *device_class_name(enum device_class device_class); /* "CPU", "GPU", "accelerator" */

#endif
