/* Copies public structs of any version. */
#include "base/growth.h"

#include <string.h>

#include "base/error.h"

#define STRUCT_BYTES_MAX 65536 /* more is a size that nobody set */

/* A size that some version has, and nothing set behind what this one knows. */
static clattn_status check(const struct growth *growth, const void *given, size_t *bytes)
{
    if (!given) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must not be NULL", growth->name);
    }
    memcpy(bytes, given, sizeof(*bytes));
    /* A size that ends inside of a word is no sizeof. */
    if (*bytes < growth->least_bytes || *bytes > STRUCT_BYTES_MAX || *bytes % sizeof(*bytes) != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s.struct_size %zu: must be sizeof of the struct, %zu in this version, set by %s",
                         growth->name, *bytes, growth->known_bytes, growth->macro);
    }
    for (size_t i = growth->known_bytes; i < *bytes; ++i) {
        if (((const unsigned char *)given)[i] != 0) {
            return error_set(CLATTN_UNSUPPORTED,
                             "%s.struct_size %zu: sets a field that this library (version %s) does not know; use a "
                             "newer libclattn",
                             growth->name, *bytes, clattn_version());
        }
    }
    return CLATTN_OK;
}

static void fill(const struct growth *growth, const void *given, size_t bytes, void *copy)
{
    const size_t taken = bytes < growth->known_bytes ? bytes : growth->known_bytes;
    memcpy(copy, given, taken);
    memcpy((char *)copy + taken, (const char *)growth->defaults + taken, growth->known_bytes - taken);
    memcpy(copy, &growth->known_bytes, sizeof(growth->known_bytes));
}

clattn_status growth_copy(const struct growth *growth, const void *given, void *copy)
{
    size_t bytes;
    const clattn_status status = check(growth, given, &bytes);
    if (status == CLATTN_OK) {
        fill(growth, given, bytes, copy);
    }
    return status;
}

clattn_status growth_read(const struct growth *growth, const void *given, void *copy, const void **known)
{
    size_t bytes;
    const clattn_status status = check(growth, given, &bytes);
    *known = given;
    if (status == CLATTN_OK && bytes < growth->known_bytes) {
        fill(growth, given, bytes, copy);
        *known = copy;
    }
    return status;
}

clattn_status growth_give(const struct growth *growth, const void *filled, void *given)
{
    size_t bytes;
    const clattn_status status = check(growth, given, &bytes);
    if (status == CLATTN_OK) {
        memcpy(given, filled, bytes < growth->known_bytes ? bytes : growth->known_bytes);
        memcpy(given, &bytes, sizeof(bytes));
    }
    return status;
}

void growth_init(const void *defaults, size_t known_bytes, void *to, size_t bytes)
{
    if (!to || bytes < sizeof(bytes)) {
        return;
    }
    memset(to, 0, bytes);
    memcpy(to, defaults, bytes < known_bytes ? bytes : known_bytes);
    memcpy(to, &bytes, sizeof(bytes));
}
