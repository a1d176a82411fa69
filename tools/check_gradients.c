#include "check_gradients.h"

#include <math.h>
#include <stdlib.h>

#include "insides.h"

_Static_assert(BACKWARD_TENSOR_COUNT - GRADIENT_DQUERY == GRADIENT_KINDS, "a gradient more: its place in checks");

static void check_one(const struct call *call, const struct gradient_sums *sums, int id, int is_float64,
                      const clattn_plan *plan, struct gradient_check *check)
{
    const clattn_type type = call->operands.element[operation_backward.rows[id].element];
    const struct gradient_rounding rounding = { id <= GRADIENT_DVALUE ? clattn_plan_weight_rounding(plan) : 0,
                                                clattn_plan_sum_roundings(plan) };
    int64_t shape[4];
    operand_stored_shape(&call->operands, id, shape);
    check->there = 1;
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; ++n) {
        const int64_t i = n / shape[3], h = i / shape[2];
        const int64_t at = place_index(sums->place, h / shape[1], h % shape[1], i % shape[2], n % shape[3]);
        const struct gradient_sum *sum = &sums->sums[at - sums->place->low];
        const double got = type_load(type, sums->place->data, at), error = fabs(got - (double)sum->sum);
        const double need = gradient_sum_need(sum, type, is_float64, rounding, 0, got);
        check->largest_error = error > check->largest_error ? error : check->largest_error;
        check->share = fmax(check->share, need / GRADIENT_C);
    }
}

int check_gradients(const clattn_backward_problem *problem, const clattn_call *values,
                    const clattn_host_tensors *tensors, const clattn_host_gradients *gradients, const clattn_plan *plan,
                    struct gradient_check *check, struct failure *failure)
{
    struct backward_problem checked;
    struct call call;
    struct backward_detail detail = { .own_forward = 0 };
    clattn_status status = backward_problem_init(&checked, problem);
    if (status == CLATTN_OK) {
        status = backward_call_from_host(&checked, values, tensors, gradients, &call);
    }
    if (status == CLATTN_OK) {
        status = reference_backward_detail(&checked, &call, &detail);
    }
    if (status != CLATTN_OK) {
        return failure_failed(failure, "check: the reference: %s", clattn_last_error());
    }
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (detail.sums[id].place) {
            check_one(&call, &detail.sums[id], id, checked.attention.p.type == CLATTN_FLOAT64, plan,
                      &check[id - GRADIENT_DQUERY]);
        }
    }
    backward_detail_free(&detail);
    return 0;
}

double check_gradients_share(const struct gradient_check *check)
{
    double share = 0;
    for (int i = 0; i < GRADIENT_KINDS; i++) {
        share = fmax(share, check[i].share);
    }
    return share;
}
