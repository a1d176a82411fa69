/* Arrays of layers: description, and the checks that need no device. */
#include "operation/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/half.h"

static clattn_status describe(struct layer_array *array)
{
    int64_t bytes;
    array->count = 1;
    for (int i = 0; i < array->dims; ++i) {
        if (!checked_multiply(array->count, array->shape[i], &array->count)) {
            return error_set(CLATTN_INVALID_SHAPE, "%s: its shape does not fit 64-bit indices", array->name);
        }
    }
    if (!checked_multiply(array->count, (int64_t)array->element_bytes, &bytes)) {
        return error_set(CLATTN_INVALID_SHAPE, "%s: its size in bytes does not fit 64 bits", array->name);
    }
    return CLATTN_OK;
}

clattn_status layer_describe(struct layer_array *arrays, int count)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < count && status == CLATTN_OK; ++i) {
        status = describe(&arrays[i]);
    }
    return status;
}

void layer_places_on_device(const clattn_array *given, int count, struct layer_place *places)
{
    for (int i = 0; i < count; ++i) {
        places[i] = (struct layer_place){ .buffer = given[i].buffer, .offset = given[i].offset };
    }
}

void layer_places_on_host(const void *const *given, int count, struct layer_place *places)
{
    for (int i = 0; i < count; ++i) {
        places[i] = (struct layer_place){ 0 };
        memcpy(&places[i].data, &given[i], sizeof(given[i])); /* inputs are only read */
    }
}

clattn_status layer_mask_strides(struct layer_array *array, const int64_t *stride)
{
    int64_t last = 0;
    for (int i = 0; i < array->dims; ++i) {
        int64_t reach;
        if (array->shape[i] == 0) {
            array->count = 0;
            return CLATTN_OK;
        }
        if (stride[i] < 0 || !checked_multiply(array->shape[i] - 1, stride[i], &reach) ||
            !checked_add(last, reach, &last) || last == INT64_MAX) {
            return error_set(CLATTN_INVALID_SHAPE,
                             "%s_stride[%d] %" PRId64 ": must be >= 0 and fit 64-bit indices", array->name,
                             i, stride[i]);
        }
    }
    array->count = last + 1;
    return CLATTN_OK;
}

const char *layer_shape_text(const struct layer_array *array, char *text)
{
    size_t length = 0;
    for (int i = 0; i < array->dims; ++i) {
        length += (size_t)snprintf(text + length, LAYER_SHAPE_TEXT - length, "%s%" PRId64,
                                   i ? ", " : "[", array->shape[i]);
    }
    snprintf(text + length, LAYER_SHAPE_TEXT - length, "]");
    return text;
}

static clattn_status check_place(const struct layer_array *array, const struct layer_place *place)
{
    const int given = place->buffer || place->data;
    char shape[LAYER_SHAPE_TEXT];
    if (array->required && !given && array->count > 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s %s: must be given: the problem has it", array->name,
                         layer_shape_text(array, shape));
    }
    if (!array->required && given) {
        return error_set(CLATTN_INVALID_ARGUMENT,
                         "%s: must not be given: the problem does not have it, it would be ignored",
                         array->name);
    }
    return CLATTN_OK;
}

clattn_status layer_check_places(const struct layer_array *arrays, const struct layer_place *places,
                                 int count)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < count && status == CLATTN_OK; ++i) {
        status = check_place(&arrays[i], &places[i]);
    }
    return status;
}

static clattn_status check_finite(const struct layer_array *array, clattn_type type, const void *data)
{
    for (int64_t i = 0; i < array->count; ++i) {
        const double value = type_load(type, data, i);
        if (!isfinite(value)) {
            char shape[LAYER_SHAPE_TEXT], place[64];
            if (array->dims == 2) {
                snprintf(place, sizeof(place), "[%" PRId64 ", %" PRId64 "]", i / array->shape[1],
                         i % array->shape[1]);
            } else {
                snprintf(place, sizeof(place), "[%" PRId64 "]", i);
            }
            return error_set(CLATTN_INVALID_ARGUMENT, "%s%s of %s is %s: weights must be finite",
                             array->name, place, layer_shape_text(array, shape),
                             isnan(value) ? "NaN" : "infinite");
        }
    }
    return CLATTN_OK;
}

clattn_status layer_check_weights(const struct layer_array *arrays, const struct layer_place *places,
                                  int count, clattn_type type)
{
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < count && status == CLATTN_OK; ++i) {
        if (arrays[i].role == LAYER_WEIGHT && arrays[i].required) {
            status = check_finite(&arrays[i], type, places[i].data);
        }
    }
    return status;
}

clattn_status layer_check_key_lengths(const int32_t *lengths, int64_t batch, const char *most_name,
                                      int64_t most)
{
    for (int64_t b = 0; lengths && b < batch; ++b) {
        if (lengths[b] < 0 || lengths[b] > most) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "key_lengths[%" PRId64 "] %d: must be 0 to %s %" PRId64, b, (int)lengths[b],
                             most_name, most);
        }
    }
    return CLATTN_OK;
}

clattn_status layer_check_dimensions(const struct layer_dimension *dimensions, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const struct layer_dimension *d = &dimensions[i];
        if (d->value < d->least || d->value > INT32_MAX) {
            return error_set(CLATTN_INVALID_SHAPE, "%s %" PRId64 ": must be %s and at most %d", d->name,
                             d->value, d->least ? "> 0" : ">= 0", INT32_MAX);
        }
    }
    return CLATTN_OK;
}

clattn_status layer_copy_struct(void *copy, size_t size, const void *given, const char *name,
                                const char *macro)
{
    size_t given_size = 0;
    if (!given) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s: must not be NULL", name);
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size < size || given_size > 65536) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s.struct_size %zu: must be %zu, set by %s", name,
                         given_size, size, macro);
    }
    memcpy(copy, given, size);
    for (size_t i = size; i < given_size; ++i) {
        if (((const unsigned char *)given)[i] != 0) {
            return error_set(CLATTN_UNSUPPORTED,
                             "%s.struct_size %zu: sets a field that this library (version %s) does not "
                             "know; use a newer libclattn",
                             name, given_size, clattn_version());
        }
    }
    return CLATTN_OK;
}
