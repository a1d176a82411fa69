#include "sentence_head.h"

#include <math.h>
#include <stdlib.h>

#include "attend.h"

/* x W^T + b, of the rows of W that are the head's. */
static void project(const struct sentence_head *head, int64_t number, enum role weight, enum role bias, float *rows)
{
    const struct tensor *x = &head->sentence->inputs.tensor[ROLE_X], *w = &head->sentence->inputs.tensor[weight];
    const struct tensor *b = &head->sentence->inputs.tensor[bias];
    const int64_t columns = head->sentence->layer.problem.model_dim;
    for (int i = 0; i < head->count; ++i) {
        for (int c = 0; c < head->dim; ++c) {
            const int64_t row = number * head->dim + c;
            double sum = b->data ? tensor_load(b, row) : 0;
            for (int64_t m = 0; m < columns; ++m) {
                sum += tensor_load(x, i * columns + m) * tensor_load(w, row * columns + m);
            }
            rows[i * head->dim + c] = (float)sum;
        }
    }
}

clattn_status sentence_head_compute(struct lesson_run *run, struct sentence_head *head)
{
    const int64_t group = head->sentence->layer.problem.query_heads / head->sentence->layer.problem.kv_heads;
    project(head, head->look.head, ROLE_WQ, ROLE_BQ, head->query);
    project(head, head->look.head / group, ROLE_WK, ROLE_BK, head->key);
    project(head, head->look.head / group, ROLE_WV, ROLE_BV, head->value);
    const struct attend call = { .batch = 1,
                                 .rows = head->count,
                                 .keys = head->count,
                                 .dim = head->dim,
                                 .dim_v = head->dim,
                                 .scale = 1 / sqrt(head->dim),
                                 .query = head->query,
                                 .key = head->key,
                                 .value = head->value,
                                 .out = head->out,
                                 .mode = CLATTN_WEIGHTS_SOFTMAX,
                                 .weights = head->weights };
    return attend(run, &call);
}

struct sentence_head *sentence_head_choose(struct lesson_run *run, const struct sentence *s, int least_dim)
{
    struct sentence_head *head = calloc(1, sizeof(*head));
    if (!head) {
        failure_failed(run->failure, "out of memory");
        return NULL;
    }
    head->sentence = s;
    head->count = s->count;
    head->dim = (int)s->layer.problem.head_dim;
    head->look = sentence_strongest(s, 0.9); /* one that leaves the others something to see */
    if (head->look.weight < 0 || head->dim < least_dim || head->dim > SENTENCE_DIM_MAX ||
        s->layer.problem.head_dim_v != head->dim) {
        failure_misuse(run->failure,
                       "--data: the lesson takes a sentence of two words and more, heads of %d to %d numbers",
                       least_dim, SENTENCE_DIM_MAX);
        free(head);
        head = NULL;
    }
    return head;
}
