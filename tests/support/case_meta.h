/* The meta.json of a case, and the arrays that it names: for operations whose inputs are read by their names. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_META_H
#define CLATTN_TESTS_SUPPORT_CASE_META_H

#include <cjson/cJSON.h>

#include "../../tools/failure.h"
#include "../../tools/tensor.h"

/* Who computes a case, and where it is. */
struct case_run {
    clattn_context *context; /* NULL: by the reference */
    const char *from, *to;   /* folders; that of the outputs is made when there is one */
    cJSON *meta;
};

/* The whole document; the caller deletes it. */
int case_meta_read(const char *folder, cJSON **meta, struct failure *failure);

const cJSON *meta_field(const cJSON *meta, const char *group, const char *name);
double meta_number(const cJSON *item, double missing);
const char *meta_text(const cJSON *item); /* "" where it is none */
int meta_is_true(const cJSON *item);

/* Input `name` as `type` (TENSOR_TYPES: as it is stored); left empty where the case has none. */
int case_input_read(const struct case_run *run, const char *name, enum tensor_type type, struct tensor *tensor,
                    struct failure *failure);

/* Output `name`, where the case lists it. */
int case_output_write(const struct case_run *run, const char *name, const struct tensor *tensor,
                      struct failure *failure);

/* 0, or -1 and a failure. */
int case_status(clattn_status status, struct failure *failure);

/* The type that the case says by its name, in `group` or, where group is NULL, at the top; CLATTN_TYPE_NONE: none. */
clattn_type meta_type(const cJSON *meta, const char *group, const char *name);

/* How files are laid out, [batch, heads, rows, columns] or others: strides of a tensor, and its extents. */
struct case_axes {
    int64_t batch, heads, rows, columns;
    int64_t stride[4];
    int is_packed; /* THD */
};
int case_axes_read(const struct tensor *tensor, const char *layout, int64_t heads, struct case_axes *axes,
                   struct failure *failure);

#endif
