/* Which tiles the score and mix kernels are built with on a device: a table of shapes, the best first, and
 * the choice of the first that the device has room for. */
#ifndef CLATTN_SRC_STAGED_TILES_H
#define CLATTN_SRC_STAGED_TILES_H

#include "plan/ask.h"

/* The macros of cl/common/tile_gemm.clh. */
struct tile_shape {
    int vector_bytes; /* VEC = vector_bytes / size of REAL */
    int wg_m, wg_n;   /* WG_M, WG_N: work-items of a work-group */
    int reg_m, reg_v; /* REG_M, REG_V: rows and vectors of a work-item */
    int tile_k;       /* TILE_K: depth of the local tiles */
    int blocks_m;     /* BLOCKS_M: tiles below each other */
};

/* A tiled kernel as built: what one work-group computes, and how it is launched. */
struct tile_kernel {
    struct kernel *kernel;
    struct tile_shape shape;
    int group_rows, group_columns;
    size_t local[2];
};

extern const struct tile_shape staged_tile_shapes[];
extern const size_t staged_tile_shape_count;

/* Whether the device has room for the shape, and is of the class that it is for. */
int staged_shape_fits(struct ask *ask, const struct tile_shape *shape, clattn_type type);

/* Builds kernel `name` of cl/`file` with this shape. `type_options`: "-D TYPE=1", with more where types are mixed;
 * `type` is the one of TYPE. */
clattn_status staged_build_shape(struct ask *ask, const struct tile_shape *shape, const char *file, const char *name,
                                 clattn_type type, const char *type_options, struct tile_kernel *result);

/* The number, from 1, of the first shape that fits; and whether the kernels may have another one: it fits and gives
 * the same bits. */
int staged_shape_of_table(struct ask *ask, clattn_type type);
int staged_shape_is_legal(struct ask *ask, clattn_type type, int64_t number);

/* Builds with this shape, or the first one after it that fits. */
clattn_status staged_build_tiles(struct ask *ask, const char *file, const char *name, clattn_type type,
                                 const char *type_options, int number, struct tile_kernel *result);

/* Bytes that a vector of the device should have: as its registers, 4 to 64. */
int staged_vector_bytes(struct ask *ask);

/* Work-items for kernels that walk along a row: 1 on a CPU, else the largest power of two up to `wanted`
 * that the device allows. */
size_t staged_row_items(const struct device *device, size_t wanted);

/* rows * columns * depth from which CLBlast multiplies where nobody asked; below, clattn's own tiles. Infinite
 * where it never does. */
double staged_clblast_work_min(const struct device *device);

#endif
