#include "quantise_scales.h"

#include <math.h>
#include <string.h>

#include "insides.h"
#include "npy.h"

int quantise_makes_scales(const struct quantise_job *job)
{
    return type_makes_scales(job->type) && !job->back && !job->options->value[OPTION_SCALES];
}

static double largest_number(clattn_type type)
{
    return type == CLATTN_INT8 ? 127 : type == CLATTN_INT4 ? 7 : type == CLATTN_E4M3 ? 448 : 57344;
}

static int64_t groups_of(int64_t all, int64_t group)
{
    return group > 0 ? (all + group - 1) / group : 1;
}

/* Scales or zero points that are given in a file, or room for them: the input's shape, the last two axes in groups. */
static int make_beside(const struct quantise_job *job, enum option_id option, enum tensor_type type,
                       struct tensor *tensor, struct failure *failure)
{
    const struct tensor *in = &job->input;
    const char *path = job->options->value[option];
    int64_t shape[TENSOR_DIMS_MAX], count = 1;
    char text[TENSOR_SHAPE_TEXT];
    memcpy(shape, in->shape, sizeof shape);
    shape[in->dims - 1] = groups_of(job->columns, job->group[1]);
    if (in->dims > 1) {
        shape[in->dims - 2] = groups_of(job->rows, job->group[0]);
    }
    for (int i = 0; i < in->dims; i++) {
        count *= shape[i];
    }
    if (!path) {
        return job->back ? failure_misuse(failure, "--%s: is missing; codes of %s have them in a file",
                                          option_name(option), clattn_type_name(job->type))
                         : tensor_create(tensor, type, in->dims, shape, option_name(option), failure);
    }
    if (npy_read(path, tensor, failure) != 0) {
        return -1;
    }
    const int is_of_type = type == TENSOR_UINT8 ? tensor->type == TENSOR_UINT8 : tensor_is_float(tensor->type);
    if (!is_of_type || tensor_count(tensor) != count) {
        return failure_misuse(failure,
                              "--%s %s: shape %s %s: must be the %lld %s of %s that --scale-group %lld,%lld asks for",
                              option_name(option), path, tensor_shape_text(tensor, text),
                              tensor_type_name(tensor->type), (long long)count, option_name(option),
                              type == TENSOR_UINT8 ? "uint8" : "a float type", (long long)job->group[0],
                              (long long)job->group[1]);
    }
    return tensor_convert(tensor, type, option_name(option), failure);
}

int quantise_scales_read(struct quantise_job *job, struct failure *failure)
{
    const enum tensor_type type = type_of_scales(job->type) == CLATTN_FLOAT32 ? TENSOR_FLOAT32 : TENSOR_UINT8;
    if (make_beside(job, OPTION_SCALES, type, &job->scales, failure) != 0) {
        return -1;
    }
    return type_has_zero_points(job->type)
               ? make_beside(job, OPTION_ZERO_POINTS, TENSOR_FLOAT32, &job->zero_points, failure)
               : 0;
}

clattn_row_scales quantise_scales_of_row(const struct quantise_job *job, int64_t n)
{
    const int64_t groups = groups_of(job->rows, job->group[0]), i = n % job->rows;
    const int64_t line = n / job->rows * groups + (job->group[0] > 0 ? i / job->group[0] : 0);
    const int64_t at = line * groups_of(job->columns, job->group[1]);
    float *zero_points = job->zero_points.data;
    return (clattn_row_scales){ (char *)job->scales.data + (size_t)at * tensor_type_size(job->scales.type),
                                zero_points ? zero_points + at : NULL, job->group[1], job->tensor_scale };
}

void quantise_scales_find(struct quantise_job *job, int64_t rows)
{
    const double most = largest_number(job->type);
    for (int64_t n = 0; n < rows; n++) {
        float *scales = quantise_scales_of_row(job, n).scales;
        for (int64_t c = 0; c < job->columns; c++) {
            float *scale = &scales[job->group[1] > 0 ? c / job->group[1] : 0];
            const double x = fabs((double)((const float *)job->input.data)[n * job->columns + c]) / most;
            *scale = isfinite(x) && x > (double)*scale ? (float)x : *scale;
        }
    }
}
