/* What one device can do, and which device a name means. The only file that lists platforms. */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define DEVICES_MAX 64
#define PLATFORM_NOT_FOUND (-1001) /* of cl_khr_icd */

const char *device_class_name(enum device_class device_class)
{
    static const char *const names[] = { "CPU", "GPU", "accelerator" };
    return names[device_class];
}

static enum device_class class_of(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU) {
        return DEVICE_GPU;
    }
    return type & CL_DEVICE_TYPE_CPU ? DEVICE_CPU : DEVICE_ACCELERATOR;
}

static cl_int read_string(cl_device_id id, cl_device_info what, char *text, size_t size)
{
    char *full;
    size_t length;
    cl_int code = clGetDeviceInfo(id, what, 0, NULL, &length);
    if (code != CL_SUCCESS) {
        return code;
    }
    full = calloc(length + 1, 1);
    if (!full) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code = clGetDeviceInfo(id, what, length, full, NULL);
    snprintf(text, size, "%s", full);
    free(full);
    return code;
}

static int has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        if ((at == words || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) {
            return 1;
        }
    }
    return 0;
}

/* cl_intel_required_subgroup_size. A device that does not answer has none. */
static size_t least_sub_group_size(cl_device_id id)
{
    const cl_device_info sub_group_sizes_intel = 0x4108;
    size_t sizes[16] = { 0 }, bytes = 0, least = 0;
    if (clGetDeviceInfo(id, sub_group_sizes_intel, sizeof(sizes), sizes, &bytes) != CL_SUCCESS) {
        return 0;
    }
    for (size_t i = 0; i < bytes / sizeof(sizes[0]); ++i) {
        least = least == 0 || sizes[i] < least ? sizes[i] : least;
    }
    return least;
}

static cl_int read_extensions(cl_device_id id, struct device *device)
{
    size_t length;
    cl_int code = clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &length);
    if (code != CL_SUCCESS) {
        return code;
    }
    char *words = calloc(length + 1, 1);
    if (!words) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    code = clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, length, words, NULL);
    cl_ulong double_config = 0;
    if (code == CL_SUCCESS) {
        code = clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(double_config), &double_config,
                               NULL);
    }
    if (code == CL_INVALID_VALUE) { /* a device older than OpenCL 1.2 may not know the question */
        code = CL_SUCCESS;
    }
    device->has_fp64 = double_config != 0 && has_word(words, "cl_khr_fp64");
    device->has_intel_matrix = has_word(words, "cl_intel_subgroup_matrix_multiply_accumulate");
    if (has_word(words, "cl_intel_required_subgroup_size")) {
        device->sub_group_size_least = least_sub_group_size(id);
    }
    free(words);
    return code;
}

clattn_status device_read(cl_device_id id, struct device *device)
{
    memset(device, 0, sizeof(*device));
    device->id = id;
    cl_device_type type = 0;
    cl_uint dimensions = 0;
    cl_bool compiler = CL_FALSE, little = CL_TRUE;
    size_t item_limit[16] = { 1, 1, 1 };
    const struct {
        cl_device_info what;
        size_t bytes;
        void *value;
    } numbers[] = {
        { CL_DEVICE_TYPE, sizeof(type), &type },
        { CL_DEVICE_PLATFORM, sizeof(device->platform), &device->platform },
        { CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint), &device->compute_units },
        { CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), &device->work_group_limit },
        { CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof(dimensions), &dimensions },
        { CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong), &device->local_bytes },
        { CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), &device->global_bytes },
        { CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), &device->allocation_bytes },
        { CL_DEVICE_MAX_PARAMETER_SIZE, sizeof(size_t), &device->parameter_bytes },
        { CL_DEVICE_COMPILER_AVAILABLE, sizeof(compiler), &compiler },
        { CL_DEVICE_ENDIAN_LITTLE, sizeof(little), &little },
    };
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && code == CL_SUCCESS; ++i) {
        code = clGetDeviceInfo(id, numbers[i].what, numbers[i].bytes, numbers[i].value, NULL);
    }
    if (code == CL_SUCCESS && dimensions <= 16) {
        code = clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, dimensions * sizeof(size_t),
                               item_limit, NULL);
    }
    const struct {
        cl_device_info what;
        char *text;
    } strings[] = {
        { CL_DEVICE_NAME, device->name },
        { CL_DEVICE_VENDOR, device->vendor },
        { CL_DEVICE_VERSION, device->version },
        { CL_DRIVER_VERSION, device->driver },
    };
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]) && code == CL_SUCCESS; ++i) {
        code = read_string(id, strings[i].what, strings[i].text, sizeof(device->name));
    }
    if (code == CL_SUCCESS) {
        code = clGetPlatformInfo(device->platform, CL_PLATFORM_NAME, sizeof(device->platform_name),
                                 device->platform_name, NULL);
    }
    if (code == CL_SUCCESS) {
        code = read_extensions(id, device);
    }
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetDeviceInfo", "while reading what the device can do");
    }
    memcpy(device->work_item_limit, item_limit, sizeof(device->work_item_limit));
    device->device_class = class_of(type);
    device->has_compiler = compiler == CL_TRUE;
    device->runs_clblast = device->has_compiler;
    device->little_endian = little == CL_TRUE;
    device->quirks = device_quirks(device);
    return CLATTN_OK;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static clattn_status list_platform(cl_platform_id platform, unsigned index, struct device_listing *listing)
{
    cl_device_id ids[DEVICES_MAX];
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count);
    if (code == CL_DEVICE_NOT_FOUND) {
        return CLATTN_OK;
    }
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetDeviceIDs", "on platform %u", index);
    }
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    for (cl_uint i = 0; i < count && listing->count < DEVICES_MAX; ++i) {
        struct device_listed *item = &listing->items[listing->count];
        item->platform = index;
        item->number = i;
        clattn_status status = device_read(ids[i], &item->device);
        if (status != CLATTN_OK) {
            return status;
        }
        ++listing->count;
    }
    return CLATTN_OK;
}

clattn_status device_list(struct device_listing *listing)
{
    cl_platform_id platforms[DEVICES_MAX];
    cl_uint count = 0;
    listing->count = 0;
    listing->items = calloc(DEVICES_MAX, sizeof(*listing->items));
    if (!listing->items) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory listing devices");
    }
    cl_int code = clGetPlatformIDs(DEVICES_MAX, platforms, &count);
    if (code == PLATFORM_NOT_FOUND) {
        return CLATTN_OK;
    }
    clattn_status status = code == CL_SUCCESS ? CLATTN_OK
                                              : error_opencl(code, "clGetPlatformIDs", "%s", "");
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    for (cl_uint i = 0; i < count && status == CLATTN_OK; ++i) {
        status = list_platform(platforms[i], i, listing);
    }
    return status;
}

static int contains_folded(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; ++text) {
        size_t i = 0;
        while (i < length && text[i] &&
               tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) {
            ++i;
        }
        if (i == length) {
            return 1;
        }
    }
    return 0;
}

static int equal_folded(const char *a, const char *b)
{
    return strlen(a) == strlen(b) && contains_folded(a, b);
}

/* "3:1" -> 1 and the two numbers; anything else -> 0. */
static int parse_numbers(const char *wanted, unsigned *platform, unsigned *number)
{
    int end = 0;
    if (!isdigit((unsigned char)wanted[0])) {
        return 0;
    }
    return sscanf(wanted, "%5u:%5u%n", platform, number, &end) == 2 && wanted[end] == 0;
}

static int matches(const struct device_listed *item, const char *wanted)
{
    unsigned platform, number;
    if (parse_numbers(wanted, &platform, &number)) {
        return item->platform == platform && item->number == number;
    }
    static const struct {
        const char *name;
        enum device_class device_class;
    } classes[] = { { "gpu", DEVICE_GPU }, { "cpu", DEVICE_CPU }, { "accelerator", DEVICE_ACCELERATOR } };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        if (equal_folded(wanted, classes[i].name)) {
            return item->device.device_class == classes[i].device_class;
        }
    }
    return contains_folded(item->device.name, wanted) ||
           contains_folded(item->device.platform_name, wanted);
}

int device_choose(const struct device_listing *listing, const char *wanted)
{
    static const enum device_class order[] = { DEVICE_GPU, DEVICE_ACCELERATOR, DEVICE_CPU };
    if (wanted) {
        for (unsigned i = 0; wanted[0] && i < listing->count; ++i) {
            if (matches(&listing->items[i], wanted)) {
                return (int)i;
            }
        }
        return -1;
    }
    for (size_t rank = 0; rank < sizeof(order) / sizeof(order[0]); ++rank) {
        for (unsigned i = 0; i < listing->count; ++i) {
            if (listing->items[i].device.device_class == order[rank]) {
                return (int)i;
            }
        }
    }
    return -1;
}

static clattn_status no_match(const struct device_listing *listing, const char *wanted)
{
    if (listing->count == 0) {
        return error_set(CLATTN_NO_DEVICE,
                         "no OpenCL device: install a driver for your device, or PoCL, which runs on "
                         "the CPU (Debian: apt-get install pocl-opencl-icd)");
    }
    struct text text = TEXT_INIT;
    for (unsigned i = 0; i < listing->count; ++i) {
        const struct device_listed *item = &listing->items[i];
        text_append(&text, "%s%u:%u %s \"%s\" of \"%s\"", i ? "; " : "", item->platform, item->number,
                    device_class_name(item->device.device_class), item->device.name,
                    item->device.platform_name);
    }
    clattn_status status =
        error_set(CLATTN_NO_DEVICE,
                  "device \"%s\": matches nothing; give gpu, cpu, accelerator, PLATFORM:DEVICE or part "
                  "of a name. There is: %s",
                  wanted, text.data ? text.data : "(out of memory)");
    text_free(&text);
    return status;
}

clattn_status device_find(const char *wanted, cl_device_id *id)
{
    if (wanted && !wanted[0]) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "device \"\": must not be empty; unset CLATTN_DEVICE for the default");
    }
    struct device_listing listing;
    clattn_status status = device_list(&listing);
    if (status == CLATTN_OK) {
        int chosen = device_choose(&listing, wanted);
        if (chosen >= 0) {
            *id = listing.items[chosen].device.id;
        } else {
            status = no_match(&listing, wanted);
        }
    }
    free(listing.items);
    return status;
}
