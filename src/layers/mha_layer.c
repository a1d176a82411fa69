/* A multi-head layer as steps: projections, attention, the weights' average, the output projection.
 *
 *     workspace   [ query | key | value ][ heads' results ][ weights of all heads ][ attention's own ]
 *
 * Packed weights make rows of query, key and value side by side, separate ones a block each; the attention
 * reads either by its strides. */
#include "layers/mha_layer.h"
#include "base/checked_math.h"

#include <inttypes.h>
#include <string.h>

enum { PROJECTED, HEADS, WEIGHTS, ATTENTION };

#define AVERAGE_ITEMS 64

static const struct clattn_mha *mha_of(const struct layer *layer)
{
    return (const struct clattn_mha *)layer;
}

/* ---- projections ------------------------------------------------------------------------------ */

/* Appends a product, and says where its parts (0: query, 1: key, 2: value) come to lie. */
static void add_input(struct clattn_mha *mha, int first_part, int end_part, int64_t *total)
{
    static const enum mha_tensor weights[3] = { MHA_WQ, MHA_WK, MHA_WV };
    static const enum mha_tensor biases[3] = { MHA_BQ, MHA_BK, MHA_BV };
    static const uint32_t bits[3] = { CLATTN_MHA_BIAS_QUERY, CLATTN_MHA_BIAS_KEY, CLATTN_MHA_BIAS_VALUE };
    const struct mha_problem *problem = mha->problem;
    const clattn_mha_problem *p = &problem->p;
    const int packed = (p->parts & CLATTN_MHA_PACKED) != 0;
    const int64_t dims[3] = { problem->query_dim, problem->key_dim, problem->value_dim };
    const int is_context = first_part > 0 && (p->parts & CLATTN_MHA_CROSS) != 0;
    struct mha_input *input = &mha->inputs[mha->n_inputs++];
    *input = (struct mha_input){
        .source = is_context ? MHA_CONTEXT : MHA_X,
        .weight = packed ? MHA_WQ : weights[first_part],
        .bias = packed ? MHA_BQ : biases[first_part],
        .rows = p->batch * (is_context ? p->context_rows : p->rows),
        .depth = is_context ? p->context_dim : p->model_dim,
        .has_bias = (p->parts & bits[packed ? 0 : first_part]) != 0,
        .result_at = *total,
    };
    for (int part = 0; packed && part < first_part; ++part) {
        input->first_row += dims[part];
    }
    for (int part = first_part; part < end_part; ++part) {
        mha->part[part] = layer_section(PROJECTED, *total + input->columns, 0);
        input->columns += dims[part];
    }
    for (int part = first_part; part < end_part; ++part) {
        mha->part[part].stride = input->columns;
    }
    *total += input->rows * input->columns;
}

static void plan_inputs(struct clattn_mha *mha)
{
    const uint32_t parts = mha->problem->p.parts;
    int64_t total = 0;
    if (parts & CLATTN_MHA_PACKED && !(parts & CLATTN_MHA_CROSS)) {
        add_input(mha, 0, 3, &total);
        return;
    }
    add_input(mha, 0, 1, &total);
    if (parts & CLATTN_MHA_PACKED) {
        add_input(mha, 1, 3, &total);
        return;
    }
    add_input(mha, 1, 2, &total);
    add_input(mha, 2, 3, &total);
}

static void add_projections(struct clattn_mha *mha)
{
    for (int i = 0; i < mha->n_inputs; ++i) {
        const struct mha_input *input = &mha->inputs[i];
        const struct place bias = layer_tensor((int)input->bias, input->first_row, 0);
        matrices_multiply(&mha->layer.steps, &mha->projector, layer_tensor((int)input->source, 0, input->depth),
                          layer_tensor((int)input->weight, input->first_row * input->depth, input->depth),
                          input->has_bias ? bias : LAYER_NOWHERE,
                          layer_section(PROJECTED, input->result_at, input->columns), input->rows, input->columns,
                          input->depth);
    }
}

static void add_output(struct clattn_mha *mha)
{
    const clattn_mha_problem *p = &mha->problem->p;
    const int64_t heads_dim = mha->problem->heads_dim;
    matrices_multiply(&mha->layer.steps, &mha->projector, layer_section(HEADS, 0, heads_dim),
                      layer_tensor(MHA_WO, 0, heads_dim),
                      p->parts & CLATTN_MHA_BIAS_OUT ? layer_tensor(MHA_BO, 0, 0) : LAYER_NOWHERE,
                      layer_tensor(MHA_Y, 0, p->out_dim), p->batch * p->rows, p->out_dim, heads_dim);
}

/* ---- attention -------------------------------------------------------------------------------- */

static clattn_status call_attention(const void *of, const struct run *run, cl_mem workspace, struct call *call)
{
    const struct clattn_mha *mha = of;
    const clattn_mha_problem *p = &mha->problem->p;
    const int averages = p->weights == CLATTN_MHA_WEIGHTS_AVERAGE;
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_call values = CLATTN_CALL_INIT;
    tensors.query = layer_heads(steps_matrix(run, mha->part[0]), p->rows, p->head_dim);
    tensors.key = layer_heads(steps_matrix(run, mha->part[1]), p->context_rows, p->head_dim);
    tensors.value = layer_heads(steps_matrix(run, mha->part[2]), p->context_rows, p->head_dim_v);
    tensors.out =
        layer_heads(steps_matrix(run, layer_section(HEADS, 0, mha->problem->heads_dim)), p->rows, p->head_dim_v);
    if (p->weights) {
        const struct matrix weights =
            steps_matrix(run, averages ? layer_section(WEIGHTS, 0, 0) : layer_tensor(MHA_WEIGHTS, 0, 0));
        tensors.weights.buffer = weights.buffer;
        tensors.weights.offset = weights.offset;
        clattn_strides_bhsd(p->query_heads, p->rows, at_least_1(p->context_rows), tensors.weights.stride);
    }
    tensors.mask = layer_given(run->operands, MHA_MASK);
    tensors.key_lengths.buffer = run->operands->tensor[MHA_KEY_LENGTHS].buffer;
    tensors.key_lengths.offset = run->operands->tensor[MHA_KEY_LENGTHS].offset;
    tensors.workspace = workspace;
    values.has_scale = p->has_scale;
    values.scale = p->scale;
    return call_from_device(&mha->problem->attention, &values, &tensors, call);
}

static clattn_status enqueue_average(const struct step *step, const struct run *run)
{
    const struct clattn_mha *mha = step->of;
    const clattn_mha_problem *p = &mha->problem->p;
    const int64_t pairs = p->rows * p->context_rows;
    const cl_int heads = (cl_int)p->query_heads;
    const size_t items = staged_row_items(&mha->layer.context->device, AVERAGE_ITEMS);
    const size_t global[2] = { (size_t)round_up(pairs, (int64_t)items), (size_t)p->batch };
    const size_t local[2] = { items, 1 };
    const struct matrix from = steps_matrix(run, step->place[0]), average = steps_matrix(run, step->place[1]);
    const struct launch_argument arguments[] = { ARGUMENT(pairs),          ARGUMENT(heads),
                                                 ARGUMENT(from.offset),    ARGUMENT(from.buffer),
                                                 ARGUMENT(average.offset), ARGUMENT(average.buffer) };
    return launch(run->chain, mha->average, 2, global, local, 6, arguments);
}

static void add_average(struct clattn_mha *mha)
{
    const clattn_mha_problem *p = &mha->problem->p;
    const struct place weights = layer_section(WEIGHTS, 0, 0);
    const int64_t count[] = { p->batch, p->rows, p->context_rows, p->query_heads };
    const struct step step = { enqueue_average, mha, { weights, layer_tensor(MHA_WEIGHTS, 0, 0) }, { 0 }, 0, 0, NULL };
    steps_section_elements(&mha->layer.steps, WEIGHTS, p->type == CLATTN_FLOAT64 ? 8 : 4);
    steps_need(&mha->layer.steps, weights, product_of_extents(count, 4), 1);
    steps_add(&mha->layer.steps, &step);
}

/* ---- the layer -------------------------------------------------------------------------------- */

/* Multiply-adds of the largest projection. */
static double largest_work(const struct clattn_mha *mha)
{
    const clattn_mha_problem *p = &mha->problem->p;
    double most = (double)(p->batch * p->rows) * (double)p->out_dim * (double)mha->problem->heads_dim;
    for (int i = 0; i < mha->n_inputs; ++i) {
        const struct mha_input *input = &mha->inputs[i];
        const double work = (double)input->rows * (double)input->columns * (double)input->depth;
        most = work > most ? work : most;
    }
    return most;
}

static void add_steps(struct clattn_mha *mha)
{
    const clattn_mha_problem *p = &mha->problem->p;
    add_projections(mha);
    steps_need(&mha->layer.steps, layer_section(HEADS, 0, 0), p->batch * p->rows, mha->problem->heads_dim);
    steps_add_child(&mha->layer.steps, 0, call_attention, mha);
    if (mha->average) {
        add_average(mha);
    }
    add_output(mha);
}

static clattn_status plan(struct layer *layer, struct text *explain)
{
    struct clattn_mha *mha = (struct clattn_mha *)layer;
    mha->problem = mha_problem_of(layer->problem);
    const clattn_mha_problem *p = &mha->problem->p;
    steps_begin(&layer->steps, layer->context, clattn_type_size(p->type));
    plan_inputs(mha);
    clattn_status status = steps_plan_child(&layer->steps, 0, ATTENTION, &mha->problem->attention.any);
    if (status == CLATTN_OK) {
        status = projector_init(&mha->projector, layer->context, p->type, p->projection, largest_work(mha), explain);
    }
    if (status == CLATTN_OK && p->weights == CLATTN_MHA_WEIGHTS_AVERAGE) {
        status = program_kernel(layer->context, "layers/mha_average_heads.cl",
                                p->type == CLATTN_FLOAT64 ? "-D TYPE=4" : "-D TYPE=1", "average_heads", &mha->average);
    }
    if (status == CLATTN_OK && p->batch > 0 && p->rows > 0) {
        add_steps(mha);
    }
    return status;
}

static void explain(const struct layer *layer, struct text *text)
{
    static const char *const made[4] = { "", ": query, key and value at once", ": key and value at once", "" };
    const struct clattn_mha *mha = mha_of(layer);
    const clattn_mha_problem *p = &mha->problem->p;
    for (int i = 0; i < mha->n_inputs; ++i) {
        const struct mha_input *input = &mha->inputs[i];
        const char *what = mha->n_inputs == 2 && i == 0 ? "" : made[mha->n_inputs];
        text_append(text, "  %s [%" PRId64 ", %" PRId64 "] by rows %" PRId64 " to %" PRId64 " of %s%s\n",
                    operation_mha.rows[input->source].name, input->rows, input->depth, input->first_row,
                    input->first_row + input->columns - 1, operation_mha.rows[input->weight].name, what);
    }
    text_append(text, "  heads' results [%" PRId64 ", %" PRId64 "] by wo\n", p->batch * p->rows,
                mha->problem->heads_dim);
    text_append(text, "workspace of the layer: %zu bytes\nattention:\n%s", layer->steps.workspace_bytes,
                layer->steps.child[0]->explain);
}

const struct layer_kind layer_mha = {
    .operation = &operation_mha,
    .argument = "mha",
    .bytes = sizeof(struct clattn_mha),
    .plan = plan,
    .explain = explain,
    .run_on_host = mha_run_on_host,
};
