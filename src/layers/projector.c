/* Projections: which kernel, and its launch.
 *
 * On two AVX-512 cores under PoCL, float32, 768 x 1152 x 384 to 1920 x 3072 x 768: lanes reach 210 to 450
 * GFLOP/s where CLBlast reaches 8 to 58, so a CPU device with wide vectors takes lanes without asking. */
#include "layers/projector.h"

#include <stdio.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "plan/ladder.h"
#include "plan/register_file.h"
#include "program/gemm.h"

/* What a work-group of project_lanes.cl makes where there is work for all cores. */
#define LANES_GROUP_ROWS 48
#define LANES_GROUP_COLUMNS 96
#define GROUPS_PER_CORE 4

#define LANES_VECTOR_BYTES_MIN 32
#define BIAS_ITEMS 64

/* PROJECT_LANES_COLUMNS: times PROJECT_LANES_ROWS vectors of 16 sums, beside what is multiplied. */
static const int columns_at_once[REGISTER_FILE_COUNT] = {
    [REGISTERS_16_OF_4] = 1,
    [REGISTERS_32_OF_4] = 2,
    [REGISTERS_16_OF_8] = 2,
    [REGISTERS_32_OF_16] = PROJECT_LANES_COLUMNS,
};

static clattn_projection choose(struct ask *ask, clattn_type type, double work)
{
    const struct device *device = &ask->context->device;
    if (device->device_class == DEVICE_CPU && type != CLATTN_FLOAT64 &&
        staged_vector_bytes(ask) >= LANES_VECTOR_BYTES_MIN) {
        return CLATTN_PROJECTION_LANES;
    }
    return !gemm_declines_type(device, type) && work >= staged_clblast_work_min(device) ? CLATTN_PROJECTION_CLBLAST
                                                                                        : CLATTN_PROJECTION_TILES;
}

static clattn_status check_wanted(const clattn_context *context, clattn_type type, clattn_projection wanted)
{
    if (wanted == CLATTN_PROJECTION_LANES && type == CLATTN_FLOAT64) {
        return error_set(CLATTN_UNSUPPORTED, "projection lanes: has no float64; use tiles");
    }
    if (wanted == CLATTN_PROJECTION_CLBLAST && gemm_declines_type(&context->device, type)) {
        return error_set(CLATTN_UNSUPPORTED, "projection clblast: %s", gemm_declines_type(&context->device, type));
    }
    return CLATTN_OK;
}

static clattn_status build(struct ask *ask, struct projector *projector, clattn_projection wanted)
{
    clattn_context *context = projector->context;
    char options[64];
    snprintf(options, sizeof(options), "-D TYPE=%d", (int)projector->type);
    if (projector->chosen == CLATTN_PROJECTION_LANES) {
        snprintf(options, sizeof(options), "-D TYPE=%d -D COLUMNS_AT_ONCE=%d", (int)projector->type,
                 columns_at_once[register_file_of(ask)]);
        return program_kernel(context, "layers/project_lanes.cl", options, "project", &projector->lanes);
    }
    clattn_status status = staged_build_tiles(ask, "layers/project_tiles.cl", "project_tiles", projector->type, options,
                                              staged_shape_of_table(ask, projector->type), &projector->tiles);
    if (status == CLATTN_OK && projector->chosen == CLATTN_PROJECTION_CLBLAST) {
        status = program_kernel(context, "layers/project_tiles.cl", options, "add_bias", &projector->add_bias);
    }
    if (status == CLATTN_OK && projector->chosen == CLATTN_PROJECTION_CLBLAST) {
        status = gemm_prepare(context, projector->type,
                              wanted == CLATTN_PROJECTION_CLBLAST ? NULL : &projector->clblast_declines);
    }
    if (projector->clblast_declines) {
        projector->chosen = CLATTN_PROJECTION_TILES;
    }
    return status;
}

static const char *reason(const struct projector *projector, clattn_projection wanted)
{
    const struct device *device = &projector->context->device;
    const char *declines = projector->clblast_declines ? projector->clblast_declines
                                                       : gemm_declines_type(device, projector->type);
    if (wanted != CLATTN_PROJECTION_AUTO) {
        return "asked for";
    }
    if (projector->chosen == CLATTN_PROJECTION_TILES && declines) {
        return declines;
    }
    if (device->device_class == DEVICE_CPU) {
        return "measured faster than CLBlast on CPU devices";
    }
    return projector->chosen == CLATTN_PROJECTION_CLBLAST ? "the matrices are large" : "too small for CLBlast";
}

static void explain_choice(const struct projector *projector, clattn_projection wanted, struct text *explain)
{
    const char *why = reason(projector, wanted);
    switch (projector->chosen) {
    case CLATTN_PROJECTION_LANES:
        text_append(explain, "projections: lanes (%d x %d vectors of 16 results in registers; %s)\n",
                    PROJECT_LANES_ROWS, PROJECT_LANES_COLUMNS, why);
        break;
    case CLATTN_PROJECTION_CLBLAST:
        text_append(explain, "projections: CLBlast (%s); tiles where a queue is out of order\n", why);
        break;
    default:
        text_append(explain, "projections: tiles of %d x %d (%s)\n", projector->tiles.group_rows,
                    projector->tiles.group_columns, why);
    }
}

clattn_status projector_init(struct projector *projector, clattn_context *context, clattn_type type,
                             clattn_projection wanted, double work, struct text *explain)
{
    struct ask ask = { .context = context };
    *projector = (struct projector){ .context = context, .type = type, .chosen = wanted };
    clattn_status status = check_wanted(context, type, wanted);
    if (wanted == CLATTN_PROJECTION_AUTO) {
        projector->chosen = choose(&ask, type, work);
    }
    if (status == CLATTN_OK) {
        status = build(&ask, projector, wanted);
    }
    if (status == CLATTN_OK) {
        status = ask.failure; /* the choice and the tiles rest on a probe */
    }
    if (status == CLATTN_OK) {
        explain_choice(projector, wanted, explain);
    }
    return status;
}

/* Groups become narrower until every core has some: work of few rows is cut along the columns. */
static void size_groups(const clattn_context *context, int64_t batch, clattn_project *p)
{
    const int64_t wanted = (int64_t)context->device.compute_units * GROUPS_PER_CORE;
    p->group_rows = (int)round_up(p->rows < LANES_GROUP_ROWS ? p->rows : LANES_GROUP_ROWS, PROJECT_LANES_ROWS);
    p->group_columns = LANES_GROUP_COLUMNS;
    while (p->group_columns > PROJECT_LANES_COLUMNS &&
           batch * ceil_div(p->rows, p->group_rows) * ceil_div(p->columns, p->group_columns) < wanted) {
        p->group_columns = (int)round_up(p->group_columns / 2, PROJECT_LANES_COLUMNS);
    }
}

static clattn_status launch_product(const struct projection *projection, const clattn_project *params,
                                    struct kernel *kernel, const size_t *global, const size_t *local,
                                    struct chain *chain)
{
    const struct launch_argument arguments[] = {
        { sizeof(*params), params }, ARGUMENT(projection->left),   ARGUMENT(projection->right),
        ARGUMENT(projection->bias),  ARGUMENT(projection->result),
    };
    return launch(chain, kernel, 3, global, local, 5, arguments);
}

static clattn_status enqueue_lanes(const struct projector *projector, const struct projection *projection,
                                   struct chain *chain)
{
    clattn_project params = projection->params;
    size_groups(projector->context, projection->batch, &params);
    const size_t global[3] = { (size_t)ceil_div(params.rows, params.group_rows),
                               (size_t)ceil_div(params.columns, params.group_columns), (size_t)projection->batch };
    const size_t local[3] = { 1, 1, 1 };
    return launch_product(projection, &params, projector->lanes, global, local, chain);
}

static clattn_status enqueue_tiles(const struct projector *projector, const struct projection *projection,
                                   struct chain *chain)
{
    const struct tile_kernel *tiles = &projector->tiles;
    const clattn_project *params = &projection->params;
    const size_t local[3] = { tiles->local[0], tiles->local[1], 1 };
    const size_t global[3] = { (size_t)ceil_div(params->columns, tiles->group_columns) * local[0],
                               (size_t)ceil_div(params->rows, tiles->group_rows) * local[1],
                               (size_t)projection->batch };
    return launch_product(projection, params, tiles->kernel, global, local, chain);
}

static struct gemm_product product_of(const struct projector *projector, const struct projection *projection,
                                      int64_t batch)
{
    const clattn_project *p = &projection->params;
    struct gemm_product product = {
        .type = projector->type,
        .rows = p->rows,
        .columns = p->columns,
        .depth = p->depth,
        .alpha = 1,
        .right_is_transposed = 1,
        .left = { projection->left, p->left_offset + batch * p->left_batch, p->left_row },
        .right = { projection->right, p->right_offset + batch * p->right_batch, p->right_row },
        .result = { projection->result, p->result_offset + batch * p->result_batch, p->result_row },
    };
    return product;
}

static clattn_status enqueue_add_bias(const struct projector *projector, const struct projection *projection,
                                      struct chain *chain)
{
    const clattn_project *params = &projection->params;
    const size_t items = staged_row_items(&projector->context->device, BIAS_ITEMS);
    const size_t global[3] = { (size_t)params->rows, (size_t)round_up(params->columns, (int64_t)items),
                               (size_t)projection->batch };
    const size_t local[3] = { 1, items, 1 };
    const struct launch_argument arguments[] = { { sizeof(*params), params },
                                                 ARGUMENT(projection->bias),
                                                 ARGUMENT(projection->result) };
    return launch(chain, projector->add_bias, 3, global, local, 3, arguments);
}

static clattn_status enqueue_clblast(const struct projector *projector, const struct projection *projection,
                                     struct chain *chain)
{
    const int is_final = chain->next_is_final;
    clattn_status status = CLATTN_OK;
    chain->next_is_final = 0;
    for (int64_t batch = 0; batch < projection->batch && status == CLATTN_OK; ++batch) {
        const struct gemm_product product = product_of(projector, projection, batch);
        status = gemm_enqueue(chain, &product);
    }
    if (status == CLATTN_OK && projection->params.has_bias) {
        chain->next_is_final = is_final;
        status = enqueue_add_bias(projector, projection, chain);
    }
    return status;
}

static int clblast_takes(const struct projector *projector, const struct projection *projection,
                         const struct chain *chain)
{
    const struct gemm_product first = product_of(projector, projection, 0);
    const struct gemm_product last = product_of(projector, projection, projection->batch - 1);
    return projector->chosen == CLATTN_PROJECTION_CLBLAST && !gemm_declines(chain, &first) &&
           !gemm_declines(chain, &last);
}

clattn_status projector_enqueue(const struct projector *projector, const struct projection *projection,
                                struct chain *chain)
{
    if (projection->batch == 0 || projection->params.rows == 0 || projection->params.columns == 0) {
        chain->next_is_final = 0;
        return CLATTN_OK;
    }
    if (projector->chosen == CLATTN_PROJECTION_LANES) {
        return enqueue_lanes(projector, projection, chain);
    }
    return clblast_takes(projector, projection, chain) ? enqueue_clblast(projector, projection, chain)
                                                       : enqueue_tiles(projector, projection, chain);
}
