/* Checks the integer tensors of a host call, whose values can be read before anything is computed. */
#include <inttypes.h>

#include "base/error.h"
#include "operation/problem.h"

static const int32_t *values_of(const struct call *call, enum tensor_id id)
{
    const struct tensor_place *place = &call->tensor[id];
    return place->data ? (const int32_t *)place->data + place->offset : NULL;
}

static clattn_status check_seams(const struct problem *problem, const struct call *call,
                                 enum tensor_id id, int64_t most)
{
    const int32_t *seams = values_of(call, id);
    if (!seams) {
        return CLATTN_OK;
    }
    if (seams[0] != 0) {
        return error_set(CLATTN_INVALID_ARGUMENT, "%s[0] %d: must be 0", tensor_name(id), (int)seams[0]);
    }
    for (int64_t b = 0; b < problem->p.batch; ++b) {
        int64_t length = (int64_t)seams[b + 1] - seams[b];
        if (length < 0 || length > most) {
            return error_set(CLATTN_INVALID_ARGUMENT,
                             "%s[%" PRId64 "] %d: gives sequence %" PRId64 " %" PRId64
                             " rows; must be 0 to the problem's %" PRId64,
                             tensor_name(id), b + 1, (int)seams[b + 1], b, length, most);
        }
    }
    return CLATTN_OK;
}

clattn_status call_check_host_values(const struct problem *problem, const struct call *call)
{
    clattn_status status = check_seams(problem, call, TENSOR_CU_QUERY, problem->p.query_len);
    if (status == CLATTN_OK) {
        status = check_seams(problem, call, TENSOR_CU_KEY, problem->p.key_len);
    }
    const int32_t *lengths = values_of(call, TENSOR_KEY_LENGTHS);
    for (int64_t b = 0; lengths && b < problem->p.batch && status == CLATTN_OK; ++b) {
        if (lengths[b] < 0 || lengths[b] > call->key_len) {
            status = error_set(CLATTN_INVALID_ARGUMENT,
                               "key_lengths[%" PRId64 "] %d: must be 0 to key_len %" PRId64, b,
                               (int)lengths[b], call->key_len);
        }
    }
    return status;
}
