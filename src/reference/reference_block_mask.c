/* What blocks of a mask are, by the text's callback: of its pairs of a row and a key that there are, none, some or all
 * are seen. */
#include "cl/forward/forward_params.h"
#include "operation/block_mask.h"
#include "reference/user_pairs.h"
#include "reference/visibility.h"

static clattn_block block_of(const struct problem *problem, const struct call *call, int64_t b, int64_t h, int64_t m,
                             int64_t n)
{
    const struct sequence s = sequence_of(problem, call, b);
    const int64_t rows = problem->p.block_mask_rows, keys = problem->p.block_mask_keys;
    int64_t seen = 0, hidden = 0;
    for (int64_t i = m * rows; i < (m + 1) * rows && i < s.query_len; ++i) {
        for (int64_t j = n * keys; j < (n + 1) * keys && j < s.key_len; ++j) {
            const int sees = user_pair_is_visible(&(const struct user_pair){ problem, call, &s, b, h, i, j });
            seen += sees;
            hidden += !sees;
        }
    }
    return seen == 0 ? CLATTN_BLOCK_EMPTY : hidden == 0 ? CLATTN_BLOCK_FULL : CLATTN_BLOCK_PARTIAL;
}

clattn_status reference_block_mask(const struct any_problem *any, const struct operands *operands)
{
    const struct problem *problem = attention_problem(any);
    const struct call *call = attention_call(operands);
    const struct tensor_place *blocks = &operands->tensor[TENSOR_BLOCK_MASK];
    int64_t shape[4];
    const clattn_status status = user_pairs_check(problem, 0);
    operand_shape(operands, TENSOR_BLOCK_MASK, shape);
    for (int64_t b = 0; b < shape[0] && status == CLATTN_OK; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t m = 0; m < shape[2]; ++m) {
                for (int64_t n = 0; n < shape[3]; ++n) {
                    ((uint8_t *)blocks->data)[place_index(blocks, b, h, m, n)] =
                        (uint8_t)block_of(problem, call, b, h, m, n);
                }
            }
        }
    }
    return status;
}
