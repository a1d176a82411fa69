/* The layouts that a case's files may have, brought to the four axes batch, head, row, column. Part of
 * case_file.c, which alone calls it. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_LAYOUT_H
#define CLATTN_TESTS_SUPPORT_CASE_LAYOUT_H

#include "case_file.h"

/* Where a layout has its axes among [batch, heads, rows, columns] and how many dims its files have. */
struct layout {
    const char *name;
    int dims, batch, head, row, column; /* -1: no such axis */
};

const struct layout *layout_find(const char *name); /* NULL: there is none of that name */
void layout_strides(const struct layout *layout, const int64_t shape[4], int64_t stride[4]);

/* Fills the case's shape and its problem's dimensions from its inputs. */
int case_read_shape(struct attention_case *c, const struct layout *layout, struct failure *failure);

/* Places query, key and value; `join`: keys and values are past and new ones, in memory of their own. */
int case_place_inputs(struct attention_case *c, const struct layout *layout, int join, struct failure *failure);

#endif
