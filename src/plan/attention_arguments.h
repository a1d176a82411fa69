/* What strategies of attention begin a call with: its params, and the host's side of cl/arguments.clh, the argument
 * list that all attention kernels begin with. */
#ifndef CLATTN_SRC_ATTENTION_ARGUMENTS_H
#define CLATTN_SRC_ATTENTION_ARGUMENTS_H

#include "operation/fill_params.h"
#include "plan/ask.h"
#include "program/launch.h"

#define ATTENTION_ARGUMENT_COUNT (1 + TENSOR_COUNT)
#define ATTENTION_ARGUMENTS_MOST (ATTENTION_ARGUMENT_COUNT + 1 + FORWARD_TENSOR_COUNT - TENSOR_COUNT)

/* A kernel may have behind them a struct of so many bytes, and a buffer or some numbers: every device takes 1,024 bytes
 * of arguments (CL_DEVICE_MAX_PARAMETER_SIZE), and few take more for sure. */
#define ATTENTION_OWN_BYTES 48

void attention_params(const clattn_plan *plan, const struct operands *operands, clattn_params *params);

/* NULL where keys and values have one buffer each, else `pools`, filled. */
const clattn_pools *attention_pools(const clattn_plan *plan, const struct operands *operands, clattn_pools *pools);

/* Fills arguments from number 0 on, and returns how many: the kernel's own arguments follow at that index. They are
 * ATTENTION_ARGUMENT_COUNT where `pools` is NULL, and otherwise no more than ATTENTION_ARGUMENTS_MOST. The pointers
 * lead into params, pools and operands, which must stay until the launch. */
size_t attention_arguments(const clattn_params *params, const clattn_pools *pools, const struct operands *operands,
                           struct launch_argument *arguments);

/* Appends "-D TYPE=1", and KEY_TYPE, VALUE_TYPE and OUT_TYPE where they are others. */
void append_type_options(const struct problem *problem, struct text *options);

/* Appends how keys and values lie, but for their pages: " -D POOLS=2" in several buffers, " -D RING=1" in a ring that
 * turns, and how many rows and columns share a scale, where they have scales. */
void append_storage_options(const struct problem *problem, struct text *options);

/* The same, behind " -D PAGED=1 -D PAGE_SIZE=16" for keys and values in pages. */
void append_kv_options(const struct problem *problem, struct text *options);

/* Appends what kernels that are made for one problem know of it: FLAGS, BIAS_TYPE, STRIDED_COLUMNS and head dims. */
void append_problem_options(const struct problem *problem, struct text *options);

/* 0: a problem is declined, and why is said. */

/* For kernels of wide vectors in float32, with head_dim + head_dim_v columns in private memory and packed rows counted
 * in 32 bits. */
int attention_fits_vectors(struct ask *ask, int columns_most);

/* For kernels that read keys and values as floats, in rows one behind the other or in pages: not as codes, or in a
 * ring. */
int attention_reads_rows(struct ask *ask);

/* The device computes the type, and takes so many bytes of arguments, a struct of the kernel's own included. */
int attention_is_served(struct ask *ask);

#endif
