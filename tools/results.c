#include "results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "npy.h"
#include "safetensors.h"
#include "standard_files.h"
#include "summary.h"

#define GRADIENT_ALLOWANCE 5 /* of what an output may differ by: they are longer sums */

/* Options that name a file to write. */
static const enum option_id file_options[] = { OPTION_OUTPUT,   OPTION_WEIGHTS,   OPTION_LSE,
                                               OPTION_KEY_SUMS, OPTION_MAX_LOGIT, OPTION_PLOT };
enum { FILE_OPTIONS = sizeof file_options / sizeof *file_options };

/* ---- writing ---- */

static int write_one(const struct options *options, enum option_id id, const char *name, const struct tensor *tensor,
                     const struct inputs *inputs, struct failure *failure)
{
    const char *path = options->value[id];
    if (!path) {
        return 0;
    }
    if (file_has_suffix(path, ".npy") || is_standard_file(path)) {
        return npy_write(path, tensor, failure);
    }
    const struct safetensors_item item = { name, tensor };
    const struct safetensors_note notes[] = { { "text", inputs->text }, { "tokens", inputs->tokens } };
    return safetensors_write(path, 1, &item, 2, notes, failure);
}

int results_write(const struct options *options, const struct inputs *inputs, const struct attention *attention,
                  const struct tensor *y, struct failure *failure)
{
    int is_layer = y->data != NULL;
    if (write_one(options, OPTION_OUTPUT, is_layer ? "y" : "out", is_layer ? y : &attention->out, inputs, failure) !=
            0 ||
        write_one(options, OPTION_WEIGHTS, "weights", &attention->weights, inputs, failure) != 0) {
        return -1;
    }
    if (write_one(options, OPTION_LSE, "lse", &attention->lse, inputs, failure) != 0 ||
        write_one(options, OPTION_KEY_SUMS, "key_sums", &attention->key_sums, inputs, failure) != 0) {
        return -1;
    }
    return write_one(options, OPTION_MAX_LOGIT, "max_logit", &attention->max_logit, inputs, failure);
}

int results_check_names(const struct options *options, struct failure *failure)
{
    const enum option_id *const ids = file_options;
    for (int i = 0; i < FILE_OPTIONS; i++) {
        const char *path = options->value[ids[i]];
        if (!path) {
            continue;
        }
        if (ids[i] != OPTION_PLOT && !file_has_suffix(path, ".npy") && !file_has_suffix(path, ".safetensors") &&
            !is_standard_file(path)) {
            return failure_misuse(failure, "--%s %s: must end in .npy or .safetensors, or be -", option_name(ids[i]),
                                  path);
        }
        for (int j = 0; j < i; j++) {
            if (options->value[ids[j]] && strcmp(options->value[ids[j]], path) == 0) {
                return failure_misuse(failure, "--%s %s: is the file of --%s too; give another name",
                                      option_name(ids[i]), path, option_name(ids[j]));
            }
        }
        if (file_check_output(path, failure) != 0) {
            return -1;
        }
    }
    return 0;
}

void results_tell_files(cJSON *document, const struct options *options)
{
    for (int i = 0; i < FILE_OPTIONS; i++) {
        if (options->value[file_options[i]]) {
            summary_item(document, "wrote", "wrote", options->value[file_options[i]]);
        }
    }
}

void results_tell_range(const struct options *options, const struct tensor *result)
{
    const int64_t count = tensor_count(result);
    double least = INFINITY, most = -INFINITY;
    int64_t finite = 0;
    char shape[TENSOR_SHAPE_TEXT];
    for (int64_t i = 0; i < count; i++) {
        const double number = tensor_load(result, i);
        if (isfinite(number)) {
            least = fmin(least, number);
            most = fmax(most, number);
            finite++;
        }
    }
    printf("result    %s %s", tensor_shape_text(result, shape), tensor_type_name(result->type));
    if (finite > 0) {
        printf(", from %.3g to %.3g", least, most);
    }
    if (finite < count) {
        printf(", %lld NOT FINITE", (long long)(count - finite));
    }
    printf("%s\n", options->value[OPTION_OUTPUT] ? "" : "; --output FILE keeps it");
}

/* ---- comparing ---- */

/* How far an output may be from the stored one: so much, or so much of the largest stored value
 * where that is more than 1. */
struct allowance {
    double most;
    int is_relative;
};

int results_check_tolerance(const struct options *options, struct failure *failure)
{
    double tolerance = 0;
    if (option_number(options, OPTION_TOLERANCE, &tolerance, failure) != 0) {
        return -1;
    }
    if (tolerance < 0) {
        return failure_misuse(failure, "--tolerance %s: must be >= 0", options->value[OPTION_TOLERANCE]);
    }
    return 0;
}

/* --tolerance, which was checked before, or the default of a type. */
static struct allowance allowance_of(const struct options *options, clattn_type type)
{
    struct allowance allowance = { type == CLATTN_FLOAT16 ? 2e-3 : type == CLATTN_BFLOAT16 ? 1.6e-2 : 2e-6, 1 };
    struct failure ignored;
    if (options->value[OPTION_TOLERANCE]) {
        allowance.is_relative = 0;
        option_number(options, OPTION_TOLERANCE, &allowance.most, &ignored);
    }
    return allowance;
}

static int same_shape(const struct tensor *a, const struct tensor *b)
{
    if (a->dims != b->dims) {
        return 0;
    }
    for (int i = 0; i < a->dims; i++) {
        if (a->shape[i] != b->shape[i]) {
            return 0;
        }
    }
    return 1;
}

/* The largest |a - b|; infinite where only one is a NaN or an infinity. */
static double largest_difference(const struct tensor *a, const struct tensor *b, double *magnitude)
{
    double largest = 0;
    *magnitude = 0;
    for (int64_t i = 0; i < tensor_count(a); i++) {
        double x = tensor_load(a, i), y = tensor_load(b, i), difference = fabs(x - y);
        if (isfinite(y)) {
            *magnitude = fmax(*magnitude, fabs(y));
        }
        if (x == y || (isnan(x) && isnan(y))) {
            continue;
        }
        largest = isnan(difference) ? INFINITY : fmax(largest, difference);
    }
    return largest;
}

/* 1 where they differ by more than is allowed, 0 where there is nothing to compare too. */
static int compare_with(cJSON *document, const char *whose, const char *name, const struct tensor *got,
                        const struct tensor *stored, const struct allowance *allowance)
{
    struct summary_difference found = {
        .name = name, .whose = whose, .got = got, .stored = stored, .limit = allowance->most
    };
    double magnitude = 0;
    if (!stored->data || !got->data) {
        return 0;
    }
    found.same_shape = same_shape(got, stored);
    if (found.same_shape) {
        found.largest = largest_difference(got, stored, &magnitude);
        found.limit *= allowance->is_relative ? fmax(magnitude, 1) : 1;
        found.is_alike = found.largest <= found.limit;
    }
    summary_difference(document, &found);
    return !found.is_alike;
}

static int compare(cJSON *document, const char *name, const struct tensor *got, const struct tensor *stored,
                   const struct allowance *allowance)
{
    return compare_with(document, "stored", name, got, stored, allowance);
}

int results_compare_gradient(cJSON *document, const struct options *options, clattn_type type, const char *name,
                             const struct tensor *got, const struct tensor *stored)
{
    struct allowance allowance = allowance_of(options, type);
    allowance.most *= allowance.is_relative ? GRADIENT_ALLOWANCE : 1;
    return compare(document, name, got, stored, &allowance);
}

int results_compare_sums(cJSON *document, const struct options *options, const struct attention *attention,
                         const struct tensor *sums, const struct tensor *max_logit)
{
    const struct allowance allowance = allowance_of(options, attention->problem.type);
    return compare_with(document, "reference", "key_sums", &attention->key_sums, sums, &allowance) +
           compare_with(document, "reference", "max_logit", &attention->max_logit, max_logit, &allowance);
}

int results_compare(cJSON *document, const struct options *options, const struct inputs *inputs,
                    const struct attention *attention, const struct tensor *y)
{
    struct allowance allowance = allowance_of(options, attention->problem.type);
    int wrong = compare(document, "out", &attention->out, &inputs->tensor[ROLE_OUT], &allowance) +
                compare(document, "lse", &attention->lse, &inputs->tensor[ROLE_LSE], &allowance) +
                compare(document, "key_sums", &attention->key_sums, &inputs->tensor[ROLE_KEY_SUMS], &allowance) +
                compare(document, "max_logit", &attention->max_logit, &inputs->tensor[ROLE_MAX_LOGIT], &allowance) +
                compare(document, "y", y, &inputs->tensor[ROLE_Y], &allowance);
    if (attention->problem.weights == CLATTN_WEIGHTS_SOFTMAX) {
        wrong += compare(document, "weights", &attention->weights, &inputs->tensor[ROLE_WEIGHTS], &allowance);
    }
    return wrong;
}
