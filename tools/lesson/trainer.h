/* A model of one attention layer that learns to write sequences backwards: its weights, on the device, its batches, and
 * a step of training by clattn_mha_enqueue and clattn_mha_backward_enqueue. */
#ifndef CLATTN_TOOLS_LESSON_TRAINER_H
#define CLATTN_TOOLS_LESSON_TRAINER_H

#include "clattn_layers.h"
#include "lesson.h"

#define TRAINER_LENGTH 12  /* symbols of a sequence */
#define TRAINER_SYMBOLS 16 /* that there are */
#define TRAINER_BATCH 16   /* sequences of a step */
#define TRAINER_CODE 32    /* numbers of a symbol, and of a place */
#define TRAINER_MODEL (2 * TRAINER_CODE)
#define TRAINER_DIM 128 /* of queries and keys */
#define TRAINER_DIM_V 32
#define TRAINER_ROWS (TRAINER_BATCH * TRAINER_LENGTH)

enum trainer_weight { TRAINER_WQ, TRAINER_WK, TRAINER_WV, TRAINER_WO, TRAINER_WEIGHTS };

/* One of the four matrices: here, on the device, and what Adam keeps of its gradients. */
struct trainer_matrix {
    int count;
    float *values, *gradient, *mean, *square;
    cl_mem buffer, gradient_buffer;
};

struct trainer {
    clattn_context *context;
    uint64_t seed;
    double scale;
    int steps; /* so far */
    clattn_mha *forward;
    clattn_mha_backward *backward;
    struct trainer_matrix matrices[TRAINER_WEIGHTS];
    cl_mem x, y, dy, workspace, backward_workspace;
    float symbols[TRAINER_SYMBOLS][TRAINER_CODE], places[TRAINER_LENGTH][TRAINER_CODE];
    float batch[TRAINER_ROWS * TRAINER_MODEL], logits[TRAINER_ROWS * TRAINER_SYMBOLS];
    float dlogits[TRAINER_ROWS * TRAINER_SYMBOLS];
    int target[TRAINER_ROWS];
};

/* A seed gives always the same weights and batches, whatever the scale of the scores is. The caller ends with
 * trainer_free, after failures too. */
clattn_status trainer_create(struct trainer *trainer, clattn_context *context, uint64_t seed, double scale);
void trainer_free(struct trainer *trainer);

/* One batch: the mean of -ln(probability of the right symbol), and the share of rows that had it right, before the
 * weights are moved. */
clattn_status trainer_step(struct trainer *trainer, double *loss, double *right);

/* Mean loss and share of a batch that no step has seen. */
clattn_status trainer_test(struct trainer *trainer, double *loss, double *right);

/* The attention weights of the last batch's first sequence. */
clattn_status trainer_look(struct trainer *trainer, float weights[TRAINER_LENGTH * TRAINER_LENGTH]);

#endif
