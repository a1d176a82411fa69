/* Twins of softmax, mix_values and repair. */
#include "reference/philox.h"
#include "twin_rows.h"

/* ---- softmax ---------------------------------------------------------------------------------- */

/* Logits from soft to sharp; hidden keys marked, or NaN where bounds alone hide them. */
static void prepare_softmax_row(const struct row *row, void *context)
{
    struct preparing *preparing = context;
    const double spread = random_chance(preparing->random, 0.5) ? 1 : 40;
    for (int64_t j = 0; j < row->sequence.stored_keys && row->exists; ++j) {
        if (is_allowed(row, j)) {
            score_set(preparing->run, at(row, j), spread * random_normal(preparing->random));
        } else if (row->run->chunk.has_logits) {
            score_hide_logit(preparing->run, at(row, j));
        }
    }
}

void prepare_softmax(struct kernel_run *run, struct random *random)
{
    const struct problem *problem = &run->test->checked;
    const int by_bounds = !(problem->flags & CLATTN_FLAGS_HIDING_PAIRS) &&
                          !(problem->flags & CLATTN_FLAG_WINDOW && problem->p.always_visible_keys > 0);
    struct preparing preparing = { run, random };
    run->chunk.has_logits = !by_bounds || random_chance(random, 0.5);
    for_each_row(run, prepare_softmax_row, &preparing);
}

static int keeps(const struct row *row, int64_t j)
{
    const clattn_params *p = &row->run->given.params;
    const uint32_t counter[4] = { (uint32_t)(j / 4), (uint32_t)row->i, (uint32_t)(row->b * p->query_heads + row->h),
                                  p->dropout_offset };
    uint32_t words[4];
    philox_4x32_10(counter, p->dropout_seed, words);
    return words[j % 4] >= p->dropout_threshold;
}

/* What the row's weights come from. */
struct row_sum {
    double maximum, sum;
    int64_t allowed;
};

static struct row_sum sum_row(const struct row *row, const struct kernel_run *logits)
{
    const int has_sink = (row->problem->flags & CLATTN_FLAG_SINKS) != 0;
    const struct tensor_place *place = &row->host->operands.tensor[TENSOR_SINKS];
    const double sink =
        has_sink ? type_load(row->problem->p.sinks_type, place->data, place_index(place, 0, row->h, 0, 0)) : 0;
    struct row_sum s = { has_sink ? sink : -INFINITY, 0, 0 };
    for (int64_t j = 0; j < row->sequence.stored_keys; ++j) {
        s.maximum = is_allowed(row, j) ? fmax(s.maximum, score_get(logits, at(row, j))) : s.maximum;
    }
    s.sum = has_sink ? exp(sink - s.maximum) : 0;
    for (int64_t j = 0; j < row->sequence.stored_keys; ++j) {
        s.sum += is_allowed(row, j) ? exp(score_get(logits, at(row, j)) - s.maximum) : 0;
        s.allowed += is_allowed(row, j);
    }
    return s;
}

static void judge_softmax_row(const struct row *row, void *context)
{
    struct judging *judging = context;
    const struct kernel_run *logits = &judging->inputs->before;
    const clattn_problem *p = &row->problem->p;
    const struct row_sum s = sum_row(row, logits);
    const double row_bound = C * U(row->run) * (sqrt((double)s.allowed) + 8);
    for (int64_t j = 0; j < row->host->key_len; ++j) {
        const int allowed = is_allowed(row, j);
        const double logit = allowed ? score_get(logits, at(row, j)) : 0;
        const double weight = allowed ? exp(logit - s.maximum) / s.sum : 0;
        const double bound = allowed ? weight * (row_bound + C * U(row->run) * (fabs(logit) + fabs(s.maximum) + 1)) +
                                           2 * TINY(row->run)
                                     : 0;
        const double keep = p->dropout > 0 ? (keeps(row, j) ? 1 / (1 - p->dropout) : 0) : 1;
        if (p->weights == CLATTN_WEIGHTS_SOFTMAX) {
            check(judging, row, "weights", j, weight_out(row, j), weight, bound);
            if (signbit(weight_out(row, j))) {
                fail(judging, row, "sign of weights", j, -0.0, 0);
            }
        }
        if (!row->exists) {
            continue;
        }
        const double stored = score_get(row->run, at(row, j));
        check(judging, row, "weight", j, stored, weight * keep, bound * keep * 1.01);
        if ((signbit(stored) != 0) == allowed) {
            fail(judging, row, "sign of weight", j, stored, allowed ? 0 : -0.0);
        }
    }
    if (row->exists && row->problem->flags & CLATTN_FLAG_LSE) {
        const double lse = s.sum > 0 ? s.maximum + log(s.sum) : -INFINITY;
        const double is =
            (double)((const float *)row->host->operands.tensor[TENSOR_LSE].data)[element_at(row, TENSOR_LSE, 0, 0)];
        check(judging, row, "lse", 0, is, lse,
              C * 0x1p-24 * (fabs(lse) + fabs(s.maximum) + sqrt((double)s.allowed) + 8));
    }
}

void judge_softmax(const struct kernel_run *run, const struct kernel_inputs *inputs, struct verdict_of_kernel *verdict)
{
    judge(judge_softmax_row, run, inputs, verdict);
}

/* ---- mix and repair --------------------------------------------------------------------------- */

static void prepare_mix_row(const struct row *row, void *context)
{
    struct preparing *preparing = context;
    for (int64_t j = 0; j < row->host->key_len && row->exists; ++j) {
        const double weight = random_chance(preparing->random, 0.1) ? 0 : random_unit(preparing->random);
        score_set(preparing->run, at(row, j), is_allowed(row, j) ? weight : -0.0);
    }
}

void prepare_mix(struct kernel_run *run, struct random *random)
{
    struct preparing preparing = { run, random };
    for_each_row(run, prepare_mix_row, &preparing);
}

static double mixed(const struct row *row, const struct kernel_run *weights, int64_t c, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t j = 0; j < row->sequence.stored_keys; ++j) {
        if (is_allowed(row, j)) {
            double product = score_get(weights, at(row, j)) * element(row, TENSOR_VALUE, j, c);
            sum += product;
            *size += fabs(product);
        }
    }
    return sum;
}

static void judge_mix_row(const struct row *row, void *context)
{
    struct judging *judging = context;
    for (int64_t c = 0; c < row->problem->p.head_dim_v && row->exists; ++c) {
        double size;
        const double out = mixed(row, &judging->inputs->before, c, &size);
        check(judging, row, "out", c, element(row, TENSOR_OUT, 0, c), out,
              C * U(row->run) * (sqrt((double)row->sequence.stored_keys) + 8) * size + storage_bound(row, out));
    }
}

void judge_mix(const struct kernel_run *run, const struct kernel_inputs *inputs, struct verdict_of_kernel *verdict)
{
    judge(judge_mix_row, run, inputs, verdict);
}

/* Any numbers in out, and a NaN or an infinity here and there, which alone are to change. */
static void prepare_repair_row(const struct row *row, void *context)
{
    struct preparing *preparing = context;
    const struct tensor_place *out = &row->host->operands.tensor[TENSOR_OUT];
    prepare_mix_row(row, context);
    for (int64_t c = 0; c < row->problem->p.head_dim_v; ++c) {
        const double value = random_chance(preparing->random, 0.7)   ? random_unit(preparing->random)
                             : random_chance(preparing->random, 0.5) ? NAN
                                                                     : INFINITY;
        type_store(row->problem->p.type, out->data, element_at(row, TENSOR_OUT, 0, c), value);
    }
}

void prepare_repair(struct kernel_run *run, struct random *random)
{
    struct preparing preparing = { run, random };
    for_each_row(run, prepare_repair_row, &preparing);
}

static void judge_repair_row(const struct row *row, void *context)
{
    struct judging *judging = context;
    for (int64_t c = 0; c < row->problem->p.head_dim_v; ++c) {
        const double before =
            type_load(row->problem->p.type, judging->inputs->out.data, element_at(row, TENSOR_OUT, 0, c));
        double size = 0;
        const double out = isfinite(before) ? before : mixed(row, &judging->inputs->before, c, &size);
        check(judging, row, "out", c, element(row, TENSOR_OUT, 0, c), out,
              C * U(row->run) * (sqrt((double)row->sequence.stored_keys) + 8) * size);
    }
}

void judge_repair(const struct kernel_run *run, const struct kernel_inputs *inputs, struct verdict_of_kernel *verdict)
{
    judge(judge_repair_row, run, inputs, verdict);
}
