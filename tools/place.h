/* Where a file that is written stands: behind links, and until then beside its target under a temporary name. What
 * depends on the system is place_posix.c, or in its place place_windows.c. */
#ifndef CLATTN_TOOLS_PLACE_H
#define CLATTN_TOOLS_PLACE_H

#include "failure.h"

#define PLACE_ABANDONED_SECONDS 3600

/* Where the bytes go in the end: behind a symbolic link, its target. The caller frees it; NULL: a misuse. */
char *place_resolve(const char *path, struct failure *failure);

/* Creates a temporary file beside the target; *temporary is the caller's. Who may read and write it is as of the file
 * that it replaces, else as of any file that a program writes. Its descriptor, which the caller closes; -1: a misuse.
 * `path` is the target's name for messages. */
int place_create(const char *path, const char *target, char **temporary, struct failure *failure);

/* Whether it is a name that place_create gives beside a target of that name. */
int place_is_temporary_of(const char *name, const char *target_name);

/* What is there by now. PLACE_UNKNOWN: errno says why. */
enum place_kind { PLACE_NEW, PLACE_FILE, PLACE_FOLDER, PLACE_DEVICE, PLACE_UNKNOWN };
enum place_kind place_kind_of(const char *target);

/* Creates a file that is not there yet, with the rights of the file `like`; NULL: with those of any. errno on -1, then
 * nothing is left of it. */
int place_open_new(const char *name, const char *like);

/* Forces a file to the disk; renames it over its target, if there is one, in one step. errno on -1. */
int place_sync(int descriptor);
int place_take(const char *temporary, const char *target);

/* Removes what processes left that were killed while they wrote the same target, an hour ago or more. */
void place_remove_abandoned(const char *target);

#endif
