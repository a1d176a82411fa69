/* Twins of score and scale_mask. */
#include "reference/score_terms.h"
#include "twin_rows.h"

/* ---- score ------------------------------------------------------------------------------------ */

void prepare_score(struct kernel_run *run, struct random *random)
{
    (void)run;
    (void)random;
}

static void judge_score_row(const struct row *row, void *context)
{
    const clattn_problem *p = &row->problem->p;
    const int all = p->weights == CLATTN_WEIGHTS_SCORES || p->weights == CLATTN_WEIGHTS_SOFTCAP;
    for (int64_t j = 0; j < row->sequence.stored_keys && row->exists; ++j) {
        double dot = 0, size = 0;
        for (int64_t c = 0; c < p->head_dim; ++c) {
            double product = element(row, TENSOR_QUERY, 0, c) * element(row, TENSOR_KEY, j, c);
            dot += product;
            size += fabs(product);
        }
        if (all || is_allowed(row, j)) {
            const double scale = row->host->scale;
            check(context, row, "score", j, score_get(row->run, at(row, j)), scale * dot,
                  C * U(row->run) * (sqrt((double)p->head_dim) + 8) * fabs(scale) * size);
        }
    }
}

void judge_score(const struct kernel_run *run, const struct kernel_inputs *inputs, struct verdict_of_kernel *verdict)
{
    judge(judge_score_row, run, inputs, verdict);
}

/* ---- scale_mask ------------------------------------------------------------------------------- */

/* Scores of some tens; NaN in a third of those that are hidden. */
static void prepare_scores_row(const struct row *row, void *context)
{
    struct preparing *preparing = context;
    for (int64_t j = 0; j < row->sequence.stored_keys && row->exists; ++j) {
        const int poison = !is_allowed(row, j) && random_chance(preparing->random, 0.3);
        score_set(preparing->run, at(row, j), poison ? NAN : 10 * random_normal(preparing->random));
    }
}

void prepare_scale_mask(struct kernel_run *run, struct random *random)
{
    struct preparing preparing = { run, random };
    for_each_row(run, prepare_scores_row, &preparing);
}

static void judge_scale_mask_row(const struct row *row, void *context)
{
    struct judging *judging = context;
    const clattn_problem *p = &row->problem->p;
    const double softcap = p->softcap;
    int64_t first = row->host->key_len, last = -1; /* keys that bounds must not leave out */
    for (int64_t j = 0; j < row->host->key_len; ++j) {
        first = is_allowed(row, j) && j < first ? j : first;
        last = is_allowed(row, j) ? j : last;
    }
    for (int64_t j = 0; j < row->host->key_len; ++j) {
        const int stored = row->exists && j < row->sequence.stored_keys, allowed = is_allowed(row, j);
        const double score = stored ? score_get(&judging->inputs->before, at(row, j)) : 0;
        const double capped = softcap > 0 ? softcap * tanh(score / softcap) : score;
        long double finished = capped, size = fabs(score) + fabs(capped);
        if (allowed) {
            add_terms(row->problem, row->host, &row->sequence, row->b, row->h, row->i, j, &finished, &size);
        }
        const double logit = allowed ? (double)finished : -INFINITY;
        const double bound = C * U(row->run) * 8 * ((double)size + TINY(row->run));
        if (allowed) {
            check(judging, row, "logit", j, score_get(row->run, at(row, j)), logit, bound);
        } else if (row->exists && j > first && j < last && !score_is_hidden_logit(row->run, at(row, j))) {
            fail(judging, row, "hidden logit", j, score_get(row->run, at(row, j)), NAN);
        }
        if (p->weights == CLATTN_WEIGHTS_SCORES) {
            check(judging, row, "weights (scores)", j, weight_out(row, j), score, 0);
        } else if (p->weights == CLATTN_WEIGHTS_SOFTCAP) {
            check(judging, row, "weights (softcap)", j, weight_out(row, j), capped, bound);
        } else if (p->weights == CLATTN_WEIGHTS_LOGITS) {
            check(judging, row, "weights (logits)", j, weight_out(row, j), logit, allowed ? bound : 0);
        }
    }
}

void judge_scale_mask(const struct kernel_run *run, const struct kernel_inputs *inputs,
                      struct verdict_of_kernel *verdict)
{
    judge(judge_scale_mask_row, run, inputs, verdict);
}
