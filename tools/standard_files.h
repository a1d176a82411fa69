/* "-" as the name of a file: standard input, or standard output. */
#ifndef CLATTN_TOOLS_STANDARD_FILES_H
#define CLATTN_TOOLS_STANDARD_FILES_H

#include <stdint.h>

#include "failure.h"

int is_standard_file(const char *path);

/* Standard input as a file that can be read at any place: itself where it is one, else all that comes until its end,
 * kept in a nameless file. Not a terminal. The caller closes *descriptor. */
int standard_input_open(int *descriptor, uint64_t *size_bytes, struct failure *failure);

/* Keeps standard output for a file, which standard_output() then is: what is printed from now on goes to standard
 * error. Not a terminal. A second time is nothing. */
int standard_output_keep(struct failure *failure);
int standard_output(void);

#endif
