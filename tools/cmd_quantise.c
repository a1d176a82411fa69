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
#include "standard_files.h"
#include "summary.h"

struct job {
    const struct options *options;
    clattn_type type;
    int back;
    struct tensor input, scales, result; /* scales: of the input's number of axes, the last two in groups */
    int64_t group[2];                    /* rows and columns that share a scale; 0: all */
    int64_t rows, columns;               /* of the last two axes; columns as numbers */
    double largest_error, error_squares, value_squares;
};

static double largest_number(clattn_type type)
{
    return type == CLATTN_INT8 ? 127 : type == CLATTN_INT4 ? 7 : type == CLATTN_E4M3 ? 448 : 57344;
}

static int64_t groups_of(int64_t all, int64_t group)
{
    return group > 0 ? (all + group - 1) / group : 1;
}

/* ---- options ---- */

static int read_options(struct job *job, struct failure *failure)
{
    const struct options *options = job->options;
    const char *output = options->value[OPTION_CODES];
    size_t n = 2;
    job->back = options->value[OPTION_BACK] != NULL;
    job->group[0] = 1;
    if (!options->operand || !options->value[OPTION_CODE_TYPE]) {
        return failure_misuse(failure, "%s",
                              options->operand ? "--type: is missing; name the type of the codes, such as int8"
                                               : "INPUT: is missing; give an .npy file of numbers");
    }
    if (problem_type_read(options, OPTION_CODE_TYPE, &job->type, failure) != 0 ||
        option_integers(options, OPTION_SCALE_GROUP, job->group, 2, &n, failure) != 0) {
        return -1;
    }
    if (n != 2 || job->group[0] < 0 || job->group[1] < 0) {
        return failure_misuse(failure, "--scale-group %s: must be ROWS,COLUMNS, each >= 0",
                              options->value[OPTION_SCALE_GROUP]);
    }
    for (int i = 0; i < 3 && !type_takes_scales(job->type); i++) {
        const enum option_id ids[] = { OPTION_SCALES, OPTION_SCALES_FILE, OPTION_SCALE_GROUP };
        if (options->value[ids[i]]) {
            return failure_misuse(failure, "--%s: blocks of %s have scales of their own", option_name(ids[i]),
                                  clattn_type_name(job->type));
        }
    }
    if (options->value[OPTION_SCALES_FILE] && (job->back || options->value[OPTION_SCALES])) {
        return failure_misuse(failure, "--scales-output: writes scales that are made; here they are given");
    }
    for (int i = 0; i < 2; i++) {
        const char *path = i ? options->value[OPTION_SCALES_FILE] : output;
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

static int check_input(struct job *job, struct failure *failure)
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

/* The shape of the scales: the input's, the last two axes in groups. */
static int make_scales(struct job *job, struct failure *failure)
{
    const struct tensor *in = &job->input;
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
    if (!job->options->value[OPTION_SCALES]) {
        return job->back ? failure_misuse(failure, "--scales: is missing; codes of %s have them in a file",
                                          clattn_type_name(job->type))
                         : tensor_create(&job->scales, TENSOR_FLOAT32, in->dims, shape, "scales", failure);
    }
    if (npy_read(job->options->value[OPTION_SCALES], &job->scales, failure) != 0) {
        return -1;
    }
    if (!tensor_is_float(job->scales.type) || tensor_count(&job->scales) != count) {
        return failure_misuse(failure,
                              "--scales %s: shape %s %s: must be the %lld scales of a float type that "
                              "--scale-group %lld,%lld asks for",
                              job->options->value[OPTION_SCALES], tensor_shape_text(&job->scales, text),
                              tensor_type_name(job->scales.type), (long long)count, (long long)job->group[0],
                              (long long)job->group[1]);
    }
    return tensor_convert(&job->scales, TENSOR_FLOAT32, "--scales", failure);
}

/* The first scale of row n, counted through all axes but the last. NULL: none. */
static float *scales_of_row(const struct job *job, int64_t n)
{
    const int64_t groups = groups_of(job->rows, job->group[0]), i = n % job->rows;
    const int64_t at = n / job->rows * groups + (job->group[0] > 0 ? i / job->group[0] : 0);
    return job->scales.data ? (float *)job->scales.data + at * groups_of(job->columns, job->group[1]) : NULL;
}

/* The smallest scales by which no number is beyond the codes. */
static void find_scales(struct job *job, int64_t rows)
{
    const double most = largest_number(job->type);
    for (int64_t n = 0; n < rows; n++) {
        float *scales = scales_of_row(job, n);
        for (int64_t c = 0; c < job->columns; c++) {
            float *scale = &scales[job->group[1] > 0 ? c / job->group[1] : 0];
            const double x = fabs((double)((const float *)job->input.data)[n * job->columns + c]) / most;
            *scale = isfinite(x) && x > (double)*scale ? (float)x : *scale;
        }
    }
}

/* ---- rows ---- */

static void measure(struct job *job, const float *values, const float *again)
{
    for (int64_t c = 0; c < job->columns; c++) {
        const double error = fabs((double)again[c] - (double)values[c]);
        job->largest_error = fmax(job->largest_error, error);
        job->error_squares += error * error;
        job->value_squares += (double)values[c] * (double)values[c];
    }
}

static int convert_rows(struct job *job, int64_t rows, float *again, struct failure *failure)
{
    const size_t bytes = clattn_row_bytes(job->type, job->columns);
    const float *from = job->input.data;
    for (int64_t n = 0; n < rows; n++) {
        const float *scales = scales_of_row(job, n);
        char *codes = (char *)(job->back ? job->input.data : job->result.data) + (size_t)n * bytes;
        float *values = job->back ? (float *)job->result.data + n * job->columns : again;
        if ((!job->back && clattn_quantise(job->type, job->columns, from + n * job->columns, scales, job->group[1],
                                           codes) != CLATTN_OK) ||
            clattn_dequantise(job->type, job->columns, codes, scales, job->group[1], values) != CLATTN_OK) {
            return failure_failed(failure, "%s", clattn_last_error());
        }
        if (!job->back) {
            measure(job, from + n * job->columns, again);
        }
    }
    return 0;
}

static int convert(struct job *job, struct failure *failure)
{
    struct tensor *in = &job->input;
    const int64_t rows = in->shape[in->dims - 1] > 0 ? tensor_count(in) / in->shape[in->dims - 1] : 0;
    int64_t shape[TENSOR_DIMS_MAX];
    if (type_takes_scales(job->type) && make_scales(job, failure) != 0) {
        return -1;
    }
    if (job->scales.data && !job->options->value[OPTION_SCALES]) {
        find_scales(job, rows);
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

static void tell_results(const struct job *job, cJSON *document)
{
    const double numbers = (double)tensor_count(job->back ? &job->result : &job->input);
    const double bytes = (double)tensor_bytes(job->back ? &job->input : &job->result) +
                         (job->scales.data ? (double)tensor_bytes(&job->scales) : 0);
    const double bits = numbers > 0 ? 8 * bytes / numbers : 0;
    const double relative = job->value_squares > 0 ? sqrt(job->error_squares / job->value_squares) : 0;
    char text[3][NUMBER_TEXT];
    summary_tensor(document, "input", &job->input);
    summary_tensor(document, "result", &job->result);
    if (job->scales.data) {
        summary_tensor(document, "scales", &job->scales);
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

static int run_job(struct job *job, struct failure *failure)
{
    const struct options *options = job->options;
    if (read_options(job, failure) != 0 || npy_read(options->operand, &job->input, failure) != 0 ||
        check_input(job, failure) != 0 || convert(job, failure) != 0) {
        return -1;
    }
    if (options->value[OPTION_CODES] && npy_write(options->value[OPTION_CODES], &job->result, failure) != 0) {
        return -1;
    }
    if (options->value[OPTION_SCALES_FILE] &&
        npy_write(options->value[OPTION_SCALES_FILE], &job->scales, failure) != 0) {
        return -1;
    }
    cJSON *document = summary_begin(options, "quantise", NULL);
    tell_results(job, document);
    return summary_end(document, 0, failure);
}

static int run(const struct options *options, struct failure *failure)
{
    struct job job;
    memset(&job, 0, sizeof job);
    job.options = options;
    const int result = run_job(&job, failure);
    tensor_free(&job.input);
    tensor_free(&job.scales);
    tensor_free(&job.result);
    return result;
}

static const struct option_group groups[] = {
    { "Options",
      { OPTION_CODE_TYPE, OPTION_CODES, OPTION_BACK, OPTION_SCALES, OPTION_SCALES_FILE, OPTION_SCALE_GROUP, OPTION_JSON,
        OPTION_HELP } },
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
