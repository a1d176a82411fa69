/* Tiles of cl/simd/fused_simd.cl. */
#include "strategy/fused_simd_tile.h"

#include <math.h>
#include <stdio.h>

#include "base/checked_math.h"
#include "plan/kv_split.h"
#include "plan/register_file.h"
#include "plan/tile_choice.h"
#include "plan/tuning.h"

#define PRIVATE_BYTES_MAX (512 * 1024) /* of a work-group: half of a second cache */

/* Each product's rows in the tuning table, and how much faster it is than multiply-adds. */
static const struct product {
    const char *tiles;
    int by_registers; /* rows for each register file, whose name stands behind */
    double gain;
} products[SIMD_PRODUCT_COUNT] = {
    [SIMD_FMA] = { "fused_simd fma", 1, 1 },
    [SIMD_DOT] = { "fused_simd dot", 0, 1.2 },
    [SIMD_TILES] = { "fused_amx", 0, 4.5 },
};

#define TILES_MOST 8          /* tiles that share a block of keys */
#define FAR_BYTES (256 << 10) /* of a head's keys and values: more does not stay beside the rest in a second cache */
#define GROUPS_A_UNIT 4       /* work-groups that a compute unit should have at least */

int simd_converts(const clattn_problem *p, clattn_type type, enum simd_product product)
{
    return product != SIMD_FMA || type != CLATTN_FLOAT32 || p->strided_columns || p->page_size > 0 ||
           (p->ring > 0 && p->ring < p->key_len) || (p->features & CLATTN_WITH_KEY_LISTS);
}

/* Columns of a key and its value that are converted. */
static int64_t converted_columns(const clattn_problem *p, enum simd_product product)
{
    return (simd_converts(p, p->key_type, product) ? p->head_dim : 0) +
           (simd_converts(p, p->value_type, product) ? p->head_dim_v : 0);
}

static int64_t bytes_of_a_key(const clattn_problem *p)
{
    return (int64_t)(clattn_row_bytes(p->key_type, p->head_dim) + clattn_row_bytes(p->value_type, p->head_dim_v));
}

/* Whether tiles gain from a common work-group, which reads each block once for all. */
static int shares_blocks(const clattn_problem *p, enum simd_product product)
{
    return converted_columns(p, product) > 0 || kv_keys_of(p, p->key_len) * bytes_of_a_key(p) > FAR_BYTES;
}

static int64_t blocks_of(const clattn_problem *p, int64_t rows)
{
    return kv_call_blocks(p, problem_head_rows(p), (int)rows) * p->batch * p->kv_heads;
}

/* The product's rows of the tuning table. */
static void name_of(struct ask *ask, enum simd_product product, char name[WISDOM_NAME_BYTES])
{
    const int by_registers = products[product].by_registers;
    snprintf(name, WISDOM_NAME_BYTES, "%s%s%s", products[product].tiles, by_registers ? " " : "",
             by_registers ? register_file_name(register_file_of(ask)) : "");
}

/* NULL when there are no more. */
static const struct tile *tile_of(struct ask *ask, enum simd_product product, int rank)
{
    char name[WISDOM_NAME_BYTES];
    name_of(ask, product, name);
    return tuning_find(name, DEVICE_CPU, 0, rank);
}

/* Rows that are computed in all, padding included, in units of the best tile's speed. */
static double row_cost(const clattn_problem *p, const struct tile *tile)
{
    const double rows = tile->rows;
    double waste = p->causal ? 1 + rows / (double)(problem_group(p) * (p->key_len + 1)) : 1;
    return (double)blocks_of(p, tile->rows) * rows * waste / tile->speed;
}

/* Rows of the slowest unit, which has whole work-groups. */
static double turn_cost(const struct device *device, const clattn_problem *p, const struct tile *tile)
{
    const int64_t units = (int64_t)device->compute_units;
    const int64_t blocks = blocks_of(p, tile->rows);
    if (blocks <= 0 || blocks >= 16 * units) {
        return row_cost(p, tile);
    }
    return row_cost(p, tile) * (double)round_up(blocks, units) / (double)blocks;
}

/* What a block of keys touches. Totals (cl/simd/total.clh) are not: twice the accumulators, touched once a run. */
static int64_t private_bytes(const clattn_problem *p, const struct simd_choice *choice)
{
    const int64_t rows = choice->tile.rows, keys = choice->keys;
    const int64_t query_bytes = choice->product == SIMD_FMA ? 4 : 2; /* or two parts of 2 */
    const int64_t weight_bytes = choice->product == SIMD_FMA ? 0 : 4;
    return rows * (choice->tile.shared * (query_bytes * p->head_dim + 4 * p->head_dim_v) + keys * (8 + weight_bytes)) +
           4 * keys * converted_columns(p, choice->product);
}

/* As many keys as private memory has room for, since each block rescales what was summed before. They
 * decide the bits of a result, so they depend on the head dims and types alone; tile, tiles, pages and lists change no
 * bit. */
static int choose_keys(struct ask *ask, enum simd_product product)
{
    clattn_problem dense = attention_problem(ask->problem)->p;
    dense.page_size = dense.ring = 0;
    dense.features &= ~(uint32_t)CLATTN_WITH_KEY_LISTS;
    struct simd_choice choice = { .product = product, .tile = { .shared = 1 } };
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(ask, product, rank)) != NULL; ++rank) {
        if (tile->rows > choice.tile.rows) {
            choice.tile.rows = tile->rows;
            choice.keys = tile->keys;
        }
    }
    while (private_bytes(&dense, &choice) > PRIVATE_BYTES_MAX && choice.keys > 32 && choice.keys / 2 % 16 == 0) {
        choice.keys /= 2;
    }
    return choice.keys;
}

/* The cheapest tile of the tuning table; as many of them share blocks of keys as leave work for all units. */
static struct simd_choice choose_of_table(struct ask *ask, enum simd_product product)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    struct simd_choice choice = { .product = product, .keys = choose_keys(ask, product) };
    const struct tile *best = tile_of(ask, product, 0), *tile; /* the table has one of each product */
    for (int rank = 1; (tile = tile_of(ask, product, rank)) != NULL; ++rank) {
        if (turn_cost(&ask->context->device, p, tile) < turn_cost(&ask->context->device, p, best)) {
            best = tile;
        }
    }
    choice.tile = (struct wisdom_tile){
        .rows = best->rows, .item_keys = best->item_keys, .item_columns = best->item_columns, .shared = 1
    };
    const int64_t wanted = GROUPS_A_UNIT * (int64_t)ask->context->device.compute_units;
    while (shares_blocks(p, product) && choice.tile.shared < TILES_MOST &&
           blocks_of(p, choice.tile.shared * 2 * choice.tile.rows) >= wanted) {
        choice.tile.shared *= 2;
    }
    while (private_bytes(p, &choice) > PRIVATE_BYTES_MAX && choice.tile.shared > 1) {
        choice.tile.shared /= 2;
    }
    return choice;
}

/* ---- wisdom --------------------------------------------------------------------------------- */

static int is_of_table(struct ask *ask, enum simd_product product, const struct wisdom_tile *wanted)
{
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(ask, product, rank)) != NULL; ++rank) {
        if (tile->rows == wanted->rows && tile->item_keys == wanted->item_keys &&
            tile->item_columns == wanted->item_columns) {
            return 1;
        }
    }
    return 0;
}

/* Sums and what is multiplied stay in registers, in both products. A device that does not say what it has, where the
 * table has its smallest tile, may turn out to have the most. */
static int fits_registers(enum register_file found, enum simd_product product, const struct wisdom_tile *tile)
{
    const enum register_file registers = found == REGISTERS_16_OF_4 ? REGISTERS_32_OF_16 : found;
    const int64_t row_registers = tile->rows * (int64_t)sizeof(float) / register_bytes(registers);
    const int64_t weight_parts = product == SIMD_DOT ? 2 : 1;
    return row_registers * (tile->item_keys + 1) < register_count(registers) &&
           row_registers * (tile->item_columns + weight_parts) < register_count(registers);
}

/* Tiles that the kernel can be built with and that no bit depends on. The tiles of AMX have shapes of their own. */
static int is_buildable(struct ask *ask, const struct simd_choice *table, const struct wisdom_tile *tile)
{
    const int vectors_are_few = tile->rows == LANES || tile->rows == 2 * LANES || tile->rows == 4 * LANES;
    return is_of_table(ask, table->product, tile) ||
           (table->product != SIMD_TILES && vectors_are_few && tile->item_keys >= 1 && tile->item_columns >= 1 &&
            table->keys % tile->item_keys == 0 && fits_registers(register_file_of(ask), table->product, tile));
}

struct simd_choice simd_choose(struct ask *ask, struct clattn_plan *plan, enum simd_product product)
{
    return (
        struct simd_choice){ .product = product, .keys = choose_keys(ask, product), .tile = tile_choose(ask, plan) };
}

int simd_tunable(struct ask *ask, enum simd_product product, struct tunable *tunable)
{
    char name[WISDOM_NAME_BYTES];
    name_of(ask, product, name);
    tunable->of = wisdom_class_of(name, &attention_problem(ask->problem)->p);
    tunable->table = choose_of_table(ask, product).tile;
    tunable->is_smallest = products[product].by_registers && register_file_of(ask) == REGISTERS_16_OF_4;
    return 1;
}

/* No tile takes more private memory than the table's, or more than a tile of the table may. */
int simd_is_legal(struct ask *ask, enum simd_product product, const struct wisdom_tile *tile)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const struct simd_choice table = choose_of_table(ask, product);
    struct simd_choice choice = table;
    choice.tile = *tile;
    return tile->shared >= 1 && tile->shared <= TILES_MOST && (tile->shared & (tile->shared - 1)) == 0 &&
           !tile->shape && !tile->sums && !tile->launches && is_buildable(ask, &table, tile) &&
           (private_bytes(p, &choice) <= PRIVATE_BYTES_MAX || private_bytes(p, &choice) <= private_bytes(p, &table));
}

/* ---- cost ----------------------------------------------------------------------------------- */

struct work simd_work(struct ask *ask, enum simd_product product)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    const double columns = (double)(p->head_dim + p->head_dim_v) / products[product].gain + 16; /* 16: the softmax */
    const int64_t keys = kv_keys_of(p, p->key_len);
    const double visible = p->causal && p->query_len == p->key_len && keys == p->key_len ? 0.5 : 1;
    double rows = INFINITY;
    const struct tile *tile;
    for (int rank = 0; (tile = tile_of(ask, product, rank)) != NULL; ++rank) {
        rows = fmin(rows, row_cost(p, tile));
    }
    return (struct work){ .rate = RATE_SIMD,
                          .multiply_adds = visible * rows * (double)keys * columns,
                          .bytes = (double)p->batch * (double)p->kv_heads * (double)keys * (double)bytes_of_a_key(p) };
}
