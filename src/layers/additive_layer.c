/* Additive attention as steps: the scores, then an attention whose bias they are. */
#include "layers/additive_layer.h"

enum {
    ZERO, /* one element: the queries and keys of the attention */
    QUERIES,
    KEYS,
    SCORES,
    ATTENTION
};

static clattn_status call_attention(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_additive *additive = of;
    const clattn_additive_problem *p = &additive->problem->p;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    additive_fill_tensors(&additive->scores, run, &tensors);
    tensors.value = additive_matrix(steps_matrix(run, layer_tensor(ADDITIVE_VALUE, 0, 0)), p->keys, p->value_dim);
    tensors.out = additive_matrix(steps_matrix(run, layer_tensor(ADDITIVE_OUT, 0, 0)), p->rows, p->value_dim);
    tensors.weights = additive_matrix(steps_matrix(run, layer_tensor(ADDITIVE_WEIGHTS, 0, 0)), p->rows, p->keys);
    tensors.workspace = workspace;
    values.has_scale = 1; /* of 0: the scores are in the bias */
    return call_from_device(&additive->problem->attention, &values, &tensors, call);
}

static void place_scores(struct clattn_additive *additive)
{
    const clattn_additive_problem *p = &additive->problem->p;
    struct additive_scores *scores = &additive->scores;
    steps_section_elements(&additive->layer.steps, SCORES, sizeof(float));
    scores->attention = &additive->problem->attention;
    scores->call = call_attention;
    scores->of = additive;
    scores->query = layer_tensor(ADDITIVE_QUERY, 0, p->query_dim);
    scores->key = layer_tensor(ADDITIVE_KEY, 0, p->key_dim);
    scores->wq = layer_tensor(ADDITIVE_WQ, 0, p->query_dim);
    scores->wk = layer_tensor(ADDITIVE_WK, 0, p->key_dim);
    scores->score = layer_tensor(ADDITIVE_SCORE, 0, 0);
    scores->zero = layer_section(ZERO, 0, 0);
    scores->queries = layer_section(QUERIES, 0, p->hidden_dim);
    scores->keys = layer_section(KEYS, 0, scores->key_stride);
    scores->scores = layer_section(SCORES, 0, scores->key_stride);
    steps_need(&additive->layer.steps, scores->zero, 1, 1);
}

static clattn_status plan(struct layer *layer, struct text *explain)
{
    struct clattn_additive *additive = (struct clattn_additive *)layer;
    additive->problem = additive_problem_of(layer->problem);
    const clattn_additive_problem *p = &additive->problem->p;
    steps_begin(&layer->steps, layer->context, clattn_type_size(p->type));
    clattn_status status = steps_plan_child(&layer->steps, 0, ATTENTION, &additive->problem->attention.any);
    if (status == CLATTN_OK) {
        status = projector_init(&additive->projector, layer->context, p->type, CLATTN_PROJECTION_AUTO,
                                additive_projection_work(p), explain);
    }
    if (status == CLATTN_OK) {
        status = additive_scores_init(&additive->scores, layer->context, p, p->type, &additive->projector, explain);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    place_scores(additive);
    if (p->keys > 0) {
        additive_scores_add(&layer->steps, &additive->scores);
    }
    steps_add_child(&layer->steps, 0, call_attention, additive);
    return CLATTN_OK;
}

static void explain(const struct layer *layer, struct text *text)
{
    text_append(text, "workspace in all: %zu bytes\nsoftmax and value mixing, with the scores as bias:\n%s",
                layer->steps.workspace_bytes, layer->steps.child[0]->explain);
}

const struct layer_kind layer_additive = {
    .operation = &operation_additive,
    .argument = "additive",
    .bytes = sizeof(struct clattn_additive),
    .plan = plan,
    .explain = explain,
};
