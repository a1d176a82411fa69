#include "attention_scales.h"

#include "insides.h"

/* Where what lies beside a tensor's codes is, and what it is of. */
struct scales {
    enum role role, zero_points, tensor_scale;
    enum option_id option, group, type_option;
    clattn_type type;
    uint32_t feature;
    const struct axes *axes;
    clattn_host_tensor *host, *host_zero_points, *host_tensor_scale;
    int64_t *rows, *columns; /* the problem's */
};

/* ---- which of them a type has ---- */

static int refuse_role(const struct inputs *inputs, const struct scales *scales, enum role role, int is_had,
                       const char *whose, struct failure *failure)
{
    if (!inputs->tensor[role].data || is_had) {
        return 0;
    }
    return failure_misuse(failure, "%s: are those of %s, and not of %s; see --%s", role_name(role), whose,
                          clattn_type_name(scales->type), option_name(scales->type_option));
}

static int require_role(const struct inputs *inputs, const struct scales *scales, enum role role, int is_needed,
                        struct failure *failure)
{
    if (inputs->tensor[role].data || !is_needed) {
        return 0;
    }
    return failure_misuse(failure, "%s: is missing; codes of %s have it beside them, and clattn quantise writes it",
                          role_name(role), clattn_type_name(scales->type));
}

static int check_roles(const struct inputs *inputs, const struct scales *scales, struct failure *failure)
{
    const clattn_type type = scales->type;
    const int has_zero_points = type_has_zero_points(type), has_tensor_scale = type_has_tensor_scale(type);
    if (refuse_role(inputs, scales, scales->role, type_takes_scales(type),
                    "codes that have them beside them, such as int8", failure) != 0 ||
        refuse_role(inputs, scales, scales->zero_points, has_zero_points, "u8 and u4", failure) != 0 ||
        refuse_role(inputs, scales, scales->tensor_scale, has_tensor_scale, "nvfp4", failure) != 0) {
        return -1;
    }
    return require_role(inputs, scales, scales->role, type_makes_scales(type), failure) != 0 ||
                   require_role(inputs, scales, scales->zero_points, has_zero_points, failure) != 0 ||
                   require_role(inputs, scales, scales->tensor_scale, has_tensor_scale, failure) != 0
               ? -1
               : 0;
}

/* ---- shapes ---- */

/* How many of an axis share a scale: as given (-1: not), or what the extent alone tells. */
static int read_share(const struct scales *scales, const char *what, int64_t extent, int64_t all, int64_t given,
                      int64_t *share, struct failure *failure)
{
    *share = given >= 0 ? given : extent == all && extent != 1;
    const int64_t wanted = *share > 0 ? (all + *share - 1) / *share : 1;
    if (extent == wanted || extent == 1) {
        return 0;
    }
    return failure_misuse(failure, "%s: its %lld %s: of %lld in groups of %lld they must be %lld; see --%s",
                          role_name(scales->role), (long long)extent, what, (long long)all, (long long)*share,
                          (long long)wanted, option_name(scales->group));
}

/* Rows and columns that share a scale: of the type, or as --key-scale-group says, or as the shape tells. */
static int read_group(const struct options *options, const struct scales *scales, const struct tensor *tensor,
                      struct failure *failure)
{
    const int64_t of_type[2] = { 1, type_scale_columns(scales->type) };
    int64_t group[2] = { -1, -1 };
    size_t n = 2;
    if (option_integers(options, scales->group, group, 2, &n, failure) != 0) {
        return -1;
    }
    if (n != 2 || (options->value[scales->group] && (group[0] < 0 || group[1] < 0))) {
        return failure_misuse(failure, "--%s %s: must be ROWS,COLUMNS, each >= 0", option_name(scales->group),
                              options->value[scales->group]);
    }
    for (int i = 0; i < 2 && of_type[1] > 0; i++) {
        if (options->value[scales->group] && group[i] != of_type[i]) {
            return failure_misuse(failure, "--%s %s: must be 1,%lld of %s, or left out", option_name(scales->group),
                                  options->value[scales->group], (long long)of_type[1], clattn_type_name(scales->type));
        }
        group[i] = of_type[i];
    }
    return read_share(scales, "rows", tensor->shape[2], scales->axes->rows, group[0], scales->rows, failure) != 0
               ? -1
               : read_share(scales, "columns", tensor->shape[3], scales->axes->columns, group[1], scales->columns,
                            failure);
}

static void place(const struct tensor *tensor, clattn_host_tensor *host)
{
    int64_t step = 1;
    host->data = tensor->data;
    for (int axis = 3; axis >= 0; axis--) {
        host->stride[axis] = tensor->shape[axis] > 1 ? step : 0;
        step *= tensor->shape[axis];
    }
}

/* Into what the library reads: float32, or the bytes of a type whose scales are bytes. */
static int convert(struct tensor *tensor, enum role role, clattn_type stored, struct failure *failure)
{
    if (stored == CLATTN_FLOAT32) {
        return tensor_convert(tensor, TENSOR_FLOAT32, role_name(role), failure);
    }
    if (tensor->type != TENSOR_UINT8 && tensor_storage_type(tensor->type) != stored) {
        return failure_misuse(failure, "%s %s: must be bytes, uint8, which are %s", role_name(role),
                              tensor_type_name(tensor->type), clattn_type_name(stored));
    }
    return 0;
}

static int prepare_scales(const struct options *options, struct inputs *inputs, const struct scales *scales,
                          struct failure *failure)
{
    struct tensor *tensor = &inputs->tensor[scales->role];
    const clattn_type stored = type_of_scales(scales->type);
    if ((stored == CLATTN_FLOAT32 && !tensor_is_float(tensor->type)) || tensor->dims != 4 ||
        (tensor->shape[0] != 1 && tensor->shape[0] != scales->axes->batch) ||
        (tensor->shape[1] != 1 && tensor->shape[1] != scales->axes->heads)) {
        char text[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure, "%s: shape %s %s: must be of %s, [%lld or 1, %lld or 1, rows, columns]",
                              role_name(scales->role), tensor_shape_text(tensor, text), tensor_type_name(tensor->type),
                              stored == CLATTN_FLOAT32 ? "a float type" : "uint8", (long long)scales->axes->batch,
                              (long long)scales->axes->heads);
    }
    if (read_group(options, scales, tensor, failure) != 0 || convert(tensor, scales->role, stored, failure) != 0) {
        return -1;
    }
    place(tensor, scales->host);
    return 0;
}

/* Their shape is that of the scales, which were checked. */
static int prepare_zero_points(struct inputs *inputs, const struct scales *scales, struct failure *failure)
{
    struct tensor *tensor = &inputs->tensor[scales->zero_points];
    const struct tensor *like = &inputs->tensor[scales->role];
    int is_alike = tensor->dims == 4 && tensor_is_float(tensor->type);
    for (int axis = 0; axis < 4 && is_alike; axis++) {
        is_alike = tensor->shape[axis] == like->shape[axis];
    }
    if (!is_alike) {
        char text[2][TENSOR_SHAPE_TEXT];
        return failure_misuse(failure, "%s: shape %s %s: must be of a float type, in the shape %s of %s",
                              role_name(scales->zero_points), tensor_shape_text(tensor, text[0]),
                              tensor_type_name(tensor->type), tensor_shape_text(like, text[1]),
                              role_name(scales->role));
    }
    place(tensor, scales->host_zero_points);
    if (tensor_convert(tensor, TENSOR_FLOAT32, role_name(scales->zero_points), failure) != 0) {
        return -1;
    }
    scales->host_zero_points->data = tensor->data;
    return 0;
}

static int prepare_tensor_scale(struct inputs *inputs, const struct scales *scales, struct failure *failure)
{
    struct tensor *tensor = &inputs->tensor[scales->tensor_scale];
    if (tensor_count(tensor) != 1 || !tensor_is_float(tensor->type)) {
        char text[TENSOR_SHAPE_TEXT];
        return failure_misuse(failure, "%s: shape %s %s: must be one number of a float type",
                              role_name(scales->tensor_scale), tensor_shape_text(tensor, text),
                              tensor_type_name(tensor->type));
    }
    if (tensor_convert(tensor, TENSOR_FLOAT32, role_name(scales->tensor_scale), failure) != 0) {
        return -1;
    }
    scales->host_tensor_scale->data = tensor->data;
    return 0;
}

/* ---- keys and values ---- */

static int prepare(const struct options *options, struct inputs *inputs, struct attention *attention,
                   const struct scales *scales, struct failure *failure)
{
    const enum option_id option[] = { scales->option, OPTION_NONE };
    if (check_roles(inputs, scales, failure) != 0) {
        return -1;
    }
    if (!inputs->tensor[scales->role].data) {
        return option_needs(options, scales->group, option, failure);
    }
    attention->problem.features |= scales->feature;
    if (prepare_scales(options, inputs, scales, failure) != 0 ||
        (inputs->tensor[scales->zero_points].data && prepare_zero_points(inputs, scales, failure) != 0)) {
        return -1;
    }
    return inputs->tensor[scales->tensor_scale].data ? prepare_tensor_scale(inputs, scales, failure) : 0;
}

int attention_prepare_scales(const struct options *options, struct inputs *inputs, struct attention *attention,
                             struct failure *failure)
{
    clattn_problem *problem = &attention->problem;
    clattn_host_tensors *host = &attention->host;
    const struct scales keys = {
        ROLE_KEY_SCALES,
        ROLE_KEY_ZERO_POINTS,
        ROLE_KEY_TENSOR_SCALE,
        OPTION_KEY_SCALES,
        OPTION_KEY_GROUP,
        OPTION_STORED_KEYS,
        problem->key_type ? problem->key_type : problem->type,
        CLATTN_WITH_KEY_SCALES,
        &attention->key,
        &host->key_scales,
        &host->key_zero_points,
        &host->key_tensor_scale,
        &problem->key_scale_rows,
        &problem->key_scale_columns,
    };
    const struct scales values = {
        ROLE_VALUE_SCALES,
        ROLE_VALUE_ZERO_POINTS,
        ROLE_VALUE_TENSOR_SCALE,
        OPTION_VALUE_SCALES,
        OPTION_VALUE_GROUP,
        OPTION_STORED_VALUES,
        problem->value_type ? problem->value_type : problem->type,
        CLATTN_WITH_VALUE_SCALES,
        &attention->value,
        &host->value_scales,
        &host->value_zero_points,
        &host->value_tensor_scale,
        &problem->value_scale_rows,
        &problem->value_scale_columns,
    };
    return prepare(options, inputs, attention, &keys, failure) != 0
               ? -1
               : prepare(options, inputs, attention, &values, failure);
}
