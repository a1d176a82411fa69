/* Merging: a kernel for each MERGE_AT_ONCE partials. Those after the first begin with what is merged so far. */
#include "layers/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static clattn_status get_kernel(clattn_context *context, const clattn_merge_problem *problem, clattn_type first_type,
                                struct kernel **kernel)
{
    char options[80];
    snprintf(options, sizeof(options), "-D TYPE=%d -D OUT_TYPE=%d -D FIRST_TYPE=%d", (int)problem->type,
             (int)problem->out_type, (int)first_type);
    return program_kernel(context, "merge.cl", options, "merge", kernel);
}

static clattn_status launch_merge(struct chain *chain, struct kernel *kernel, const clattn_merge_problem *problem,
                                  int count, const struct operands *operands)
{
    const size_t global[3] = { (size_t)problem->rows, (size_t)problem->heads, (size_t)problem->batch };
    const size_t local[3] = { 1, 1, 1 };
    struct launch_argument arguments[1 + 2 * MERGE_PLACES];
    clattn_merge_params params;
    memset(&params, 0, sizeof(params));
    operands_fill(operands, &params);
    params.count = count;
    params.heads = (int)problem->heads;
    params.rows = (int)problem->rows;
    params.columns = (int)problem->columns;
    arguments[0] = (struct launch_argument)ARGUMENT(params);
    for (int id = 0; id < 2 * MERGE_PLACES; ++id) {
        arguments[1 + id] = (struct launch_argument)ARGUMENT(operands->tensor[id].buffer);
    }
    return launch(chain, kernel, 3, global, local, 1 + 2 * MERGE_PLACES, arguments);
}

static clattn_status check(const clattn_context *context, const clattn_merge_problem *p, int64_t count)
{
    if (count < 1) {
        return error_set(CLATTN_INVALID_ARGUMENT, "count %" PRId64 ": must be at least 1", count);
    }
    if (count > MERGE_AT_ONCE && p->out_type != CLATTN_FLOAT32 && p->out_type != CLATTN_FLOAT64) {
        return error_set(CLATTN_UNSUPPORTED,
                         "count %" PRId64
                         ": more than %d partials are merged into a float32 out, which loses nothing on "
                         "the way, and out_type is %s; set out_type",
                         count, MERGE_AT_ONCE, clattn_type_name(p->out_type));
    }
    if (p->type == CLATTN_FLOAT64 && !context->device.has_fp64) {
        return error_set(CLATTN_UNSUPPORTED, "type float64: device \"%s\" has no float64", context->device.name);
    }
    return CLATTN_OK;
}

/* The partials that one command takes: as many as there is room for, the result so far before them after the first. */
struct turn {
    const clattn_partial *partials[MERGE_AT_ONCE];
    int count;
    clattn_type first_type;
    struct operands operands;
};

static clattn_status next_turn(const clattn_merge_problem *problem, int64_t count, const clattn_partial *partials,
                               const clattn_partial *merged, int64_t *done, struct turn *turn)
{
    turn->count = 0;
    turn->first_type = *done > 0 ? problem->out_type : problem->type;
    if (*done > 0) {
        turn->partials[turn->count++] = merged;
    }
    while (turn->count < MERGE_AT_ONCE && *done < count) {
        turn->partials[turn->count++] = &partials[(*done)++];
    }
    return merge_operands(problem, turn->first_type, count <= MERGE_AT_ONCE, turn->count, turn->partials, merged,
                          &turn->operands);
}

clattn_status merge_enqueue(clattn_context *context, const clattn_merge_problem *given, int64_t count,
                            const clattn_partial *partials, const clattn_partial *merged,
                            const struct enqueue_target *target)
{
    clattn_merge_problem problem;
    struct kernel *first = NULL, *later = NULL;
    clattn_status status = merge_problem_check(given, &problem);
    if (status == CLATTN_OK) {
        status = check(context, &problem, count);
    }
    if (status == CLATTN_OK) {
        status = get_kernel(context, &problem, problem.type, &first);
    }
    if (status == CLATTN_OK && count > MERGE_AT_ONCE) {
        status = get_kernel(context, &problem, problem.out_type, &later);
    }
    /* Everything is checked before the first command is enqueued. */
    struct turn turn;
    struct chain chain;
    for (int64_t done = 0; done < count && status == CLATTN_OK;) {
        status = next_turn(&problem, count, partials, merged, &done, &turn);
        if (status == CLATTN_OK) {
            status = enqueue_begin(context, target, &turn.operands, 0, &chain);
        }
    }
    if (status != CLATTN_OK) {
        return status;
    }
    for (int64_t done = 0; done < count && status == CLATTN_OK;) {
        struct kernel *kernel = done > 0 ? later : first;
        status = next_turn(&problem, count, partials, merged, &done, &turn);
        if (status == CLATTN_OK) {
            if (done == count) {
                chain_final(&chain);
            }
            status = launch_merge(&chain, kernel, &problem, turn.count, &turn.operands);
        }
    }
    return chain_end(&chain, status);
}
