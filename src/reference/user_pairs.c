/* Calls the callbacks of a user's code. */
#include "reference/user_pairs.h"

#include <math.h>

#include "base/error.h"
#include "base/stored_types.h"

clattn_status user_pairs_check(const struct problem *problem, int of_gradients)
{
    const struct user_code *code = problem->any.code;
    const char *missing = user_code_has(code, CLATTN_CODE_SCORE) && !code->p.score ? "score"
                          : user_code_has(code, CLATTN_CODE_MASK) && !code->p.mask ? "mask"
                          : of_gradients && user_code_has(code, CLATTN_CODE_SCORE) && !code->p.score_slope
                              ? "score_slope"
                              : NULL;
    return missing ? error_set(CLATTN_UNSUPPORTED,
                               "code.%s: is NULL: the reference computes with no device, by callbacks in place of the "
                               "text",
                               missing)
                   : CLATTN_OK;
}

double clattn_code_load(const clattn_code_inputs *inputs, int tensor, int64_t index)
{
    static const clattn_type types[] = { [CLATTN_ELEMENT_FLOAT32] = CLATTN_FLOAT32,
                                         [CLATTN_ELEMENT_FLOAT16] = CLATTN_FLOAT16,
                                         [CLATTN_ELEMENT_BFLOAT16] = CLATTN_BFLOAT16,
                                         [CLATTN_ELEMENT_FLOAT64] = CLATTN_FLOAT64 };
    if (!inputs || tensor < 0 || tensor >= inputs->code->tensor_count || index < 0 ||
        index >= inputs->code->tensors[tensor].elements) {
        return (double)NAN;
    }
    const void *data = inputs->tensors[tensor];
    const clattn_element element = inputs->code->tensors[tensor].element;
    return element == CLATTN_ELEMENT_INT32   ? (double)((const int32_t *)data)[index]
           : element == CLATTN_ELEMENT_UINT8 ? (double)((const uint8_t *)data)[index]
                                             : type_load(types[element], data, index);
}

/* What a callback is told, with the pair's numbers in a whole problem. */
struct told {
    clattn_code_inputs inputs;
    int64_t b, h, i, j;
};

static struct told tell(const struct user_pair *pair)
{
    const struct call *call = pair->call;
    const int64_t heads = call->whole_heads > 0 ? call->whole_heads : 1;
    const clattn_user_code *code = &pair->problem->any.code->p;
    struct told told = { { code,
                           { NULL },
                           call->code_scalars,
                           pair->sequence->offset + (int64_t)call->first_key - (int64_t)call->first_row },
                         pair->b + call->first_plane / heads,
                         pair->h + call->first_plane % heads,
                         pair->i + (int64_t)call->first_row,
                         pair->j + (int64_t)call->first_key };
    for (int i = 0; i < code->tensor_count; ++i) {
        const struct tensor_place *place = &call->operands.tensor[TENSOR_CODE_0 + i];
        told.inputs.tensors[i] = (const char *)place->data +
                                 place->offset * (int64_t)operand_bytes(&call->operands, TENSOR_CODE_0 + i);
    }
    return told;
}

int user_pair_is_visible(const struct user_pair *pair)
{
    const struct told at = tell(pair);
    return pair->problem->any.code->p.mask(at.b, at.h, at.i, at.j, &at.inputs) != 0;
}

/* By the text's own function where it has one. */
static double slope_of(const clattn_user_code *code, const struct told *at, double score)
{
    if (code->score_slope) {
        return code->score_slope(score, at->b, at->h, at->i, at->j, &at->inputs);
    }
    const double step = 1e-6 * (1 + fabs(score));
    return (code->score(score + step, at->b, at->h, at->i, at->j, &at->inputs) -
            code->score(score - step, at->b, at->h, at->i, at->j, &at->inputs)) /
           (2 * step);
}

unsigned char user_pair_change(const struct user_pair *pair, long double *score, long double *magnitude,
                               long double *slope)
{
    const struct told at = tell(pair);
    const clattn_user_code *code = &pair->problem->any.code->p;
    const long double changed = code->score((double)*score, at.b, at.h, at.i, at.j, &at.inputs);
    const long double by = slope_of(code, &at, (double)*score);
    if (slope) {
        *slope = by;
    }
    /* A score that counts for nothing may be NaN. */
    const long double kept = by != 0 ? by * *score : 0;
    *magnitude = (by != 0 ? fabsl(by) * *magnitude : 0) + fabsl(changed) + fabsl(changed - kept);
    *score = changed;
    return (unsigned char)(changed != -(long double)INFINITY);
}
