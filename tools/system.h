/* What the command asks of the operating system beyond C: system_posix.c, or in its place system_windows.c. Where an
 * output stands is place.h's, a process of its own child.h's. -1 is a failure, whose reason is in errno. */
#ifndef CLATTN_TOOLS_SYSTEM_H
#define CLATTN_TOOLS_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- the process and its machine ---- */

/* Before anything is read or printed: the standard streams carry bytes as they are, texts are UTF-8. */
void system_begin(void);

/* A variable of the environment; NULL removes it. Windows has no empty ones: "" removes it there. */
void system_set_variable(const char *name, const char *value);

double system_memory_bytes(void); /* 0: not known */

/* "Linux 6.1.0 x86_64". */
#define SYSTEM_NAME_BYTES 256
void system_name(char name[SYSTEM_NAME_BYTES]);

/* ---- the terminal; descriptors 0, 1 and 2 are the standard streams ---- */

int system_is_terminal(int descriptor);
int system_terminal_columns(int descriptor); /* 0: not known */
int system_terminal_has_colours(void);       /* if standard output is one */
int system_speaks_utf8(void);

/* An interrupt (Ctrl-C) calls `heed`, once: 1 means to go on, 0 that the process ends as ever. It runs as a signal
 * handler, or beside other threads. */
void system_at_interrupt(int (*heed)(void));
int system_ignores_interrupts(void); /* whoever started this wants it to go on */

/* ---- files ---- */

/* A descriptor for reading, which child processes do not get; opening waits for nobody. The caller closes it. */
int system_open(const char *path);

ssize_t system_read(int descriptor, void *data, size_t bytes);
ssize_t system_read_at(int descriptor, void *data, size_t bytes, uint64_t position);
ssize_t system_write(int descriptor, const void *data, size_t bytes);

/* Another descriptor of the same file, none of the standard ones, which child processes do not get. */
int system_own_descriptor(int descriptor);

/* The folder of files for a while, and the variable that names another. */
const char *system_temporary_folder(const char **variable);

/* A file there for writing and reading that is gone when its last descriptor is closed; NULL: errno. */
FILE *system_nameless_file(void);

int system_make_folder(const char *path);

#endif
