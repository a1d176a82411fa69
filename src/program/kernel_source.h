/* The text of a .cl file with its includes put in place, from the embedded files or from a folder. Includes are
 * resolved here, so that no runtime needs an include path. */
#ifndef CLATTN_SRC_KERNEL_SOURCE_H
#define CLATTN_SRC_KERNEL_SOURCE_H

#include "clattn.h"

struct clattn_embedded_table;

/* `folder` NULL: the embedded files of cl/. `texts`, then `own` (either may be NULL) are looked into first, folder or
 * not. The caller frees *source. */
clattn_status kernel_source(const char *folder, const struct clattn_embedded_table *texts,
                            const struct clattn_embedded_table *own, const char *file, char **source);

#endif
