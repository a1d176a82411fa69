/* The table of the forward operation, and what its rows refer to. */
#include "operation/forward.h"

#include <string.h>

#include "base/ascii.h"
#include "base/checked_math.h"
#include "base/stored_types.h"
#include "base/text.h"
#include "cl/forward/forward_params.h"
#include "operation/call.h"
#include "operation/forward_rows.h"
#include "operation/pools.h"
#include "operation/problem.h"

static const struct tensor_row tensor_rows[FORWARD_TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    PLACED_ROW(field, axes, element, access, place, clattn_tensors, clattn_host_tensors),
    CLATTN_FORWARD_TENSORS(ROW)
#undef ROW
#define ROW(number) CODE_ROW(number),
        CLATTN_CODE_TENSORS(ROW)
#undef ROW
#define ROW(id, name_, field, axes, element, pool)                                                                     \
    TENSOR_ROW(field, axes, element, IN, POOL, clattn_tensors, clattn_host_tensors, clattn_pools),
            CLATTN_POOL_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(FORWARD_TENSOR_COUNT, FORWARD_EXTENTS, FORWARD_ELEMENTS);

clattn_type forward_type(const clattn_problem *problem, clattn_type field)
{
    return field != CLATTN_TYPE_NONE ? field : problem->type;
}

/* The rows' last column, read in five ways: which features there are, which tensors and which flags a problem has, and
 * what flags and features are called. */
#define ALWAYS 0
#define FEATURE(name, effect) CLATTN_WITH_##name
#define FIELD(name, effect, condition) 0
#define SILENT_FIELD(condition) 0
#define FEATURES_OF_ROW(id, field, axes, element, access, place, asked_by) | asked_by
const uint32_t forward_features = 0 CLATTN_FORWARD_TENSORS(FEATURES_OF_ROW);
#undef ALWAYS
#undef FEATURE
#undef FIELD
#undef SILENT_FIELD

#define ALWAYS 1
#define FEATURE(name, effect) ((p->features & CLATTN_WITH_##name) != 0)
#define FIELD(name, effect, condition) (condition)
#define SILENT_FIELD(condition) (condition)
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1ull << TENSOR_##id : 0)
#define ASKED_OF_CODE(number) | (code && code->p.tensor_count > number ? 1ull << TENSOR_CODE_##number : 0)
#define ASKED_OF_POOL(id, name, field, axes, element, pool) | (pools_of(p) > pool ? 1ull << TENSOR_##id : 0)
uint64_t forward_asked(const clattn_problem *p, const struct user_code *code)
{
    return 0u CLATTN_FORWARD_TENSORS(ASKED_OF_ROW) CLATTN_CODE_TENSORS(ASKED_OF_CODE)
        CLATTN_POOL_TENSORS(ASKED_OF_POOL);
}
#undef ALWAYS
#undef FEATURE
#undef FIELD
#undef SILENT_FIELD

#define BIT_OF_ROW(id, field, axes, element, access, place, asked_by) | 1ull << TENSOR_##id
uint32_t forward_groups(uint64_t asked)
{
#define GROUP_OF(name, T) | (asked & (0 CLATTN_TENSORS_##name(T)) ? CLATTN_TAKES_##name : 0u)
    return 0u CLATTN_TENSOR_GROUPS(GROUP_OF, BIT_OF_ROW);
}

uint64_t forward_tensors(uint32_t groups)
{
#define TENSORS_OF_GROUP(name, T) | (groups & CLATTN_TAKES_##name ? 0 CLATTN_TENSORS_##name(T) : 0)
    return 0 CLATTN_TENSORS_ALWAYS(BIT_OF_ROW) CLATTN_TENSOR_GROUPS(TENSORS_OF_GROUP, BIT_OF_ROW);
}

#define ALWAYS
#define FEATURE(name, effect) | (p->features & CLATTN_WITH_##name ? CLATTN_FLAG_##name : 0u)
#define FIELD(name, effect, condition) | ((condition) ? CLATTN_FLAG_##name : 0u)
#define SILENT_FIELD(condition)
uint32_t forward_flags(const clattn_problem *p, const struct user_code *code)
{
    return 0u CLATTN_ALL_ASKED;
}
#undef FEATURE
#undef FIELD

/* What HAS() calls them. */
#define FEATURE(name, effect) { CLATTN_FLAG_##name, #name },
#define FIELD(name, effect, condition) FEATURE(name, effect)
static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = { CLATTN_ALL_ASKED };
#undef FEATURE
#undef FIELD

#define FEATURE(name, effect) { CLATTN_WITH_##name, "CLATTN_WITH_" #name },
#define FIELD(name, effect, condition)
static const struct {
    uint32_t feature;
    const char *name;
} feature_names[] = { CLATTN_ALL_ASKED };

const char *forward_feature_name(uint32_t features)
{
    for (size_t i = 0; i < sizeof(feature_names) / sizeof(feature_names[0]); ++i) {
        if (features & feature_names[i].feature) {
            return feature_names[i].name;
        }
    }
    return "a feature that is not known";
}

void forward_flags_describe(uint32_t flags, struct text *text)
{
    uint32_t left = flags;
    for (size_t i = 0; i < sizeof(flag_names) / sizeof(flag_names[0]); ++i) {
        if (left & flag_names[i].flag) {
            text_append(text, "%s", left == flags ? "" : ", ");
            for (const char *c = flag_names[i].name; *c; ++c) {
                text_append(text, "%c", *c >= 'A' && *c <= 'Z' ? ascii_lower(*c) : ' ');
            }
            left &= ~flag_names[i].flag;
        }
    }
    if (left) {
        text_append(text, "%sflags 0x%x", left == flags ? "" : ", ", (unsigned)left);
    }
}

/* How many elements the tensors of a text have, and of what type. */
static void set_code(const struct user_code *code, struct operands *operands)
{
    static const clattn_type types[] = {
        [CLATTN_ELEMENT_FLOAT32] = CLATTN_FLOAT32,   [CLATTN_ELEMENT_FLOAT16] = CLATTN_FLOAT16,
        [CLATTN_ELEMENT_BFLOAT16] = CLATTN_BFLOAT16, [CLATTN_ELEMENT_FLOAT64] = CLATTN_FLOAT64,
        [CLATTN_ELEMENT_INT32] = CLATTN_TYPE_NONE,   [CLATTN_ELEMENT_UINT8] = CLATTN_TYPE_NONE
    };
    for (int i = 0; code && i < code->p.tensor_count; ++i) {
        const clattn_code_tensor *tensor = &code->p.tensors[i];
        operands_set_type(operands, ELEMENT_CODE_0 + i, types[tensor->element]);
        operands->element_bytes[ELEMENT_CODE_0 + i] = clattn_element_size(tensor->element);
        operands->extent[EXTENT_CODE_0 + i] = tensor->elements;
    }
}

static void set_elements(const clattn_problem *p, struct operands *operands)
{
    operands_set_type(operands, ELEMENT_QUERY, p->type);
    operands_set_type(operands, ELEMENT_KEY, forward_type(p, p->key_type));
    operands_set_type(operands, ELEMENT_VALUE, forward_type(p, p->value_type));
    operands_set_type(operands, ELEMENT_OUT, forward_type(p, p->out_type));
    operands_set_type(operands, ELEMENT_BIAS, p->bias_type);
    operands_set_type(operands, ELEMENT_SLOPE, p->slopes_type ? p->slopes_type : CLATTN_FLOAT32);
    operands_set_type(operands, ELEMENT_SINK, p->sinks_type ? p->sinks_type : CLATTN_FLOAT32);
    operands_set_type(operands, ELEMENT_KEY_SCALE, type_of_scales(forward_type(p, p->key_type)));
    operands_set_type(operands, ELEMENT_VALUE_SCALE, type_of_scales(forward_type(p, p->value_type)));
    operands_set_type(operands, ELEMENT_WEIGHTS, p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32);
}

int forward_ring_turns(const clattn_problem *p)
{
    return p->ring > 0 && p->ring < p->key_len;
}

int64_t forward_kept_rows(const clattn_problem *p, int64_t keys)
{
    return p->ring > 0 && p->ring < keys ? p->ring : keys;
}

void forward_measure(const clattn_problem *p, const struct user_code *code, const struct forward_lengths *lengths,
                     struct operands *operands)
{
    const int packed = (p->features & CLATTN_WITH_VARLEN) != 0, paged = (p->features & CLATTN_WITH_PAGES) != 0;
    const int one_table = (p->features & CLATTN_WITH_PAGE_STARTS) != 0, packed_keys = packed && !paged;
    const int queries_known = !packed || lengths->packed_queries >= 0,
              keys_known = !packed_keys || lengths->packed_keys >= 0;
    const int64_t kept = forward_kept_rows(p, lengths->key_len),
                  sequence_pages = paged ? groups_of(kept, p->page_size) : 0;
    const int64_t key_rows = paged ? p->page_size : packed_keys && keys_known ? lengths->packed_keys : kept;
    const int64_t key_packs = paged ? p->pages : packed ? p->batch > 0 : p->batch;
    const int64_t head_dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
    const int64_t extents[FORWARD_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_PACKS] = packed ? p->batch > 0 : p->batch,
        [EXTENT_KEY_PACKS] = key_packs,
        [EXTENT_FIRST_POOL] = paged ? pools_pages(p->pages, p->pool_pages, 0) : key_packs,
        [EXTENT_POOL_1] = pools_pages(p->pages, p->pool_pages, 1),
        [EXTENT_POOL_2] = pools_pages(p->pages, p->pool_pages, 2),
        [EXTENT_POOL_3] = pools_pages(p->pages, p->pool_pages, 3),
        [EXTENT_QUERY_HEADS] = p->query_heads,
        [EXTENT_KV_HEADS] = p->kv_heads,
        [EXTENT_QUERY_ROWS] = packed && queries_known ? lengths->packed_queries : lengths->query_len,
        [EXTENT_KEY_ROWS] = key_rows,
        [EXTENT_QUERY_LEN] = lengths->query_len,
        [EXTENT_KEY_LEN] = lengths->key_len,
        [EXTENT_MASK_KEYS] = p->mask_bits ? groups_of(lengths->mask_key_len, 8) : lengths->mask_key_len,
        [EXTENT_BIAS_KEYS] = lengths->bias_key_len,
        [EXTENT_HEAD_DIM] = p->head_dim,
        [EXTENT_HEAD_DIM_V] = head_dim_v,
        [EXTENT_KEY_SCALE_ROWS] = groups_of(key_rows, p->key_scale_rows),
        [EXTENT_KEY_SCALE_COLUMNS] = groups_of(p->head_dim, p->key_scale_columns),
        [EXTENT_VALUE_SCALE_ROWS] = groups_of(key_rows, p->value_scale_rows),
        [EXTENT_VALUE_SCALE_COLUMNS] = groups_of(head_dim_v, p->value_scale_columns),
        [EXTENT_SEAMS] = p->batch + 1,
        [EXTENT_TABLES] = one_table ? 1 : p->batch,
        [EXTENT_TABLE_PAGES] = one_table ? lengths->table_pages : sequence_pages,
        [EXTENT_BLOCK_MASK_ROWS] = groups_of(lengths->query_len, p->block_mask_rows),
        [EXTENT_BLOCK_MASK_KEYS] = groups_of(lengths->key_len, p->block_mask_keys),
        [EXTENT_KEY_LIST_BLOCKS] = groups_of(lengths->query_len, p->key_list_rows),
        [EXTENT_KEY_LIST_KEYS] = p->key_list_keys,
    };
    memcpy(operands->extent, extents, sizeof(extents));
    const uint32_t of_key_rows = 1u << EXTENT_KEY_ROWS | 1u << EXTENT_KEY_SCALE_ROWS | 1u << EXTENT_VALUE_SCALE_ROWS;
    operands->unknown_extents = (queries_known ? 0 : 1u << EXTENT_QUERY_ROWS) | (keys_known ? 0 : of_key_rows);
    operands->strided_columns = p->strided_columns;
    set_elements(p, operands);
    set_code(code, operands);
}

void forward_drop_batch_strides(const clattn_problem *p, struct operands *operands)
{
    for (int id = 0; id < operands->operation->count && p->features & CLATTN_WITH_VARLEN; ++id) {
        const int axis = operands->operation->rows[id].axis[0], paged = (p->features & CLATTN_WITH_PAGES) != 0;
        if (axis == EXTENT_PACKS || ((axis == EXTENT_KEY_PACKS || axis == EXTENT_FIRST_POOL) && !paged)) {
            operands->tensor[id].stride[0] = 0;
        }
    }
}

/* ---- the operation ---------------------------------------------------------------------------- */

/* From the first tensor on, each field has a row of the table. */
#define TENSORS_BYTES(type, tensor) (offsetof(type, query) + FORWARD_TENSOR_COUNT * sizeof(tensor))
static const clattn_tensors clattn_tensors_defaults = CLATTN_TENSORS_INIT;
static const clattn_host_tensors clattn_host_tensors_defaults = CLATTN_HOST_TENSORS_INIT;
GROWTH_OF_BYTES(clattn_tensors, "tensors", "CLATTN_TENSORS_INIT", out, TENSORS_BYTES(clattn_tensors, clattn_tensor));
GROWTH_OF_BYTES(clattn_host_tensors, "tensors", "CLATTN_HOST_TENSORS_INIT", out,
                TENSORS_BYTES(clattn_host_tensors, clattn_host_tensor));
GROWTH(clattn_problem, "problem", head_dim, sinks_type, CLATTN_PROBLEM_INIT);
CALL_HAS_ROOM(struct call);

const struct operation operation_forward = {
    .name = "forward",
    .rows = tensor_rows,
    .count = FORWARD_TENSOR_COUNT,
    .workspace_function = "clattn_plan_workspace",
    PROBLEM_OF(struct problem, clattn_problem),
    .resolve = problem_resolve,
    .equal = attention_problem_equal,
    .describe = attention_problem_describe,
    .flags = attention_problem_flags,
    .describe_flags = forward_flags_describe,
    .tensors = { TENSORS_OF(clattn_tensors, clattn_host_tensors, FORWARD_TENSOR_COUNT,
                            offsetof(clattn_tensors, workspace)) },
    .measure = call_measure,
    .check_places = pools_check_places,
    .check_values = call_check_values,
    .reference = reference_forward,
};
