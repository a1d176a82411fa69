/* Known answers of a plan's own programs. */
#include "plan/self_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/host_session.h"
#include "program/verdicts.h"
#include "self_check/self_check_call.h"

static int has_gradients(const struct clattn_plan *plan)
{
    return check_is_of_gradients(plan->problem);
}

static struct check_rounding rounding_of(const struct clattn_plan *plan)
{
    return (struct check_rounding){ plan->weight_rounding, plan->factor_rounding, plan->sum_roundings };
}

/* Why nobody knows the answers of a problem with a text of the user's own; NULL: the text's callbacks do. */
static const char *code_is_unchecked(const struct clattn_plan *plan)
{
    const struct user_code *code = plan->problem->code;
    const clattn_user_code *p = code ? &code->p : NULL;
    if (!code) {
        return NULL;
    }
    if ((user_code_has(code, CLATTN_CODE_SCORE) && !p->score) || (user_code_has(code, CLATTN_CODE_MASK) && !p->mask) ||
        (has_gradients(plan) && user_code_has(code, CLATTN_CODE_SCORE) && !p->score_slope)) {
        return "the text has no callbacks in C";
    }
    /* Rows of other positions than the caller's may lead it out of its tensors. */
    return p->tensor_count > 0 && attention_problem(plan->problem)->p.alignment == CLATTN_ALIGN_OFFSETS
               ? "the text's tensors may not have what its positions ask for"
               : NULL;
}

/* CL_OUT_OF_RESOURCES is what drivers say of kernels that fault or need more than the device has, too. */
static int memory_ran_out(clattn_status status)
{
    return status == CLATTN_OUT_OF_HOST_MEMORY ||
           (status == CLATTN_OUT_OF_DEVICE_MEMORY && error_native() != CL_OUT_OF_RESOURCES);
}

/* A call of the plan's kernels for a problem that is smaller than its own, whose tensors have so many elements. On a
 * queue of its own: what callers have enqueued may wait for them. What the driver refuses is a wrong answer too, unless
 * memory ran out. */
static clattn_status run(const struct clattn_plan *plan, struct any_problem *problem, const struct call *of,
                         const int64_t *elements, struct text *bad)
{
    struct clattn_plan small = *plan;
    struct call call = *of;
    cl_int code;
    small.problem = problem;
    cl_command_queue queue = clCreateCommandQueue(plan->context->cl, plan->context->device.id, 0, &code);
    if (code != CL_SUCCESS) {
        return error_opencl(code, "clCreateCommandQueue", "for a self-check");
    }
    for (int id = 0; id < problem->operation->count; ++id) { /* buffers are all of the memory */
        call.operands.tensor[id].low = 0;
        call.operands.tensor[id].high = elements[id];
    }
    const clattn_status status = host_session_run(&small, queue, &call.operands, HOST_CONTENT_TRIAL);
    clReleaseCommandQueue(queue);
    if (status == CLATTN_OK || memory_ran_out(status)) {
        return status;
    }
    text_append(bad, "a known answer could not be computed: %s", error_text());
    return CLATTN_OK;
}

static clattn_status judge_attention(const struct clattn_plan *plan, enum check_turn turn, struct text *bad)
{
    struct check_call *check = calloc(1, sizeof(*check));
    if (!check) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    }
    clattn_status status = check_call_create(attention_problem(plan->problem), turn, 0, check);
    if (status == CLATTN_OK) {
        status = run(plan, &check->problem.any, &check->call, check->elements, bad);
    }
    if (status == CLATTN_OK && bad->length == 0) {
        const struct check_rounding rounding = rounding_of(plan);
        status = check_answers(&rounding, check, bad);
    }
    check_call_free(check);
    free(check);
    return status;
}

static clattn_status judge_gradients(const struct clattn_plan *plan, enum check_turn turn, struct text *bad)
{
    struct check_gradients *check = calloc(1, sizeof(*check));
    if (!check) {
        return error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    }
    clattn_status status = check_gradients_create(backward_problem(plan->problem), turn, check);
    if (status == CLATTN_OK) {
        status = run(plan, &check->problem.attention.any, &check->call, check->elements, bad);
    }
    if (status == CLATTN_OK && bad->length == 0) {
        const struct check_rounding rounding = rounding_of(plan);
        status = check_gradient_answers(&rounding, check, bad);
    }
    check_gradients_free(check);
    free(check);
    return status;
}

static clattn_status judge(const struct clattn_plan *plan, struct text *bad)
{
    clattn_status (*const judge_of)(const struct clattn_plan *, enum check_turn, struct text *) =
        has_gradients(plan) ? judge_gradients : judge_attention;
    struct error_record before;
    clattn_status status = CLATTN_OK;
    error_save(&before); /* a wrong answer is no failure of the call */
    for (enum check_turn turn = CHECK_TILES; turn < CHECK_TURNS && status == CLATTN_OK && bad->length == 0; ++turn) {
        status = check_has_turn(attention_problem(plan->problem), turn, has_gradients(plan)) ? judge_of(plan, turn, bad)
                                                                                             : CLATTN_OK;
    }
    if (status == CLATTN_OK) {
        error_restore(&before);
    }
    return status;
}

static clattn_status try_plan(const struct clattn_plan *plan, const struct program_key *key, const char *what,
                              struct text *explain, struct text *bad)
{
    struct verdict_trial trial;
    const enum verdict_kind kind = verdicts_begin(plan->context->verdicts, key, what, &trial, bad);
    if (kind != VERDICT_NONE) {
        text_append(explain, "  self-check: good, as found before\n");
        return bad->failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check") : CLATTN_OK;
    }
    const clattn_status status = judge(plan, bad);
    verdicts_end(&trial,
                 status != CLATTN_OK || bad->failed ? VERDICT_NONE
                 : bad->length                      ? VERDICT_BAD
                                                    : VERDICT_GOOD,
                 bad->data ? bad->data : "its known answers");
    text_append(explain, "  self-check: good, its known answers were right\n");
    return status == CLATTN_OK && bad->failed ? error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check")
                                              : status;
}

clattn_status self_check(const struct clattn_plan *plan, const struct program_uses *uses, struct text *explain,
                         struct text *bad)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    if (!plan->context->verdicts || (plan->problem->operation != &operation_forward && !has_gradients(plan)) ||
        p->batch <= 0 || p->kv_heads <= 0 || p->query_len <= 0) {
        return CLATTN_OK;
    }
    const char *unknown = code_is_unchecked(plan);
    if (unknown) {
        text_append(explain, "  self-check: none, %s\n", unknown);
        return CLATTN_OK;
    }
    if (p->page_size > CHECK_PAGE_ROWS) { /* a page is filled whole */
        text_append(explain, "  self-check: none, pages of %" PRId64 " keys are too large for one\n", p->page_size);
        return CLATTN_OK;
    }
    struct text of = TEXT_INIT, what = TEXT_INIT;
    struct program_key key;
    clattn_status status = CLATTN_OK;
    text_append(&of, "%s ", plan->strategy->name);
    check_describe(plan->problem, &of);
    text_append(&what, "a known answer of %s (%s%s)", plan->strategy->name, has_gradients(plan) ? "gradients, " : "",
                clattn_type_name(p->type));
    if (of.failed || what.failed || uses->kernels.failed) {
        status = error_set(CLATTN_OUT_OF_HOST_MEMORY, "out of memory for a self-check");
    } else {
        const char *const texts[] = { of.data, uses->kernels.data ? uses->kernels.data : "" };
        verdicts_key(plan->context->verdicts, texts, 2, &key);
        status = try_plan(plan, &key, what.data, explain, bad);
    }
    text_free(&of);
    text_free(&what);
    return status;
}
