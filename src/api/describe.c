/* The text of clattn_describe_devices: what there is, what each can do, which one is chosen and why. A
 * context is made on each device for as long as its ladder is climbed. */
#include "api/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/new_context.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/utf8.h"
#include "device/device_list.h"
#include "plan/ladder.h"
#include "program/gemm.h"
#include "program/verdicts.h"

static const char *yes_no(int value)
{
    return value ? "yes" : "no";
}

static const char *true_false(int value)
{
    return value ? "true" : "false";
}

static const char *reason(const char *wanted, const struct device *device)
{
    if (wanted) {
        return "CLATTN_DEVICE names it";
    }
    return device->device_class == DEVICE_GPU           ? "the first GPU"
           : device->device_class == DEVICE_ACCELERATOR ? "no GPU is there: the first accelerator"
                                                        : "no GPU or accelerator is there: the first CPU";
}

/* A context to ask the ladder with; NULL: none can be made, for the reason in `why`. */
static clattn_context *open_context(const struct device *device, struct text *why)
{
    clattn_context *context = NULL;
    cl_int code;
    cl_context cl = clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        text_append(why, "clCreateContext failed with %s (%d)", error_opencl_name(code), code);
        return NULL;
    }
    if (new_context(cl, device->id, NULL, &context) != CLATTN_OK) {
        text_append(why, "%s", error_text());
    }
    clReleaseContext(cl);
    return context;
}

/* Calls `line` with what came out for each rung that the device may be asked for. */
static void climb(struct text *text, const struct device *device,
                  void (*line)(struct text *text, const struct rung *rung, int number, const char *refused,
                               double gain))
{
    struct text why = TEXT_INIT;
    struct error_record before; /* what fails here is described, and no failure of the call */
    clattn_context *context = NULL;
    int number = 0;
    error_save(&before);
    for (int id = 0; id < RUNG_COUNT; ++id) {
        if (!ladder_asks(device, (enum rung_id)id)) {
            continue;
        }
        if (number == 0) {
            context = open_context(device, &why);
        }
        if (!context) {
            line(text, &ladder_table[id], number++, why.data ? why.data : "", 0);
            continue;
        }
        text_free(&why);
        struct ask ask = { .context = context }; /* no choice rests on it */
        int has_it = ladder_has(&ask, (enum rung_id)id, &why);
        line(text, &ladder_table[id], number++,
             has_it     ? NULL
             : why.data ? why.data
                        : "",
             ladder_gain(context, (enum rung_id)id));
    }
    text_free(&why);
    if (context) {
        context_destroy(context);
    }
    error_restore(&before);
}

static void describe_rung(struct text *text, const struct rung *rung, int number, const char *refused, double gain)
{
    (void)number;
    text_append(text, "     %s (%s): %s", rung->name, rung->summary, refused ? "no: " : "yes");
    if (refused) {
        text_append(text, "%s", refused);
    } else if (gain > 0) {
        text_append(text, ", by %s times", DECIMAL_FIXED(1, gain));
    }
    text_append(text, "\n");
}

static void describe_one(struct text *text, const struct device_listed *item, const char *why)
{
    const struct device *d = &item->device;
    text_append(text, "%u:%u  %s%s\n", item->platform, item->number, d->name, why ? "   <- chosen" : "");
    text_append(text, "     %s on %s, %s, driver %s\n", device_class_name(d->device_class), d->platform_name,
                d->version, d->driver);
    text_append(text,
                "     %u compute units, %s GiB memory, %" PRIu64 " KiB local memory, work-groups up "
                "to %zu\n",
                d->compute_units, DECIMAL_FIXED(1, (double)d->global_bytes / 1073741824.0),
                (uint64_t)(d->local_bytes / 1024), d->work_group_limit);
    text_append(text, "     float16 and bfloat16 storage: yes, float64: %s, compiler: %s\n", yes_no(d->has_fp64),
                yes_no(d->has_compiler));
    text_append(text, "     self-check: %s\n",
                verdicts_are_wanted(d)
                    ? "known answers of each program before its first result"
                    : "none: the tests run on this version of the driver, or CLATTN_SELF_CHECK is off");
    climb(text, d, describe_rung);
    const char *quirk;
    for (size_t i = 0; (quirk = device_quirk_reason(d, i)) != NULL; ++i) {
        text_append(text, "     known: %s\n", quirk);
    }
    if (why) {
        text_append(text, "     chosen because: %s\n", why);
    }
}

static void describe_broken(struct text *text, const struct device_broken *broken)
{
    char id[32];
    text_append(text, "%s  %s\n", device_broken_id(broken, id),
                broken->is_platform ? broken->platform_name : broken->name);
    text_append(text, "     cannot be used: %s\n", broken->failure.text);
    if (!broken->is_platform) {
        text_append(text, "     on %s\n", broken->platform_name);
    }
}

/* Devices that are taken: the default, or those that CLATTN_DEVICE names, one or several with + between them. */
struct choice {
    const char *wanted;
    int first;         /* -1: none */
    uint64_t all;      /* bits of the listing's, which has no more than 64 */
    char unfound[256]; /* a name that means none; "" where there is none */
};

static void choose_one(const struct device_listing *listing, const char *name, struct choice *choice)
{
    const int chosen = device_choose(listing, name);
    if (chosen < 0) {
        snprintf(choice->unfound, sizeof(choice->unfound), "%s", name ? name : "");
    } else {
        choice->first = choice->first < 0 ? chosen : choice->first;
        choice->all |= (uint64_t)1 << chosen;
    }
}

static clattn_status choose(const struct device_listing *listing, const char *wanted, struct choice *choice)
{
    *choice = (struct choice){ .wanted = wanted, .first = -1 };
    if (!wanted) {
        choose_one(listing, NULL, choice);
        return CLATTN_OK;
    }
    char *names = strdup(wanted);
    if (!names) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory describing devices");
    }
    for (char *rest = names, *name; (name = device_name_next(&rest)) != NULL;) {
        choose_one(listing, name, choice);
    }
    free(names);
    return CLATTN_OK;
}

static int is_chosen(const struct choice *choice, unsigned i)
{
    return (choice->all >> i & 1) != 0;
}

static void describe_text(struct text *text, const struct device_listing *listing, const struct choice *choice)
{
    if (listing->count == 0 && listing->broken_count == 0) {
        text_append(text, "No OpenCL device. Install a driver for your device, or PoCL, which runs on the "
                          "CPU (Debian: apt-get install pocl-opencl-icd).\n");
    }
    for (unsigned i = 0; i < listing->count; ++i) {
        const struct device_listed *item = &listing->items[i];
        describe_one(text, item, is_chosen(choice, i) ? reason(choice->wanted, &item->device) : NULL);
    }
    for (unsigned i = 0; i < listing->broken_count; ++i) {
        describe_broken(text, &listing->broken[i]);
    }
    if (!gemm_is_built()) {
        text_append(text, "clattn was built without CLBlast: strategy staged multiplies by its own tiles.\n");
    }
    if (choice->wanted && choice->unfound[0]) {
        text_append(text, "CLATTN_DEVICE is \"%s\", which %s.\n", choice->unfound,
                    device_broken_wanted(listing, choice->unfound) ? "cannot be used" : "matches none of these");
    }
}

/* Control characters of both ranges are escaped, for terminals; what is no UTF-8 is U+FFFD. */
static void json_string(struct text *text, const char *name, const char *value)
{
    text_append(text, "\"%s\": \"", name);
    while (*value) {
        unsigned long c = 0;
        const size_t bytes = utf8_decode(value, &c);
        if (bytes == 0) {
            text_append(text, "\\ufffd");
        } else if (c == '"' || c == '\\') {
            text_append(text, "\\%c", (int)c);
        } else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            text_append(text, "\\u%04lx", c);
        } else {
            text_append(text, "%.*s", (int)bytes, value);
        }
        value += bytes ? bytes : 1;
    }
    text_append(text, "\"");
}

static void describe_rung_json(struct text *text, const struct rung *rung, int number, const char *refused, double gain)
{
    (void)gain;
    text_append(text, "%s{", number ? ", " : "");
    json_string(text, "name", rung->name);
    text_append(text, ", ");
    json_string(text, "summary", rung->summary);
    text_append(text, ", \"usable\": %s, ", true_false(refused == NULL));
    if (refused) {
        json_string(text, "reason", refused);
    } else {
        text_append(text, "\"reason\": null");
    }
    text_append(text, "}");
}

static void describe_one_json(struct text *text, const struct device_listed *item, int chosen)
{
    const struct device *d = &item->device;
    const struct {
        const char *name, *value;
    } strings[] = {
        { "name", d->name },       { "type", device_class_name(d->device_class) },
        { "vendor", d->vendor },   { "platform", d->platform_name },
        { "version", d->version }, { "driver", d->driver },
    };
    text_append(text, "    {\"id\": \"%u:%u\", ", item->platform, item->number);
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); ++i) {
        json_string(text, strings[i].name, strings[i].value);
        text_append(text, ", ");
    }
    text_append(text,
                "\"compute_units\": %u, \"memory_bytes\": %" PRIu64 ", \"local_memory_bytes\": %" PRIu64
                ", \"work_group_limit\": %zu, \"float64\": %s, \"compiler\": %s, \"self_check\": %s, \"chosen\": %s,\n"
                "     \"instructions\": [",
                d->compute_units, (uint64_t)d->global_bytes, (uint64_t)d->local_bytes, d->work_group_limit,
                true_false(d->has_fp64), true_false(d->has_compiler), true_false(verdicts_are_wanted(d)),
                true_false(chosen));
    climb(text, d, describe_rung_json);
    text_append(text, "]}");
}

static void describe_broken_json(struct text *text, const struct device_broken *broken)
{
    char id[32];
    json_string(text, "id", device_broken_id(broken, id));
    text_append(text, ", ");
    if (!broken->is_platform) {
        json_string(text, "name", broken->name);
        text_append(text, ", ");
    }
    json_string(text, "platform", broken->platform_name);
    text_append(text, ", ");
    json_string(text, "reason", broken->failure.text);
}

static void describe_json(struct text *text, const struct device_listing *listing, const struct choice *choice)
{
    const char *wanted = choice->wanted, *missed = choice->unfound[0] ? choice->unfound : wanted;
    text_append(text, "{\n  \"devices\": [\n");
    for (unsigned i = 0; i < listing->count; ++i) {
        describe_one_json(text, &listing->items[i], is_chosen(choice, i));
        text_append(text, i + 1 < listing->count ? ",\n" : "\n");
    }
    text_append(text, "  ],\n  \"broken\": [");
    for (unsigned i = 0; i < listing->broken_count; ++i) {
        text_append(text, i ? ",\n    {" : "\n    {");
        describe_broken_json(text, &listing->broken[i]);
        text_append(text, i + 1 < listing->broken_count ? "}" : "}\n  ");
    }
    text_append(text, "],\n  \"clblast\": %s,\n  ", true_false(gemm_is_built()));
    if (wanted) {
        json_string(text, "wanted", wanted);
    } else {
        text_append(text, "\"wanted\": null");
    }
    text_append(text, ",\n  ");
    json_string(text, "reason",
                choice->first >= 0 && !choice->unfound[0] ? reason(wanted, &listing->items[choice->first].device)
                : device_broken_wanted(listing, missed)   ? "the device cannot be used"
                : choice->first >= 0                      ? "a name in CLATTN_DEVICE matches no device"
                : listing->count                          ? "CLATTN_DEVICE matches no device"
                                                          : "there is no OpenCL device");
    text_append(text, "\n}\n");
}

clattn_status describe_devices(const char *wanted, int as_json, char **result)
{
    struct device_listing listing;
    clattn_status status = device_list(&listing);
    if (status == CLATTN_OK) {
        struct text text = TEXT_INIT;
        struct choice choice;
        status = choose(&listing, wanted, &choice);
        if (status == CLATTN_OK) {
            (as_json ? describe_json : describe_text)(&text, &listing, &choice);
        }
        *result = text_take(&text);
        if (!*result && status == CLATTN_OK) {
            status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory describing devices");
        }
    }
    device_listing_free(&listing);
    return status;
}
