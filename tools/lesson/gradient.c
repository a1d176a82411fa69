/* The gradient that comes back through softmax: the norm of its Jacobian, and of dQ and dK. The weights are
 * the device's; the backward formulas are applied to them here, in float64, and checked against finite
 * differences of the reference by the tests. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend.h"
#include "gradient.h"
#include "gradient_sentence.h"
#include "lesson_list.h"
#include "mathml.h"
#include "sample.h"
#include "sentence_data.h"

#define KEYS 64
#define ROWS 64
#define BATCH 25
#define DIM_V 16
#define DIMENSIONS 11
#define DEAD 0.01

static const int dimensions[DIMENSIONS] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };

struct study {
    double dimension[DIMENSIONS], jacobian[2][DIMENSIONS], query[2][DIMENSIONS], key[2][DIMENSIONS];
    double dead[2][DIMENSIONS]; /* share of the rows whose Jacobian is below DEAD */
};

double gradient_jacobian_norm(const float *weights, int keys)
{
    double squares = 0, diagonal = 0;
    for (int j = 0; j < keys; ++j) {
        const double p = weights[j];
        squares += p * p;
        diagonal += p * p * ((1 - p) * (1 - p) - p * p);
    }
    return sqrt(diagonal + squares * squares); /* of diag(p) - p p^T, Frobenius */
}

/* d_scores[j] = p_j (g . v_j - sum_l p_l g . v_l) */
static void score_gradient(const float *weights, const float *value, const float *gradient, int keys, int dim_v,
                           double *d_scores)
{
    double mean = 0;
    for (int j = 0; j < keys; ++j) {
        d_scores[j] = 0;
        for (int c = 0; c < dim_v; ++c) {
            d_scores[j] += (double)gradient[c] * (double)value[j * dim_v + c];
        }
        mean += (double)weights[j] * d_scores[j];
    }
    for (int j = 0; j < keys; ++j) {
        d_scores[j] = (double)weights[j] * (d_scores[j] - mean);
    }
}

void gradient_backward(const struct gradient_layer *layer, const float *weights, const float *gradient, double *d_query,
                       double *d_key)
{
    const struct gradient_layer *l = layer;
    double d_scores[GRADIENT_KEYS_MAX];
    memset(d_query, 0, sizeof(*d_query) * (size_t)(l->rows * l->dim));
    memset(d_key, 0, sizeof(*d_key) * (size_t)(l->keys * l->dim));
    for (int i = 0; i < l->rows; ++i) {
        score_gradient(weights + i * l->keys, l->value, gradient + i * l->dim_v, l->keys, l->dim_v, d_scores);
        for (int j = 0; j < l->keys; ++j) {
            const double factor = l->scale * d_scores[j];
            for (int c = 0; c < l->dim; ++c) {
                d_query[i * l->dim + c] += factor * (double)l->key[j * l->dim + c];
                d_key[j * l->dim + c] += factor * (double)l->query[i * l->dim + c];
            }
        }
    }
}

/* Mean length of the rows. */
static double mean_norm(const double *values, int rows, int dim)
{
    double sum = 0;
    for (int i = 0; i < rows; ++i) {
        double squares = 0;
        for (int c = 0; c < dim; ++c) {
            squares += values[i * dim + c] * values[i * dim + c];
        }
        sum += sqrt(squares);
    }
    return sum / rows;
}

struct buffers {
    float *vectors, *values, *gradient, *weights;
    double *d_query, *d_key;
};

static clattn_status measure(struct lesson_run *run, const struct buffers *b, int dimension, int scaled,
                             struct study *study, int index)
{
    const double scale = scaled ? 1 / sqrt((double)dimension) : 1;
    const float *query = b->vectors, *key = b->vectors + (size_t)BATCH * ROWS * (size_t)dimension;
    const struct attend call = { .batch = BATCH,
                                 .rows = ROWS,
                                 .keys = KEYS,
                                 .dim = dimension,
                                 .scale = scale,
                                 .query = query,
                                 .key = key,
                                 .mode = CLATTN_WEIGHTS_SOFTMAX,
                                 .weights = b->weights };
    const clattn_status status = attend(run, &call);
    double jacobian = 0, of_query = 0, of_key = 0, dead = 0;
    for (int i = 0; i < BATCH * ROWS && status == CLATTN_OK; ++i) {
        const double norm = gradient_jacobian_norm(b->weights + i * KEYS, KEYS);
        jacobian += norm / (BATCH * ROWS);
        dead += (norm < DEAD) / (double)(BATCH * ROWS);
    }
    for (int batch = 0; batch < BATCH && status == CLATTN_OK; ++batch) {
        const struct gradient_layer layer = { ROWS,
                                              KEYS,
                                              dimension,
                                              DIM_V,
                                              scale,
                                              query + batch * ROWS * dimension,
                                              key + batch * KEYS * dimension,
                                              b->values + batch * KEYS * DIM_V };
        gradient_backward(&layer, b->weights + batch * ROWS * KEYS, b->gradient + batch * ROWS * DIM_V, b->d_query,
                          b->d_key);
        of_query += mean_norm(b->d_query, ROWS, dimension) / BATCH;
        of_key += mean_norm(b->d_key, KEYS, dimension) / BATCH;
    }
    study->jacobian[scaled][index] = jacobian;
    study->dead[scaled][index] = dead;
    study->query[scaled][index] = of_query;
    study->key[scaled][index] = of_key;
    return status;
}

static clattn_status study_dimension(struct lesson_run *run, struct study *study, int index)
{
    const int dimension = dimensions[index];
    const size_t count = (size_t)BATCH * (ROWS + KEYS) * (size_t)dimension;
    struct buffers b = {
        .vectors = malloc(count * sizeof(float)),
        .values = malloc(sizeof(float) * BATCH * KEYS * DIM_V),
        .gradient = malloc(sizeof(float) * BATCH * ROWS * DIM_V),
        .weights = malloc(sizeof(float) * BATCH * ROWS * KEYS),
        .d_query = malloc(sizeof(double) * ROWS * (size_t)dimension),
        .d_key = malloc(sizeof(double) * KEYS * (size_t)dimension),
    };
    const int complete = b.vectors && b.values && b.gradient && b.weights && b.d_query && b.d_key;
    clattn_status status = complete ? CLATTN_OK : CLATTN_OUT_OF_HOST_MEMORY;
    study->dimension[index] = dimension;
    if (complete) {
        sample_normal(run->seed, 200 + (uint32_t)index, b.vectors, count);
        sample_normal(run->seed, 300 + (uint32_t)index, b.values, (size_t)BATCH * KEYS * DIM_V);
        sample_normal(run->seed, 400 + (uint32_t)index, b.gradient, (size_t)BATCH * ROWS * DIM_V);
    }
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; ++scaled) {
        status = measure(run, &b, dimension, scaled, study, index);
    }
    free(b.vectors);
    free(b.values);
    free(b.gradient);
    free(b.weights);
    free(b.d_query);
    free(b.d_key);
    return status;
}

static void tell_results(struct page *page, const struct study *study)
{
    const int last = DIMENSIONS - 1;
    page_table_caption(page, "Means of the norm of the Jacobian and of the lengths of dQ and dK, and the share of dead "
                             "rows: each unscaled, beside it scaled");
    page_row(page, "dimension|Jacobian|scaled|dead rows|scaled|dQ|scaled|dK|scaled");
    for (int i = 0; i < DIMENSIONS; ++i) {
        page_row(page, "%d|%.4f|%.4f|%.1f %%|%.1f %%|%.3f|%.3f|%.3f|%.3f", dimensions[i], study->jacobian[0][i],
                 study->jacobian[1][i], 100 * study->dead[0][i], 100 * study->dead[1][i], study->query[0][i],
                 study->query[1][i], study->key[0][i], study->key[1][i]);
    }
    page_table_end(page);
    page_figure(page, study->jacobian[0][4], "jacobian unscaled at 16");
    page_figure(page, study->jacobian[0][last], "jacobian unscaled");
    page_figure(page, study->jacobian[1][last], "jacobian scaled");
    page_figure(page, study->jacobian[1][4], "jacobian scaled at 16");
    page_figure(page, study->query[0][last] / study->query[1][last], "dq grows");
    page_figure(page, study->dead[0][last], "dead unscaled");
    page_figure(page, study->dead[1][last], "dead scaled");
}

static void conclude(struct page *page, const struct study *study)
{
    const int last = DIMENSIONS - 1;
    page_conclusion(
        page,
        "Unscaled, gradients vanish and explode at once. At dimension %d, %.0f %% of the rows are dead: no "
        "gradient reaches their query (the Jacobian is %.3f, at dimension 16 %.3f). The few others hang "
        "between two keys, and get one so large that the mean of dQ is %.1f, %.0f times that of scaled rows. "
        "Scaled by 1/sqrt(n) the Jacobian stays at %.3f and %.3f, dQ at %.2f and %.2f, and %.0f %% of the "
        "rows are dead.",
        dimensions[last], 100 * study->dead[0][last], study->jacobian[0][last], study->jacobian[0][4],
        study->query[0][last], study->query[0][last] / study->query[1][last], study->jacobian[1][4],
        study->jacobian[1][last], study->query[1][4], study->query[1][last], 100 * study->dead[1][last]);
}

static void draw(struct lesson_run *run, const struct study *study)
{
    static const char *const titles[4] = { "Jacobian of softmax", "Rows that get no gradient", "Gradient of a query",
                                           "Gradient of a key" };
    static const char *const labels[4] = { "mean Frobenius norm", "share of dead rows", "mean length of dQ",
                                           "mean length of dK" };
    const double *curves[4][2] = { { study->jacobian[0], study->jacobian[1] },
                                   { study->dead[0], study->dead[1] },
                                   { study->query[0], study->query[1] },
                                   { study->key[0], study->key[1] } };
    for (int i = 0; i < 4; ++i) {
        struct chart_panel *panel =
            chart_add(run->chart, titles[i], "dimension n", labels[i], AXIS_LOG, i == 1 ? AXIS_LINEAR : AXIS_LOG);
        chart_line(run->chart, panel, "unscaled", DIMENSIONS, study->dimension, curves[i][0], 1);
        chart_line(run->chart, panel, "times 1/sqrt(n)", DIMENSIONS, study->dimension, curves[i][1], 1);
    }
}

/* The norm for a row whose keys all have the same weight. */
static double even_norm(void)
{
    float weights[KEYS];
    for (int j = 0; j < KEYS; ++j) {
        weights[j] = 1.0f / KEYS;
    }
    return gradient_jacobian_norm(weights, KEYS);
}

int lesson_gradient(struct lesson_run *run)
{
    struct study study;
    const int has_sentence = sentence_is_there(run);
    chart_begin(run->chart, "What comes back through softmax", 2);
    page_paragraph(run->page,
                   "Training moves queries and keys along the gradient that comes back to them through softmax. Random "
                   "queries, keys, values and a random gradient g of the output, %d weights at each dimension, first "
                   "unscaled, then with the scores scaled by 1/sqrt(n).",
                   ROWS * KEYS * BATCH);
    page_formula(run->page, "J = diag(p) - p p^T,   dq_i = scale * sum_j (J V g)_j k_j",
                 MI("J") MO("=") FUNCTION("diag") PAREN(MI("p")) MO("-") MI("p") TRANSPOSED("p")
                     MO(",") "<mspace width=\"1em\"/>" MI("d") SUB(MI("q"), MI("i"))
                         MO("=") "<mtext>scale</mtext>" MO("&#x22c5;") SUM(MI("j"))
                             SUB(PAREN(MI("J") MI("V") MI("g")), MI("j")) SUB(MI("k"), MI("j")));
    page_paragraph(
        run->page,
        "The Jacobian J says how much the weights p of a row react to its scores. Its norm is %.3f where a row "
        "looks at all %d keys alike, up to 0.71 where it hangs between two, and 0 where it has chosen one. A "
        "row where it is below %g is called dead here: then one key has more than %.0f %% of the weight, "
        "and what comes back is less than a tenth of what an even row gets.",
        even_norm(), KEYS, DEAD, 100 * (1 - DEAD));
    page_picture(run->page,
                 "Against the dimension: the norm of the Jacobian, the share of dead rows, and the mean length "
                 "of the gradients of queries and keys, unscaled and scaled. Unscaled, rows die while the mean "
                 "gradient grows; scaled, all four are level.%s",
                 has_sentence ? " Below: the weights of a real sentence, and dS." : "");
    for (int i = 0; i < DIMENSIONS; ++i) {
        const clattn_status status = study_dimension(run, &study, i);
        if (status != CLATTN_OK) {
            return lesson_failed(run, status);
        }
    }
    draw(run, &study);
    tell_results(run->page, &study);
    if (has_sentence && gradient_sentence(run) != 0) {
        return -1;
    }
    if (!has_sentence) {
        page_paragraph(run->page, "A real sentence is left out: its layer is not here; --data FILE gives one.");
    }
    conclude(run->page, &study);
    return 0;
}
