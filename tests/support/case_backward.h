/* The gradients of a case that has dout: what comes in at out and lse, and what clattn_backward.h writes. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_BACKWARD_H
#define CLATTN_TESTS_SUPPORT_CASE_BACKWARD_H

#include "case_file.h"
#include "clattn_backward.h"

enum case_gradient {
#define GRADIENT(id, file, gradient, of, field) CASE_##id,
    CASE_GRADIENT_LIST(GRADIENT) CASE_GRADIENTS
#undef GRADIENT
};

struct backward_case {
    struct tensor dout, dlse;
    struct tensor gradient[CASE_GRADIENTS]; /* float32; filled by whoever computes the case */
    clattn_backward_problem problem;        /* of the attention case's problem; without a strategy */
    clattn_host_gradients gradients;        /* point into the above */
};

/* Whether a case has gradients. */
int backward_case_is(const struct attention_case *c);

/* For a case whose out and lse have memory. On failure there is nothing to free. */
int backward_case_read(const char *folder, const struct attention_case *c, struct backward_case *b,
                       struct failure *failure);
void backward_case_free(struct backward_case *b);

/* The gradients of a case whose out and lse were computed, by the case's strategy or, where `context` is NULL, the
 * reference, into TO/dq.npy and each other gradient that the case lists; nothing where the strategy has none. */
int backward_case_solve(clattn_context *context, const char *from, const char *to, const struct attention_case *c,
                        struct failure *failure);

#endif
