/* clattn quantise: an array of numbers to codes as caches hold them, and back, by clattn_quantise and
 * clattn_dequantise; tells what that costs in accuracy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "files.h"
#include "insides.h"
#include "npy.h"
#include "number.h"
#include "problem_options.h"
#include "quantise_scales.h"
#include "standard_files.h"
#include "summary.h"

/* ---- options ---- */

/* Options about what lies beside codes go with types that have it, and with what is given or made of it. */
static int check_beside(const struct quantise_job *job, struct failure *failure)
{
    const struct {
        enum option_id id;
        int is_had;
        const char *rule;
    } all[] = {
        { OPTION_SCALES, type_takes_scales(job->type), "have scales of their own" },
        { OPTION_SCALES_FILE, type_takes_scales(job->type), "have scales of their own" },
        { OPTION_SCALE_GROUP, type_takes_scales(job->type), "have scales of their own" },
        { OPTION_ZERO_POINTS, type_has_zero_points(job->type), "have no zero points" },
        { OPTION_ZERO_POINTS_FILE, type_has_zero_points(job->type), "have no zero points" },
        { OPTION_TENSOR_SCALE, type_has_tensor_scale(job->type), "have no scale of the tensor" },
    };
    const char *const *value = job->options->value;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (value[all[i].id] && !all[i].is_had) {
            return failure_misuse(failure, "--%s: %s of %s %s", option_name(all[i].id),
                                  type_is_blocks(job->type) ? "blocks" : "codes", clattn_type_name(job->type),
                                  all[i].rule);
        }
    }
    for (int i = 0; i < 2; i++) {
        const enum option_id written = i ? OPTION_ZERO_POINTS_FILE : OPTION_SCALES_FILE;
        if (value[written] && (job->back || value[OPTION_SCALES])) {
            return failure_misuse(failure, "--%s: writes what is made; here it is given", option_name(written));
        }
    }
    if (type_has_zero_points(job->type) && !value[OPTION_SCALES] != !value[OPTION_ZERO_POINTS]) {
        return failure_misuse(failure, "--%s: is missing; codes of %s have both scales and zero points",
                              option_name(value[OPTION_SCALES] ? OPTION_ZERO_POINTS : OPTION_SCALES),
                              clattn_type_name(job->type));
    }
    return 0;
}

/* Rows and columns that share a scale: one row, or as --scale-group says where the type leaves it open. */
static int read_group(struct quantise_job *job, struct failure *failure)
{
    const char *given = job->options->value[OPTION_SCALE_GROUP];
    const int64_t of_type = type_scale_columns(job->type);
    size_t n = 2;
    job->group[0] = 1;
    job->group[1] = of_type;
    if (option_integers(job->options, OPTION_SCALE_GROUP, job->group, 2, &n, failure) != 0) {
        return -1;
    }
    if (n != 2 || job->group[0] < 0 || job->group[1] < 0) {
        return failure_misuse(failure, "--scale-group %s: must be ROWS,COLUMNS, each >= 0", given);
    }
    if (of_type > 0 && (job->group[0] != 1 || job->group[1] != of_type)) {
        return failure_misuse(failure, "--scale-group %s: must be 1,%lld of %s, or left out", given, (long long)of_type,
                              clattn_type_name(job->type));
    }
    if (quantise_makes_scales(job) && job->group[0] != 1) {
        return failure_misuse(failure, "--scale-group %s: scales of %s are made for each row; must be 1,COLUMNS", given,
                              clattn_type_name(job->type));
    }
    return 0;
}

static int read_options(struct quantise_job *job, struct failure *failure)
{
    const struct options *options = job->options;
    const char *outputs[] = { options->value[OPTION_CODES], options->value[OPTION_SCALES_FILE],
                              options->value[OPTION_ZERO_POINTS_FILE] };
    job->back = options->value[OPTION_BACK] != NULL;
    if (!options->operand || !options->value[OPTION_CODE_TYPE]) {
        return failure_misuse(failure, "%s",
                              options->operand ? "--type: is missing; name the type of the codes, such as int8"
                                               : "INPUT: is missing; give an .npy file of numbers");
    }
    if (problem_type_read(options, OPTION_CODE_TYPE, &job->type, failure) != 0 || check_beside(job, failure) != 0 ||
        read_group(job, failure) != 0 ||
        option_number(options, OPTION_TENSOR_SCALE, &job->tensor_scale, failure) != 0) {
        return -1;
    }
    if (!((float)job->tensor_scale > 0) || !isfinite((float)job->tensor_scale)) {
        return failure_misuse(failure, "--tensor-scale %s: must be > 0 and finite, as float32",
                              options->value[OPTION_TENSOR_SCALE]);
    }
    for (int i = 0; i < 3; i++) {
        const char *path = outputs[i];
        if (path && !file_has_suffix(path, ".npy") && !is_standard_file(path)) {
            return failure_misuse(failure, "%s: must end in .npy, or be -", path);
        }
        if (path && file_check_output(path, failure) != 0) {
            return -1;
        }
    }
    return summary_check_options(options, failure);
}

/* ---- shapes ---- */

static int check_input(struct quantise_job *job, struct failure *failure)
{
    struct tensor *in = &job->input;
    const int is_bytes = in->type == TENSOR_UINT8 || in->type == TENSOR_INT8;
    char shape[TENSOR_SHAPE_TEXT];
    if (job->back ? !is_bytes : !tensor_is_float(in->type)) {
        return failure_misuse(failure, "INPUT %s: must be %s", tensor_type_name(in->type),
                              job->back ? "bytes, uint8 or int8"
                                        : "of a float type; --back goes from codes to numbers");
    }
    if (in->dims < 1) {
        return failure_misuse(failure, "INPUT: must have an axis");
    }
    job->rows = in->dims > 1 ? in->shape[in->dims - 2] : 1;
    job->columns = in->shape[in->dims - 1];
    const int64_t block = job->back ? (int64_t)clattn_type_size(job->type) : clattn_type_columns(job->type);
    if (job->columns % block != 0) {
        return failure_misuse(failure, "INPUT %s: its last axis must be a multiple of %lld, a block of %s",
                              tensor_shape_text(in, shape), (long long)block, clattn_type_name(job->type));
    }
    job->columns = job->columns / block * clattn_type_columns(job->type);
    return job->back ? 0 : tensor_convert(in, TENSOR_FLOAT32, "INPUT", failure);
}

/* ---- rows ---- */

static void measure(struct quantise_job *job, const float *values, const float *again)
{
    for (int64_t c = 0; c < job->columns; c++) {
        const double error = fabs((double)again[c] - (double)values[c]);
        job->largest_error = fmax(job->largest_error, error);
        job->error_squares += error * error;
        job->value_squares += (double)values[c] * (double)values[c];
    }
}

static clattn_status quantise(const struct quantise_job *job, int64_t n, const float *values, void *codes)
{
    if (!type_takes_scales(job->type)) {
        return clattn_quantise(job->type, job->columns, values, NULL, 0, codes);
    }
    const clattn_row_scales scales = quantise_scales_of_row(job, n);
    return clattn_quantise_row(job->type, job->columns, values, quantise_makes_scales(job), &scales, codes);
}

static clattn_status dequantise(const struct quantise_job *job, int64_t n, const void *codes, float *values)
{
    if (!type_takes_scales(job->type)) {
        return clattn_dequantise(job->type, job->columns, codes, NULL, 0, values);
    }
    const clattn_row_scales scales = quantise_scales_of_row(job, n);
    return clattn_dequantise_row(job->type, job->columns, codes, &scales, values);
}

static int convert_rows(struct quantise_job *job, int64_t rows, float *again, struct failure *failure)
{
    const size_t bytes = clattn_row_bytes(job->type, job->columns);
    const float *from = job->input.data;
    for (int64_t n = 0; n < rows; n++) {
        char *codes = (char *)(job->back ? job->input.data : job->result.data) + (size_t)n * bytes;
        float *values = job->back ? (float *)job->result.data + n * job->columns : again;
        if ((!job->back && quantise(job, n, from + n * job->columns, codes) != CLATTN_OK) ||
            dequantise(job, n, codes, values) != CLATTN_OK) {
            return failure_failed(failure, "%s", clattn_last_error());
        }
        if (!job->back) {
            measure(job, from + n * job->columns, again);
        }
    }
    return 0;
}

static int convert(struct quantise_job *job, struct failure *failure)
{
    struct tensor *in = &job->input;
    const int64_t rows = in->shape[in->dims - 1] > 0 ? tensor_count(in) / in->shape[in->dims - 1] : 0;
    int64_t shape[TENSOR_DIMS_MAX];
    if (type_takes_scales(job->type) && quantise_scales_read(job, failure) != 0) {
        return -1;
    }
    if (job->scales.data && !job->options->value[OPTION_SCALES] && !quantise_makes_scales(job)) {
        quantise_scales_find(job, rows);
    }
    memcpy(shape, in->shape, sizeof shape);
    shape[in->dims - 1] = job->back ? job->columns : (int64_t)clattn_row_bytes(job->type, job->columns);
    if (tensor_create(&job->result,
                      job->back                  ? TENSOR_FLOAT32
                      : job->type == CLATTN_INT8 ? TENSOR_INT8
                                                 : TENSOR_UINT8,
                      in->dims, shape, "result", failure) != 0) {
        return -1;
    }
    float *again = calloc((size_t)job->columns + 1, sizeof *again);
    const int result = again ? convert_rows(job, rows, again, failure) : failure_failed(failure, "out of memory");
    free(again);
    return result;
}

/* ---- telling ---- */

static void tell_results(const struct quantise_job *job, cJSON *document)
{
    const double numbers = (double)tensor_count(job->back ? &job->result : &job->input);
    const double bytes = (double)tensor_bytes(job->back ? &job->input : &job->result) +
                         (job->scales.data ? (double)tensor_bytes(&job->scales) : 0) +
                         (job->zero_points.data ? (double)tensor_bytes(&job->zero_points) : 0);
    const double bits = numbers > 0 ? 8 * bytes / numbers : 0;
    const double relative = job->value_squares > 0 ? sqrt(job->error_squares / job->value_squares) : 0;
    char text[3][NUMBER_TEXT];
    summary_tensor(document, "input", &job->input);
    summary_tensor(document, "result", &job->result);
    if (job->scales.data) {
        summary_tensor(document, "scales", &job->scales);
    }
    if (job->zero_points.data) {
        summary_tensor(document, "zeros", &job->zero_points);
    }
    if (document) {
        cJSON_AddStringToObject(document, "type", clattn_type_name(job->type));
        cJSON_AddNumberToObject(document, "bits_of_a_number", bits);
    } else {
        printf("type      %s, %s bits a number, scales counted\n", clattn_type_name(job->type),
               number_text(bits, 3, text[0]));
    }
    if (document && !job->back) {
        cJSON_AddNumberToObject(document, "largest_error", job->largest_error);
        cJSON_AddNumberToObject(document, "relative_error", relative);
    } else if (!job->back) {
        printf("error     at most %s; root mean square %s of that of the numbers\n",
               number_text(job->largest_error, 3, text[1]), number_text(relative, 3, text[2]));
    }
}

static int write_results(const struct quantise_job *job, struct failure *failure)
{
    const char *const *value = job->options->value;
    const struct {
        const char *path;
        const struct tensor *tensor;
    } all[] = { { value[OPTION_CODES], &job->result },
                { value[OPTION_SCALES_FILE], &job->scales },
                { value[OPTION_ZERO_POINTS_FILE], &job->zero_points } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].path && npy_write(all[i].path, all[i].tensor, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

static int run_job(struct quantise_job *job, struct failure *failure)
{
    const struct options *options = job->options;
    if (read_options(job, failure) != 0 || npy_read(options->operand, &job->input, failure) != 0 ||
        check_input(job, failure) != 0 || convert(job, failure) != 0 || write_results(job, failure) != 0) {
        return -1;
    }
    cJSON *document = summary_begin(options, "quantise", NULL);
    tell_results(job, document);
    return summary_end(document, 0, failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct quantise_job job;
    memset(&job, 0, sizeof job);
    job.options = options;
    job.tensor_scale = 1;
    const int result = run_job(&job, failure);
    tensor_free(&job.input);
    tensor_free(&job.scales);
    tensor_free(&job.zero_points);
    tensor_free(&job.result);
    return result;
}

static const struct option_group groups[] = {
    { "Options",
      { OPTION_CODE_TYPE, OPTION_CODES, OPTION_BACK, OPTION_SCALES, OPTION_SCALES_FILE, OPTION_SCALE_GROUP,
        OPTION_ZERO_POINTS, OPTION_ZERO_POINTS_FILE, OPTION_TENSOR_SCALE, OPTION_JSON, OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_quantise = {
    "quantise",
    "Turns the numbers of an .npy file into codes as caches hold them, or codes into numbers, and tells how far they "
    "are from each other. The last axis is a row's columns; of blocks it becomes their bytes.",
    "INPUT.npy --type T [OPTION]...",
    "INPUT",
    groups,
    "Examples:\n"
    "  clattn quantise k.npy --type q8_0 --output k-q8_0.npy\n"
    "  clattn quantise k.npy --type int8 --scale-group 1,0 --output k8.npy \\\n"
    "    --scales-output ks.npy\n"
    "  clattn run --q q.npy --k k8.npy --v v.npy --key-scales ks.npy\n",
    run,
};
