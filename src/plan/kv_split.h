/* What the strategies with a K/V split share on the host (cl/split/place.clh): which problems they take, the workspace,
 * and a launch. */
#ifndef CLATTN_SRC_KV_SPLIT_H
#define CLATTN_SRC_KV_SPLIT_H

#include "cl/split/split_layout.h"
#include "plan/attention_arguments.h"
#include "plan/strategy.h"

/* How the rows of a key/value head, of which there may be none, are cut: into blocks of at most `most` rows, which have
 * one list of keys where there are such. */
struct kv_row_blocks {
    int rows, blocks; /* of a block; both at least 1 */
};
struct kv_row_blocks kv_row_blocks_of(const clattn_problem *p, int most);

/* How many blocks of `most` rows the rows of a call, so many of a key/value head, are cut into: 0 of none, and with
 * lists as many as the problem's rows. */
int64_t kv_call_blocks(const clattn_problem *p, int64_t head_rows, int most);

/* Keys that a row may meet, of `key_len`: those of its list, where it has one. */
int64_t kv_keys_of(const clattn_problem *p, int64_t key_len);

/* How many splits of `key_len` keys the rows of a call can see, at most, and at least one. A window, or a ring, leaves
 * out those before it (cl/split/place.clh). */
int64_t kv_splits_of(const clattn_problem *p, int64_t key_len, int split_keys);

/* SIZE_MAX: more than can be said. */
size_t kv_split_workspace_bytes(const clattn_problem *p, int split_keys, int rows_at_once);

/* 0: no K/V split takes the problem, whose blocks have at most rows_at_once rows. */
int kv_split_applicable(struct ask *ask, int split_keys, int rows_at_once, int rows_most);

/* What each of a call's kernels is launched with; what the arguments point to included. */
struct kv_split_call {
    struct attention_given given;
    cl_mem workspace;
    cl_int n_splits;
    size_t rows, heads, batch; /* rows of a key/value head, or of a block of them; such blocks of all heads */
    size_t argument_count;
    struct launch_argument arguments[ATTENTION_ARGUMENTS_MOST + 2];
};

void kv_split_call_of(const struct clattn_plan *plan, const struct operands *operands, int split_keys, int rows_at_once,
                      struct kv_split_call *call);
clattn_status kv_split_launch(const struct kv_split_call *call, struct kernel *kernel, cl_uint dims,
                              const size_t *global, const size_t *local, struct chain *chain);

#endif
