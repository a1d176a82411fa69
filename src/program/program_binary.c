/* Compiled programs, out of the driver. */
#include "program/program_binary.h"

#include <stdlib.h>

#define DEVICES_MAX 64

/* The device's place among those of the program, -1 when it cannot be told; the size of its binary there. */
static int place_of(cl_program program, cl_device_id device, size_t *count, size_t *binary_bytes)
{
    cl_device_id devices[DEVICES_MAX];
    size_t sizes[DEVICES_MAX] = { 0 }, bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(devices), devices, &bytes) != CL_SUCCESS) {
        return -1;
    }
    *count = bytes / sizeof(devices[0]);
    for (size_t i = 0; i < *count && i < DEVICES_MAX; ++i) {
        if (devices[i] == device) {
            const cl_int code =
                clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, *count * sizeof(sizes[0]), sizes, NULL);
            *binary_bytes = sizes[i];
            return code == CL_SUCCESS ? (int)i : -1;
        }
    }
    return -1;
}

size_t program_binary_bytes(cl_program program, cl_device_id device)
{
    size_t count = 0, bytes = 0;
    return place_of(program, device, &count, &bytes) >= 0 ? bytes : 0;
}

unsigned char *program_binary(cl_program program, cl_device_id device, size_t *bytes)
{
    unsigned char *binaries[DEVICES_MAX] = { NULL }; /* NULL: not wanted */
    size_t count = 0;
    const int place = place_of(program, device, &count, bytes);
    unsigned char *binary = place >= 0 && *bytes > 0 ? malloc(*bytes) : NULL;
    if (binary) {
        binaries[place] = binary;
        if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof(binaries[0]), binaries, NULL) != CL_SUCCESS) {
            free(binary);
            return NULL;
        }
    }
    return binary;
}
