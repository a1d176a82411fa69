/* Lists platforms and devices, and finds the one that a name means. */
#include "device/device_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/text.h"
#include "device/environment.h"

#define DEVICES_MAX 64
#define PLATFORM_NOT_FOUND (-1001) /* of cl_khr_icd */

/* ---- listing -------------------------------------------------------------------------------- */

const char *device_broken_id(const struct device_broken *broken, char id[32])
{
    snprintf(id, 32, broken->is_platform ? "%u" : "%u:%u", broken->platform, broken->number);
    return id;
}

/* The last error is what the driver failed with. `device` NULL: the platform's devices could not be listed. */
static clattn_status add_broken(struct device_listing *listing, cl_platform_id platform_id, unsigned platform,
                                cl_device_id device, unsigned number, clattn_status status)
{
    struct device_broken *all = realloc(listing->broken, (listing->broken_count + 1) * sizeof(*all));
    if (!all) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory listing devices");
    }
    struct device_broken *broken = &all[listing->broken_count++];
    listing->broken = all;
    *broken = (struct device_broken){ platform, number, .is_platform = !device, .status = status };
    error_save(&broken->failure);
    clGetPlatformInfo(platform_id, CL_PLATFORM_NAME, sizeof(broken->platform_name) - 1, broken->platform_name, NULL);
    if (device) {
        clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(broken->name) - 1, broken->name, NULL);
    }
    return CLATTN_OK;
}

/* A platform without a device hides nothing, but is what an error about missing devices has to name. */
static clattn_status add_empty(struct device_listing *listing, cl_platform_id platform, unsigned index)
{
    char name[256] = "", reason[DEVICE_EMPTY_REASON_BYTES];
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
    const clattn_status status = error_set(CLATTN_NO_DEVICE, "it lists no device%s", device_empty_reason(name, reason));
    return add_broken(listing, platform, index, NULL, 0, status);
}

cl_int platform_device_count(cl_platform_id platform, cl_uint *count)
{
    return clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, count);
}

static clattn_status list_platform(cl_platform_id platform, unsigned index, struct device_listing *listing)
{
    cl_device_id ids[DEVICES_MAX];
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &count);
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0)) {
        return add_empty(listing, platform, index);
    }
    if (code != CL_SUCCESS) {
        const clattn_status status = error_opencl(code, "clGetDeviceIDs", "on platform %u", index);
        return add_broken(listing, platform, index, NULL, 0, status);
    }
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    clattn_status status = CLATTN_OK;
    for (cl_uint i = 0; i < count && listing->count < DEVICES_MAX && status == CLATTN_OK; ++i) {
        struct device_listed *item = &listing->items[listing->count];
        item->platform = index;
        item->number = i;
        status = device_read(ids[i], &item->device);
        if (status == CLATTN_OK) {
            ++listing->count;
        } else if (error_native() != 0) { /* the driver's, not ours */
            status = add_broken(listing, platform, index, ids[i], i, status);
        }
    }
    return status;
}

static clattn_status list_platforms(struct device_listing *listing)
{
    cl_platform_id platforms[DEVICES_MAX];
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(DEVICES_MAX, platforms, &count);
    if (code == PLATFORM_NOT_FOUND) {
        return CLATTN_OK;
    }
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clGetPlatformIDs", "%s", "");
    }
    clattn_status status = CLATTN_OK;
    count = count < DEVICES_MAX ? count : DEVICES_MAX;
    for (cl_uint i = 0; i < count && status == CLATTN_OK; ++i) {
        status = list_platform(platforms[i], i, listing);
    }
    return status;
}

clattn_status device_list(struct device_listing *listing)
{
    struct error_record before;
    error_save(&before);
    memset(listing, 0, sizeof(*listing));
    listing->items = calloc(DEVICES_MAX, sizeof(*listing->items));
    if (!listing->items) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory listing devices");
    }
    const clattn_status status = list_platforms(listing);
    if (status == CLATTN_OK) {
        error_restore(&before);
    }
    return status;
}

void device_listing_free(struct device_listing *listing)
{
    free(listing->items);
    free(listing->broken);
}

/* ---- choosing ------------------------------------------------------------------------------- */

static int contains_folded(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; ++text) {
        size_t i = 0;
        while (i < length && text[i] && ascii_lower(text[i]) == ascii_lower(part[i])) {
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
    if (!ascii_is_digit(wanted[0])) {
        return 0;
    }
    return sscanf(wanted, "%5u:%5u%n", platform, number, &end) == 2 && wanted[end] == 0;
}

/* "gpu", "cpu", "accelerator" -> 1 and the class. */
static int parse_class(const char *wanted, enum device_class *device_class)
{
    static const struct {
        const char *name;
        enum device_class device_class;
    } classes[] = { { "gpu", DEVICE_GPU }, { "cpu", DEVICE_CPU }, { "accelerator", DEVICE_ACCELERATOR } };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        if (equal_folded(wanted, classes[i].name)) {
            *device_class = classes[i].device_class;
            return 1;
        }
    }
    return 0;
}

static int matches(const struct device_listed *item, const char *wanted)
{
    unsigned platform, number;
    enum device_class device_class;
    if (parse_numbers(wanted, &platform, &number)) {
        return item->platform == platform && item->number == number;
    }
    if (parse_class(wanted, &device_class)) {
        return item->device.device_class == device_class;
    }
    return contains_folded(item->device.name, wanted) || contains_folded(item->device.platform_name, wanted);
}

char *device_name_next(char **names)
{
    char *name = *names, *end = name ? strchr(name, '+') : NULL;
    if (end) {
        *end++ = '\0';
    }
    *names = end;
    return name;
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

const struct device_broken *device_broken_wanted(const struct device_listing *listing, const char *wanted)
{
    unsigned platform, number;
    enum device_class device_class;
    if (listing->broken_count == 0) {
        return NULL;
    }
    if (!wanted || parse_class(wanted, &device_class)) { /* what a broken one is nobody says */
        return listing->count == 0 ? &listing->broken[0] : NULL;
    }
    const int by_number = parse_numbers(wanted, &platform, &number);
    for (unsigned i = 0; i < listing->broken_count; ++i) {
        const struct device_broken *b = &listing->broken[i];
        if (by_number ? b->platform == platform && (b->is_platform || b->number == number)
                      : contains_folded(b->name, wanted) || contains_folded(b->platform_name, wanted)) {
            return b;
        }
    }
    return NULL;
}

#define TITLE_BYTES 320

/* device 0:1 "its name", platform 0 "its name" */
static const char *title_of(const struct device_broken *broken, char title[TITLE_BYTES])
{
    char id[32];
    snprintf(title, TITLE_BYTES, "%s %s \"%s\"", broken->is_platform ? "platform" : "device",
             device_broken_id(broken, id), broken->is_platform ? broken->platform_name : broken->name);
    return title;
}

/* The driver's failure again, with the name of what it is about. */
static clattn_status broken_failure(const struct device_broken *broken)
{
    char title[TITLE_BYTES];
    struct error_record record = { .native = broken->failure.native };
    snprintf(record.text, sizeof(record.text), "%s: cannot be used: %.7000s", title_of(broken, title),
             broken->failure.text);
    error_restore(&record);
    return broken->status;
}

static void append_there_is(const struct device_listing *listing, struct text *text)
{
    for (unsigned i = 0; i < listing->count; ++i) {
        const struct device_listed *item = &listing->items[i];
        text_append(text, "%s%u:%u %s \"%s\" of \"%s\"", i ? "; " : "", item->platform, item->number,
                    device_class_name(item->device.device_class), item->device.name, item->device.platform_name);
    }
    for (unsigned i = 0; i < listing->broken_count; ++i) {
        const struct device_broken *broken = &listing->broken[i];
        char title[TITLE_BYTES];
        text_append(text, "%s%s, which cannot be used: %s", i || listing->count ? "; " : "", title_of(broken, title),
                    broken->failure.text);
    }
}

/* Nothing is there but what is broken, and no name says which. */
static clattn_status all_broken(const struct device_listing *listing)
{
    struct text text = TEXT_INIT;
    append_there_is(listing, &text);
    const clattn_status status = error_set(listing->broken[0].status, "no OpenCL device can be used. There is: %s",
                                           text.data ? text.data : "(out of memory)");
    text_free(&text);
    return status;
}

/* `asked_by`: what the name is from. */
static clattn_status no_match(const struct device_listing *listing, const char *asked_by, const char *wanted)
{
    const struct device_broken *broken = device_broken_wanted(listing, wanted);
    enum device_class device_class;
    if (broken && listing->broken_count > 1 && (!wanted || parse_class(wanted, &device_class))) {
        return all_broken(listing);
    }
    if (broken) {
        return broken_failure(broken);
    }
    if (listing->count == 0 && listing->broken_count == 0) {
        return error_set(CLATTN_NO_DEVICE, "no OpenCL device: install a driver for your device, or PoCL, which runs on "
                                           "the CPU (Debian: apt-get install pocl-opencl-icd)");
    }
    struct text text = TEXT_INIT;
    append_there_is(listing, &text);
    const char *rule = wanted && strchr(wanted, '+')
                           ? "several devices are for clattn_group_open (clattn_group.h); name one"
                           : "give gpu, cpu, accelerator, PLATFORM:DEVICE or part of a name";
    clattn_status status = error_set(CLATTN_NO_DEVICE, "%s \"%s\": matches nothing; %s. There is: %s", asked_by, wanted,
                                     rule, text.data ? text.data : "(out of memory)");
    text_free(&text);
    return status;
}

clattn_status device_find(const char *name, cl_device_id *id)
{
    const char *wanted = name ? name : environment_device();
    if (wanted && !wanted[0]) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "device \"\": must not be empty; NULL takes CLATTN_DEVICE, or the default");
    }
    struct device_listing listing;
    clattn_status status = device_list(&listing);
    if (status == CLATTN_OK) {
        int chosen = device_choose(&listing, wanted);
        if (chosen >= 0) {
            *id = listing.items[chosen].device.id;
        } else {
            status = no_match(&listing, name ? "device" : "CLATTN_DEVICE", wanted);
        }
    }
    device_listing_free(&listing);
    return status;
}
