/* GPUs' matrix units (cl/mma/unit.clh): which one a device has for a type, as the ladder found it, and what it is
 * called in the tuning table. */
#ifndef CLATTN_SRC_MATRIX_UNIT_H
#define CLATTN_SRC_MATRIX_UNIT_H

#include "operation/problem.h"
#include "plan/ladder.h"
#include "plan/row_blocks.h"
#include "plan/tuning.h"

/* Deeper queries and keys leave no room for a tile that is worth it. */
#define MATRIX_HEAD_DIM_MOST 256

/* Rounding of what is multiplied as tf32. */
#define TF32_ROUNDING 0x1p-11

/* As LAUNCH_WORK_PER_UNIT of fused_simt, on units that are several times as fast. */
#define MATRIX_LAUNCH_WORK_PER_UNIT 2e10

struct matrix_unit {
    int matrix;                              /* -D MATRIX */
    enum rung_id float16, bfloat16, float32; /* RUNG_COUNT: it has no such type */
    const char *tiles, *many_tiles; /* of the tuning table, for the problems that its strategy says; NULL: none */
    int is_untried;                 /* gradients (of warpgroups: all) never ran on hardware: by the self-check alone */
    const char *gradient_tiles;     /* where registers hold what gradients take; Intel's spill it */
};

/* The unit for the type of the problem. NULL: there is none, and ask->why gets the answer of each rung that devices
 * like this one are asked for. A strategy that was asked for by its name gets an emulated unit, for tests, where there
 * is no real one. */
const struct matrix_unit *matrix_unit_find(struct ask *ask);

/* The unit of NVIDIA's warpgroups (cl/wgmma/unit.clh), whose registers are those of a unit above. */
const struct matrix_unit *warpgroup_unit_find(struct ask *ask);

int matrix_unit_is_emulated(const struct matrix_unit *unit);
int matrix_unit_is_warpgroup(const struct matrix_unit *unit);

/* A line for clattn explain. */
void matrix_unit_describe(const struct matrix_unit *unit, clattn_type type, struct text *explain);

/* clattn_plan_weight_rounding. */
double matrix_weight_rounding(const clattn_problem *p);

/* Depths and columns come in few sizes, so that there are few programs: the next one, at most `most` if the size is. */
int matrix_columns(int64_t size, int64_t most);

/* Whether kernels with tiles of 16 x 16 take the problem, on a device that has a unit for them. */
int matrix_rows_applicable(struct ask *ask);

/* What the compiler is told of the unit, and of a problem and its tile too. */
void matrix_append_options(const struct matrix_unit *unit, const struct problem *problem, const struct row_tile *tile,
                           struct text *options);
void matrix_unit_append_options(const struct matrix_unit *unit, struct text *options);

#endif
