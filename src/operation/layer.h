/* What the layers around attention (multi-head, additive) have in common: arrays described by a table, so
 * that checking, copying and messages are written once. Used by mha and additive, their references and
 * their blocking calls. */
#ifndef CLATTN_SRC_LAYER_H
#define CLATTN_SRC_LAYER_H

#include "clattn.h"
#include "base/error.h"

enum layer_role {
    LAYER_INPUT,
    LAYER_WEIGHT, /* its values must be finite, where they can be read */
    LAYER_OUTPUT
};

/* One array of a layer, as its problem wants it. */
struct layer_array {
    const char *name;
    enum layer_role role;
    int dims;
    int64_t shape[4];
    size_t element_bytes;
    int required;  /* must be given; otherwise it must not */
    int64_t count; /* elements in memory: of the shape (layer_describe), or what a mask's strides reach */
};

/* Where it is; buffer or data is used, by the kind of call. */
struct layer_place {
    cl_mem buffer;
    int64_t offset; /* in elements */
    void *data;
};

/* Sets the counts: the products of the shapes. CLATTN_INVALID_SHAPE when one does not fit. */
clattn_status layer_describe(struct layer_array *arrays, int count);

void layer_places_on_device(const clattn_array *given, int count, struct layer_place *places);
void layer_places_on_host(const void *const *given, int count, struct layer_place *places);

/* Sets array->count of a mask to what these strides reach. Negative ones are an error. */
clattn_status layer_mask_strides(struct layer_array *array, const int64_t *stride);

/* Given exactly where required. An array without elements need not be given. */
clattn_status layer_check_places(const struct layer_array *arrays, const struct layer_place *places,
                                 int count);

/* "[5, 384]" */
#define LAYER_SHAPE_TEXT 128
const char *layer_shape_text(const struct layer_array *array, char *text);

/* Of weights in host memory: CLATTN_INVALID_ARGUMENT with the place of the first NaN or infinity. */
clattn_status layer_check_weights(const struct layer_array *arrays, const struct layer_place *places,
                                  int count, clattn_type type);

/* Key lengths in host memory, or NULL: each 0 to `most`, which the message calls by its name. */
clattn_status layer_check_key_lengths(const int32_t *lengths, int64_t batch, const char *most_name,
                                      int64_t most);

/* For strides over axes that may have no element: a stride of 0 would look like a broadcast. */
static inline int64_t layer_at_least_1(int64_t extent)
{
    return extent > 0 ? extent : 1;
}

struct layer_dimension {
    const char *name;
    int64_t value;
    int64_t least;
};

/* Every dimension must be at least its `least` and fit 31 bits. */
clattn_status layer_check_dimensions(const struct layer_dimension *dimensions, size_t count);

/* A public struct of `size` bytes as this library knows it into `copy`; the tail it does not know must be 0.
 * Struct name and INIT macro are for the message. */
clattn_status layer_copy_struct(void *copy, size_t size, const void *given, const char *name,
                                const char *macro);

#endif
