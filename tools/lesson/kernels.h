/* The lessons' kernel files, as they were when the command was built. */
#ifndef CLATTN_TOOLS_LESSON_KERNELS_H
#define CLATTN_TOOLS_LESSON_KERNELS_H

#include "../insides.h"

extern const struct clattn_embedded_table lesson_kernels;

#endif
