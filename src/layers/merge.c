/* Merging: a kernel for each MERGE_AT_ONCE partials, a turn. What turns hand on lies in a buffer of the call's own,
 * which the driver keeps until the commands are done. */
#include "layers/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"

static clattn_status get_kernel(clattn_context *context, const clattn_merge_problem *problem, struct kernel **kernel)
{
    char options[80];
    snprintf(options, sizeof(options), "-D TYPE=%d -D OUT_TYPE=%d", (int)problem->type, (int)problem->out_type);
    return program_kernel(context, "layers/merge.cl", options, "merge", kernel);
}

/* The partials that one command takes, of a call's: those from `first` on. */
struct turn {
    int64_t first, all;
    int count;
    struct operands operands;
};

static clattn_status next_turn(const clattn_merge_problem *problem, const clattn_partial *partials,
                               const clattn_partial *merged, int64_t first, int64_t all, struct turn *turn)
{
    turn->first = first;
    turn->all = all;
    turn->count = (int)(all - first < MERGE_AT_ONCE ? all - first : MERGE_AT_ONCE);
    return merge_operands(problem, turn->count, partials + first, merged, &turn->operands);
}

static clattn_status launch_turn(struct chain *chain, struct kernel *kernel, const clattn_merge_problem *problem,
                                 const struct turn *turn, cl_mem state)
{
    const size_t global[3] = { (size_t)problem->rows, (size_t)problem->heads, (size_t)problem->batch };
    const size_t local[3] = { 1, 1, 1 };
    struct launch_argument arguments[2 + 2 * MERGE_PLACES];
    clattn_merge_params params;
    memset(&params, 0, sizeof(params));
    operands_fill(&turn->operands, &params);
    params.count = turn->count;
    params.is_first = turn->first == 0;
    params.is_last = turn->first + turn->count == turn->all;
    params.heads = (int)problem->heads;
    params.rows = (int)problem->rows;
    params.columns = (int)problem->columns;
    arguments[0] = (struct launch_argument)ARGUMENT(params);
    for (int id = 0; id < 2 * MERGE_PLACES; ++id) {
        arguments[1 + id] = (struct launch_argument)ARGUMENT(turn->operands.tensor[id].buffer);
    }
    arguments[1 + 2 * MERGE_PLACES] = (struct launch_argument)ARGUMENT(state);
    if (params.is_last) {
        chain_final(chain);
    }
    return launch(chain, kernel, 3, global, local, 2 + 2 * MERGE_PLACES, arguments);
}

static clattn_status check(const clattn_context *context, const clattn_merge_problem *p, int64_t count)
{
    if (count < 1) {
        return error_set(CLATTN_INVALID_ARGUMENT, "count %" PRId64 ": must be at least 1", count);
    }
    if (p->type == CLATTN_FLOAT64 && !context->device.has_fp64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: device \"%s\" has no float64", context->device.name);
    }
    return CLATTN_OK;
}

/* NULL where there is one turn, or no row. */
static clattn_status make_state(const clattn_context *context, const clattn_merge_problem *p, int64_t count,
                                cl_mem *state)
{
    const int64_t element_bytes = p->type == CLATTN_FLOAT64 ? 8 : 4;
    int64_t bytes = MERGE_STATE(p->columns) * element_bytes;
    cl_int code;
    *state = NULL;
    if (count <= MERGE_AT_ONCE || p->batch == 0 || p->heads == 0 || p->rows == 0) {
        return CLATTN_OK;
    }
    if (!checked_multiply(bytes, p->batch * p->heads, &bytes) || !checked_multiply(bytes, p->rows, &bytes)) {
        return error_set(CLATTN_INVALID_SHAPE, "rows %" PRId64 ": sums of so many partials need more than 2^63 bytes",
                         p->rows);
    }
    *state = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    return code == CL_SUCCESS
               ? CLATTN_OK
               : error_opencl(code, "clCreateBuffer", "sums of %" PRId64 " partials, %" PRId64 " bytes", count, bytes);
}

clattn_status merge_enqueue(clattn_context *context, const clattn_merge_problem *given, int64_t count,
                            const clattn_partial *partials, const clattn_partial *merged,
                            const struct enqueue_target *target)
{
    clattn_merge_problem problem;
    struct kernel *kernel = NULL;
    struct turn turn;
    struct chain chain;
    cl_mem state = NULL;
    clattn_status status = merge_problem_check(given, &problem);
    if (status == CLATTN_OK) {
        status = check(context, &problem, count);
    }
    if (status == CLATTN_OK) {
        status = get_kernel(context, &problem, &kernel);
    }
    /* Everything is checked before the first command is enqueued. */
    for (int64_t first = 0; first < count && status == CLATTN_OK; first += MERGE_AT_ONCE) {
        status = next_turn(&problem, partials, merged, first, count, &turn);
        if (status == CLATTN_OK) {
            status = enqueue_begin(context, target, &turn.operands, 0, &chain);
        }
    }
    if (status == CLATTN_OK) {
        status = make_state(context, &problem, count, &state);
    }
    if (status != CLATTN_OK) {
        return status;
    }
    for (int64_t first = 0; first < count && status == CLATTN_OK; first += MERGE_AT_ONCE) {
        status = next_turn(&problem, partials, merged, first, count, &turn);
        if (status == CLATTN_OK) {
            status = launch_turn(&chain, kernel, &problem, &turn, state);
        }
    }
    if (state) {
        clReleaseMemObject(state);
    }
    return chain_end(&chain, status);
}
