/* From meta.json to problems of rotary, and their outputs. */
#include "case_rotary.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables ----------------------------------------------------------------------------------- */

static clattn_rotary_scaling_kind kind_of(const char *name)
{
    static const struct {
        const char *name;
        clattn_rotary_scaling_kind kind;
    } kinds[] = {
        { "none", CLATTN_SCALING_NONE },       { "default", CLATTN_SCALING_NONE },
        { "linear", CLATTN_SCALING_LINEAR },   { "ntk", CLATTN_SCALING_DYNAMIC }, /* the cases' formula has lengths */
        { "dynamic", CLATTN_SCALING_DYNAMIC }, { "yarn", CLATTN_SCALING_YARN },
        { "llama3", CLATTN_SCALING_LLAMA3 },   { "longrope", CLATTN_SCALING_LONGROPE },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    return (clattn_rotary_scaling_kind)-1;
}

/* NULL where there is none. The caller frees. */
static double *numbers_of(const cJSON *list)
{
    const int count = cJSON_GetArraySize(list);
    double *numbers = count > 0 ? calloc((size_t)count, sizeof(*numbers)) : NULL;
    for (int i = 0; i < count && numbers; ++i) {
        numbers[i] = meta_number(cJSON_GetArrayItem(list, i), 0);
    }
    return numbers;
}

static void read_scaling(const cJSON *params, clattn_rotary_scaling *scaling, double **factors)
{
    const clattn_rotary_scaling start = CLATTN_ROTARY_SCALING_INIT;
#define NUMBER(field) meta_number(meta_field(params, "scaling", #field), (double)start.field)
    const cJSON *truncate = meta_field(params, "scaling", "truncate");
    *scaling = start;
    scaling->kind = kind_of(meta_text(meta_field(params, "scaling", "type")));
    scaling->truncate = truncate ? meta_is_true(truncate) : start.truncate;
    scaling->base = NUMBER(base);
    scaling->factor = NUMBER(factor);
    scaling->original_positions = (int64_t)NUMBER(original_positions);
    scaling->sequence_length = (int64_t)NUMBER(sequence_length);
    scaling->beta_fast = NUMBER(beta_fast);
    scaling->beta_slow = NUMBER(beta_slow);
    scaling->low_frequency_factor = NUMBER(low_frequency_factor);
    scaling->high_frequency_factor = NUMBER(high_frequency_factor);
    scaling->magnitude = NUMBER(magnitude);
    scaling->short_factor = factors[0] = numbers_of(meta_field(params, "scaling", "short_factor"));
    scaling->long_factor = factors[1] = numbers_of(meta_field(params, "scaling", "long_factor"));
}

static int solve_table(const struct case_run *run, struct failure *failure)
{
    struct tensor positions, tables[2] = { TENSOR_INIT, TENSOR_INIT };
    clattn_rotary_scaling scaling;
    double *factors[2];
    const cJSON *params = meta_field(run->meta, NULL, "params");
    const int64_t columns = (int64_t)meta_number(meta_field(params, "scaling", "columns"), 0);
    read_scaling(params, &scaling, factors);
    int status = case_input_read(run, "positions", TENSOR_INT64, &positions, failure);
    const int64_t rows = status == 0 ? tensor_count(&positions) : 0, shape[2] = { rows, columns / 2 };
    for (int i = 0; i < 2 && status == 0; ++i) {
        status = tensor_create(&tables[i], TENSOR_FLOAT32, 2, shape, "a table", failure);
    }
    if (status == 0) {
        status = case_status(
            clattn_rotary_table(&scaling, columns, rows, positions.data, tables[0].data, tables[1].data), failure);
    }
    if (status == 0) {
        status = case_output_write(run, "cosine", &tables[0], failure) ||
                         case_output_write(run, "sine", &tables[1], failure)
                     ? -1
                     : 0;
    }
    tensor_free(&positions);
    tensor_free(&tables[0]);
    tensor_free(&tables[1]);
    free(factors[0]);
    free(factors[1]);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------- */

clattn_rotary_pairs case_pairs(const cJSON *params)
{
    const char *name = meta_text(meta_field(params, NULL, "pairs"));
    return strcmp(name, "interleaved") == 0 ? CLATTN_PAIRS_INTERLEAVED
           : strcmp(name, "halves") == 0    ? CLATTN_PAIRS_HALVES
                                            : CLATTN_PAIRS_UNSET;
}

int64_t case_longest(const struct tensor *seams)
{
    int64_t most = 0;
    for (int64_t i = 0; i + 1 < tensor_count(seams); ++i) {
        const int64_t length = (int64_t)(tensor_load(seams, i + 1) - tensor_load(seams, i));
        most = length > most ? length : most;
    }
    return most;
}

int case_turning_read(const struct case_run *run, struct case_turning *t, struct failure *failure)
{
    const char *seams = meta_field(run->meta, "inputs", "cu_seqlens") ? "cu_seqlens" : "cu_seqlens_q";
    memset(t, 0, sizeof(*t));
    if (case_input_read(run, "cosine", TENSOR_FLOAT32, &t->cosine, failure) != 0 ||
        case_input_read(run, "sine", TENSOR_FLOAT32, &t->sine, failure) != 0 ||
        case_input_read(run, "positions", TENSOR_INT32, &t->positions, failure) != 0 ||
        case_input_read(run, "starts", TENSOR_INT32, &t->starts, failure) != 0 ||
        case_input_read(run, seams, TENSOR_INT32, &t->cu_query, failure) != 0) {
        return -1;
    }
    const int is_packed = t->cu_query.data != NULL;
    t->table_rows = t->cosine.data ? t->cosine.shape[0] : 0;
    t->features |= t->positions.data ? CLATTN_WITH_POSITIONS : 0;
    t->features |= t->starts.data ? CLATTN_WITH_STARTS : 0;
    t->features |= is_packed ? CLATTN_WITH_VARLEN : 0;
    if (t->cosine.data && (t->cosine.dims == 3 || !(t->positions.data || t->starts.data))) {
        t->features |= CLATTN_WITH_TOKEN_TABLES;
        t->table_rows = 0;
    }
    return 0;
}

void case_turning_free(struct case_turning *t)
{
    struct tensor *const all[] = { &t->cosine, &t->sine, &t->positions, &t->starts, &t->cu_query };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        tensor_free(all[i]);
    }
}

/* [rows, columns], or [batch, rows, columns] of a row for each token. */
static clattn_host_tensor place_table(const struct tensor *table)
{
    const int64_t columns = table->dims > 0 ? table->shape[table->dims - 1] : 0;
    const int64_t rows = table->dims == 3 && table->shape[0] > 1 ? table->shape[1] : 0;
    const clattn_host_tensor place = { table->data, 0, { rows * columns, 0, columns, 1 } };
    return place;
}

struct case_turning_places case_turning_place(const struct case_turning *t)
{
    const int64_t rows = t->positions.dims == 2 && t->positions.shape[0] > 1 ? t->positions.shape[1] : 0;
    const struct case_turning_places places = {
        place_table(&t->cosine),
        place_table(&t->sine),
        { t->positions.data, 0, { rows, 0, 1, 0 } },
        { t->starts.data, 0, { 0, 0, 0, 1 } },
        { t->cu_query.data, 0, { 0, 0, 0, 1 } },
    };
    return places;
}

void case_norm_read(const cJSON *params, const char *name, uint32_t feature, double *epsilon, uint32_t *features)
{
    const cJSON *norm = meta_field(params, NULL, name);
    if (norm) {
        *features |= feature | (meta_is_true(meta_field(norm, NULL, "weight")) ? CLATTN_WITH_NORM_WEIGHTS : 0);
        *epsilon = meta_number(meta_field(norm, NULL, "epsilon"), 0);
    }
}

static int solve_rows(const struct case_run *run, struct case_turning *turning, struct tensor *x, struct tensor *weight,
                      struct tensor *out, struct failure *failure)
{
    const cJSON *params = meta_field(run->meta, NULL, "params"), *rotary = meta_field(params, NULL, "rotary");
    const cJSON *turned = rotary ? rotary : params;
    const clattn_type type = meta_type(run->meta, NULL, "dtype");
    struct case_axes axes;
    if (case_input_read(run, "x", tensor_type_of_storage(type), x, failure) != 0 ||
        case_input_read(run, "norm_weight", TENSOR_FLOAT32, weight, failure) != 0 ||
        case_turning_read(run, turning, failure) != 0 ||
        case_axes_read(x, meta_text(meta_field(run->meta, NULL, "layout")),
                       (int64_t)meta_number(meta_field(run->meta, "shape", "q_heads"), 0), &axes, failure) != 0 ||
        tensor_create(out, x->type, x->dims, x->shape, "out", failure) != 0) {
        return -1;
    }
    const struct case_turning_places places = case_turning_place(turning);
    clattn_rotary_problem problem = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_rotary_host_tensors tensors = CLATTN_ROTARY_HOST_TENSORS_INIT;
    problem.type = type;
    problem.pairs = case_pairs(turned);
    problem.batch = axes.is_packed ? tensor_count(&turning->cu_query) - 1 : axes.batch;
    problem.heads = axes.heads;
    problem.query_len = axes.is_packed ? case_longest(&turning->cu_query) : axes.rows;
    problem.head_dim = axes.columns;
    problem.first_column = (int64_t)meta_number(meta_field(turned, NULL, "first_column"), 0);
    problem.columns = (int64_t)meta_number(meta_field(turned, NULL, "columns"), 0);
    problem.positions = turning->table_rows;
    problem.features = turning->features;
    case_norm_read(params, "norm", CLATTN_WITH_NORM, &problem.norm_epsilon, &problem.features);
    problem.inverse = meta_is_true(meta_field(turned, NULL, "inverse"));
    tensors.x.data = x->data;
    tensors.norm_weight.data = weight->data;
    tensors.out.data = out->data;
    memcpy(tensors.x.stride, axes.stride, sizeof(axes.stride));
    memcpy(tensors.out.stride, axes.stride, sizeof(axes.stride));
    tensors.cosine = places.cosine;
    tensors.sine = places.sine;
    tensors.positions = places.positions;
    tensors.starts = places.starts;
    tensors.cu_query = places.cu_query;
    return case_status(run->context ? clattn_rotary_host(run->context, &problem, NULL, &tensors)
                                    : clattn_reference_rotary(&problem, NULL, &tensors),
                       failure);
}

int case_rotary_solve(const struct case_run *run, struct failure *failure)
{
    struct case_turning turning;
    struct tensor x = TENSOR_INIT, weight = TENSOR_INIT, out = TENSOR_INIT;
    if (strcmp(meta_text(meta_field(run->meta, NULL, "kind")), "rotary_table") == 0) {
        return solve_table(run, failure);
    }
    memset(&turning, 0, sizeof(turning));
    int status = solve_rows(run, &turning, &x, &weight, &out, failure);
    if (status == 0) {
        status = case_output_write(run, "out", &out, failure);
    }
    case_turning_free(&turning);
    tensor_free(&x);
    tensor_free(&weight);
    tensor_free(&out);
    return status;
}
