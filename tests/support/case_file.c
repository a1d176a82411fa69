/* From meta.json and .npy files to a problem and its tensors. Everything is read from the fields that
 * the format has; nothing depends on which case it is. */
#include "case_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/npy.h"
#include "base/stored_types.h"
#include "case_codes.h"
#include "case_layout.h"
#include "case_mask.h"
#include "case_meta.h"
#include "case_text.h"

#define PATH_BYTES 4096

static const struct {
    const char *name[2]; /* two names for the same thing: either may be there */
} input_names[CASE_INPUTS] = {
#define INPUT(id, ...) [CASE_##id] = { { __VA_ARGS__ } },
    CASE_INPUT_LIST(INPUT)
#undef INPUT
};

/* ---- reading -------------------------------------------------------------------------------- */

static const cJSON *field(const struct attention_case *c, const char *group, const char *name)
{
    return meta_field(c->meta, group, name);
}

static int read_inputs(const char *folder, struct attention_case *c, struct failure *failure)
{
    const char *view = meta_text(meta_field(c->meta, "bias_view", "of"));
    for (int id = 0; id < CASE_INPUTS; ++id) {
        for (int n = 0; n < 2 && input_names[id].name[n]; ++n) {
            const char *name = id == CASE_MASK && *view && n == 0 ? view : input_names[id].name[n];
            const cJSON *entry = field(c, "inputs", name);
            char path[PATH_BYTES];
            snprintf(path, sizeof(path), "%s/%s", folder, meta_text(meta_field(entry, NULL, "file")));
            if (entry && npy_read(path, &c->input[id], failure) != 0) {
                return -1;
            }
        }
    }
    for (int id = CASE_Q; id <= CASE_V; ++id) {
        if (!c->input[id].data && !(id == CASE_V && case_values_in_keys(c))) {
            return failure_misuse(failure, "%s: the case has no input %s", folder, input_names[id].name[0]);
        }
    }
    return 0;
}

/* The storage type is the case's; files of bfloat16 cases hold float32. */
static int convert_inputs(struct attention_case *c, struct failure *failure)
{
    const char *dtype = meta_text(meta_field(c->meta, NULL, "dtype"));
    enum tensor_type type = TENSOR_TYPES;
    for (int t = 0; t < TENSOR_TYPES; ++t) {
        if (strcmp(tensor_type_name((enum tensor_type)t), dtype) == 0) {
            type = (enum tensor_type)t;
        }
    }
    if (type == TENSOR_TYPES || tensor_storage_type(type) == CLATTN_TYPE_NONE) {
        return failure_misuse(failure, "dtype \"%s\": is not a storage type", dtype);
    }
    c->problem.type = tensor_storage_type(type);
    case_read_types(c);
    const struct {
        enum case_input input;
        clattn_type type;
    } stored[] = { { CASE_Q, c->problem.type },
                   { CASE_K, c->problem.key_type },
                   { CASE_V, c->problem.value_type },
                   { CASE_PAST_KEY, c->problem.key_type },
                   { CASE_PAST_VALUE, c->problem.value_type } };
    static const enum case_input integers[] = { CASE_KEY_LENGTHS, CASE_CU_QUERY,    CASE_CU_KEY,   CASE_PAGE_TABLE,
                                                CASE_ROW_LOW,     CASE_PAGE_STARTS, CASE_ROW_HIGH, CASE_KEY_LISTS };
    int status = 0;
    for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]) && status == 0; ++i) {
        if (c->input[stored[i].input].data && type_is_float(stored[i].type)) {
            status = tensor_convert(&c->input[stored[i].input], tensor_type_of_storage(stored[i].type),
                                    input_names[stored[i].input].name[0], failure);
        }
    }
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]) && status == 0; ++i) {
        if (c->input[integers[i]].data) {
            status = tensor_convert(&c->input[integers[i]], TENSOR_INT32, input_names[integers[i]].name[0], failure);
        }
    }
    const struct {
        enum case_input input;
        clattn_type *type;
    } of_heads[] = { { CASE_SLOPES, &c->problem.slopes_type }, { CASE_SINKS, &c->problem.sinks_type } };
    for (size_t i = 0; i < sizeof(of_heads) / sizeof(of_heads[0]) && status == 0; ++i) {
        struct tensor *tensor = &c->input[of_heads[i].input];
        const int is_wide = c->problem.type == CLATTN_FLOAT64 && tensor->data && tensor->type == TENSOR_FLOAT64;
        *of_heads[i].type = is_wide ? CLATTN_FLOAT64 : CLATTN_TYPE_NONE;
        if (tensor->data && !is_wide) {
            status = tensor_convert(tensor, TENSOR_FLOAT32, input_names[of_heads[i].input].name[0], failure);
        }
    }
    return status;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static int place_offsets(struct attention_case *c, struct failure *failure)
{
    const cJSON *offset = field(c, "params", "offset");
    int64_t batch = c->shape.batch;
    if (cJSON_IsArray(offset) && cJSON_GetArraySize(offset) != batch) {
        return failure_misuse(failure, "params.offset: must be one, or one for each batch entry");
    }
    if (tensor_create(&c->offsets, TENSOR_INT32, 1, &batch, "offsets", failure) != 0) {
        return -1;
    }
    for (int b = 0; b < batch; ++b) {
        const cJSON *item = cJSON_IsArray(offset) ? cJSON_GetArrayItem(offset, b) : offset;
        tensor_store(&c->offsets, b, meta_number(item, 0));
    }
    c->problem.alignment = CLATTN_ALIGN_OFFSETS;
    c->tensors.query_offsets.data = c->offsets.data;
    return 0;
}

static void read_params(struct attention_case *c)
{
    clattn_problem *p = &c->problem;
    const cJSON *window = field(c, "params", "window");
    const cJSON *mode = field(c, "params", "qk_matmul_output_mode");
    p->causal = cJSON_IsTrue(field(c, "params", "is_causal"));
    p->window_left = (int64_t)meta_number(cJSON_GetArrayItem(window, 0), -1);
    p->window_right = (int64_t)meta_number(cJSON_GetArrayItem(window, 1), -1);
    p->always_visible_keys = (int64_t)meta_number(field(c, "params", "always_visible_keys"), 0);
    p->softcap = meta_number(field(c, "params", "softcap"), 0);
    c->values.has_scale = cJSON_IsNumber(field(c, "params", "scale"));
    c->values.scale = meta_number(field(c, "params", "scale"), 0);
    p->dropout = meta_number(field(c, "params", "dropout"), 0);
    c->values.dropout_seed = (uint64_t)meta_number(field(c, "params", "dropout_seed"), 0);
    c->values.dropout_offset = (uint32_t)meta_number(field(c, "params", "dropout_offset"), 0);
    if (field(c, "outputs", "lse") || field(c, "inputs", "dout")) {
        p->features |= CLATTN_WITH_LSE;
    }
    if (field(c, "outputs", "qk_matmul_output")) {
        p->weights = (clattn_weights)(CLATTN_WEIGHTS_SCORES + (int)meta_number(mode, 0));
    }
}

/* [batch, heads or 1, rows]; packed [heads or 1, rows]. */
static void place_rows(const struct tensor *tensor, clattn_host_tensor *place)
{
    const int64_t *shape = tensor->shape + (tensor->dims == 3);
    place->stride[0] = tensor->dims == 3 && tensor->shape[0] > 1 ? shape[0] * shape[1] : 0;
    place->stride[1] = shape[0] > 1 ? shape[1] : 0;
    place->stride[2] = 1;
}

static void place_lists(struct attention_case *c)
{
    const struct {
        enum case_input input;
        clattn_feature feature;
        clattn_host_tensor *place;
    } rows[] = {
        { CASE_KEY_LENGTHS, CLATTN_WITH_KEY_LENGTHS, &c->tensors.key_lengths },
        { CASE_SLOPES, CLATTN_WITH_SLOPES, &c->tensors.slopes },
        { CASE_CU_QUERY, CLATTN_WITH_VARLEN, &c->tensors.cu_query },
        { CASE_CU_KEY, CLATTN_WITH_VARLEN, &c->tensors.cu_key },
        { CASE_SINKS, CLATTN_WITH_SINKS, &c->tensors.sinks },
        { CASE_PAGE_TABLE, CLATTN_WITH_PAGES, &c->tensors.page_table },
        { CASE_PAGE_STARTS, CLATTN_WITH_PAGE_STARTS, &c->tensors.page_starts },
        { CASE_ROW_LOW, CLATTN_WITH_ROW_RANGES, &c->tensors.row_low },
        { CASE_ROW_HIGH, CLATTN_WITH_ROW_RANGES, &c->tensors.row_high },
        { CASE_KEY_LISTS, CLATTN_WITH_KEY_LISTS, &c->tensors.key_lists },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        if (c->input[rows[i].input].data) {
            c->problem.features |= (uint32_t)rows[i].feature;
            rows[i].place->data = c->input[rows[i].input].data;
        }
    }
    c->tensors.slopes.stride[0] = c->input[CASE_SLOPES].dims == 2 ? c->shape.query_heads : 0;
    c->tensors.slopes.stride[1] = 1;
    c->tensors.sinks.stride[1] = 1;
    c->tensors.page_table.stride[3] = 1;
    if (c->input[CASE_PAGE_TABLE].dims > 1) {
        const int64_t *shape = c->input[CASE_PAGE_TABLE].shape, of_heads = c->input[CASE_PAGE_TABLE].dims == 3;
        c->tensors.page_table.stride[0] = of_heads ? shape[1] * shape[2] : shape[1];
        c->tensors.page_table.stride[1] = of_heads ? shape[2] : 0;
    }
    if (c->input[CASE_KEY_LISTS].data) {
        const int64_t *shape = c->input[CASE_KEY_LISTS].shape;
        c->problem.key_list_rows = (int64_t)meta_number(field(c, "params", "list_rows"), 1);
        c->problem.key_list_keys = shape[3];
        clattn_strides_bhsd(shape[1], shape[2], shape[3], c->tensors.key_lists.stride);
    }
    place_rows(&c->input[CASE_ROW_LOW], &c->tensors.row_low);
    place_rows(&c->input[CASE_ROW_HIGH], &c->tensors.row_high);
}

/* ---- outputs -------------------------------------------------------------------------------- */

static int create_outputs(struct attention_case *c, const struct layout *layout, struct failure *failure)
{
    const struct case_shape *s = &c->shape;
    const struct tensor *q = &c->input[CASE_Q];
    int packed = (c->problem.features & CLATTN_WITH_VARLEN) != 0;
    int64_t shape[4];
    memcpy(shape, q->shape, sizeof(shape));
    shape[layout->column] = s->head_dim_v * (layout->head < 0 ? s->query_heads : 1);
    if (tensor_create(&c->out, q->type, q->dims, shape, "out", failure) != 0) {
        return -1;
    }
    const int64_t axes[4] = { 1, s->query_heads, s->packed_queries, s->head_dim_v };
    c->tensors.out.data = c->out.data;
    layout_strides(layout, axes, c->tensors.out.stride);
    if (c->problem.features & CLATTN_WITH_LSE) {
        const int64_t lse[3] = { s->batch, s->query_heads, s->packed_queries };
        if (tensor_create(&c->lse, TENSOR_FLOAT32, packed ? 2 : 3, packed ? lse + 1 : lse, "lse", failure) != 0) {
            return -1;
        }
        c->tensors.lse.data = c->lse.data;
        clattn_strides_bhsd(s->query_heads, s->packed_queries, 1, c->tensors.lse.stride);
    }
    if (c->problem.weights != CLATTN_WEIGHTS_NONE) {
        const int64_t all[4] = { s->batch, s->query_heads, s->query_len, c->problem.key_len };
        enum tensor_type type = c->problem.type == CLATTN_FLOAT64 ? TENSOR_FLOAT64 : TENSOR_FLOAT32;
        if (tensor_create(&c->weights, type, 4, all, "qk_matmul_output", failure) != 0) {
            return -1;
        }
        c->tensors.weights.data = c->weights.data;
        clattn_strides_bhsd(all[1], all[2], all[3], c->tensors.weights.stride);
    }
    return 0;
}

/* Keys and values are written out again where the case lists them. */
static int joins_past(const struct attention_case *c)
{
    return c->input[CASE_PAST_KEY].data || c->input[CASE_PAST_VALUE].data || field(c, "outputs", "present_key") ||
           field(c, "outputs", "present_value");
}

int case_read(const char *folder, struct attention_case *c, struct failure *failure)
{
    static const struct attention_case empty;
    const clattn_problem problem = CLATTN_PROBLEM_INIT;
    const clattn_host_tensors tensors = CLATTN_HOST_TENSORS_INIT;
    *c = empty;
    c->problem = problem;
    c->tensors = tensors;
    clattn_call_init(&c->values, sizeof(c->values));
    int status = case_meta_read(folder, &c->meta, failure);
    const cJSON *name = meta_field(c->meta, NULL, "layout");
    const struct layout *layout = layout_find(meta_text(name));
    if (status == 0 && !layout) {
        status = failure_misuse(failure, "layout: is none of BHSD, BSHD, BS(HD), THD");
    }
    if (status != 0 || read_inputs(folder, c, failure) != 0 || convert_inputs(c, failure) != 0 ||
        case_read_shape(c, layout, failure) != 0 || case_place_inputs(c, layout, joins_past(c), failure) != 0 ||
        case_place_mask(c, failure) != 0 || place_offsets(c, failure) != 0) {
        case_free(c);
        return -1;
    }
    read_params(c);
    place_lists(c);
    case_place_scales(c);
    if (case_text_read(folder, c, failure) != 0 || create_outputs(c, layout, failure) != 0 ||
        case_quantise(c, failure) != 0) {
        case_free(c);
        return -1;
    }
    return 0;
}

void case_free(struct attention_case *c)
{
    for (int id = 0; id < CASE_INPUTS; ++id) {
        tensor_free(&c->input[id]);
    }
    tensor_free(&c->key);
    tensor_free(&c->value);
    tensor_free(&c->offsets);
    tensor_free(&c->out);
    tensor_free(&c->lse);
    tensor_free(&c->weights);
    tensor_free(&c->quantised[0]);
    tensor_free(&c->quantised[1]);
    for (int n = 0; n < CASE_CODE_MOST; ++n) {
        tensor_free(&c->text.table[n]);
    }
    tensor_free(&c->dequantised[0]);
    tensor_free(&c->dequantised[1]);
    cJSON_Delete(c->meta);
    c->meta = NULL;
}

int case_write(const struct attention_case *c, const char *folder, struct failure *failure)
{
    const struct {
        const char *name;
        const struct tensor *tensor;
    } outputs[] = {
        { "out", &c->out },
        { "lse", &c->lse },
        { "qk_matmul_output", &c->weights },
        { "present_key", &c->key },
        { "present_value", &c->value },
        { "key_quantised", &c->quantised[0] },
        { "value_quantised", &c->quantised[1] },
        { "key_dequantised", &c->dequantised[0] },
        { "value_dequantised", &c->dequantised[1] },
    };
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); ++i) {
        char path[PATH_BYTES];
        snprintf(path, sizeof(path), "%s/%s.npy", folder, outputs[i].name);
        if (field(c, "outputs", outputs[i].name) && outputs[i].tensor->data &&
            npy_write(path, outputs[i].tensor, failure) != 0) {
            return -1;
        }
    }
    return 0;
}
