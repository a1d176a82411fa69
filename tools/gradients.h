/* From inputs and options to one backward call of clattn: which gradients, where dout and what the forward pass gave
 * are, room for the gradients. */
#ifndef CLATTN_TOOLS_GRADIENTS_H
#define CLATTN_TOOLS_GRADIENTS_H

#include <stddef.h>

#include "attention.h"
#include "clattn_backward.h"

/* What there are gradients of. */
struct gradient_kind {
    const char *word; /* of --of: "q" */
    clattn_gradient bit;
    enum role role, of;         /* of: ROLES where it is no tensor */
    size_t host_at, forward_at; /* in clattn_host_gradients; of what it is the gradient of, in clattn_host_tensors */
};
extern const struct gradient_kind gradient_kinds[GRADIENT_KINDS];

struct gradients {
    clattn_backward_problem problem; /* points to the attention's */
    clattn_host_gradients host;      /* points into the inputs and the tensors below */
    struct tensor tensor[GRADIENT_KINDS];
    int forward_is_given; /* out and lse were copied from the inputs */
};

/* After attention_prepare, with lse and without weights. --strategy is the backward pass's: the forward's is taken
 * away. Converts inputs in place; they and the attention must outlive it. The caller ends with gradients_free, after
 * failures too. */
int gradients_prepare(const struct options *options, struct inputs *inputs, struct attention *attention,
                      struct gradients *gradients, struct failure *failure);
void gradients_free(struct gradients *gradients);

#endif
