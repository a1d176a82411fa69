/* Arguments of sums of weights, and maxima of maxima. */
#include "strategy/key_sums_run.h"

#include <limits.h>

#include "base/checked_math.h"
#include "base/error.h"

void key_sums_call_of(const struct clattn_plan *plan, const struct operands *operands, struct key_sums_call *call)
{
    const struct tensor_place *sums = &operands->tensor[SUMS_KEY_SUMS], *most = &operands->tensor[SUMS_MAX_LOGIT];
    const int64_t last_rows = key_sums_problem(plan->problem)->p.last_rows;
    call->plan = plan;
    call->operands = operands;
    call->places = (clattn_key_sums_places){
        .sums_offset = sums->offset,
        .sums_stride = { sums->stride[0], sums->stride[1], sums->stride[3] },
        .max_offset = most->offset,
        .max_stride = { most->stride[0], most->stride[1] },
        .last_rows = last_rows > 0 && last_rows < INT_MAX ? (int)last_rows : INT_MAX,
    };
    attention_give(plan, operands, &call->given);
}

size_t key_sums_arguments(const struct key_sums_call *call, struct launch_argument *arguments)
{
    size_t count = attention_arguments(&call->given, arguments);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->places);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->operands->tensor[SUMS_KEY_SUMS].buffer);
    arguments[count++] = (struct launch_argument)ARGUMENT(call->operands->workspace);
    return count;
}

int key_sums_is_served(struct ask *ask)
{
    return attention_is_served(ask, sizeof(clattn_key_sums_places) + 3 * sizeof(cl_ulong));
}

double key_sums_rows(const struct ask *ask)
{
    const int64_t rows = attention_problem(ask->problem)->p.query_len;
    const int64_t first = key_sums_wants(ask->problem, CLATTN_MAX_LOGIT) ? 0 : key_sums_first_row(ask->problem, rows);
    return (double)(rows - first);
}

static int64_t parts_of(int64_t count)
{
    return count > KEY_SUMS_MAXIMA ? ceil_div(count, KEY_SUMS_MAXIMA) : 1;
}

clattn_status key_sums_measure(struct clattn_plan *plan, int64_t parts)
{
    if (!key_sums_wants(plan->problem, CLATTN_MAX_LOGIT)) {
        return CLATTN_OK;
    }
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    const int64_t factors[] = { p->batch, p->query_heads, parts + parts_of(parts), p->type == CLATTN_FLOAT64 ? 8 : 4 };
    const int64_t bytes = product_of_extents(factors, 4);
    plan->workspace_bytes = (size_t)bytes;
    return bytes >= 0 ? CLATTN_OK
                      : error_set(CLATTN_INVALID_SHAPE, "key_len %lld: the workspace does not fit 64 bits",
                                  (long long)p->key_len);
}

void key_sums_append_wants(const struct any_problem *problem, struct text *options)
{
    _Static_assert(WANTED_SUMS == CLATTN_KEY_SUMS && WANTED_MAX == CLATTN_MAX_LOGIT, "kernels have the same bits");
    text_append(options, " -D WANTS=%u", (unsigned)key_sums_problem(problem)->p.outputs);
}

clattn_status key_sums_launch(const struct key_sums_call *call, struct kernel *kernel, int keys, size_t work_items,
                              double groups_most, int is_last, struct chain *chain)
{
    const clattn_params *p = &call->given.params;
    struct launch_part part = launch_parts(ceil_div(p->key_len, keys), (int64_t)p->batch * p->query_heads, groups_most);
    clattn_status status = CLATTN_OK;
    while (status == CLATTN_OK && launch_next(&part)) {
        const cl_int first_key = (cl_int)(part.first * keys), first_plane = (cl_int)part.first_plane;
        const size_t local[3] = { work_items, 1, 1 };
        const size_t global[3] = { (size_t)part.count * work_items, 1, (size_t)part.planes };
        struct launch_argument arguments[KEY_SUMS_ARGUMENTS_MOST];
        const size_t count = key_sums_arguments(call, arguments);
        arguments[count] = (struct launch_argument)ARGUMENT(first_key);
        arguments[count + 1] = (struct launch_argument)ARGUMENT(first_plane);
        if (part.is_last && is_last) {
            chain_final(chain);
        }
        status = launch(chain, kernel, 3, global, local, count + 2, arguments);
    }
    return status;
}

clattn_status key_sums_build_largest(struct ask *ask, struct kernel **kernel)
{
    struct text options = TEXT_INIT;
    if (!key_sums_wants(ask->problem, CLATTN_MAX_LOGIT)) {
        return CLATTN_OK;
    }
    append_type_options(attention_problem(ask->problem), &options);
    const clattn_status status = ask_kernel(ask, "key_sums/largest_logit.cl", &options, "largest_logit", kernel, NULL);
    text_free(&options);
    return status;
}

clattn_status key_sums_largest(const struct key_sums_call *call, struct kernel *kernel, int64_t count,
                               struct chain *chain)
{
    const clattn_params *p = &call->given.params;
    const cl_int heads = p->query_heads;
    const int64_t planes = (int64_t)p->batch * heads;
    cl_long from_at = 0, to_at = planes * count;
    clattn_status status = CLATTN_OK;
    for (int is_done = !kernel; !is_done && status == CLATTN_OK;) {
        const int64_t parts = parts_of(count);
        const cl_int cl_count = (cl_int)count, cl_parts = (cl_int)parts;
        const size_t local[3] = { 1, 1, 1 };
        const size_t global[3] = { (size_t)(parts * planes), 1, 1 };
        const struct launch_argument arguments[] = {
            ARGUMENT(call->places),
            ARGUMENT(call->operands->workspace),
            ARGUMENT(call->operands->tensor[SUMS_MAX_LOGIT].buffer),
            ARGUMENT(from_at),
            ARGUMENT(to_at),
            ARGUMENT(cl_count),
            ARGUMENT(cl_parts),
            ARGUMENT(heads),
        };
        is_done = parts == 1;
        if (is_done) {
            chain_final(chain);
        }
        status = launch(chain, kernel, 1, global, local, sizeof(arguments) / sizeof(arguments[0]), arguments);
        const cl_long next = from_at; /* what was read may be written to: less is written than was read */
        from_at = to_at;
        to_at = next;
        count = parts;
    }
    return status;
}
