/* Calls of the library whose failures become those of the command. */
#ifndef CLATTN_TOOLS_LIBRARY_H
#define CLATTN_TOOLS_LIBRARY_H

#include "clattn.h"
#include "failure.h"
#include "options.h"

/* Opens the device that --device or CLATTN_DEVICE names, or the best. */
int library_open(const struct options *options, clattn_context **context, struct failure *failure);

/* The name of a context's device into `name`. */
void library_device_name(const clattn_context *context, char *name, size_t capacity);

/* Turns the failure of the last call into one of the command; returns -1. What the user asked for
 * and cannot be had (a device or strategy by name, a shape, the environment) is a misuse, the rest
 * a failure of the machine. */
int library_failure(const struct options *options, clattn_status status, struct failure *failure);

#endif
