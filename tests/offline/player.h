/* The two files of the driver that plays PTX. */
#ifndef CLATTN_TESTS_PLAYER_H
#define CLATTN_TESTS_PLAYER_H

#include "null_driver.h"

/* An argument that is an address: 8 bytes in the text. A kernel's numbers have 4, or are a struct. */
int player_is_buffer(cl_kernel kernel, cl_uint index);
void player_set(cl_kernel kernel, cl_uint index, const void *value, size_t bytes);
void player_run(cl_kernel kernel, const size_t groups[3], const size_t items[3]);

#endif
