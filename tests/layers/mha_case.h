/* Random problems of the multi-head layer with their arrays in host memory, for the layer and for its gradients. */
#ifndef CLATTN_TESTS_LAYERS_MHA_CASE_H
#define CLATTN_TESTS_LAYERS_MHA_CASE_H

#include "layer_test.h"
#include "upload.h"

struct mha_case {
    clattn_mha_problem problem;
    clattn_mha_host_arrays arrays;
    void *owned[16];
    int n_owned;
    void *y[2], *weights[2]; /* device, reference */
    const char *way;         /* by which call */
    int64_t y_count, weights_count;
};

/* Elements of the layer's inputs and weights, and of their gradients. */
struct mha_counts {
    int64_t x, context, y, wq, wk, wv, wo, bq, bk, bv, bo;
};
struct mha_counts mha_case_counts(const struct mha_case *c);

void mha_case_choose(struct mha_case *c, struct random *random, const clattn_context *context);

/* Inputs, weights, masks; both y and weights are poison. */
void mha_case_fill(struct mha_case *c, struct random *random);

/* The memory is freed with the case. */
void *mha_case_keep(struct mha_case *c, void *data);
void mha_case_free(struct mha_case *c);

void mha_case_describe(const struct mha_case *c, char *text, size_t bytes);

/* All that the layer reads. */
void mha_case_upload(const struct mha_case *c, struct upload *upload, clattn_mha_arrays *arrays);

#endif
