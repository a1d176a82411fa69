/* usage: lessons [NAME...]
 *
 * Every lesson: claims held against theory, picture drawn; its arithmetic against known data. Bad input: messages. */
#define _XOPEN_SOURCE 700
#include <cairo.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tools/commands.h"
#include "../../tools/lesson/gradient.h"
#include "../../tools/lesson/lesson.h"
#include "../../tools/lesson/sample.h"
#include "../../tools/safetensors.h"
#include "layer_test.h"

/* A figure that must be in [low, high]. */
struct claim {
    const char *lesson, *figure;
    double low, high;
};

static const struct claim claims[] = {
    { "row", "weights by hand", 0, 1e-6 },
    { "row", "out by hand", 0, 1e-6 },
    { "variance", "r squared", 0.999, 1 },
    { "saturation", "pair 0 first", 26.885, 26.895 },
    { "saturation", "pair 0 second", 73.105, 73.115 },
    { "saturation", "pair 1 first", 0.01225, 0.01235 },
    { "saturation", "pair 1 second", 99.9875, 99.9885 },
    { "saturation", "entropy unscaled", 0, 0.5 },
    { "saturation", "entropy scaled", 5, 6 },
    { "gradient", "jacobian unscaled", 0, 0.1 },
    { "gradient", "jacobian scaled", 0.15, 0.25 },
    { "gradient", "dead unscaled", 0.5, 1 },
    { "gradient", "dq grows", 5, 20 },
    { "gradient", "dead scaled", 0, 0.01 },
    { "gradient", "dS by hand", 0, 1e-5 },
    { "gradient", "dS row sum", 0, 1e-5 },
    { "training", "right divided", 0.99, 1 },
    { "training", "loss divided", 0, 0.02 },
    { "training", "mirrored divided", 0.95, 1 },
    { "training", "learned divided", 10, 60 },
    { "training", "learned undivided", 80, 200 },
    { "mask", "hidden", 10, 10 },
    { "mask", "weight on later keys", 0, 0 },
    { "score", "distance gained", -4, -0.5 },
    { "score", "entropy capped", 3.4, 3.585 }, /* log2(12), and not all of it */
    { "score", "keys of a lattice", 36, 36 },
    { "stability", "high float32 naive", 80, 88.73 },
    { "stability", "high float16 naive", 5, 11.1 },
    { "stability", "low float16 naive", -22, -10 },
    { "stability", "high float32 maximum subtracted", INFINITY, INFINITY },
    { "stability", "high float16 maximum subtracted", INFINITY, INFINITY },
    { "stability", "high float16 online", INFINITY, INFINITY },
    { "stability", "low float16 online", -INFINITY, -INFINITY },
    { "stability", "attention error", 0, 1e-6 },
    { "complexity", "time plain", 1.85, 2.15 },
    { "complexity", "time staged", 1.85, 2.15 },
    { "complexity", "time fused", 1.85, 2.15 },
    { "complexity", "memory plain", 0.85, 1.15 },
    { "complexity", "memory staged", 1.85, 2.15 },
    { "complexity", "memory fused", 0.85, 1.15 },
    { "additive", "least ratio", 1, 1e9 },
    { "additive", "memory ratio", 1.5, 1e9 },
    { "money-bank-grows", "y difference", 0, 1e-5 },
    { "money-bank-grows", "weights difference", 0, 1e-5 },
};

/* Neighbours on a busy machine lengthen some calls and not others, and that bends an exponent. So claims about times
 * may be measured so many times, each twice as long after the last as that one was, since a neighbour may stay for half
 * a minute; an exponent that is wrong is wrong in each of them. */
#define MEASUREMENTS 6
#define FIRST_PAUSE_S 3

static int holds(const struct page *page, const struct claim *claim)
{
    const double value = page_figure_value(page, claim->figure);
    const int good = value >= claim->low && value <= claim->high;
    if (!good) {
        printf("%s: %s is %.6g, not in %.6g to %.6g\n", claim->lesson, claim->figure, value, claim->low, claim->high);
    }
    return good;
}

/* Whether all that a lesson says of times holds. */
static int times_hold(const char *name, const struct page *page)
{
    int good = 1;
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); ++i) {
        if (strcmp(claims[i].lesson, name) == 0 && strncmp(claims[i].figure, "time ", 5) == 0) {
            good &= holds(page, &claims[i]);
        }
    }
    return good;
}

/* Claims whose bounds are standard errors. */
static void check_variance(struct layer_test *test, const struct page *page)
{
    const double slope = page_figure_value(page, "slope"), error = page_figure_value(page, "slope error");
    layer_test_note(test, fabs(slope - 1) <= 3 * error, "variance: slope within 3 standard errors of 1");
    int scaled = 0;
    for (int i = 0; i < page->n_figures; ++i) {
        if (strncmp(page->figures[i].name, "scaled ", 7) == 0) {
            ++scaled;
            layer_test_note(test, page->figures[i].value <= 4, page->figures[i].name);
        }
    }
    layer_test_note(test, scaled == 14, "variance: all dimensions");
}

static void check_mask(struct layer_test *test, const struct page *page)
{
    for (int i = 0; i < page->n_figures; ++i) {
        if (strncmp(page->figures[i].name, "sum ", 4) == 0) {
            layer_test_note(test, fabs(page->figures[i].value - 1) <= 1e-6, page->figures[i].name);
        }
    }
}

static void check_claims(struct layer_test *test, const char *name, const struct page *page)
{
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); ++i) {
        if (strcmp(claims[i].lesson, name) == 0) {
            char what[96];
            snprintf(what, sizeof(what), "%s: %s", name, claims[i].figure);
            layer_test_note(test, holds(page, &claims[i]), what);
        }
    }
    if (strcmp(name, "variance") == 0) {
        check_variance(test, page);
    }
    if (strcmp(name, "mask") == 0) {
        check_mask(test, page);
    }
}

static void check_picture(struct layer_test *test, const struct chart *chart, const char *folder, const char *ending,
                          struct failure *failure)
{
    char path[300];
    struct stat file;
    struct output output = { NULL, NULL, NULL };
    snprintf(path, sizeof(path), "%s/picture.%s", folder, ending);
    const int written = chart_write(chart, path, &output, failure) == 0 && output_take_place(&output, failure) == 0;
    const int good = written && stat(path, &file) == 0 && file.st_size > 1000;
    output_abandon(&output);
    layer_test_note(test, good, path);
    unlink(path);
}

/* Runs a lesson into an empty page and chart, again where its times were disturbed. */
static int learn(const struct lesson *lesson, struct lesson_run *run)
{
    for (int done = 1;; ++done) {
        page_begin(run->page, lesson->title);
        const int result = lesson->run(run);
        if (result != 0 || done == MEASUREMENTS || times_hold(lesson->name, run->page)) {
            return result;
        }
        page_free(run->page);
        chart_free(run->chart);
        sleep((unsigned)(FIRST_PAUSE_S << (done - 1)));
    }
}

static void run_lesson(struct layer_test *test, const struct lesson *lesson, const char *folder)
{
    struct options options;
    struct failure failure = { 0, "" };
    struct page *page = calloc(1, sizeof(*page));
    struct chart *chart = calloc(1, sizeof(*chart));
    char data[512];
    memset(&options, 0, sizeof(options));
    snprintf(data, sizeof(data), "%s/examples/data/money-bank-grows-layer0.safetensors",
             getenv("srcdir") ? getenv("srcdir") : ".");
    struct lesson_run run = { &options, test->context, test->seed, data, page, chart, &failure };
    const int result = learn(lesson, &run);
    if (result != 0) {
        printf("%s: %s\n", lesson->name, failure.text);
    }
    layer_test_note(test, result == 0, lesson->name);
    if (result == 0) {
        check_claims(test, lesson->name, page);
        layer_test_note(test, strstr(page->html.data, "class=\"conclusion\"") != NULL, "a conclusion");
        layer_test_note(test, strstr(page->html.data, "<math display=\"block\">") != NULL, "a formula");
        layer_test_note(test, page->picture_caption[0] != 0, "words below the picture");
        layer_test_note(test, strstr(page->html.data, "0.99999") == NULL, "numbers rounded as a person would");
        check_picture(test, chart, folder, "svg", &failure);
        check_picture(test, chart, folder, "png", &failure);
    }
    page_free(page);
    chart_free(chart);
    free(page);
    free(chart);
}

/* ---- the lessons' own arithmetic -------------------------------------------------------------- */

#define ROWS 3
#define KEYS 5
#define DIM 4
#define DIM_V 2

struct tiny {
    double query[ROWS * DIM], key[KEYS * DIM], value[KEYS * DIM_V], out[ROWS * DIM_V], weights[ROWS * KEYS];
};

static clattn_host_tensor dense(double *data, int64_t rows, int64_t columns)
{
    clattn_host_tensor tensor = { data, 0, { 0, 0, 0, 0 } };
    clattn_strides_bhsd(1, rows, columns, tensor.stride);
    return tensor;
}

/* sum(out * gradient) by the float64 reference. */
static double loss(struct tiny *t, const float *gradient)
{
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    double sum = 0;
    problem.type = CLATTN_FLOAT64;
    problem.query_len = ROWS;
    problem.key_len = KEYS;
    problem.head_dim = DIM;
    problem.head_dim_v = DIM_V;
    problem.weights = CLATTN_WEIGHTS_SOFTMAX;
    tensors.query = dense(t->query, ROWS, DIM);
    tensors.key = dense(t->key, KEYS, DIM);
    tensors.value = dense(t->value, KEYS, DIM_V);
    tensors.out = dense(t->out, ROWS, DIM_V);
    tensors.weights = dense(t->weights, ROWS, KEYS);
    if (clattn_reference_forward(&problem, NULL, &tensors) != CLATTN_OK) {
        return NAN;
    }
    for (int i = 0; i < ROWS * DIM_V; ++i) {
        sum += t->out[i] * (double)gradient[i];
    }
    return sum;
}

static double worst_difference(struct tiny *t, double *values, int count, const float *gradient, const double *expected)
{
    double worst = 0;
    for (int i = 0; i < count; ++i) {
        const double step = 1e-5, kept = values[i];
        values[i] = kept + step;
        const double above = loss(t, gradient);
        values[i] = kept - step;
        const double below = loss(t, gradient);
        values[i] = kept;
        const double difference = fabs((above - below) / (2 * step) - expected[i]);
        worst = difference > worst || isnan(difference) ? difference : worst;
    }
    return worst;
}

static void check_backward(struct layer_test *test)
{
    float query[ROWS * DIM], key[KEYS * DIM], value[KEYS * DIM_V], gradient[ROWS * DIM_V], weights[ROWS * KEYS];
    double d_query[ROWS * DIM], d_key[KEYS * DIM];
    struct tiny t;
    sample_normal(test->seed, 1, query, ROWS * DIM);
    sample_normal(test->seed, 2, key, KEYS * DIM);
    sample_normal(test->seed, 3, value, KEYS * DIM_V);
    sample_normal(test->seed, 4, gradient, ROWS * DIM_V);
    for (int i = 0; i < ROWS * DIM; ++i) {
        t.query[i] = (double)query[i];
    }
    for (int i = 0; i < KEYS * DIM; ++i) {
        t.key[i] = (double)key[i];
    }
    for (int i = 0; i < KEYS * DIM_V; ++i) {
        t.value[i] = (double)value[i];
    }
    loss(&t, gradient);
    for (int i = 0; i < ROWS * KEYS; ++i) {
        weights[i] = (float)t.weights[i];
    }
    const struct gradient_layer layer = { ROWS, KEYS, DIM, DIM_V, 1 / sqrt((double)DIM), query, key, value };
    gradient_backward(&layer, weights, gradient, d_query, d_key);
    layer_test_note(test, worst_difference(&t, t.query, ROWS * DIM, gradient, d_query) < 1e-6,
                    "dQ agrees with finite differences");
    layer_test_note(test, worst_difference(&t, t.key, KEYS * DIM, gradient, d_key) < 1e-6,
                    "dK agrees with finite differences");
    const float half[2] = { 0.5f, 0.5f }; /* diag(p) - p p^T = [[1, -1], [-1, 1]] / 4 */
    layer_test_note(test, fabs(gradient_jacobian_norm(half, 2) - 0.5) < 1e-12, "the norm of a known Jacobian");
}

static void check_statistics(struct layer_test *test)
{
    const double x[4] = { 1, 2, 4, 8 }, line[4] = { 5, 7, 11, 19 }, power[4] = { 3, 12, 48, 192 };
    static float values[40000];
    struct line_fit fit = sample_fit(4, x, line, NULL);
    layer_test_note(test, fabs(fit.slope - 2) < 1e-12 && fabs(fit.intercept - 3) < 1e-12, "a line is fitted");
    fit = sample_fit_power(4, x, power);
    layer_test_note(test, fabs(fit.slope - 2) < 1e-12, "an exponent is fitted");
    sample_normal(test->seed, 9, values, 40000);
    const struct sampled_variance variance = sample_variance(values, 40000, 1);
    layer_test_note(test, fabs(variance.value - 1) < 4 * variance.standard_error, "normal numbers: variance 1");
    layer_test_note(test, fabs(variance.standard_error - sqrt(2.0 / 40000)) < 0.001, "and its error");
}

/* ---- bad input -------------------------------------------------------------------------------- */

static void refused(struct layer_test *test, const struct command *command, const struct options *options,
                    const char *part)
{
    struct failure failure = { 0, "" };
    const int result = command->run(options, &failure);
    const int good = result != 0 && failure.status == EXIT_MISUSE && strstr(failure.text, part) != NULL;
    if (!good) {
        printf("expected \"%s\", got %d \"%s\"\n", part, result, failure.text);
    }
    layer_test_note(test, good, part);
}

/* A layer of 2 rows, 4 features and 2 heads; one tensor can be of another width or hold a NaN. */
static void write_layer(const char *path, const char *odd, int64_t odd_columns, int has_nan)
{
    static const char *const names[5] = { "x", "wq", "wk", "wv", "wo" };
    struct tensor tensors[5];
    struct safetensors_item items[5];
    struct failure failure = { 0, "" };
    for (int i = 0; i < 5; ++i) {
        const int is_odd = odd && strcmp(odd, names[i]) == 0;
        const int64_t shape[2] = { i == 0 ? 2 : 4, is_odd && odd_columns ? odd_columns : 4 };
        memset(&tensors[i], 0, sizeof(tensors[i]));
        tensor_create(&tensors[i], TENSOR_FLOAT32, 2, shape, names[i], &failure);
        for (int64_t at = 0; at < shape[0] * shape[1]; ++at) {
            tensor_store(&tensors[i], at, is_odd && has_nan && at == 6 ? NAN : 0.1 * (double)(at % 7));
        }
        items[i] = (struct safetensors_item){ names[i], &tensors[i] };
    }
    safetensors_write(path, 5, items, 0, NULL, &failure);
    for (int i = 0; i < 5; ++i) {
        tensor_free(&tensors[i]);
    }
}

static void check_refusals(struct layer_test *test, const char *folder)
{
    struct options options;
    char path[300];
    memset(&options, 0, sizeof(options));
    refused(test, &command_lesson, &options, "lesson NAME: is missing; there are row, variance,");
    options.operand = "variety";
    refused(test, &command_lesson, &options, "lesson variety: is not known; there are row, variance,");
    options.operand = "mask";
    options.value[OPTION_LESSON_PLOT] = "picture.gif";
    refused(test, &command_lesson, &options, "--plot picture.gif: must end in .png or .svg");
    options.value[OPTION_LESSON_PLOT] = NULL;
    options.value[OPTION_ALL] = "";
    refused(test, &command_lesson, &options, "--all");
    memset(&options, 0, sizeof(options));
    options.value[OPTION_HEADS] = "2";
    snprintf(path, sizeof(path), "%s/layer.safetensors", folder);
    options.operand = path;
    write_layer(path, "wk", 3, 0);
    refused(test, &command_mha, &options, "wk: shape [4, 3]: must be floats [out, 4]");
    write_layer(path, "wo", 5, 0);
    refused(test, &command_mha, &options, "wo: shape [4, 5]");
    write_layer(path, "wv", 0, 1);
    refused(test, &command_mha, &options, "wv, shape [4, 4]: row 1, column 2 is NaN: weights must be finite");
    write_layer(path, NULL, 0, 0);
    options.value[OPTION_HEADS] = "3";
    refused(test, &command_mha, &options, "wq: its 4 rows must be a multiple of 3 heads");
    options.value[OPTION_HEADS] = NULL;
    refused(test, &command_mha, &options, "--heads: is missing");
    unlink(path);
}

int main(int argc, char **argv)
{
    struct layer_test test;
    char folder[] = "lessons-XXXXXX";
    const int skip = layer_test_start(&test, "tests/layers/lessons", 0, NULL, 0);
    if (skip) {
        return skip;
    }
    if (!mkdtemp(folder)) {
        perror(folder);
        return EXIT_FAILURE;
    }
    check_statistics(&test);
    check_backward(&test);
    check_refusals(&test, folder);
    for (size_t i = 0; i < lesson_count; ++i) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; ++a) {
            wanted = wanted || strcmp(argv[a], lessons[i].name) == 0;
        }
        if (wanted) {
            run_lesson(&test, &lessons[i], folder);
        }
    }
    rmdir(folder);
    cairo_debug_reset_static_data(); /* fonts are kept for the next picture */
    return layer_test_end(&test);
}
