/* What a compiled program is kept for: another source, option, device, driver or version of clattn is another key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "program/context.h"
#include "program/program_cache.h"

/* The linker puts it in the place of the library's. */
static const char *version = "1.2.3";
const char *__wrap_clattn_version(void);

const char *__wrap_clattn_version(void)
{
    return version;
}

static struct program_key key_of(const struct device *device, const char *source, const char *options)
{
    struct program_cache *cache = NULL;
    struct program_key key;
    EXPECT_OK(program_cache_open(device, &cache));
    ck_assert_ptr_nonnull(cache);
    program_cache_key(cache, source, options, &key);
    program_cache_close(cache);
    return key;
}

static void expect_another(const struct program_key *key, const struct device *device, const char *what)
{
    const struct program_key other = key_of(device, "source", "options");
    ck_assert_msg(memcmp(key->bytes, other.bytes, sizeof(key->bytes)) != 0, "another %s has the same key", what);
}

/* Another device in one field. */
#define ANOTHER_TEXT(field)                                                                                            \
    do {                                                                                                               \
        struct device other = context->device;                                                                         \
        other.field[0] = other.field[0] == 'x' ? 'y' : 'x';                                                            \
        expect_another(&key, &other, #field);                                                                          \
    } while (0)
#define ANOTHER_NUMBER(field)                                                                                          \
    do {                                                                                                               \
        struct device other = context->device;                                                                         \
        ++other.field;                                                                                                 \
        expect_another(&key, &other, #field);                                                                          \
    } while (0)

/* Extensions of which none fits a buffer on somebody's stack; the last letter is what `last_letter` says. */
static char last_letter; /* 0: the device's own */
cl_int __real_clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *value, size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *value, size_t *needed);

cl_int __wrap_clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *value, size_t *needed)
{
    static char extensions[20000];
    if (what != CL_DEVICE_EXTENSIONS || !last_letter) {
        return __real_clGetDeviceInfo(id, what, size, value, needed);
    }
    memset(extensions, 'x', sizeof(extensions) - 2);
    extensions[sizeof(extensions) - 2] = last_letter;
    if (needed) {
        *needed = sizeof(extensions);
    }
    if (value && size < sizeof(extensions)) {
        return CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, extensions, sizeof(extensions));
    }
    return CL_SUCCESS;
}

START_TEST(test_long_extensions_count)
{
    struct device device;
    last_letter = 'a';
    EXPECT_OK(device_read(context->device.id, &device));
    const struct program_key key = key_of(&device, "source", "options");
    last_letter = 'b';
    EXPECT_OK(device_read(context->device.id, &device));
    expect_another(&key, &device, "last letter of 20,000 of extensions");
    last_letter = 0;
}
END_TEST

START_TEST(test_each_part_counts)
{
    const struct program_key key = key_of(&context->device, "source", "options");
    const struct program_key again = key_of(&context->device, "source", "options");
    const struct program_key others[] = { key_of(&context->device, "sourc", "options"),
                                          key_of(&context->device, "source", "option"),
                                          key_of(&context->device, "sourceo", "ptions"),
                                          key_of(&context->device, "source", "") };
    ck_assert_int_eq(memcmp(key.bytes, again.bytes, sizeof(key.bytes)), 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
        ck_assert_int_ne(memcmp(key.bytes, others[i].bytes, sizeof(key.bytes)), 0);
    }
    ANOTHER_TEXT(platform_name);
    ANOTHER_TEXT(vendor);
    ANOTHER_TEXT(name);
    ANOTHER_TEXT(version);
    ANOTHER_TEXT(driver);
    ANOTHER_NUMBER(device_class);
    ANOTHER_NUMBER(work_group_limit);
    ANOTHER_NUMBER(local_bytes);
    ANOTHER_NUMBER(compute_units);
    version = "1.2.4";
    expect_another(&key, &context->device, "version of clattn");
}
END_TEST

static void add(TCase *tests)
{
    tcase_add_test(tests, test_each_part_counts);
    tcase_add_test(tests, test_long_extensions_count);
}

int main(void)
{
    unsetenv("CLATTN_CACHE");
    setenv("CLATTN_CACHE_DIR", "/nowhere", 1); /* keys are made; no file is */
    return api_main("keys", add);
}
