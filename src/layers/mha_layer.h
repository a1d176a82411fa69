/* The multi-head layer on a device: projections around any strategy's attention. */
#ifndef CLATTN_SRC_MHA_LAYER_H
#define CLATTN_SRC_MHA_LAYER_H

#include "layers/layer.h"
#include "operation/mha.h"

/* One multiply before the attention: the source's rows by rows [first_row, first_row + columns) of a weight. */
struct mha_input {
    enum mha_tensor source, weight, bias;
    int64_t rows, depth; /* of the source */
    int64_t first_row, columns;
    int64_t result_at; /* element of the section */
    int has_bias;
};

struct clattn_mha {
    struct layer layer;
    const struct mha_problem *problem; /* the layer's */
    struct projector projector;
    struct kernel *average; /* of weights; NULL unless they are averaged */
    struct mha_input inputs[3];
    int n_inputs;
    struct place part[3]; /* query, key, value */
};

extern const struct layer_kind layer_mha;

/* What layer_mha.run_on_host is. */
clattn_status mha_run_on_host(clattn_context *context, const struct any_problem *problem, struct operands *operands);

#endif
