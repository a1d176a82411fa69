/* The folder of a program's files: making, opening with suspicion, keeping it small. On Windows, whose rules of who may
 * write to a file are others, there are no such folders (folder_none.c): nothing opens. */
#ifndef CLATTN_SRC_PROGRAM_FOLDER_H
#define CLATTN_SRC_PROGRAM_FOLDER_H

#include <sys/stat.h>

#include "program/program_file.h"

#define PROGRAM_FILE_SUFFIX ".clattn"
#define PROGRAM_VERDICT_SUFFIX ".judged" /* as long: program_file_name has room for either */
#define PROGRAM_TEMPORARY_PREFIX ".clattn-"

/* Why there are no folders of programs on this system; NULL: there are. */
const char *program_folder_refusal(void);

/* Whether the owner of a file or folder is trusted, and nobody else may write to it. */
int program_folder_trusts(enum program_folder_trust trust, const struct stat *state);

/* `folder` and `below` it, from the root, without slashes at the end: what a link is must show. NULL where
 * that fails; the caller frees it. */
char *program_folder_path(const char *folder, const char *below);

/* A descriptor of the folder, which the caller closes; -1 when it is none, a link, or not trusted. */
int program_folder_open(const char *folder, enum program_folder_trust trust);

void program_folder_close(int directory);

/* Notes that a file was used now: program_folder_trim goes by that. */
void program_folder_touch(int directory, const char *name);

/* Removes a file. 1 when it is not there any more. */
int program_folder_remove(int directory, const char *name);

/* Makes the folder and its missing parents, for the user alone. That it failed shows when it is opened. */
void program_folder_make(const char *folder);

/* Removes program files and verdicts, those that were not used for longest first, while they are larger than
 * `limit_bytes` together; and what writers that were killed left behind an hour ago or more. Nothing else
 * in the folder is touched. */
void program_folder_trim(int directory, size_t limit_bytes);

#endif
