/* Opening a file that must be a regular one: a folder, a device or a pipe in its place neither hangs nor is read. */
#ifndef CLATTN_SRC_REGULAR_FILE_H
#define CLATTN_SRC_REGULAR_FILE_H

#include <stdio.h>

/* For reading; the caller closes it. NULL with errno, which is 0 where the file is not a regular one. */
FILE *regular_file_open(const char *path);

#endif
