/* Programs that are built twice: from their OpenCL C, then from what the driver made of it, changed (program_text.h).
 * Options say so: "-D SECOND_BUILD=TARGET". What is asked for them later, binaries for the cache above all, is the
 * second program's. */
#ifndef CLATTN_SRC_PROGRAM_SECOND_H
#define CLATTN_SRC_PROGRAM_SECOND_H

#include "program/program_parts.h"

/* The target of the second build; 0: there is none to be. */
#define SECOND_TARGET_BYTES 16
int program_second_target(const char *options, char target[SECOND_TARGET_BYTES]);

/* Builds program->cl, which is built, again, and puts the second program in its place. A failure names the line of the
 * second text that the driver complains of, behind which marked instructions have their place in cl/. */
clattn_status program_second_build(cl_context context, struct program *program, const char *options,
                                   const char *target);

/* The driver's log of a build; NULL: there is none, or no memory for it. The caller frees it. */
char *program_build_log(cl_program program, cl_device_id device);

#endif
