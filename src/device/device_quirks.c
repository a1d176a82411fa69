/* What single runtimes need, in one table: each row with the runtime, the versions, and why. Called when a device
 * is read; tests/unit/device_quirks tests the matching. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "device/device.h"
#include "device/environment.h"

#define POCL "Portable Computing Language"
#define POCL_ASSEMBLY                                                                                                  \
    "PoCL 4.0 to 6.0 ends the process when it is asked for the binary of a kernel with inline assembly, unless the "   \
    "kernel calls two functions of PoCL's own"

static const struct quirk_row {
    const char *platform; /* the platform's whole name */
    const char *device;   /* how the device's name begins; "": any */
    const char *driver;   /* how the driver's version begins; "": any, those that were seen are in `reason` */
    unsigned quirks;
    const char *reason;
} rows[] = {
    { POCL, "", "", QUIRK_KEEPS_PROGRAMS | QUIRK_COMPILES_AT_ENQUEUE,
      "PoCL (3.1, 5.0, 6.0) keeps compiled programs itself, and compiles again at the first enqueue of a work-group "
      "size" },
    { POCL, "", "3.", QUIRK_COPIES_KERNELS,
      "PoCL 3.1 compiles a kernel that asks for its work-group's number three times, unless its body is a function" },
    { POCL, "", "4.", QUIRK_ASSEMBLY_NEEDS_ALLOCAS, POCL_ASSEMBLY },
    { POCL, "", "5.", QUIRK_ASSEMBLY_NEEDS_ALLOCAS, POCL_ASSEMBLY },
    { POCL, "", "6.", QUIRK_ASSEMBLY_NEEDS_ALLOCAS, POCL_ASSEMBLY },
    { "Intel(R) FPGA Emulation Platform for OpenCL(TM)", "", "", 0,
      "this emulator (2025.0) ends the process at conversions to float16, or loses barriers, on a CPU that it does not "
      "know: CL_CONFIG_CPU_TARGET_ARCH=core-avx2 (or skx) tells it one that it does" },
    { "rusticl", "llvmpipe", "", QUIRK_NO_LARGE_VECTORS,
      "llvmpipe (Mesa 25.0) calls itself a CPU, and compiles a kernel with arrays of wide vectors for half a "
      "minute and more" },
};

/* The index-th row that matches. */
static const struct quirk_row *find(const struct device *device, size_t index)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        if (strcmp(device->platform_name, rows[i].platform) == 0 &&
            strncmp(device->name, rows[i].device, strlen(rows[i].device)) == 0 &&
            strncmp(device->driver, rows[i].driver, strlen(rows[i].driver)) == 0 && index-- == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

unsigned device_quirks(const struct device *device)
{
    const struct quirk_row *row;
    unsigned quirks = 0;
    for (size_t i = 0; (row = find(device, i)) != NULL; ++i) {
        quirks |= row->quirks;
    }
    return quirks;
}

const char *device_quirk_reason(const struct device *device, size_t index)
{
    const struct quirk_row *row = find(device, index);
    return row ? row->reason : NULL;
}

/* The versions that make check, ./check and tests/runtimes/run compute on. */
static const struct {
    const char *platform, *driver; /* whole; how it begins, up to the end of a number */
} tested[] = {
    { POCL, "3.1" },
    { POCL, "5.0" },
    { POCL, "6.0" },
    { "Intel(R) OpenCL", "2026.22" },
};

int device_is_tested(const struct device *device)
{
    for (size_t i = 0; i < sizeof(tested) / sizeof(tested[0]); ++i) {
        const size_t length = strlen(tested[i].driver);
        if (device->device_class == DEVICE_CPU && strcmp(device->platform_name, tested[i].platform) == 0 &&
            strncmp(device->driver, tested[i].driver, length) == 0 && !ascii_is_digit(device->driver[length])) {
            return 1;
        }
    }
    return 0;
}

static const char *value_or_none(const char *value)
{
    return value ? value : "(not set)";
}

const char *device_empty_reason(const char *platform, char reason[DEVICE_EMPTY_REASON_BYTES])
{
    reason[0] = 0;
    if (strcmp(platform, POCL) == 0) {
        snprintf(reason, DEVICE_EMPTY_REASON_BYTES,
                 ": PoCL has none where it cannot write its cache of compiled programs. POCL_CACHE_DIR is %.200s, "
                 "XDG_CACHE_HOME %.200s, HOME %.200s: set POCL_CACHE_DIR to a folder that you can write to",
                 value_or_none(environment_pocl_cache_dir()), value_or_none(environment_user_cache_dir()),
                 value_or_none(environment_home_dir()));
    }
    return reason;
}
