#include "check_cache.h"

#include <stdlib.h>
#include <string.h>

#include "check_row.h"
#include "insides.h"

/* A validated call, and what the reference says of it. */
struct job {
    struct problem problem;
    struct call call;
    struct reference_detail detail;
};

static int allocate(struct job *job, struct failure *failure)
{
    const clattn_problem *p = &job->problem.p;
    const size_t rows = (size_t)(p->batch * p->query_heads * job->call.query_len) + 1;
    job->detail.out = calloc(rows * (size_t)p->head_dim_v, sizeof(double));
    job->detail.value_spread = calloc(rows * (size_t)p->head_dim_v, sizeof(double));
    job->detail.lse = calloc(rows, sizeof(double));
    job->detail.magnitude = calloc(rows, sizeof(double));
    job->detail.allowed_keys = calloc(rows, sizeof(int64_t));
    if (job->detail.out && job->detail.value_spread && job->detail.lse && job->detail.magnitude &&
        job->detail.allowed_keys) {
        return 0;
    }
    return failure_failed(failure, "check: out of memory");
}

static void release(struct job *job)
{
    free(job->detail.out);
    free(job->detail.value_spread);
    free(job->detail.lse);
    free(job->detail.magnitude);
    free(job->detail.allowed_keys);
}

static double load(const struct tensor_place *place, clattn_type type, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return type_load(type, place->data, place_index(place, b, h, i, c));
}

static void compare_row(const struct job *job, const clattn_plan *plan, int64_t b, int64_t h, int64_t i,
                        struct check *check)
{
    const clattn_problem *p = &job->problem.p;
    const struct sequence sequence = sequence_of(&job->problem, &job->call, b);
    const int64_t batch = job->problem.flags & CLATTN_FLAG_VARLEN ? 0 : b, at = sequence.query_row + i;
    const int64_t row = (b * p->query_heads + h) * job->call.query_len + i;
    const struct reference_detail *detail = &job->detail;
    const struct check_rounding rounding = check_rounding_of(plan);
    const struct check_row bound =
        check_row_of(p, detail->magnitude[row], (double)detail->allowed_keys[row], &rounding);
    for (int64_t c = 0; c < p->head_dim_v; c++) {
        const int64_t n = row * p->head_dim_v + c;
        check_out(&bound, load(&job->call.operands.tensor[TENSOR_OUT], p->out_type, batch, h, at, c), detail->out[n],
                  detail->value_spread[n], check);
    }
    if (job->problem.flags & CLATTN_FLAG_LSE) {
        check_lse(&bound, load(&job->call.operands.tensor[TENSOR_LSE], CLATTN_FLOAT32, batch, h, at, 0),
                  detail->lse[row], check);
    }
    check->rows_checked++;
}

static void compare(const struct job *job, const clattn_plan *plan, struct check *check)
{
    for (int64_t b = 0; b < job->problem.p.batch; b++) {
        const int64_t rows = sequence_of(&job->problem, &job->call, b).query_len;
        for (int64_t n = 0; n < job->problem.p.query_heads * rows; n++) {
            compare_row(job, plan, b, n / rows, n % rows, check);
        }
    }
    check->rows_all = check->rows_checked;
}

int check_cache(const clattn_problem *problem, const clattn_call *values, const clattn_host_tensors *tensors,
                const clattn_plan *plan, struct check *check, struct failure *failure)
{
    struct job job;
    memset(&job, 0, sizeof job);
    memset(check, 0, sizeof *check);
    clattn_status status = problem_init(&job.problem, problem);
    if (status == CLATTN_OK) {
        status = call_from_host(&job.problem, values, tensors, &job.call);
    }
    if (status != CLATTN_OK) {
        return failure_failed(failure, "check: the reference: %s", clattn_last_error());
    }
    int result = allocate(&job, failure);
    if (result == 0 && reference_forward_detail(&job.problem, &job.call, &job.detail) != CLATTN_OK) {
        result = failure_failed(failure, "check: the reference: %s", clattn_last_error());
    }
    if (result == 0) {
        compare(&job, plan, check);
    }
    release(&job);
    return result;
}
