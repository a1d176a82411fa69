/* Which devices there are, and which one a name means. Nothing else lists platforms. A platform
 * or a device whose driver is broken, and a platform without devices, is listed as such and hides no other. */
#ifndef CLATTN_SRC_DEVICE_LIST_H
#define CLATTN_SRC_DEVICE_LIST_H

#include "base/error.h"
#include "device/device.h"

/* Numbers are those of OpenCL's own lists, broken ones counted. */
struct device_listed {
    unsigned platform, number;
    struct device device;
};

struct device_broken {
    unsigned platform, number;
    int is_platform;                    /* it cannot list its devices, or has none, so there is no number */
    char name[256], platform_name[256]; /* "" where the driver says no more */
    clattn_status status;               /* what its driver failed with */
    struct error_record failure;
};

/* In the order of the platforms; no platform at all is an empty list. */
struct device_listing {
    struct device_listed *items;
    struct device_broken *broken;
    unsigned count, broken_count;
};

/* The caller frees the listing, also after a failure. */
clattn_status device_list(struct device_listing *listing);
void device_listing_free(struct device_listing *listing);

/* How many devices a platform has. */
cl_int platform_device_count(cl_platform_id platform, cl_uint *count);

/* "0:1", of a platform "0". */
const char *device_broken_id(const struct device_broken *broken, char id[32]);

/* Cuts the next name off a list of some with + between them; *names becomes what is left, NULL behind the last one.
 * NULL: there is none. */
char *device_name_next(char **names);

/* Index of the device that `wanted` (NULL: the default order) means, -1 when none matches. */
int device_choose(const struct device_listing *listing, const char *wanted);

/* Where none matches: the broken one that was asked for, or any where there are no others; NULL: neither. */
const struct device_broken *device_broken_wanted(const struct device_listing *listing, const char *wanted);

/* Finds a device by the rules of clattn_context_open; `name` NULL: CLATTN_DEVICE, else the default order. A broken one
 * that is wanted, or where there are no others, is its driver's failure. */
clattn_status device_find(const char *name, cl_device_id *id);

#endif
