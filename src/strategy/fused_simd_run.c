/* cl/fused_simd.cl for CPU devices: chooses its tile, builds it with one of its products, and launches. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/attention_arguments.h"
#include "plan/register_file.h"
#include "plan/tuning.h"
#include "strategy/fused_simd.h"

#define COLUMNS_MAX 4096               /* head_dim + head_dim_v: queries and sums of a tile live in private memory */
#define PRIVATE_BYTES_MAX (512 * 1024) /* of a work-group: half of a second cache */

/* Each product's rows in the tuning table, and how much faster it is than multiply-adds. */
static const struct product {
    const char *tiles;
    int by_registers; /* rows for each register file, whose name stands behind */
    double gain;
} products[SIMD_PRODUCT_COUNT] = {
    [SIMD_FMA] = { "fused_simd fma", 1, 1 },
    [SIMD_DOT] = { "fused_simd dot", 0, 1.2 },
    [SIMD_TILES] = { "fused_amx", 0, 6 },
};

#define TILES_MOST 8          /* tiles that share a block of keys */
#define FAR_BYTES (256 << 10) /* of a head's keys and values: more does not stay beside the rest in a second cache */
#define GROUPS_A_UNIT 4       /* work-groups that a compute unit should have at least */

/* What the kernel is built with. */
struct simd_choice {
    enum simd_product product;
    const struct tile *tile;
    int tiles, keys; /* a work-group, a block */
};

struct simd_state {
    struct kernel *kernel;
    int group_rows; /* of a key/value head, a work-group */
    int group;      /* heads of a key/value head */
};

static int64_t group_of(const clattn_problem *p)
{
    return p->kv_heads > 0 ? p->query_heads / p->kv_heads : 1;
}

/* Whether work-groups bring keys, or values, of a type into another form. */
static int is_converted(const clattn_problem *p, clattn_type type, enum simd_product product)
{
    return product != SIMD_FMA || type != CLATTN_FLOAT32 || p->strided_columns || p->page_size > 0;
}

/* Of a key and its value. */
static int64_t converted_columns(const clattn_problem *p, enum simd_product product)
{
    return (is_converted(p, p->key_type, product) ? p->head_dim : 0) +
           (is_converted(p, p->value_type, product) ? p->head_dim_v : 0);
}

static int64_t bytes_of_a_key(const clattn_problem *p)
{
    return p->head_dim * (int64_t)clattn_type_size(p->key_type) +
           p->head_dim_v * (int64_t)clattn_type_size(p->value_type);
}

int simd_applicable(const clattn_context *context, const struct problem *problem, struct text *why)
{
    const clattn_problem *p = &problem->p;
    if (context->device.quirks & QUIRK_NO_LARGE_VECTORS) {
        text_append(why, "is made of wide vectors, which the device's compiler is not up to");
        return 0;
    }
    if (p->type == CLATTN_FLOAT64) {
        text_append(why, "computes in float32");
        return 0;
    }
    if (p->weights != CLATTN_WEIGHTS_NONE) {
        text_append(why, "has no matrix of weights to give out");
        return 0;
    }
    if (p->head_dim + p->head_dim_v > COLUMNS_MAX) {
        text_append(why, "head_dim + head_dim_v %lld: at most %d fit private memory",
                    (long long)(p->head_dim + p->head_dim_v), COLUMNS_MAX);
        return 0;
    }
    if (p->query_len * group_of(p) > INT_MAX / 2) {
        text_append(why, "query_len %lld of %lld heads: a key/value head's rows must fit 32 bits",
                    (long long)p->query_len, (long long)group_of(p));
        return 0;
    }
    return attention_arguments_fit(&context->device, 0, why);
}

/* Whether tiles gain from a common work-group, which reads each block once for all. */
static int shares_blocks(const clattn_problem *p, enum simd_product product)
{
    return converted_columns(p, product) > 0 || p->key_len * bytes_of_a_key(p) > FAR_BYTES;
}

static int64_t blocks_of(const clattn_problem *p, int64_t rows)
{
    return (p->query_len * group_of(p) + rows - 1) / rows * p->batch * p->kv_heads;
}

/* NULL when there are no more. */
static const struct tile *tile_of(const clattn_context *context, enum simd_product product, int rank)
{
    char name[48];
    const int by_registers = products[product].by_registers;
    snprintf(name, sizeof(name), "%s%s%s", products[product].tiles, by_registers ? " " : "",
             by_registers ? register_file_name(register_file_of(context)) : "");
    return tuning_find(name, DEVICE_CPU, 0, rank);
}

/* Rows that are computed in all, padding included, in units of the best tile's speed. */
static double row_cost(const clattn_problem *p, const struct tile *tile)
{
    const double rows = tile->rows;
    double waste = p->causal ? 1 + rows / (double)(group_of(p) * (p->key_len + 1)) : 1;
    return (double)blocks_of(p, tile->rows) * rows * waste / tile->speed;
}

/* The same when the slowest unit counts: work-groups come whole. */
static double turn_cost(const clattn_context *context, const clattn_problem *p, const struct tile *tile)
{
    const int64_t units = (int64_t)context->device.compute_units;
    const int64_t blocks = blocks_of(p, tile->rows);
    if (blocks <= 0 || blocks >= 16 * units) {
        return row_cost(p, tile);
    }
    return row_cost(p, tile) * (double)((blocks + units - 1) / units * units) / (double)blocks;
}

static int64_t private_bytes(const clattn_problem *p, const struct simd_choice *choice)
{
    const int64_t rows = choice->tile->rows, keys = choice->keys;
    const int64_t query_bytes = choice->product == SIMD_FMA ? 4 : 2; /* or two parts of 2 */
    const int64_t weight_bytes = choice->product == SIMD_FMA ? 0 : 4;
    return rows * (choice->tiles * (query_bytes * p->head_dim + 4 * p->head_dim_v) + keys * (8 + weight_bytes)) +
           4 * keys * converted_columns(p, choice->product);
}

/* As many keys as private memory has room for, since each block rescales what was summed before. They
 * decide the bits of a result, so they depend on the head dims and types alone; tile, tiles and pages change no bit. */
static int choose_keys(const clattn_context *context, const clattn_problem *p, enum simd_product product)
{
    clattn_problem dense = *p;
    dense.page_size = 0;
    struct simd_choice choice = { product, NULL, 1, 0 };
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(context, product, rank)) != NULL; ++rank) {
        if (!choice.tile || tile->rows > choice.tile->rows) {
            choice.tile = tile;
        }
    }
    choice.keys = choice.tile->keys;
    while (private_bytes(&dense, &choice) > PRIVATE_BYTES_MAX && choice.keys > 32 && choice.keys / 2 % 16 == 0) {
        choice.keys /= 2;
    }
    return choice.keys;
}

/* The cheapest tile; as many of them share blocks of keys as leave work for all units. */
static struct simd_choice choose(const clattn_context *context, const clattn_problem *p, enum simd_product product)
{
    struct simd_choice choice = { product, NULL, 1, choose_keys(context, p, product) };
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(context, product, rank)) != NULL; ++rank) {
        if (!choice.tile || turn_cost(context, p, tile) < turn_cost(context, p, choice.tile)) {
            choice.tile = tile;
        }
    }
    const int64_t wanted = GROUPS_A_UNIT * (int64_t)context->device.compute_units;
    while (shares_blocks(p, product) && choice.tiles < TILES_MOST &&
           blocks_of(p, (int64_t)choice.tiles * 2 * choice.tile->rows) >= wanted) {
        choice.tiles *= 2;
    }
    while (private_bytes(p, &choice) > PRIVATE_BYTES_MAX && choice.tiles > 1) {
        choice.tiles /= 2;
    }
    return choice;
}

/* Linear in batch and heads, as that of split is, so that the choice between the two, and with it the
 * bits of a result, does not depend on them. */
double simd_cost_ms(const clattn_context *context, const struct problem *problem, enum simd_product product)
{
    const clattn_problem *p = &problem->p;
    double columns = (double)(p->head_dim + p->head_dim_v) / products[product].gain + 16; /* 16: the softmax */
    double rows = INFINITY;
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(context, product, rank)) != NULL; ++rank) {
        rows = fmin(rows, row_cost(p, tile));
    }
    double visible = p->causal && p->query_len == p->key_len ? 0.5 : 1;
    double bytes = (double)p->batch * (double)p->kv_heads * (double)p->key_len * (double)bytes_of_a_key(p);
    /* About 100 multiply-adds and 40 bytes of keys and values a nanosecond and compute unit. */
    return 0.02 + (visible * rows * (double)p->key_len * columns * 1e-8 + bytes * 2.5e-8) /
                      (double)context->device.compute_units;
}

/* Of weights that meet the values in two parts of bfloat16. */
#define TWO_PARTS_ROUNDING 0x1p-17

static void append_options(const struct clattn_plan *plan, const struct simd_choice *choice, struct text *options)
{
    const struct problem *problem = attention_problem(plan->problem);
    const clattn_problem *p = &problem->p;
    append_type_options(problem, options);
    text_append(options, " -D FLAGS=0x%xu -D BIAS_TYPE=%d -D STRIDED_COLUMNS=%d -D HEAD_DIM=%d -D HEAD_DIM_V=%d",
                (unsigned)problem->flags, (int)p->bias_type, p->strided_columns != 0, (int)p->head_dim,
                (int)p->head_dim_v);
    append_page_options(p, options);
    text_append(options, " -D GROUP=%d -D VECTORS=%d -D KEYS=%d -D SCORE_KEYS=%d -D TILES=%d -D PRODUCT=%d",
                (int)group_of(p), choice->tile->rows / LANES, choice->keys, choice->tile->item_keys, choice->tiles,
                (int)choice->product);
    text_append(options, " -D FETCHES=%d", plan->context->device.device_class == DEVICE_CPU);
    if (choice->tile->item_columns) {
        text_append(options, " -D MIX_COLUMNS=%d", choice->tile->item_columns);
    }
}

static const char *words_for_reading(const clattn_problem *p, enum simd_product product)
{
    if (product != SIMD_FMA) {
        return "values, and keys where they must, reordered block by block";
    }
    const int keys = is_converted(p, p->key_type, product), values = is_converted(p, p->value_type, product);
    return keys && values ? "widened block by block"
           : keys         ? "keys widened block by block, values read in place"
           : values       ? "keys read in place, values widened block by block"
                          : "read in place";
}

static void describe(const clattn_problem *p, const struct simd_choice *choice, struct text *explain)
{
    const int rows = choice->tile->rows;
    text_append(explain, "  tile: %d query rows x %d keys, %d heads side by side; %d a work-group\n", rows,
                choice->keys, (int)group_of(p), choice->tiles);
    if (choice->tile->item_columns) {
        text_append(explain, "  registers: %d keys, then %d columns, x %d vectors of 16 rows\n",
                    choice->tile->item_keys, choice->tile->item_columns, rows / LANES);
    }
    text_append(explain, "  keys and values: %s\n", words_for_reading(p, choice->product));
}

clattn_status simd_plan(struct clattn_plan *plan, struct text *explain, enum simd_product product,
                        const char *product_words)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    struct simd_state *state = calloc(1, sizeof(*state));
    if (!state) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan");
    }
    plan->state = state;
    const struct simd_choice choice = choose(plan->context, p, product);
    state->group_rows = choice.tile->rows * choice.tiles;
    state->group = (int)group_of(p);
    plan->weight_rounding = product == SIMD_FMA ? 0 : TWO_PARTS_ROUNDING;
    text_append(explain, "  products: %s\n", product_words);
    describe(p, &choice, explain);
    struct text options = TEXT_INIT;
    append_options(plan, &choice, &options);
    clattn_status status =
        options.failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a plan")
                       : program_kernel(plan->context, "fused_simd.cl", options.data, "fused_simd", &state->kernel);
    text_free(&options);
    return status;
}

clattn_status simd_enqueue(const struct clattn_plan *plan, const struct operands *operands, struct chain *chain)
{
    const struct simd_state *state = plan->state;
    clattn_params params;
    attention_params(plan, operands, &params);
    const size_t rows = (size_t)params.query_len * (size_t)state->group;
    const size_t block = (size_t)state->group_rows;
    size_t global[3] = { (rows + block - 1) / block, (size_t)params.kv_heads, (size_t)params.batch };
    const size_t local[3] = { 1, 1, 1 };
    struct launch_argument arguments[ATTENTION_ARGUMENT_COUNT];
    attention_arguments(&params, operands, arguments);
    chain_final(chain);
    return launch(chain, state->kernel, 3, global, local, ATTENTION_ARGUMENT_COUNT, arguments);
}

void simd_destroy(struct clattn_plan *plan)
{
    free(plan->state);
}
