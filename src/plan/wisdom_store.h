/* Wisdom on disk: one file a device and driver, in CLATTN_WISDOM_DIR, else $XDG_STATE_HOME/clattn/wisdom, else
 * ~/.local/state/clattn/wisdom; an empty CLATTN_WISDOM_DIR: none at all. Where that is not set, the administrator's,
 * in /etc/clattn/wisdom, is read before, and facts of the user's own take the places of its facts. Read once, when a
 * context is made, and with the suspicion that programs on disk meet (program/folder_file.h). None is read beside
 * CLATTN_BINARY_DIR, whose programs decide. The library never writes any; `clattn tune` writes the user's. */
#ifndef CLATTN_SRC_WISDOM_STORE_H
#define CLATTN_SRC_WISDOM_STORE_H

#include "plan/wisdom.h"
#include "program/context.h"

#define WISDOM_OF_ALL "/etc/clattn/wisdom" /* the administrator's */

/* The wisdom of a new context, which ends with it. What cannot be read is no wisdom, and no failure. */
clattn_status wisdom_create(clattn_context *context);

/* Where the device's wisdom is, or would be; NULL: nowhere, or memory is out. The caller frees it. */
char *wisdom_path(const clattn_context *context);

/* Learns what the user's file has now. Nothing, when there is none that may be trusted. */
void wisdom_load(const clattn_context *context, struct wisdom *wisdom);

/* Writes the user's file, or removes it where there is no fact. 0 when that did not work, for whatever reason. */
int wisdom_store(const clattn_context *context, const struct wisdom *wisdom);

/* Makes the user's folder, and takes the lock of the device's file, which is a file beside it: for who reads, changes
 * and writes it. 1: *lock is what wisdom_unlock takes, which the process's end does too; 0: another process has it; -1:
 * there cannot be one. */
int wisdom_lock(const clattn_context *context, int *lock);
void wisdom_unlock(int lock);

#endif
