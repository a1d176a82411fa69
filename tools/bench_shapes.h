/* The shapes that `clattn bench` and `clattn tune` measure: from --shape, from a file, or built in. */
#ifndef CLATTN_TOOLS_BENCH_SHAPES_H
#define CLATTN_TOOLS_BENCH_SHAPES_H

#include "clattn.h"
#include "failure.h"
#include "options.h"

struct bench_shape {
    char name[48];
    clattn_problem problem; /* all that a shape, a type, a causal mode and a mask say */
};

struct bench_shapes {
    size_t n;
    struct bench_shape *shape;
};

/* The caller frees shapes->shape. */
int bench_shapes_read(const struct options *options, struct bench_shapes *shapes, struct failure *failure);

void bench_shape_text(const clattn_problem *problem, char *text, size_t capacity); /* "1,8,8,512,512,64,64" */

/* The shape's own name, or that text, in `text`. */
#define BENCH_SHAPE_TEXT 160
const char *bench_shape_name(const struct bench_shape *shape, char text[BENCH_SHAPE_TEXT]);

const char *bench_causal_name(const clattn_problem *problem); /* "top-left" */
const char *bench_mask_name(const clattn_problem *problem);   /* "float" */

#endif
