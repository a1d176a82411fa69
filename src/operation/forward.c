/* The table of the forward operation, and what its rows refer to. */
#include "operation/forward.h"

#include <string.h>

#include "cl/forward_params.h"
#include "operation/problem.h"
#include "operation/rows.h"

/* What rows and kernels call the axes. */
enum forward_extent {
    EXTENT_ONE, /* the tensor has no such axis */
    EXTENT_BATCH,
    EXTENT_PACKS,     /* varlen: 1, sequences follow one another on the row axis; else the batch */
    EXTENT_KEY_PACKS, /* of a pool: its pages, each of KEY_ROWS rows; else PACKS */
    EXTENT_QUERY_HEADS,
    EXTENT_KV_HEADS,
    EXTENT_QUERY_ROWS, /* varlen: of all sequences, where the seams can be read; else QUERY_LEN */
    EXTENT_KEY_ROWS,
    EXTENT_QUERY_LEN,
    EXTENT_KEY_LEN,
    EXTENT_MASK_KEYS, /* the mask's key axis may be shorter */
    EXTENT_BIAS_KEYS,
    EXTENT_HEAD_DIM,
    EXTENT_HEAD_DIM_V,
    EXTENT_SEAMS,  /* batch + 1 */
    EXTENT_TABLES, /* page tables: one for each sequence, or one line for all */
    EXTENT_TABLE_PAGES,
    FORWARD_EXTENTS
};

enum forward_element {
    ELEMENT_QUERY,
    ELEMENT_KEY,
    ELEMENT_VALUE,
    ELEMENT_OUT,
    ELEMENT_BIAS,
    ELEMENT_WEIGHTS,
    ELEMENT_FLOAT,
    ELEMENT_BYTE,
    ELEMENT_INT,
    FORWARD_ELEMENTS
};

static const struct tensor_row tensor_rows[TENSOR_COUNT] = {
#define ROW(id, field, axes, element, access, place, asked_by)                                                         \
    TENSOR_ROW(field, axes, element, access, place, clattn_tensors, clattn_host_tensors, clattn_params),
    CLATTN_FORWARD_TENSORS(ROW)
#undef ROW
};

ROWS_HAVE_ROOM(TENSOR_COUNT, FORWARD_EXTENTS, FORWARD_ELEMENTS);

const struct operation operation_forward = {
    .name = "forward",
    .rows = tensor_rows,
    .count = TENSOR_COUNT,
    .workspace_function = "clattn_plan_workspace",
    .problem_bytes = sizeof(struct problem),
    .equal = attention_problem_equal,
    .describe = attention_problem_describe,
};

clattn_type forward_type(const clattn_problem *problem, clattn_type field)
{
    return field != CLATTN_TYPE_NONE ? field : problem->type;
}

/* The rows' last column, read in three ways: which features there are, which tensors and which flags a problem has. */
#define ALWAYS 0
#define FEATURE(name) CLATTN_WITH_##name
#define FIELD(name, condition) 0
#define SILENT_FIELD(condition) 0
#define FEATURES_OF_ROW(id, field, axes, element, access, place, asked_by) | asked_by
const uint32_t forward_features = 0 CLATTN_FORWARD_TENSORS(FEATURES_OF_ROW);
#undef ALWAYS
#undef FEATURE
#undef FIELD
#undef SILENT_FIELD

#define ALWAYS 1
#define FEATURE(name) ((p->features & CLATTN_WITH_##name) != 0)
#define FIELD(name, condition) (condition)
#define SILENT_FIELD(condition) (condition)
#define ASKED_OF_ROW(id, field, axes, element, access, place, asked_by) | (asked_by ? 1u << TENSOR_##id : 0)
static uint32_t asked_of(const clattn_problem *p)
{
    return 0u CLATTN_FORWARD_TENSORS(ASKED_OF_ROW);
}
#undef ALWAYS
#undef FEATURE
#undef FIELD
#undef SILENT_FIELD

#define ALWAYS 0u
#define FEATURE(name) (p->features & CLATTN_WITH_##name ? CLATTN_FLAG_##name : 0u)
#define FIELD(name, condition) ((condition) ? CLATTN_FLAG_##name : 0u)
#define SILENT_FIELD(condition) 0u
#define FLAGS_OF_ROW(id, field, axes, element, access, place, asked_by) | asked_by
uint32_t forward_flags(const clattn_problem *p)
{
    return 0u CLATTN_FORWARD_TENSORS(FLAGS_OF_ROW);
}

static void set_elements(const clattn_problem *p, struct operands *operands)
{
    const clattn_type types[FORWARD_ELEMENTS] = {
        [ELEMENT_QUERY] = p->type,
        [ELEMENT_KEY] = forward_type(p, p->key_type),
        [ELEMENT_VALUE] = forward_type(p, p->value_type),
        [ELEMENT_OUT] = forward_type(p, p->out_type),
        [ELEMENT_BIAS] = p->bias_type,
        [ELEMENT_WEIGHTS] = p->type == CLATTN_FLOAT64 ? CLATTN_FLOAT64 : CLATTN_FLOAT32,
        [ELEMENT_FLOAT] = CLATTN_FLOAT32,
    };
    memcpy(operands->element, types, sizeof(types));
    for (int i = 0; i < FORWARD_ELEMENTS; ++i) {
        operands->element_bytes[i] = clattn_type_size(types[i]);
    }
    operands->element_bytes[ELEMENT_BYTE] = 1;
    operands->element_bytes[ELEMENT_INT] = sizeof(int32_t);
}

void forward_measure(const clattn_problem *p, const struct forward_lengths *lengths, struct operands *operands)
{
    const int packed = (p->features & CLATTN_WITH_VARLEN) != 0, paged = (p->features & CLATTN_WITH_PAGES) != 0;
    const int one_table = (p->features & CLATTN_WITH_PAGE_STARTS) != 0, packed_keys = packed && !paged;
    const int queries_known = !packed || lengths->packed_queries >= 0,
              keys_known = !packed_keys || lengths->packed_keys >= 0;
    const int64_t sequence_pages = paged ? (lengths->key_len + p->page_size - 1) / p->page_size : 0;
    const int64_t extents[FORWARD_EXTENTS] = {
        [EXTENT_ONE] = 1,
        [EXTENT_BATCH] = p->batch,
        [EXTENT_PACKS] = packed ? p->batch > 0 : p->batch,
        [EXTENT_KEY_PACKS] = paged    ? p->pages
                             : packed ? p->batch > 0
                                      : p->batch,
        [EXTENT_QUERY_HEADS] = p->query_heads,
        [EXTENT_KV_HEADS] = p->kv_heads,
        [EXTENT_QUERY_ROWS] = packed && queries_known ? lengths->packed_queries : lengths->query_len,
        [EXTENT_KEY_ROWS] = paged                       ? p->page_size
                            : packed_keys && keys_known ? lengths->packed_keys
                                                        : lengths->key_len,
        [EXTENT_QUERY_LEN] = lengths->query_len,
        [EXTENT_KEY_LEN] = lengths->key_len,
        [EXTENT_MASK_KEYS] = lengths->mask_key_len,
        [EXTENT_BIAS_KEYS] = lengths->bias_key_len,
        [EXTENT_HEAD_DIM] = p->head_dim,
        [EXTENT_HEAD_DIM_V] = p->head_dim_v ? p->head_dim_v : p->head_dim,
        [EXTENT_SEAMS] = p->batch + 1,
        [EXTENT_TABLES] = one_table ? 1 : p->batch,
        [EXTENT_TABLE_PAGES] = one_table ? lengths->table_pages : sequence_pages,
    };
    operands->operation = &operation_forward;
    memcpy(operands->extent, extents, sizeof(extents));
    operands->unknown_extents = (queries_known ? 0 : 1u << EXTENT_QUERY_ROWS) |
                                (keys_known ? 0 : 1u << EXTENT_KEY_ROWS);
    operands->asked = asked_of(p);
    operands->strided_columns = p->strided_columns;
    set_elements(p, operands);
}

void forward_drop_batch_strides(const clattn_problem *p, struct operands *operands)
{
    for (int id = 0; id < TENSOR_COUNT && p->features & CLATTN_WITH_VARLEN; ++id) {
        const int axis = tensor_rows[id].axis[0], paged = (p->features & CLATTN_WITH_PAGES) != 0;
        if (axis == EXTENT_PACKS || (axis == EXTENT_KEY_PACKS && !paged)) {
            operands->tensor[id].stride[0] = 0;
        }
    }
}
