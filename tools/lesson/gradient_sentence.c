/* dS of a real sentence: how its scores would move in a step of training that asks each token to keep its own value.
 * The device's gradient of a bias of zeros is dS; it is held against the formula by hand. */
#include "gradient_sentence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clattn_backward.h"
#include "mathml.h"
#include "sentence_head.h"

#define PAIRS_MAX (CHART_HEAT_MAX * CHART_HEAT_MAX)

struct differentiated {
    struct sentence_head *head;
    float bias[PAIRS_MAX], lse[CHART_HEAT_MAX], dout[CHART_HEAT_MAX * SENTENCE_DIM_MAX], ds[PAIRS_MAX];
    double by_hand, row_sum, loss; /* how far both are apart; the largest sum of a row; what the step makes smaller */
};

static clattn_status compute(struct lesson_run *run, struct differentiated *d)
{
    struct sentence_head *head = d->head;
    const int n = head->count, dim = head->dim;
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    clattn_backward_problem problem = CLATTN_BACKWARD_PROBLEM_INIT;
    clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    clattn_host_gradients gradients = CLATTN_HOST_GRADIENTS_INIT;
    forward.query_len = forward.key_len = n;
    forward.head_dim = dim;
    forward.bias_type = CLATTN_FLOAT32;
    forward.features = CLATTN_WITH_LSE;
    problem.forward = &forward;
    problem.gradients = CLATTN_GRADIENT_BIAS;
    tensors.query = clattn_host_tensor_bhsd(head->query, 1, n, dim);
    tensors.key = clattn_host_tensor_bhsd(head->key, 1, n, dim);
    tensors.value = clattn_host_tensor_bhsd(head->value, 1, n, dim);
    tensors.bias = clattn_host_tensor_bhsd(d->bias, 1, n, n);
    tensors.out = clattn_host_tensor_bhsd(head->out, 1, n, dim);
    tensors.lse = clattn_host_tensor_bhsd(d->lse, 1, n, 1);
    gradients.dout = clattn_host_tensor_bhsd(d->dout, 1, n, dim);
    gradients.dbias = clattn_host_tensor_bhsd(d->ds, 1, n, n);
    clattn_status status = clattn_forward_host(run->context, &forward, NULL, &tensors);
    for (int i = 0; i < n * dim; ++i) {
        d->dout[i] = head->out[i] - head->value[i];
        d->loss += 0.5 * (double)d->dout[i] * (double)d->dout[i];
    }
    return status == CLATTN_OK ? clattn_backward_host(run->context, &problem, NULL, &tensors, &gradients) : status;
}

/* The formula, of the device's weights and results, in float64. */
static void compare(struct differentiated *d)
{
    const struct sentence_head *head = d->head;
    const int n = head->count, dim = head->dim;
    for (int i = 0; i < n; ++i) {
        double sum = 0;
        for (int j = 0; j < n; ++j) {
            double of_pair = 0;
            for (int c = 0; c < dim; ++c) {
                of_pair += (double)d->dout[i * dim + c] *
                           ((double)head->value[j * dim + c] - (double)head->out[i * dim + c]);
            }
            const double ds = (double)d->ds[i * n + j];
            d->by_hand = fmax(d->by_hand, fabs((double)head->weights[i * n + j] * of_pair - ds));
            sum += ds;
        }
        d->row_sum = fmax(d->row_sum, fabs(sum));
    }
}

/* The look whose score moves the most. */
static struct look strongest_move(const struct differentiated *d)
{
    const int n = d->head->count;
    struct look best = { 0, 0, 0, 0 };
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            const double ds = (double)d->ds[i * n + j];
            best = fabs(ds) > fabs(best.weight) ? (struct look){ 0, i, j, ds } : best;
        }
    }
    return best;
}

static void tell_results(struct page *page, const struct differentiated *d)
{
    const struct sentence *s = d->head->sentence;
    const struct look look = strongest_move(d);
    page_paragraph(
        page,
        "A real one: head %d of \"%.80s\" in the layer of the lesson row, and a loss that asks each token to keep its "
        "own value, half the sum of (out - value)^2, which is %.2f. dS says how the loss changes with each score; a "
        "step of training moves the scores against it. The gradient of a bias of zeros is dS, and so "
        "clattn_backward_host computes it.",
        (int)d->head->look.head, s->inputs.text ? s->inputs.text : "", d->loss);
    page_formula(page, "dS_ij = p_ij (g_i . v_j - g_i . out_i)",
                 MI("d") SUB(MI("S"), MI("i") MI("j")) MO("=") SUB(MI("p"), MI("i") MI("j"))
                     PAREN(SUB(MI("g"), MI("i")) MO("&#x22c5;") SUB(MI("v"), MI("j")) MO("-") SUB(MI("g"), MI("i"))
                               MO("&#x22c5;") SUB(MI("out"), MI("i"))));
    page_paragraph(page,
                   "Each row of dS sums to 0 (to %.1g here), since what a key gains the others lose; the formula by "
                   "hand differs from the device by at most %.1g. The largest is %+.3f, of \"%s\" on \"%s\": that "
                   "score would %s. Where the weight is 0, dS is 0 too, however wrong the weight is.",
                   d->row_sum, d->by_hand, look.weight, s->tokens[look.query], s->tokens[look.key],
                   look.weight > 0 ? "fall" : "rise");
    page_figure(page, d->by_hand, "dS by hand");
    page_figure(page, d->row_sum, "dS row sum");
    page_figure(page, look.weight, "largest dS");
}

static struct chart_heat *add_map(struct lesson_run *run, const struct differentiated *d, const char *title)
{
    const int n = d->head->count;
    struct chart_panel *panel =
        chart_add(run->chart, title, "key: is looked at", "query: looks", AXIS_LINEAR, AXIS_LINEAR);
    struct chart_heat *heat = chart_heat(run->chart, panel, n, n);
    for (int i = 0; heat && i < n; ++i) {
        snprintf(heat->row_labels[i], sizeof(heat->row_labels[i]), "%s", d->head->sentence->tokens[i]);
        snprintf(heat->column_labels[i], sizeof(heat->column_labels[i]), "%s", d->head->sentence->tokens[i]);
    }
    return heat;
}

static void draw(struct lesson_run *run, const struct differentiated *d)
{
    const int n = d->head->count;
    const double most = fmax(fabs(strongest_move(d).weight), 1e-30);
    char title[CHART_LABEL_MAX];
    snprintf(title, sizeof(title), "Weights of head %d in %%", (int)d->head->look.head);
    struct chart_heat *weights = add_map(run, d, title), *ds = add_map(run, d, "dS: blue scores fall, brown ones rise");
    for (int i = 0; weights && ds && i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            const double weight = (double)d->head->weights[i * n + j], move = (double)d->ds[i * n + j];
            weights->values[i][j] = weight;
            snprintf(weights->numbers[i][j], sizeof(weights->numbers[i][j]), "%.0f", 100 * weight);
            ds->values[i][j] = move / most;
            snprintf(ds->numbers[i][j], sizeof(ds->numbers[i][j]), fabs(move) < 0.005 ? "0" : "%+.2f", move);
        }
    }
}

int gradient_sentence(struct lesson_run *run)
{
    struct sentence *s = sentence_compute(run);
    struct differentiated *d = s ? calloc(1, sizeof(*d)) : NULL;
    int result = -1;
    if (s && !d) {
        failure_failed(run->failure, "out of memory");
    } else if (s && (d->head = sentence_head_choose(run, s, 1)) != NULL) {
        clattn_status status = sentence_head_compute(run, d->head);
        if (status == CLATTN_OK) {
            status = compute(run, d);
        }
        result = status == CLATTN_OK ? 0 : lesson_failed(run, status);
    }
    if (result == 0) {
        compare(d);
        tell_results(run->page, d);
        draw(run, d);
    }
    if (d) {
        free(d->head);
    }
    free(d);
    sentence_free(s);
    return result;
}
