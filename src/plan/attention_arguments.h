/* What strategies of attention begin a call with: its params, and the host's side of cl/forward/arguments.clh, the
 * argument list that all attention kernels begin with. */
#ifndef CLATTN_SRC_ATTENTION_ARGUMENTS_H
#define CLATTN_SRC_ATTENTION_ARGUMENTS_H

#include "operation/fill_params.h"
#include "plan/ask.h"
#include "program/launch.h"

struct strategy;

#define ATTENTION_ARGUMENTS_MOST (1 + TENSOR_COUNT + 2 + FORWARD_TENSOR_COUNT - TENSOR_COUNT)

/* What the arguments of a call point to, which must stay until the launch. Few calls have scalars and tensors of a
 * text, or further buffers of a pool. */
struct attention_given {
    const struct operands *operands;
    uint64_t tensors; /* that the program takes */
    int has_pools, has_code, code_tensors;
    size_t params_bytes, code_bytes;
    clattn_params params;
    clattn_pools pools;
    uint32_t code_words[CODE_SCALARS_MOST + CODE_TENSORS_MOST + 1]; /* clattn_code_values of cl/user/code.clh */
};
void attention_give(const clattn_plan *plan, const struct operands *operands, struct attention_given *given);

/* Fills arguments from number 0 on, and returns how many, at most ATTENTION_ARGUMENTS_MOST: the kernel's own arguments
 * follow at that index. */
size_t attention_arguments(const struct attention_given *given, struct launch_argument *arguments);

/* The groups of tensors, CLATTN_TAKES_*, that programs of the strategy take for the problem: those of which it has one,
 * and those that the strategy always takes. 0 where it is no problem of attention. */
uint32_t attention_groups(const struct any_problem *problem, const struct strategy *strategy);

/* Appends how large blocks of the mask of blocks are, where there is one. */
void append_block_mask_options(const struct problem *problem, struct text *options);

/* Appends the types of slopes and sinks, where they are float64. */
void append_head_type_options(const struct problem *problem, struct text *options);

/* Appends " -D TYPE=1", KEY_TYPE, VALUE_TYPE and OUT_TYPE where they are others, what the two above append, and how
 * large lists of keys are, where there are such. */
void append_type_options(const struct problem *problem, struct text *options);

/* Appends how keys and values lie, but for their pages: " -D POOLS=2" in several buffers, " -D RING=1" in a ring that
 * turns, and how many rows and columns share a scale, where they have scales. */
void append_storage_options(const struct problem *problem, struct text *options);

/* Appends " -D PAGED=1 -D PAGE_SIZE=16" for keys and values in pages, and what append_storage_options does. */
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

/* The device computes the type, and takes so many bytes of arguments: own_bytes, behind those that all kernels of
 * attention have, included. Every device takes 1,024 (CL_DEVICE_MAX_PARAMETER_SIZE), and few take more for sure. */
int attention_is_served(struct ask *ask, size_t own_bytes);

#endif
