/* What one device can do. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device_list.h"

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

/* A question of clGetDeviceInfo and its name, for messages. */
#define QUESTION(what) what, #what

static clattn_status no_answer(cl_int code, const char *question)
{
    return error_opencl(code, "clGetDeviceInfo", "the device was asked for %s", question);
}

/* The caller frees *text. */
static clattn_status read_text(cl_device_id id, cl_device_info what, const char *name, char **text)
{
    size_t length = 0;
    *text = NULL;
    cl_int code = clGetDeviceInfo(id, what, 0, NULL, &length);
    if (code != CL_SUCCESS) {
        return no_answer(code, name);
    }
    *text = calloc(length + 1, 1);
    if (!*text) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for %s of a device", name);
    }
    code = clGetDeviceInfo(id, what, length, *text, NULL);
    return code == CL_SUCCESS ? CLATTN_OK : no_answer(code, name);
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

static clattn_status read_extensions(cl_device_id id, struct device *device)
{
    char *words;
    cl_ulong double_config = 0;
    clattn_status status = read_text(id, QUESTION(CL_DEVICE_EXTENSIONS), &words);
    if (status == CLATTN_OK) {
        cl_int code = clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(double_config), &double_config, NULL);
        if (code != CL_SUCCESS && code != CL_INVALID_VALUE) { /* older than OpenCL 1.2, it may not know the question */
            status = no_answer(code, "CL_DEVICE_DOUBLE_FP_CONFIG");
        }
    }
    if (status == CLATTN_OK) {
        device->has_fp64 = double_config != 0 && has_word(words, "cl_khr_fp64");
        device->has_intel_matrix = has_word(words, "cl_intel_subgroup_matrix_multiply_accumulate");
        device->sub_group_size_least = has_word(words, "cl_intel_required_subgroup_size") ? least_sub_group_size(id)
                                                                                          : 0;
    }
    free(words);
    return status;
}

/* Each with its length, so that no two lists of texts look alike. */
static void digest_text(struct sha256 *digest, const char *text)
{
    const uint64_t length = strlen(text);
    sha256_add(digest, &length, sizeof(length));
    sha256_add(digest, text, length);
}

static clattn_status digest_platform_version(cl_platform_id platform, struct sha256 *digest)
{
    size_t length = 0;
    cl_int code = clGetPlatformInfo(platform, CL_PLATFORM_VERSION, 0, NULL, &length);
    char *text = code == CL_SUCCESS ? calloc(length + 1, 1) : NULL;
    if (code == CL_SUCCESS && !text) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for CL_PLATFORM_VERSION of a device");
    }
    code = text ? clGetPlatformInfo(platform, CL_PLATFORM_VERSION, length, text, NULL) : code;
    if (code == CL_SUCCESS) {
        digest_text(digest, text);
    }
    free(text);
    return code == CL_SUCCESS
               ? CLATTN_OK
               : error_opencl(code, "clGetPlatformInfo", "the device's platform was asked for CL_PLATFORM_VERSION");
}

/* What the fields of the device may hold cut off, or not at all, however long it is. */
static clattn_status digest_texts(cl_device_id id, struct device *device)
{
    const struct {
        cl_device_info what;
        const char *name;
    } texts[] = { { QUESTION(CL_DEVICE_NAME) },
                  { QUESTION(CL_DEVICE_VENDOR) },
                  { QUESTION(CL_DEVICE_VERSION) },
                  { QUESTION(CL_DRIVER_VERSION) },
                  { QUESTION(CL_DEVICE_EXTENSIONS) } };
    struct sha256 digest;
    sha256_begin(&digest);
    clattn_status status = digest_platform_version(device->platform, &digest);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && status == CLATTN_OK; ++i) {
        char *text;
        status = read_text(id, texts[i].what, texts[i].name, &text);
        if (status == CLATTN_OK) {
            digest_text(&digest, text);
        }
        free(text);
    }
    sha256_end(&digest, device->texts_digest);
    return status;
}

/* PoCL keeps one table of kernels for all of its devices, and ends the process where two of them compile the same one
 * at once: with "pthread" and "basic", 3 of 3 processes in which plans were made by two threads. */
static clattn_status leave_rehearsals(struct device *device)
{
    if (device->quirks & QUIRK_COMPILES_AT_ENQUEUE) {
        cl_uint count = 0;
        const cl_int code = platform_device_count(device->platform, &count);
        if (code != CL_SUCCESS) {
            return error_opencl(code, "clGetDeviceIDs", "beside device \"%s\"", device->name);
        }
        device->quirks &= count > 1 ? ~(unsigned)QUIRK_COMPILES_AT_ENQUEUE : ~0u;
    }
    return CLATTN_OK;
}

static clattn_status read_names(cl_device_id id, struct device *device)
{
    const struct {
        cl_device_info what;
        const char *name;
        char *text;
    } strings[] = {
        { QUESTION(CL_DEVICE_NAME), device->name },
        { QUESTION(CL_DEVICE_VENDOR), device->vendor },
        { QUESTION(CL_DEVICE_VERSION), device->version },
        { QUESTION(CL_DRIVER_VERSION), device->driver },
    };
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]) && status == CLATTN_OK; ++i) {
        char *text;
        status = read_text(id, strings[i].what, strings[i].name, &text);
        if (status == CLATTN_OK) {
            snprintf(strings[i].text, sizeof(device->name), "%s", text);
        }
        free(text);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    cl_int code = clGetPlatformInfo(device->platform, CL_PLATFORM_NAME, sizeof(device->platform_name),
                                    device->platform_name, NULL);
    return code == CL_SUCCESS
               ? CLATTN_OK
               : error_opencl(code, "clGetPlatformInfo", "the device's platform was asked for CL_PLATFORM_NAME");
}

clattn_status device_read(cl_device_id id, struct device *device)
{
    memset(device, 0, sizeof(*device));
    device->id = id;
    cl_device_type type = 0;
    cl_bool compiler = CL_FALSE, little = CL_TRUE;
    size_t item_limit[16] = { 1, 1, 1 };
    const struct {
        cl_device_info what;
        const char *name;
        size_t bytes;
        void *value;
    } numbers[] = {
        { QUESTION(CL_DEVICE_TYPE), sizeof(type), &type },
        { QUESTION(CL_DEVICE_PLATFORM), sizeof(device->platform), &device->platform },
        { QUESTION(CL_DEVICE_MAX_COMPUTE_UNITS), sizeof(cl_uint), &device->compute_units },
        { QUESTION(CL_DEVICE_MAX_WORK_GROUP_SIZE), sizeof(size_t), &device->work_group_limit },
        { QUESTION(CL_DEVICE_MAX_WORK_ITEM_SIZES), sizeof(item_limit), item_limit },
        { QUESTION(CL_DEVICE_LOCAL_MEM_SIZE), sizeof(cl_ulong), &device->local_bytes },
        { QUESTION(CL_DEVICE_GLOBAL_MEM_SIZE), sizeof(cl_ulong), &device->global_bytes },
        { QUESTION(CL_DEVICE_MAX_MEM_ALLOC_SIZE), sizeof(cl_ulong), &device->allocation_bytes },
        { QUESTION(CL_DEVICE_MAX_PARAMETER_SIZE), sizeof(size_t), &device->parameter_bytes },
        { QUESTION(CL_DEVICE_COMPILER_AVAILABLE), sizeof(compiler), &compiler },
        { QUESTION(CL_DEVICE_ENDIAN_LITTLE), sizeof(little), &little },
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); ++i) {
        cl_int code = clGetDeviceInfo(id, numbers[i].what, numbers[i].bytes, numbers[i].value, NULL);
        if (code != CL_SUCCESS) {
            return no_answer(code, numbers[i].name);
        }
    }
    clattn_status status = read_names(id, device);
    if (status == CLATTN_OK) {
        status = read_extensions(id, device);
    }
    if (status == CLATTN_OK) {
        status = digest_texts(id, device);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    memcpy(device->work_item_limit, item_limit, sizeof(device->work_item_limit));
    device->device_class = class_of(type);
    device->has_compiler = compiler == CL_TRUE;
    device->runs_clblast = device->has_compiler;
    device->little_endian = little == CL_TRUE;
    device->quirks = device_quirks(device);
    return leave_rehearsals(device);
}

int device_computes(const struct device *device, clattn_type type, struct text *why)
{
    if (type == CLATTN_FLOAT64 && !device->has_fp64) {
        text_append(why, "the device has no float64");
        return 0;
    }
    return 1;
}
