#include "user_blocks.h"

#include <stdio.h>

#include "library.h"

int user_blocks_read(const struct options *options, clattn_problem *problem, struct failure *failure)
{
    int64_t sides[2] = { 0, 0 };
    size_t n = 0;
    if (!options->value[OPTION_BLOCKS]) {
        return 0;
    }
    if (!problem->code || !(problem->code->functions & CLATTN_CODE_MASK)) {
        return failure_misuse(failure, "--blocks: is used only with a mask text; add --mask-text, or leave it out");
    }
    if (option_integers(options, OPTION_BLOCKS, sides, 2, &n, failure) != 0) {
        return -1;
    }
    if (n != 2 || sides[0] < 1 || sides[1] < 1 || sides[0] > INT32_MAX || sides[1] > INT32_MAX) {
        return failure_misuse(failure, "--blocks %s: must be ROWS,KEYS, each from 1 to %d",
                              options->value[OPTION_BLOCKS], INT32_MAX);
    }
    problem->features |= CLATTN_WITH_BLOCK_MASK;
    problem->block_mask_rows = sides[0];
    problem->block_mask_keys = sides[1];
    return 0;
}

static void count(struct user_blocks *blocks)
{
    const uint8_t *byte = blocks->mask.data;
    blocks->all = tensor_count(&blocks->mask);
    for (int64_t i = 0; i < blocks->all; i++) {
        blocks->partial += byte[i] == CLATTN_BLOCK_PARTIAL;
        blocks->full += byte[i] == CLATTN_BLOCK_FULL;
    }
}

int user_blocks_make(const struct options *options, clattn_context *context, const clattn_problem *problem,
                     const clattn_call *call, clattn_host_tensors *host, struct user_blocks *blocks,
                     struct failure *failure)
{
    const int64_t rows = problem->block_mask_rows, keys = problem->block_mask_keys;
    const int64_t shape[4] = { problem->batch, problem->query_heads, (problem->query_len + rows - 1) / rows,
                               (problem->key_len + keys - 1) / keys };
    if (tensor_create(&blocks->mask, TENSOR_UINT8, 4, shape, "blocks", failure) != 0) {
        return -1;
    }
    host->block_mask.data = blocks->mask.data;
    clattn_strides_bhsd(shape[1], shape[2], shape[3], host->block_mask.stride);
    clattn_problem of_blocks = *problem;
    of_blocks.strategy = NULL;
    const clattn_status status = clattn_block_mask_host(context, &of_blocks, call, host);
    if (status != CLATTN_OK) {
        return library_failure(options, status, failure);
    }
    count(blocks);
    return 0;
}

void user_blocks_free(struct user_blocks *blocks)
{
    tensor_free(&blocks->mask);
}

const char *user_blocks_text(const clattn_problem *problem, const struct user_blocks *blocks,
                             char text[USER_BLOCKS_TEXT])
{
    const int64_t seen = blocks->partial + blocks->full;
    snprintf(text, USER_BLOCKS_TEXT, "of %lld x %lld: %.3g of them are seen: %lld full, %lld partial, of %lld",
             (long long)problem->block_mask_rows, (long long)problem->block_mask_keys,
             blocks->all ? (double)seen / (double)blocks->all : 0, (long long)blocks->full, (long long)blocks->partial,
             (long long)blocks->all);
    return text;
}
