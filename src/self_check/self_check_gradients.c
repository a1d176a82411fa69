/* Known answers of gradients: a call of attention as self_check_call.c makes it, what its out and lse are by the
 * reference, dout and dlse; and the gradients held against the reference by the bound of docs/numbers.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/stored_types.h"
#include "reference/reference.h"
#include "reference/reference_backward.h"
#include "reference/visibility.h"
#include "self_check/self_check_call.h"

#define MARGIN 4.0 /* times GRADIENT_C, to which the tests hold the kernels */

/* Rows of dout: some count for much more than others, and would drown what others of their tile add. */
#define LOUD_ROW 40.0
#define QUIET_ROW 0.05
#define EQUAL_GRADIENT 1.8 /* of all rows, in the turn of equal terms */

struct index {
    int64_t b, h, i, c;
};

/* The index of an element, by its number in a tensor of this shape. */
static struct index index_of(const int64_t n[4], int64_t element)
{
    const int64_t row = element / n[3];
    return (struct index){ row / n[2] / n[1], row / n[2] % n[1], row % n[2], element % n[3] };
}

/* One element of dout in the last head of the last sequence: whatever its row sees has no gradients that are numbers,
 * all else has. That leaves something to tell where rows see a few keys, or there are other heads. */
static int is_lost(const struct check_call *check, const int64_t n[4], const struct index *at)
{
    const clattn_problem *p = &check->problem.p;
    const int is_here = check->turn == CHECK_FEW ||
                        (check->turn == CHECK_TALL && (p->causal || p->batch > 1 || p->kv_heads > 1));
    const int64_t middle = n[2] > 2 ? (n[2] + 1) / 2 : 0; /* row 1 may see nothing */
    return is_here && at->b == n[0] - 1 && at->h == n[1] - 1 && at->i == middle && at->c == n[3] / 2;
}

static double value_of(const struct check_call *check, int id, const int64_t n[4], const struct index *at,
                       int64_t element)
{
    const double any = check_number(check, id, element);
    return check->turn == CHECK_EQUAL     ? EQUAL_GRADIENT
           : id != GRADIENT_DOUT          ? any
           : is_lost(check, n, at)        ? (double)NAN
           : (at->i + at->h) % 11 == 4    ? LOUD_ROW * any
           : (at->i + 3 * at->h) % 5 == 2 ? QUIET_ROW * any
                                          : any;
}

/* Gradients that are added to something have that; others, and what is between elements, stay 0xff. */
static void fill(const struct check_call *check, const struct operands *operands, int id,
                 const clattn_host_tensor *tensor)
{
    const clattn_type type = operands->element[operand_row(operands, id)->element];
    int64_t n[4];
    operand_shape(operands, id, n);
    if (!operand_is_read(operands, id)) {
        return;
    }
    for (int64_t element = 0; element < n[0] * n[1] * n[2] * n[3]; ++element) {
        const struct index at = index_of(n, element);
        const int64_t place = tensor->offset + at.b * tensor->stride[0] + at.h * tensor->stride[1] +
                              at.i * tensor->stride[2] + at.c * tensor->stride[3];
        type_store(type, tensor->data, place, value_of(check, id, n, &at, element));
    }
}

/* The tensor of the forward's that a gradient, or what is given beside it, lies like. */
static int like_of(int id)
{
    static const int like[BACKWARD_TENSOR_COUNT] = {
        [GRADIENT_DOUT] = TENSOR_KEY,     [GRADIENT_DLSE] = TENSOR_LSE,     [GRADIENT_DQUERY] = TENSOR_QUERY,
        [GRADIENT_DKEY] = TENSOR_VALUE,   [GRADIENT_DVALUE] = TENSOR_KEY,   [GRADIENT_DBIAS] = TENSOR_BIAS,
        [GRADIENT_DSLOPES] = TENSOR_BIAS, [GRADIENT_DSINKS] = TENSOR_SINKS, [GRADIENT_DSCALE] = TENSOR_SINKS,
    };
    return like[id];
}

static clattn_status make_tensor(struct check_gradients *check, const struct operands *operands, int id)
{
#define FIELD_OF_ROW(id, field, axes, element, access, place, asked_by)                                                \
    [GRADIENT_##id] = offsetof(clattn_host_gradients, field),
    static const size_t field_at[BACKWARD_TENSOR_COUNT] = { CLATTN_GRADIENT_TENSORS(FIELD_OF_ROW) };
#undef FIELD_OF_ROW
    clattn_host_tensor tensor = CLATTN_TENSOR_NONE;
    clattn_status status =
        check_place(&check->forward, operands, id, like_of(id), &tensor, &check->memory[id], &check->elements[id]);
    if (status != CLATTN_OK) {
        return status;
    }
    memcpy((char *)&check->tensors + field_at[id], &tensor, sizeof(tensor));
    fill(&check->forward, operands, id, &tensor);
    if (operand_is_written(operands, id) && operand_is_read(operands, id)) {
        const size_t bytes = (size_t)check->elements[id] * operand_bytes(operands, id);
        if (!(check->before[id] = malloc(bytes))) {
            return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
        }
        memcpy(check->before[id], tensor.data, bytes);
    }
    return CLATTN_OK;
}

clattn_status check_gradients_create(const struct backward_problem *problem, enum check_turn turn,
                                     struct check_gradients *check)
{
    memset(check, 0, sizeof(*check));
    check->tensors = (clattn_host_gradients)CLATTN_HOST_GRADIENTS_INIT;
    clattn_status status = check_call_create(&problem->attention, turn, 1, &check->forward);
    if (status == CLATTN_OK) {
        status = reference_forward(&check->forward.problem.any, &check->forward.call.operands);
    }
    check->problem = *problem;
    check->problem.attention = check->forward.problem;
    check->problem.attention.any = problem->attention.any;
    memcpy(check->elements, check->forward.elements, sizeof(*check->elements) * ALL_TENSOR_COUNT);
    struct operands operands = check->forward.call.operands; /* its extents */
    operands.operation = &operation_backward;
    backward_ask(&check->problem, &operands);
    for (int id = ALL_TENSOR_COUNT; id < BACKWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        status = operand_is_asked(&operands, id) ? make_tensor(check, &operands, id) : CLATTN_OK;
    }
    return status == CLATTN_OK ? backward_call_from_host(&check->problem, &check->forward.values,
                                                         &check->forward.tensors, &check->tensors, &check->call)
                               : status;
}

void check_gradients_free(struct check_gradients *check)
{
    check_call_free(&check->forward);
    for (int id = 0; id < BACKWARD_TENSOR_COUNT; ++id) {
        free(check->memory[id]);
        free(check->before[id]);
    }
}

/* Each element once, also where strides of 0 lead to it from many indices. */
static void judge(const struct check_rounding *of_plan, const struct check_gradients *check,
                  const struct gradient_sums *sums, int id, struct text *bad)
{
    const struct operands *operands = &check->call.operands;
    const clattn_type type = operands->element[operand_row(operands, id)->element];
    const int is_float64 = check->problem.attention.p.type == CLATTN_FLOAT64;
    const int is_equal = check->forward.turn == CHECK_EQUAL;
    const struct gradient_rounding rounding = { id <= GRADIENT_DVALUE ? of_plan->weights : 0,
                                                is_equal ? of_plan->sums : 0 };
    const double most = (is_equal ? 1 : MARGIN) * GRADIENT_C;
    int64_t n[4];
    operand_stored_shape(operands, id, n);
    for (int64_t element = 0; element < n[0] * n[1] * n[2] * n[3]; ++element) {
        const struct index index = index_of(n, element);
        const int64_t at = place_index(sums->place, index.b, index.h, index.i, index.c);
        const struct gradient_sum *sum = &sums->sums[at - sums->place->low];
        const double before = check->before[id] ? type_load(type, check->before[id], at) : 0;
        const double got = type_load(type, sums->place->data, at);
        if (gradient_sum_need(sum, type, is_float64, rounding, before, got) > most) {
            const int64_t axes[4] = { index.b, index.h, index.i, index.c };
            check_says_wrong(operands, id, axes, got, before + (double)sum->sum, bad);
        }
    }
}

clattn_status check_gradient_answers(const struct check_rounding *rounding, const struct check_gradients *check,
                                     struct text *bad)
{
    struct backward_detail detail = { .own_forward = 0 };
    const clattn_status status = reference_backward_detail(&check->problem, &check->call, &detail);
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT && status == CLATTN_OK; ++id) {
        if (detail.sums[id].place) {
            judge(rounding, check, &detail.sums[id], id, bad);
            check_gaps(&check->call.operands, id, check->elements[id], bad);
        }
    }
    if (status == CLATTN_OK) {
        backward_detail_free(&detail);
    }
    return status;
}
