/* A FLASH_ATTN_EXT node of ggml as a call of clattn. */
#ifndef GGML_CLATTN_ATTENTION_H
#define GGML_CLATTN_ATTENTION_H

#include "mask.h"

#include "ggml.h"

#include <clattn.h>

#define ATTENTION_PLANS 32

/* A plan, and the maxima that it was made for. */
struct kept_plan {
    clattn_plan *plan; /* NULL: none yet */
    clattn_problem problem;
    uint64_t used; /* when it was last, by the count of calls */
};

/* What one backend has: no two threads use it at once. */
struct attention {
    clattn_context *context; /* not owned */
    cl_command_queue queue;
    struct kept_plan plans[ATTENTION_PLANS];
    uint64_t calls;
    const char *error; /* of what failed last */
    struct scratch ranges, lists, slopes, offsets, row, bias;
};

/* The context must outlive it. 0: failed, and attention->error says why; nothing needs releasing then. */
int attention_init(struct attention *attention, clattn_context *context);
void attention_release(struct attention *attention);

/* Computes a node that declined_reason takes, and waits for it. 0: failed, and attention->error says why. */
int attention_compute(struct attention *attention, const struct ggml_tensor *node);

/* clattn's name for what a cache has; CLATTN_TYPE_NONE: it has none. */
clattn_type attention_type(enum ggml_type type);

#endif
