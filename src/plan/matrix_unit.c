/* GPUs' matrix units. */
#include "plan/matrix_unit.h"

#include "cl/mma/mma_units.h"
#include "plan/attention_arguments.h"

/* Rounding of weights that meet the other operand in two parts of their type, the first of which is cut off; and of
 * those that are rounded to it. */
#define FLOAT16_PARTS_ROUNDING 0x1p-21
#define BFLOAT16_PARTS_ROUNDING 0x1p-16
#define FLOAT16_ROUNDING 0x1p-11
#define BFLOAT16_ROUNDING 0x1p-8

/* In the order in which they are asked for. */
static const struct matrix_unit units[] = {
    { CLATTN_MATRIX_NVIDIA_80, RUNG_NVIDIA_80_F16, RUNG_NVIDIA_80_BF16, RUNG_COUNT, "fused_mma nvidia",
      "fused_mma nvidia many", 0, "fused_mma nvidia gradients" },
    { CLATTN_MATRIX_NVIDIA_75, RUNG_NVIDIA_75_F16, RUNG_COUNT, RUNG_COUNT, "fused_mma nvidia 75", NULL, 1,
      "fused_mma nvidia 75 gradients" },
    { CLATTN_MATRIX_NVIDIA_70, RUNG_NVIDIA_70_F16, RUNG_COUNT, RUNG_COUNT, "fused_mma nvidia 70", NULL, 1,
      "fused_mma nvidia 70 gradients" },
    { CLATTN_MATRIX_NVIDIA_TF32, RUNG_COUNT, RUNG_COUNT, RUNG_NVIDIA_TF32, "fused_mma nvidia tf32", NULL, 1, NULL },
    { CLATTN_MATRIX_INTEL_16, RUNG_INTEL_16_F16, RUNG_INTEL_16_BF16, RUNG_COUNT, "fused_mma intel 16", NULL, 1, NULL },
    { CLATTN_MATRIX_INTEL_8, RUNG_INTEL_8_F16, RUNG_INTEL_8_BF16, RUNG_COUNT, "fused_mma intel 8", NULL, 1, NULL },
    { CLATTN_MATRIX_AMD_WMMA_12, RUNG_WMMA_12_F16, RUNG_WMMA_12_BF16, RUNG_COUNT, "fused_mma wmma 12", NULL, 1,
      "fused_mma wmma 12 gradients" },
    { CLATTN_MATRIX_AMD_WMMA_11, RUNG_WMMA_11_F16, RUNG_WMMA_11_BF16, RUNG_COUNT, "fused_mma wmma 11", NULL, 1,
      "fused_mma wmma 11 gradients" },
    { CLATTN_MATRIX_AMD_MFMA, RUNG_MFMA_F16, RUNG_MFMA_BF16, RUNG_COUNT, "fused_mma mfma", NULL, 1,
      "fused_mma mfma gradients" },
};

/* NVIDIA's warpgroups. */
static const struct matrix_unit warpgroups = {
    CLATTN_MATRIX_NVIDIA_80, RUNG_NVIDIA_90_F16, RUNG_NVIDIA_90_BF16, RUNG_COUNT, "fused_wgmma", "fused_wgmma wide", 1,
    "fused_wgmma gradients"
};

/* For tests, and only when the strategy was asked for by its name. */
static const struct matrix_unit emulated_warpgroups = {
    CLATTN_MATRIX_NVIDIA_80, RUNG_COUNT, RUNG_COUNT, RUNG_COUNT,
    "fused_wgmma emulated",  NULL,       1,          "fused_wgmma emulated gradients"
};
static const struct matrix_unit emulated = { CLATTN_MATRIX_NVIDIA_80,
                                             RUNG_COUNT,
                                             RUNG_COUNT,
                                             RUNG_COUNT,
                                             "fused_mma emulated",
                                             "fused_mma emulated many",
                                             1,
                                             "fused_mma emulated gradients" };
static const struct matrix_unit emulated_tf32 = {
    CLATTN_MATRIX_NVIDIA_TF32, RUNG_COUNT, RUNG_COUNT, RUNG_COUNT, "fused_mma emulated",
    "fused_mma emulated many", 1,          NULL
};

int matrix_unit_is_emulated(const struct matrix_unit *unit)
{
    return unit == &emulated || unit == &emulated_tf32 || unit == &emulated_warpgroups;
}

int matrix_unit_is_warpgroup(const struct matrix_unit *unit)
{
    return unit == &warpgroups || unit == &emulated_warpgroups;
}

static enum rung_id rung_of(const struct matrix_unit *unit, clattn_type type)
{
    return type == CLATTN_FLOAT16 ? unit->float16 : type == CLATTN_BFLOAT16 ? unit->bfloat16 : unit->float32;
}

/* The first of a list that the device has; `or_else`, where a strategy was asked for by its name. */
static const struct matrix_unit *find_among(struct ask *ask, const struct matrix_unit *list, size_t count,
                                            const struct matrix_unit *or_else)
{
    const clattn_type type = attention_problem(ask->problem)->p.type;
    struct text refusals = TEXT_INIT;
    const struct matrix_unit *found = NULL;
    for (size_t i = 0; i < count && !found; ++i) {
        const enum rung_id rung = rung_of(&list[i], type);
        if (rung == RUNG_COUNT || !ladder_asks(&ask->context->device, rung)) {
            continue;
        }
        text_append(&refusals, "%s%s: ", refusals.data ? "; " : "no matrix unit: ", ladder_table[rung].name);
        found = ladder_has(ask, rung, &refusals) ? &list[i] : NULL;
    }
    if (!found && ask->by_name) {
        found = or_else;
    }
    if (!found) {
        ask_declines(ask, "%s", refusals.data ? refusals.data : "no matrix unit is known for devices of this kind");
    }
    text_free(&refusals);
    return found;
}

const struct matrix_unit *matrix_unit_find(struct ask *ask)
{
    const int is_tf32 = attention_problem(ask->problem)->p.type == CLATTN_FLOAT32;
    return find_among(ask, units, sizeof(units) / sizeof(units[0]), is_tf32 ? &emulated_tf32 : &emulated);
}

const struct matrix_unit *warpgroup_unit_find(struct ask *ask)
{
    return find_among(ask, &warpgroups, 1, &emulated_warpgroups);
}

void matrix_unit_describe(const struct matrix_unit *unit, clattn_type type, struct text *explain)
{
    text_append(explain, "  matrix unit: %s\n",
                matrix_unit_is_emulated(unit) ? "none on this device: its instructions are emulated, for tests"
                                              : ladder_table[rung_of(unit, type)].summary);
}

double matrix_weight_rounding(const clattn_problem *p)
{
    switch (p->type) {
    case CLATTN_FLOAT16:
        return p->allow_rounded_weights ? FLOAT16_ROUNDING : FLOAT16_PARTS_ROUNDING;
    case CLATTN_BFLOAT16:
        return p->allow_rounded_weights ? BFLOAT16_ROUNDING : BFLOAT16_PARTS_ROUNDING;
    default:
        return TF32_ROUNDING;
    }
}

int matrix_columns(int64_t size, int64_t most)
{
    static const int sizes[] = { 32, 64, 80, 96, 128, 192, 256 };
    int rounded = sizes[0];
    for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]) && rounded < size && sizes[i] <= most; ++i) {
        rounded = sizes[i];
    }
    return rounded;
}

void matrix_unit_append_options(const struct matrix_unit *unit, struct text *options)
{
    text_append(options, "-D MATRIX=%d -D EMULATED=%d", unit->matrix, matrix_unit_is_emulated(unit));
    if (unit->matrix == CLATTN_MATRIX_INTEL_16 || unit->matrix == CLATTN_MATRIX_INTEL_8) {
        text_append(options, " -cl-intel-256-GRF-per-thread");
    }
    if (unit == &warpgroups) {
        text_append(options, " -D SECOND_BUILD=sm_90a"); /* program/program_second.h */
    }
}

int matrix_rows_applicable(struct ask *ask)
{
    const struct problem *problem = attention_problem(ask->problem);
    if (problem->p.type == CLATTN_FLOAT64) {
        return ask_declines(ask, "matrix units do not multiply float64");
    }
    if (problem_mixes_types(problem)) {
        return ask_declines(ask, "takes queries, keys, values and outputs of one type");
    }
    if (problem->p.head_dim > MATRIX_HEAD_DIM_MOST) {
        return ask_declines(ask, "head_dim %lld: at most %d", (long long)problem->p.head_dim, MATRIX_HEAD_DIM_MOST);
    }
    return attention_reads_rows(ask) && row_blocks_applicable(ask);
}

void matrix_append_options(const struct matrix_unit *unit, const struct problem *problem, const struct row_tile *tile,
                           struct text *options)
{
    matrix_unit_append_options(unit, options);
    text_append(options,
                " -D TYPE=%d -D FEATURES=0x%xu -D STRIDED_COLUMNS=%d "
                "-D TILE_ROWS=%d -D TILE_KEYS=%d -D WORK_ITEMS=%d -D DEPTH=%d -D COLUMNS=%d",
                (int)problem->p.type, problem->flags & ~ROW_BLOCK_RUN_TIME_FEATURES, problem->p.strided_columns != 0,
                tile->tile.rows, tile->tile.keys, tile->tile.work_items, tile->depth, tile->columns);
    if (problem->p.allow_rounded_weights) {
        text_append(options, " -D WEIGHT_PARTS=1");
    }
    if (problem->flags & CLATTN_FLAG_BIAS) {
        text_append(options, " -D BIAS_TYPE=%d", (int)problem->p.bias_type);
    }
    append_kv_options(problem, options);
    append_block_mask_options(problem, options);
    text_append(options, " -D RUNS=%d", problem->p.key_len > RUN_KEYS);
}
