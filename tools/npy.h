/* The .npy array format, read and written without Python (numpy.lib.format describes it):
 * versions 1.0, 2.0 and 3.0, C and Fortran order, little-endian f2 f4 f8  i4 i8  u1  b1  V2
 * (bfloat16, as the ml_dtypes package stores it) and nothing else: no pickled objects, no
 * structures. Headers are at most 10,000 bytes. */
#ifndef CLATTN_TOOLS_NPY_H
#define CLATTN_TOOLS_NPY_H

#include "failure.h"
#include "tensor.h"

#define NPY_HEADER_MAX_BYTES 10000

/* Reads a whole file; Fortran order is turned into C order. The caller frees the tensor; on failure
 * there is nothing to free. */
int npy_read(const char *path, struct tensor *tensor, struct failure *failure);

/* Writes version 1.0 (the header of a tensor here always fits). Temporary name, fsync, rename. */
int npy_write(const char *path, const struct tensor *tensor, struct failure *failure);

#endif
