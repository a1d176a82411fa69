/* The gradients of a call against the reference, element by element. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stored_types.h"
#include "gradient_call.h"

static void check_gradient(struct gradient_call *g, const struct call *call, const struct gradient_sums *sums, int id,
                           struct gradient_verdict *verdict)
{
    const clattn_type type = call->operands.element[operation_backward.rows[id].element];
    const int is_float64 = g->test.problem.type == CLATTN_FLOAT64;
    const struct gradient_rounding rounding = { id <= GRADIENT_DVALUE ? g->weight_rounding : 0,
                                                g->test.terms_are_alike ? g->sum_roundings : 0 };
    const struct test_array *array = &g->arrays[id];
    for (int64_t at = 0; at < array->count; ++at) {
        const size_t bytes = array->element_bytes;
        if (!array->reached[at]) {
            if (memcmp(array->data + (size_t)at * bytes, g->before[id] + (size_t)at * bytes, bytes) != 0) {
                snprintf(verdict->first, sizeof(verdict->first), "%s: wrote between its elements, at %" PRId64,
                         operation_backward.rows[id].name, at);
                ++verdict->wrong;
            }
            continue;
        }
        const struct gradient_sum *sum = &sums->sums[at - sums->place->low];
        const double before = operand_is_read(&call->operands, id) ? type_load(type, g->before[id], at) : 0;
        const double got = type_load(type, array->data, at);
        const double need = gradient_sum_need(sum, type, is_float64, rounding, before, got);
        verdict->c[id] = fmax(verdict->c[id], need);
        if (need > GRADIENT_C && verdict->wrong++ == 0) {
            snprintf(verdict->first, sizeof(verdict->first),
                     "%s element %" PRId64 " is %.9g, should be %.9g: needs C = %.3g (%g terms, was %g)",
                     operation_backward.rows[id].name, at, got, before + (double)sum->sum, need, sum->terms, before);
        }
    }
}

clattn_status gradient_call_expect(struct gradient_call *g, struct gradient_expected *expected)
{
    struct backward_problem problem;
    memset(expected, 0, sizeof(*expected));
    clattn_status status = backward_problem_init(&problem, &g->problem);
    if (status == CLATTN_OK) {
        status = backward_call_from_host(&problem, &g->test.values, &g->test.tensors, &g->gradients, &expected->call);
    }
    return status == CLATTN_OK ? reference_backward_detail(&problem, &expected->call, &expected->detail) : status;
}

void gradient_call_judge(struct gradient_call *g, const struct gradient_expected *expected,
                         struct gradient_verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    for (int id = GRADIENT_DQUERY; id < BACKWARD_TENSOR_COUNT; ++id) {
        if (expected->detail.sums[id].place) {
            check_gradient(g, &expected->call, &expected->detail.sums[id], id, verdict);
        }
    }
}

void gradient_expected_free(struct gradient_expected *expected)
{
    backward_detail_free(&expected->detail);
}

clattn_status gradient_call_check(struct gradient_call *g, struct gradient_verdict *verdict)
{
    struct gradient_expected expected;
    memset(verdict, 0, sizeof(*verdict));
    const clattn_status status = gradient_call_expect(g, &expected);
    if (status == CLATTN_OK) {
        gradient_call_judge(g, &expected, verdict);
        gradient_expected_free(&expected);
    }
    return status;
}
