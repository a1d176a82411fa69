/* Tensors of a node as those of clattn: heads, masks, caches; their shapes are checked here, since clattn sees strides
 * only. */
#ifndef CLATTN_ORT_OPERANDS_H
#define CLATTN_ORT_OPERANDS_H

#include "kernel.h"

/* A tensor of heads, [batch, heads, rows, columns], in either layout. */
struct heads {
    int64_t batch, heads, rows, columns;
    ONNXTensorElementDataType type;
    clattn_host_tensor at;
};

/* Heads of a tensor [batch, heads, rows, columns], or [batch, rows, heads * columns] with as many heads as the node
 * says. `name` is for the message. */
OrtStatus *heads_of(const struct tensor *tensor, int64_t heads, const char *name, struct heads *of);

/* Copies rows to first_row and those behind it. */
void heads_copy_rows(const struct heads *from, int64_t first_row, const struct heads *to);

/* One call of attention. */
struct attention {
    clattn_problem problem; /* with this call's lengths */
    clattn_call call;
    clattn_host_tensors tensors;
};

void attention_init(struct attention *attention);

/* Queries, keys and values: the problem's shapes and types. */
OrtStatus *attention_operands(const struct heads *query, const struct heads *key, const struct heads *value,
                              struct attention *attention);

/* Scale, softcap, causal mask and window of the node. */
void attention_attributes(const struct attributes *attributes, struct attention *attention);

/* Row 0 of the queries stands at this position among the keys; behind attention_attributes. */
OrtStatus *attention_position(const struct run *run, int64_t position, struct attention *attention);

/* The last row stands at the last key: of each sequence, where keys have lengths. */
void attention_at_end(struct attention *attention);

/* What becomes of a mask whose last axis is shorter than the keys: those beyond it are hidden, or an axis of 1 is
 * repeated. */
enum last_axis { LAST_AXIS_PADDED, LAST_AXIS_REPEATED };

/* A mask that is broadcast to [batch, query heads, rows, keys]: boolean, or floating and added. */
OrtStatus *attention_mask(const struct tensor *mask, enum last_axis last_axis, struct attention *attention);

/* Row 0 of entry b stands at starts[b]. */
void attention_starts(const int32_t *starts, struct attention *attention);

/* Lengths of keys, [batch], int32 or int64, to each of which `more` is added. */
OrtStatus *attention_key_lengths(const struct run *run, const struct tensor *lengths, int64_t more,
                                 struct attention *attention);

/* The node's output 0, [batch, heads, rows, columns], or [batch, rows, heads * columns]. */
OrtStatus *attention_out(const struct run *run, int rank, struct attention *attention);

/* Computes it and waits. Output `index` gets the weights, in the queries' type, where somebody takes them (-1: there is
 * none). */
OrtStatus *attention_run(const struct run *run, int index, struct attention *attention);

/* Puts a cache of its extents into an output's memory, or, where nobody takes that (NULL), into the lane's. */
OrtStatus *cache_memory(const struct run *run, void *present, enum scratch_use use, struct heads *cache);

/* The keys, or values, of all tokens so far: `past` ([batch, heads, rows, columns], or without data: there are none)
 * and `fresh` behind it, in output `index`, or in the lane's memory where nobody takes it. Without a past and an output
 * it is `fresh` itself. */
OrtStatus *join_past(const struct run *run, const struct tensor *past, const struct heads *fresh, int index,
                     enum scratch_use use, struct heads *joined);

#endif
