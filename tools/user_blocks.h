/* The mask of blocks that a mask text makes: --blocks, and what `clattn explain` tells of a text. */
#ifndef CLATTN_TOOLS_USER_BLOCKS_H
#define CLATTN_TOOLS_USER_BLOCKS_H

#include "clattn_code.h"
#include "failure.h"
#include "options.h"
#include "tensor.h"

struct user_blocks {
    struct tensor mask; /* [batch, heads, blocks of rows, blocks of keys]; data NULL: there is none */
    int64_t all, partial, full;
};

/* --blocks ROWS,KEYS into the problem, which has its text already; nothing where it is not given. */
int user_blocks_read(const struct options *options, clattn_problem *problem, struct failure *failure);

/* Runs the text over all pairs of a problem that has such blocks, places the mask in `host` and counts. The caller ends
 * with user_blocks_free. */
int user_blocks_make(const struct options *options, clattn_context *context, const clattn_problem *problem,
                     const clattn_call *call, clattn_host_tensors *host, struct user_blocks *blocks,
                     struct failure *failure);
void user_blocks_free(struct user_blocks *blocks);

/* "blocks    of 64 x 64: 0.094 of them seen (32 full, 64 partial of 1024)", without the label. */
#define USER_BLOCKS_TEXT 160
const char *user_blocks_text(const clattn_problem *problem, const struct user_blocks *blocks,
                             char text[USER_BLOCKS_TEXT]);

#endif
