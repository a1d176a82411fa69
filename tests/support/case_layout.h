/* The layouts that a case's files may have, brought to the four axes batch, head, row, column; and those of an
 * attention case. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_LAYOUT_H
#define CLATTN_TESTS_SUPPORT_CASE_LAYOUT_H

#include "case_file.h"

/* Where a layout has its axes among [batch, heads, rows, columns] and how many dims its files have. */
struct layout {
    const char *name;
    int dims, batch, head, row, column; /* -1: no such axis */
};

const struct layout *layout_find(const char *name); /* NULL: there is none of that name */
/* How a pool lies, whose pages are its batch; NULL: the name is none of a pool. */
const struct layout *layout_of_pool(const char *name);

/* Extents of a file on the four axes; heads that share an axis with columns are split off. -1: it is laid out in
 * another way. */
int layout_shape(const struct layout *layout, const struct tensor *tensor, int64_t heads, int64_t shape[4]);
void layout_strides(const struct layout *layout, const int64_t shape[4], int64_t stride[4]);

/* Fills the case's shape and its problem's dimensions from its inputs. */
int case_read_shape(struct attention_case *c, const struct layout *layout, struct failure *failure);

/* Places query, key and value; `join`: keys and values are past and new ones, in memory of their own. */
int case_place_inputs(struct attention_case *c, const struct layout *layout, int join, struct failure *failure);

/* Values are the first columns of keys, and there is no file of theirs. */
int case_values_in_keys(const struct attention_case *c);

/* Says so of such a case, whose values are then left out; its gradients, which are of two tensors, need them. */
void case_leave_values(struct attention_case *c);

#endif
