/* Keys and values as engines keep them: in pages, in rings, as codes with scales; and the keys that each row sees.
 * The steps of attention.c and attention_extras.c that are theirs, in the order in which they are taken. */
#ifndef CLATTN_TOOLS_ATTENTION_CACHE_H
#define CLATTN_TOOLS_ATTENTION_CACHE_H

#include "attention.h"

/* --key-type and --value-type, or int8 where the files are: problem's types, which the tensors are converted to or
 * have the bytes of. CLATTN_TYPE_NONE: as the queries. */
int attention_stored_types(const struct options *options, struct inputs *inputs, clattn_problem *problem,
                           struct failure *failure);

/* Where there is a page table, --pool tells how keys and values lie; else as the queries. */
int attention_pool_layout(const struct options *options, const struct inputs *inputs, enum layout layout,
                          enum layout *keys, struct failure *failure);

/* With --value-in-key: the axes of values, which are the first columns of keys; nothing else may give values. */
int attention_values_in_keys(const struct options *options, const struct inputs *inputs, struct attention *attention,
                             struct failure *failure);

/* Bytes of blocks become columns; the axes of a pool the problem's pages; and --ring. */
int attention_cache_axes(const struct options *options, const struct inputs *inputs, struct attention *attention,
                         struct failure *failure);

/* Page table, scales and row ranges: checks them against the problem, which has all but the length of its keys, and
 * places them. */
int attention_prepare_cache(const struct options *options, struct inputs *inputs, struct attention *attention,
                            struct failure *failure);

/* Whether keys or values are anything of the kind. */
int attention_has_cache(const struct attention *attention);

/* Lists of keys, where there are some. */
int attention_prepare_lists(const struct options *options, struct inputs *inputs, struct attention *attention,
                            struct failure *failure);

#endif
