/* An OpenCL driver that compiles and runs nothing: it answers as some vendor's GPU or CPU would and keeps the
 * programs that it is given. Its functions (null_driver.c, null_programs.c) stand in for those of the OpenCL loader in
 * the program that they are linked into; so does what null_library.c has, for the parts of the library that ask what
 * only a device can tell. For programs that plan. */
#ifndef CLATTN_TESTS_OFFLINE_NULL_DRIVER_H
#define CLATTN_TESTS_OFFLINE_NULL_DRIVER_H

#include "clattn.h"

/* A device, as its vendor's driver describes it, as far as clattn asks. */
struct null_device {
    const char *target; /* what the vendor's compiler calls it: dg2, gfx90a, sm_80, x86-64-v3 */
    const char *name, *vendor, *platform;
    cl_device_type type;
    const char *extensions;
    size_t work_group_limit;
    cl_ulong local_bytes;
    size_t parameter_bytes;
    size_t sub_group_sizes[3]; /* cl_intel_required_subgroup_size */
    cl_uint compute_units;
    int has_fp64;
    const char *rungs; /* of src/plan/ladder_table.c that its ladder has, blanks between */
};

extern const struct null_device null_devices[];
extern const size_t null_device_count;

/* Whether a list with blanks between, as rungs is, has the name. */
int null_list_names(const char *list, const char *name);

/* Ends the program where there is none. */
const struct null_device *null_device_named(const char *target);

/* What the driver is from now on. */
void null_driver_use(const struct null_device *device);
const struct null_device *null_driver_device(void);

/* Whether ladders have all rungs, instead of the device's own. */
void null_library_has_all_rungs(int all);

/* A context of null_device_named(target), which is used from now on. Ends the program where it fails. */
clattn_context *null_context_open(const char *target);

/* For the driver's own files: gives an answer of so many bytes as clGet...Info does. */
cl_int null_driver_answer(const void *answer, size_t bytes, size_t size, void *value, size_t *needed);
cl_device_id null_driver_device_id(void);
cl_context null_driver_context(void);

/* Called with each kernel that is made, once. `program` counts the programs; `file` is that of its source. */
struct null_kernel {
    int program;
    const char *name, *file, *source, *options;
};
void null_driver_on_kernel(void (*take)(const struct null_kernel *kernel));

/* Binaries that came back damaged, or with other options than they were made with. */
int null_driver_bad_binaries(void);

/* A queue and a buffer, for calls that plan only when they enqueue. */
cl_command_queue null_driver_queue(void);
cl_mem null_driver_buffer(void);

#endif
