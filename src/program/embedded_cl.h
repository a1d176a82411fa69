/* The files of cl/ as they were when the library was built: src/program/embedded_cl.c, which
 * scripts/embed_files writes into the build tree. Read by the program store, which hands them to the
 * OpenCL compiler where no kernel folder is set. */
#ifndef CLATTN_SRC_EMBEDDED_CL_H
#define CLATTN_SRC_EMBEDDED_CL_H

#include <stddef.h>

struct clattn_embedded_file {
    const char *name;  /* without its folder: "mask.clh" */
    const char *text;  /* ends with a NUL that size_bytes does not count */
    size_t size_bytes;
};

extern const struct clattn_embedded_file clattn_embedded_files[]; /* in the order of their names */
extern const size_t clattn_embedded_file_count;

#endif
