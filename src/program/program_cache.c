/* Compiled programs on disk. */
#include "program/program_cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/environment.h"
#include "program/program_binary.h"
#include "program/program_folder.h"

/* A program is 20 to 400 kB: some hundreds of them, after which the oldest go. */
#define CACHE_BYTES_MAX ((size_t)256 << 20)

struct program_cache {
    char *cache_dir, *binary_dir; /* absolute; NULL: none */
    cl_device_id device;
    struct sha256 identity; /* of the library and the device: where each key starts */
};

/* ---- folders -------------------------------------------------------------------------------- */

/* The user's own cache folder, by the XDG rules: names that are not absolute do not count. */
static char *default_cache_dir(void)
{
    const char *cache = environment_user_cache_dir(), *home = environment_home_dir();
    if (cache && cache[0] == '/') {
        return program_folder_path(cache, "/clattn");
    }
    return home && home[0] == '/' ? program_folder_path(home, "/.cache/clattn") : NULL;
}

char *program_cache_folder(void)
{
    const char *wanted = environment_cache(), *named = environment_cache_dir();
    if (environment_is_foreign() || (wanted && strcmp(wanted, "off") == 0)) {
        return NULL;
    }
    return named && named[0] ? program_folder_path(named, "") : default_cache_dir();
}

/* A folder that was named is not passed over in silence. */
static clattn_status choose_binary_dir(const char *named, struct program_cache *cache)
{
    if (program_folder_refusal()) {
        return error_set(CLATTN_INVALID_ARGUMENT, "CLATTN_BINARY_DIR \"%s\": %s", named, program_folder_refusal());
    }
    cache->binary_dir = program_folder_path(named, "");
    if (!cache->binary_dir) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the program cache");
    }
    const int directory = program_folder_open(cache->binary_dir, PROGRAM_FOLDER_INSTALLED);
    if (directory < 0) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "CLATTN_BINARY_DIR \"%s\": must be a folder and no link, yours or root's, that nobody else "
                         "may write to; `clattn compile` makes one",
                         named);
    }
    program_folder_close(directory);
    return CLATTN_OK;
}

static clattn_status choose_folders(const struct device *device, struct program_cache *cache)
{
    const char *wanted = environment_cache(), *cache_dir = environment_cache_dir();
    const char *binary_dir = environment_binary_dir();
    if (wanted && strcmp(wanted, "off") != 0 && strcmp(wanted, "on") != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "CLATTN_CACHE \"%s\": must be on or off", wanted);
    }
    if (binary_dir && binary_dir[0]) {
        const clattn_status status = choose_binary_dir(binary_dir, cache);
        if (status != CLATTN_OK) {
            return status;
        }
    }
    if ((cache_dir && cache_dir[0]) || wanted || !(device->quirks & QUIRK_KEEPS_PROGRAMS)) {
        cache->cache_dir = program_cache_folder();
    }
    return CLATTN_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* With their lengths, so that no two lists of texts look alike. */
static void add_text(struct sha256 *sha256, const char *text)
{
    uint64_t length = strlen(text);
    sha256_add(sha256, &length, sizeof(length));
    sha256_add(sha256, text, length);
}

/* The platform's version, in the digest, names the compiler that is inside; extensions, there too, and limits tell two
 * processors of one name apart. */
static void add_device(struct sha256 *sha256, const struct device *device)
{
    cl_uint address_bits = 0;
    clGetDeviceInfo(device->id, CL_DEVICE_ADDRESS_BITS, sizeof(address_bits), &address_bits, NULL);
    const char *const texts[] = { device->platform_name, device->vendor, device->name, device->version,
                                  device->driver };
    const uint64_t numbers[] = { address_bits, device->device_class, device->work_group_limit, device->local_bytes,
                                 device->compute_units };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        add_text(sha256, texts[i]);
    }
    sha256_add(sha256, numbers, sizeof(numbers));
    sha256_add(sha256, device->texts_digest, sizeof(device->texts_digest));
}

void program_cache_device_key(const struct device *device, struct program_key *key)
{
    struct sha256 sha256;
    sha256_begin(&sha256);
    add_device(&sha256, device);
    sha256_end(&sha256, key->bytes);
}

void program_cache_identity(const struct device *device, struct sha256 *identity)
{
    sha256_begin(identity);
    add_text(identity, clattn_version());
    add_device(identity, device);
}

void program_cache_key(const struct program_cache *cache, const char *source, const char *options,
                       struct program_key *key)
{
    memset(key, 0, sizeof(*key));
    if (cache) {
        struct sha256 sha256 = cache->identity;
        add_text(&sha256, source);
        add_text(&sha256, options);
        sha256_end(&sha256, key->bytes);
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

clattn_status program_cache_open(const struct device *device, struct program_cache **result)
{
    struct program_cache *cache = calloc(1, sizeof(*cache));
    if (!cache) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for the program cache");
    }
    clattn_status status = choose_folders(device, cache);
    if (status != CLATTN_OK || (!cache->cache_dir && !cache->binary_dir)) {
        program_cache_close(cache);
        return status;
    }
    cache->device = device->id;
    program_cache_identity(device, &cache->identity);
    *result = cache;
    return CLATTN_OK;
}

void program_cache_close(struct program_cache *cache)
{
    if (cache) {
        free(cache->cache_dir);
        free(cache->binary_dir);
        free(cache);
    }
}

const char *program_cache_binary_dir(const struct program_cache *cache)
{
    return cache ? cache->binary_dir : NULL;
}

/* ---- into the driver ------------------------------------------------------------------------ */

static cl_program build_binary(const struct program_cache *cache, cl_context context, const unsigned char *binary,
                               size_t bytes, const char *options)
{
    cl_int state = CL_SUCCESS, code;
    cl_program program = clCreateProgramWithBinary(context, 1, &cache->device, &bytes, &binary, &state, &code);
    if (code == CL_SUCCESS && state == CL_SUCCESS) {
        code = clBuildProgram(program, 1, &cache->device, options, NULL, NULL);
    }
    if (program && (code != CL_SUCCESS || state != CL_SUCCESS)) {
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

static cl_program load_from(const struct program_cache *cache, const char *folder, enum program_folder_trust trust,
                            cl_context context, const struct program_key *key, const char *options)
{
    size_t file_bytes = 0;
    unsigned char *file = folder ? program_file_read(folder, trust, key, &file_bytes) : NULL;
    if (!file) {
        return NULL;
    }
    cl_program program =
        build_binary(cache, context, file + PROGRAM_FILE_HEADER_BYTES, file_bytes - PROGRAM_FILE_HEADER_BYTES, options);
    free(file);
    return program;
}

cl_program program_cache_load(const struct program_cache *cache, cl_context context, const struct program_key *key,
                              const char *options)
{
    if (!cache) {
        return NULL;
    }
    cl_program program = load_from(cache, cache->binary_dir, PROGRAM_FOLDER_INSTALLED, context, key, options);
    return program ? program : load_from(cache, cache->cache_dir, PROGRAM_FOLDER_OWN, context, key, options);
}

/* ---- out of the driver ---------------------------------------------------------------------- */

void program_cache_store(const struct program_cache *cache, const struct program_key *key, cl_program program)
{
    size_t bytes = 0;
    unsigned char *binary = cache && cache->cache_dir ? program_binary(program, cache->device, &bytes) : NULL;
    if (binary) {
        program_file_write(cache->cache_dir, key, binary, bytes, CACHE_BYTES_MAX);
    }
    free(binary);
}
