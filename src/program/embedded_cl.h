/* Kernel files as they were when a program was built: C files that scripts/embed_files writes into the build tree. The
 * library's, of cl/, are read where no kernel folder is set. A program beside the library may have some of its own. */
#ifndef CLATTN_SRC_EMBEDDED_CL_H
#define CLATTN_SRC_EMBEDDED_CL_H

#include <stddef.h>

struct clattn_embedded_file {
    const char *name; /* its path from the kernel folder: "pair/mask.clh" */
    const char *text; /* ends with a NUL that size_bytes does not count */
    size_t size_bytes;
};

struct clattn_embedded_table {
    const struct clattn_embedded_file *files; /* in the order of their names */
    size_t count;
};

extern const struct clattn_embedded_table clattn_embedded_files; /* of cl/ */

#endif
