/* What a driver made of a program for one device. The program has a binary for each device of the caller's cl_context,
 * and drivers tell of all at once. */
#ifndef CLATTN_SRC_PROGRAM_BINARY_H
#define CLATTN_SRC_PROGRAM_BINARY_H

#include "device/device.h"

/* 0: the driver has none to show. May take long: runtimes that compile late compile then. */
size_t program_binary_bytes(cl_program program, cl_device_id device);

/* The binary and its size, which the caller frees; NULL: none, or no memory for it. */
unsigned char *program_binary(cl_program program, cl_device_id device, size_t *bytes);

#endif
