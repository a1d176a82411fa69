/* What is known of programs on this device and driver: that their known answers were right, or that they were wrong, or
 * that a process ended while it tried. In memory for the context, and in a file each beside the compiled programs:
 *
 *     clattn verdict 1
 *     <the key, 64 hexadecimal digits>
 *     trying | trying again | good | bad
 *     <why, one line>
 *
 * `trying` is written before the driver is called, and the file locked: who finds it without the lock knows that the
 * process that wrote it ended in the driver, but not why: nothing that a library may do tells Ctrl-C, a batch system's
 * limit or a machine that stopped from a driver that crashed. So it tries once more, as `trying again`; who finds that
 * takes it for the driver's fault, which a driver that hangs until somebody ends it has, too. The key has the driver's
 * version, so that a new driver is tried anew. */
#ifndef CLATTN_SRC_VERDICTS_H
#define CLATTN_SRC_VERDICTS_H

#include "program/program_cache.h"

struct verdicts;

enum verdict_kind { VERDICT_NONE, VERDICT_GOOD, VERDICT_BAD };

/* Whether programs are checked on a device: by CLATTN_SELF_CHECK, else where the tests do not run on it. */
int verdicts_are_wanted(const struct device *device);

/* By CLATTN_SELF_CHECK: *verdicts is NULL where nothing is checked, which is so on devices that the tests run on. A
 * value that is none of "always", "again" and "off" is CLATTN_INVALID_ARGUMENT. */
clattn_status verdicts_open(const struct device *device, struct verdicts **verdicts);
void verdicts_close(struct verdicts *verdicts); /* NULL is allowed */

/* CLATTN_SELF_CHECK=again: nothing that was made before counts, neither verdicts nor compiled programs. */
int verdicts_start_again(const struct verdicts *verdicts);

/* The digest of the device with its driver, of clattn's version, and of texts that say what is tried. */
void verdicts_key(const struct verdicts *verdicts, const char *const *texts, size_t count, struct program_key *key);

/* A try that has begun; another process or thread may be trying the same, and then nothing is written by this one. */
struct verdict_trial {
    struct verdicts *verdicts;
    struct program_key key;
    int file; /* -1: none */
};

/* What is known; VERDICT_NONE: nothing, and the trial has begun. VERDICT_BAD: `why` gets the reason. */
enum verdict_kind verdicts_begin(struct verdicts *verdicts, const struct program_key *key, const char *what,
                                 struct verdict_trial *trial, struct text *why);

/* Ends a trial. VERDICT_NONE: nothing came out, and the next one tries again. */
void verdicts_end(struct verdict_trial *trial, enum verdict_kind kind, const char *why);

#endif
