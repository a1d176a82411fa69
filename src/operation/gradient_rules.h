/* What operations have alike that compute gradients: which there are, and the rules on what is asked for. */
#ifndef CLATTN_SRC_GRADIENT_RULES_H
#define CLATTN_SRC_GRADIENT_RULES_H

#include "operation/operands.h"

/* The gradients of an operation, a row for each of its tensors from `first` on. */
struct gradient_row {
    uint32_t gradient; /* CLATTN_GRADIENT_* or the like; 0: the tensor is none */
    const char *name;
};
struct gradients {
    const char *kind; /* how the bits are called: "CLATTN_GRADIENT" */
    int first, count;
    const struct gradient_row *rows;
};

/* Some are asked for, known ones; those that are added to what is there are among them. */
clattn_status gradients_check(const struct gradients *all, uint32_t gradients, uint32_t accumulate);

/* gradient_type beside the forward's type. */
clattn_status gradients_check_type(clattn_type given, clattn_type type);

/* What is added to must be float32 or float64. `what`: "dkey is", "gradients are". */
clattn_status gradients_check_sums(uint32_t accumulate, const char *what, clattn_type type);

const char *gradients_name(const struct gradients *all, uint32_t gradient);

/* Which tensors a call has, beside others, and which of them it does not read: those that are not added to are written
 * whole. */
void gradients_ask(const struct gradients *all, uint32_t gradients, uint32_t accumulate, struct operands *operands);

#endif
