/* A multi-head layer on host memory: separate weights are packed on the way, where that is one multiply for three. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "layers/mha_layer.h"
#include "operation/any_call.h"

/* Packed weights are one multiply: worth a copy on the host. */
static int can_be_packed(const struct mha_problem *problem)
{
    const uint32_t biases = CLATTN_MHA_BIAS_QUERY | CLATTN_MHA_BIAS_KEY | CLATTN_MHA_BIAS_VALUE;
    const uint32_t given = problem->p.parts & biases;
    return !(problem->p.parts & CLATTN_MHA_PACKED) && (given == 0 || given == biases) &&
           problem->p.context_dim == problem->p.model_dim;
}

/* Three dense tensors, `first` and the two after it, behind one another. The caller frees. */
static void *pack(clattn_context *context, const struct operands *operands, enum mha_tensor first)
{
    size_t bytes[3], total = 0;
    for (int i = 0; i < 3; ++i) {
        int64_t shape[4];
        operand_shape(operands, (int)first + i, shape);
        bytes[i] = (size_t)(shape[2] * shape[3]) * operand_bytes(operands, (int)first + i);
        total += bytes[i];
    }
    char *packed = malloc(total), *to = packed;
    atomic_fetch_add(&context->copied, packed ? total : 0);
    for (int i = 0; i < 3 && packed; ++i) {
        memcpy(to, operands->tensor[(int)first + i].data, bytes[i]);
        to += bytes[i];
    }
    return packed;
}

/* Runs the layer with its weights in one matrix. */
static clattn_status run_packed(clattn_context *context, const struct mha_problem *problem,
                                const struct operands *operands)
{
    clattn_mha_problem packed = problem->p;
    const int has_bias = (packed.parts & CLATTN_MHA_BIAS_QUERY) != 0;
    struct mha_problem checked;
    struct operands packed_operands;
    void *weights = pack(context, operands, MHA_WQ), *biases = has_bias ? pack(context, operands, MHA_BQ) : NULL;
    clattn_status status = CLATTN_OK;
    packed.parts |= CLATTN_MHA_PACKED;
    packed.strategy = *problem->attention.any.strategy_name ? problem->attention.any.strategy_name : NULL;
    if (!weights || (has_bias && !biases)) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for packed weights");
    }
    if (status == CLATTN_OK) {
        status = any_problem_init(&checked.any, &operation_mha, &packed);
    }
    if (status == CLATTN_OK) {
        status = any_call_largest(&checked.any, &packed_operands);
    }
    if (status == CLATTN_OK) {
        static const enum mha_tensor gone[] = { MHA_WK, MHA_WV, MHA_BK, MHA_BV };
        memcpy(packed_operands.tensor, operands->tensor, sizeof(operands->tensor));
        packed_operands.tensor[MHA_WQ].data = weights;
        packed_operands.tensor[MHA_BQ].data = biases;
        for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); ++i) {
            packed_operands.tensor[gone[i]].data = NULL;
        }
        status = operands_check(&packed_operands);
    }
    if (status == CLATTN_OK) {
        status = layer_run(context, &layer_mha, &checked.any, &packed_operands);
    }
    free(weights);
    free(biases);
    return status;
}

clattn_status mha_run_on_host(clattn_context *context, const struct any_problem *any, struct operands *operands)
{
    const struct mha_problem *problem = mha_problem_of(any);
    return can_be_packed(problem) ? run_packed(context, problem, operands)
                                  : layer_run(context, &layer_mha, any, operands);
}
