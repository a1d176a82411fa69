/* The backward formulas of attention, from its weights. */
#ifndef CLATTN_TOOLS_LESSON_GRADIENT_H
#define CLATTN_TOOLS_LESSON_GRADIENT_H

#define GRADIENT_KEYS_MAX 64

struct gradient_layer {
    int rows, keys, dim, dim_v; /* keys <= GRADIENT_KEYS_MAX */
    double scale;
    const float *query, *key, *value; /* dense */
};

/* dQ [rows, dim] and dK [keys, dim] of the loss sum(out * gradient). */
void gradient_backward(const struct gradient_layer *layer, const float *weights, const float *gradient, double *d_query,
                       double *d_key);

/* Frobenius norm of diag(p) - p p^T. */
double gradient_jacobian_norm(const float *weights, int keys);

#endif
