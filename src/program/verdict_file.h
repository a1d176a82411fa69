/* The file of one verdict (verdicts.h tells its form), beside the compiled programs, and locked while it is open. On
 * Windows there is none (folder_none.c). */
#ifndef CLATTN_SRC_VERDICT_FILE_H
#define CLATTN_SRC_VERDICT_FILE_H

#include "program/program_file.h"

#define VERDICT_FILE_BYTES 600

/* The name in the folder. */
void verdict_file_name(const struct program_key *key, char name[PROGRAM_FILE_NAME_BYTES]);

/* A descriptor of the file, locked; made where it is not there. -1 where there can be none, or somebody else has it.
 * folder: NULL is allowed, and has none. */
int verdict_file_open(const char *folder, const struct program_key *key);

/* Writes a verdict over what was there; what does not fit of `why` is left out. */
void verdict_file_write(int file, const struct program_key *key, const char *word, const char *why);

/* The word of a file that is one for this key; `why` is the line behind it, in `text`. NULL where it is none. */
const char *verdict_file_read(int file, const struct program_key *key, char text[VERDICT_FILE_BYTES], const char **why);

/* Empties and removes it: who has opened it meanwhile finds nothing in it. */
void verdict_file_remove(const char *folder, const struct program_key *key, int file);

void verdict_file_close(int file);

#endif
