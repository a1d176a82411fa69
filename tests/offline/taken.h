/* What programs.c takes from the library: a file for each program, a line for each kernel, with its problem. */
#ifndef CLATTN_TESTS_OFFLINE_TAKEN_H
#define CLATTN_TESTS_OFFLINE_TAKEN_H

#include "clattn.h"
#include "null_driver.h"

/* What is being planned, for the lines. */
struct taken {
    const struct null_device *device;
    const char *folder, *problem, *bar;
    clattn_type type;
    int written; /* programs */
};
extern struct taken now;

void begin(const char *problem, clattn_type type, const char *bar);
void take(const struct null_kernel *kernel);

/* Ends the program: this was not planned. */
void fail(const char *what);

#endif
