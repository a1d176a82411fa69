/* The forward operation's tensors, made of the rows of cl/forward/forward_tensors.h. */
#ifndef CLATTN_SRC_FORWARD_H
#define CLATTN_SRC_FORWARD_H

#include "cl/forward/forward_tensors.h"
#include "operation/operands.h"
#include "operation/user_code.h"

/* TENSOR_QUERY, TENSOR_KEY, ... in the order of the rows. */
enum tensor_id {
#define ID_OF_ROW(id, name, axes, element, access, place, asked_by) TENSOR_##id,
    CLATTN_FORWARD_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        TENSOR_COUNT, /* of those that every kernel takes */
    TENSOR_BEFORE_CODE = TENSOR_COUNT - 1,
#define ID_OF_CODE(number) TENSOR_CODE_##number,
    CLATTN_CODE_TENSORS(ID_OF_CODE)
#undef ID_OF_CODE
        ALL_TENSOR_COUNT, /* and of those that gradients know */
    TENSOR_BEFORE_POOLS = ALL_TENSOR_COUNT - 1,
#define ID_OF_ROW(id, name, field, axes, element, pool) TENSOR_##id,
    CLATTN_POOL_TENSORS(ID_OF_ROW)
#undef ID_OF_ROW
        FORWARD_TENSOR_COUNT
};

extern const struct operation operation_forward;
clattn_status reference_forward(const struct any_problem *problem, const struct operands *call);

static inline int forward_is_output(int id)
{
    return operation_forward.rows[id].role == TENSOR_OUTPUT;
}

/* The lengths of a call, and the rows that packed tensors have in all: -1 where only the device knows. */
struct forward_lengths {
    int64_t query_len, key_len, mask_key_len, bias_key_len;
    int64_t packed_queries, packed_keys;
    int64_t table_pages; /* of one page table for all sequences; where only the device knows: as many as must be */
};

/* A bit for each tensor that the problem has, with its text's. */
uint64_t forward_asked(const clattn_problem *problem, const struct user_code *code);

/* The groups of tensors (CLATTN_TAKES_*) of which one is asked for; tensors of groups, with those of every program. */
uint32_t forward_groups(uint64_t asked);
uint64_t forward_tensors(uint32_t groups);

/* Sets what the problem and the lengths decide: extents and types. Types and head_dim_v of 0 stand for their defaults.
 * The places stay as they are, and so does what is asked: forward_asked tells it, which some of the lengths hang on. */
void forward_measure(const clattn_problem *problem, const struct user_code *code, const struct forward_lengths *lengths,
                     struct operands *operands);

/* Whether rows of keys are overwritten by later ones. */
int forward_ring_turns(const clattn_problem *problem);

/* Rows of keys that are in memory, of a sequence of so many keys. */
int64_t forward_kept_rows(const clattn_problem *problem, int64_t keys);

/* Packed tensors have no batch axis: their sequences are found by their seams. */
void forward_drop_batch_strides(const clattn_problem *problem, struct operands *operands);

/* By the rows' last column: features that any tensor has, CLATTN_FLAG_* of what a problem asks for. */
extern const uint32_t forward_features;
uint32_t forward_flags(const clattn_problem *problem, const struct user_code *code);

/* CLATTN_FLAG_* in words: "window, key lengths". */
void forward_flags_describe(uint32_t flags, struct text *text);

/* "CLATTN_WITH_MASK": the first of some features, in the order of the rows. */
const char *forward_feature_name(uint32_t features);

/* The type of a problem's tensors with its default: `type` where the field is CLATTN_TYPE_NONE. */
clattn_type forward_type(const clattn_problem *problem, clattn_type field);

#endif
