/* Compiled programs on disk: which folders, what a binary depends on, and its way into and out of the
 * driver. Whatever fails here, the caller compiles. */
#ifndef CLATTN_SRC_PROGRAM_CACHE_H
#define CLATTN_SRC_PROGRAM_CACHE_H

#include "device/device.h"
#include "program/program_file.h"

struct program_cache;

/* Reads the environment: CLATTN_CACHE, CLATTN_CACHE_DIR, CLATTN_BINARY_DIR. *cache is NULL where there is
 * no folder to look in. A CLATTN_CACHE that is neither "on" nor "off" is CLATTN_INVALID_ARGUMENT. */
clattn_status program_cache_open(const struct device *device, struct program_cache **cache);
void program_cache_close(struct program_cache *cache); /* NULL is allowed; then nothing happens */

/* CLATTN_BINARY_DIR as an absolute path, NULL: not set. `cache` may be NULL, here and below. */
const char *program_cache_binary_dir(const struct program_cache *cache);

/* Where this user's programs go where nothing but CLATTN_CACHE=off keeps them from it, also those of devices that keep
 * programs themselves; NULL: nowhere. The caller frees it. */
char *program_cache_folder(void);

/* The digest of clattn's version and of the device with its driver, to go on with. */
void program_cache_identity(const struct device *device, struct sha256 *identity);

/* The digest of all that a binary depends on. */
void program_cache_key(const struct program_cache *cache, const char *source, const char *options,
                       struct program_key *key);

/* The digest of a device with its driver: another driver is another device. */
void program_cache_device_key(const struct device *device, struct program_key *key);

/* A built program for the key, or NULL: there is none, it is damaged, or the driver refuses it. */
cl_program program_cache_load(const struct program_cache *cache, cl_context context, const struct program_key *key,
                              const char *options);

/* Keeps a program that was built from source. Some runtimes compile when they are asked for a binary:
 * not for an enqueue. */
void program_cache_store(const struct program_cache *cache, const struct program_key *key, cl_program program);

#endif
