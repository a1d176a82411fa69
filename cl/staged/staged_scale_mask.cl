/* scale_mask: scores become logits, in place: softcap, bias, slopes and masks, in the formula's order. (The
 * scale itself came with the product.) The second kernel of the staged strategy; left out where bounds on
 * the keys say all, as for causal and key lengths alone.
 *
 *     group id 0: row of the chunk     1: plane     local id 0: keys j, j + ITEMS, ...
 *
 * A hidden key gets HIDDEN_LOGIT, whatever its score was. Writes the caller's weights when these are scores
 * or logits, for every key. */
#include "forward/arguments.clh"
#include "forward/epilogue.clh"
#include "pair/hidden.clh"
#include "pair/logit.clh"
#include "staged/staged_params.h"

__kernel void scale_mask(ATTENTION_ARGUMENTS, const staged_chunk chunk, __global REAL *scores)
{
    ATTENTION_INPUTS(p, in);
    const int plane = chunk.first_plane + (int)get_group_id(1);
    const int b = plane / p->query_heads, h = plane % p->query_heads;
    const int i = chunk.first_row + (int)get_group_id(0);
    const sequence s = sequence_of(p, &in, b);
    const int exists = i < s.query_len;
    const int writes_weights = p->weights != 0 && p->weights != CLATTN_CL_WEIGHTS_SOFTMAX;
    const int first = writes_weights ? 0 : exists ? key_low(p, &s, i) : 0;
    const int last = writes_weights ? p->key_len : exists ? key_high(p, &s, i) : 0;
    pair_row pairs = { b, h, i, 0, 0, 0, { 0 } };
    if (exists) {
        pairs = pair_row_of(p, &in, &s, b, h, i);
    }
    __global REAL *row = scores + get_group_id(1) * chunk.plane_stride +
                         get_group_id(0) * chunk.row_stride;
    const clattn_i64 weights_at = weights_row_at(p, b, h, i);

    for (int j = first + (int)get_local_id(0); j < last; j += (int)get_local_size(0)) {
        const int stored = exists && j < s.stored_len;
        const REAL score = stored ? row[j] : (REAL)0;
        REAL logit = score;
        const int allowed = stored && finish_logit(p, &in, &s, &pairs, j, &logit);
        logit = allowed ? logit : -(REAL)INFINITY;
        if (writes_weights) {
            in.weights[weights_at + j * STRIDE(weights, 3)] =
                p->weights == CLATTN_CL_WEIGHTS_SCORES    ? score
                : p->weights == CLATTN_CL_WEIGHTS_SOFTCAP ? cap_score(p, score)
                                                          : logit;
        }
        if (exists) {
            row[j] = allowed ? (isnan(logit) ? (REAL)NAN : logit) : HIDDEN_LOGIT;
        }
    }
}
