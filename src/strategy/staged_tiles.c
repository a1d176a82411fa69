/* The table of tile shapes and the choice among its rows. */
#include "strategy/staged_tiles.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "cl/common/tile_layout.h"
#include "plan/register_file.h"

/* Tried in order, where wisdom does not say which. The first ones are for CPUs: one work-item with vectors as wide as a
 * register, reg_m * reg_v + reg_v + 1 of them below the number of registers, and many tiles below each other. The next
 * are for GPUs: 256 to 16 work-items, and one that runs anywhere. Those after it wisdom alone takes: first for CPUs
 * again, then for devices that are made of CPUs and do not say so. */
const struct tile_shape staged_tile_shapes[] = {
    { 64, 1, 1, 6, 4, 64, 8 }, { 32, 1, 1, 6, 2, 64, 8 },  { 16, 1, 1, 6, 2, 64, 8 }, { 16, 16, 16, 4, 1, 16, 1 },
    { 16, 8, 8, 4, 1, 16, 1 }, { 16, 4, 4, 4, 1, 8, 1 },   { 16, 1, 1, 4, 1, 8, 1 },  { 64, 1, 1, 4, 4, 64, 8 },
    { 64, 1, 1, 8, 3, 64, 8 }, { 64, 1, 1, 12, 2, 64, 8 }, { 32, 1, 1, 4, 2, 64, 8 }, { 32, 1, 1, 4, 3, 64, 8 },
    { 64, 1, 1, 6, 4, 32, 1 }, { 32, 1, 1, 6, 2, 32, 1 },  { 16, 1, 1, 6, 2, 32, 1 },
};
const size_t staged_tile_shape_count = sizeof(staged_tile_shapes) / sizeof(staged_tile_shapes[0]);

int staged_vector_bytes(struct ask *ask)
{
    const struct device *device = &ask->context->device;
    cl_uint floats = 0;
    if (device->device_class == DEVICE_CPU) {
        return register_bytes(register_file_of(ask));
    }
    if (clGetDeviceInfo(device->id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(floats), &floats, NULL) != CL_SUCCESS) {
        return 16;
    }
    int bytes = 4;
    while (bytes < 64 && (cl_uint)bytes / 4 < floats) {
        bytes *= 2;
    }
    return bytes;
}

size_t staged_row_items(const struct device *device, size_t wanted)
{
    size_t items = device->device_class == DEVICE_CPU ? 1 : wanted;
    while (items > device->work_group_limit || items > device->work_item_limit[0]) {
        items /= 2;
    }
    return items;
}

/* On CPUs never: on two AVX-512 cores, 256 x 256 x 64 to 2048 x 2048 x 256, strategy staged runs at 16 to 33
 * GFLOP/s with CLBlast 1.5.3, and with the tiles 4 to 10 times faster, under PoCL and Intel's runtime alike,
 * float32 and float64; and CLBlast's first build takes 2 to 30 seconds. */
double staged_clblast_work_min(const struct device *device)
{
    return device->device_class == DEVICE_CPU ? INFINITY : 128.0 * 128.0 * 64.0;
}

static int real_bytes(clattn_type type)
{
    return type == CLATTN_FLOAT64 ? 8 : 4;
}

static size_t local_bytes(const struct tile_shape *shape, clattn_type type)
{
    const int items = shape->wg_m * shape->wg_n, vector = shape->vector_bytes / real_bytes(type);
    const int pitch = TILE_RIGHT_PITCH(items, shape->wg_n * shape->reg_v * vector, vector);
    const int left = items > 1 ? shape->wg_m * shape->reg_m * TILE_LEFT_PITCH(shape->tile_k) : 0;
    return (size_t)(shape->tile_k * pitch + left) * (size_t)real_bytes(type) + 16;
}

/* CPU rows are those of one work-item and several tiles. */
int staged_shape_fits(struct ask *ask, const struct tile_shape *shape, clattn_type type)
{
    const struct device *device = &ask->context->device;
    const size_t wg_m = (size_t)shape->wg_m, wg_n = (size_t)shape->wg_n;
    if (shape->blocks_m > 1 && (device->device_class != DEVICE_CPU || shape->vector_bytes > staged_vector_bytes(ask))) {
        return 0;
    }
    return wg_m * wg_n <= device->work_group_limit && wg_n <= device->work_item_limit[0] &&
           wg_m <= device->work_item_limit[1] && local_bytes(shape, type) <= device->local_bytes;
}

clattn_status staged_build_shape(struct ask *ask, const struct tile_shape *shape, const char *file, const char *name,
                                 clattn_type type, const char *type_options, struct tile_kernel *result)
{
    const int vector = shape->vector_bytes / real_bytes(type);
    char options[240];
    snprintf(options, sizeof(options),
             "%s -D VEC=%d -D WG_M=%d -D WG_N=%d -D REG_M=%d -D REG_V=%d -D TILE_K=%d "
             "-D BLOCKS_M=%d",
             type_options, vector, shape->wg_m, shape->wg_n, shape->reg_m, shape->reg_v, shape->tile_k,
             shape->blocks_m);
    result->shape = *shape;
    result->group_rows = shape->wg_m * shape->reg_m * shape->blocks_m;
    result->group_columns = shape->wg_n * shape->reg_v * vector;
    result->local[0] = (size_t)shape->wg_n;
    result->local[1] = (size_t)shape->wg_m;
    return ask_program(ask, file, options, name, &result->kernel);
}

/* The length of the products that are summed by themselves: what of a shape decides bits (cl/common/tile_gemm.clh). */
static int sum_length(const struct tile_shape *shape)
{
    return shape->blocks_m == 1 && shape->tile_k < 256 ? 256 / shape->tile_k * shape->tile_k : shape->tile_k;
}

int staged_shape_of_table(struct ask *ask, clattn_type type)
{
    int number = 1;
    while (!staged_shape_fits(ask, &staged_tile_shapes[number - 1], type) && number < (int)staged_tile_shape_count) {
        ++number;
    }
    return number;
}

int staged_shape_is_legal(struct ask *ask, clattn_type type, int64_t number)
{
    const struct tile_shape *table = &staged_tile_shapes[staged_shape_of_table(ask, type) - 1];
    return number >= 1 && number <= (int64_t)staged_tile_shape_count &&
           staged_shape_fits(ask, &staged_tile_shapes[number - 1], type) &&
           sum_length(&staged_tile_shapes[number - 1]) == sum_length(table);
}

clattn_status staged_build_tiles(struct ask *ask, const char *file, const char *name, clattn_type type,
                                 const char *type_options, int number, struct tile_kernel *result)
{
    for (size_t i = (size_t)number - 1; i < staged_tile_shape_count; ++i) {
        const struct tile_shape *shape = &staged_tile_shapes[i];
        if (!staged_shape_fits(ask, shape, type)) {
            continue;
        }
        /* What the compiler made of it may need more registers than a full work-group has. */
        size_t limit = 0;
        clattn_status status = staged_build_shape(ask, shape, file, name, type, type_options, result);
        if (status == CLATTN_OK) {
            status = kernel_work_group_limit(result->kernel, &limit);
        }
        if (status != CLATTN_OK || limit >= result->local[0] * result->local[1]) {
            return status;
        }
    }
    return error_set(CLATTN_UNSUPPORTED, "the device has no room for the smallest tile of kernel %s", name);
}
