/* Two rows of two columns at positions 0 and 1, all of them zeros. */
#include "small_cache.h"

#include <string.h>

#include "clattn_code.h"
#include "clattn_key_sums.h"

enum { ROWS = 2, COLUMNS = 2, BYTES = 64 };

clattn_status small_cache_plans(clattn_context *context, clattn_plan **rotary, clattn_plan **append)
{
    clattn_rotary_problem turn = CLATTN_ROTARY_PROBLEM_INIT;
    clattn_append_problem cache = CLATTN_APPEND_PROBLEM_INIT;
    turn.pairs = cache.pairs = CLATTN_PAIRS_HALVES;
    turn.query_len = cache.query_len = turn.positions = cache.positions = cache.capacity = ROWS;
    turn.head_dim = cache.head_dim = COLUMNS;
    cache.query_heads = 1;
    turn.features = CLATTN_WITH_STARTS;
    cache.features = CLATTN_WITH_STARTS | CLATTN_WITH_ROTARY;
    const clattn_status status = clattn_rotary_plan_create(context, &turn, rotary);
    return status == CLATTN_OK ? clattn_append_plan_create(context, &cache, append) : status;
}

static clattn_status block_mask_plan(clattn_context *context, clattn_plan **plan)
{
    clattn_user_code code = CLATTN_USER_CODE_INIT;
    clattn_problem problem = CLATTN_PROBLEM_INIT;
    code.source = "TRUTH clattn_mask(INDEX b, INDEX h, INDEX i, INDEX j, USER)\n{\n    return j <= i;\n}\n";
    code.functions = CLATTN_CODE_MASK;
    problem.query_len = problem.key_len = ROWS;
    problem.head_dim = COLUMNS;
    problem.features = CLATTN_WITH_BLOCK_MASK;
    problem.block_mask_rows = problem.block_mask_keys = 1;
    problem.code = &code;
    return clattn_block_mask_plan_create(context, &problem, plan);
}

static clattn_status key_sums_plan(clattn_context *context, clattn_plan **plan)
{
    clattn_key_sums_problem problem = CLATTN_KEY_SUMS_PROBLEM_INIT;
    clattn_problem forward = CLATTN_PROBLEM_INIT;
    forward.query_len = forward.key_len = ROWS;
    forward.head_dim = COLUMNS;
    problem.forward = &forward;
    problem.outputs = CLATTN_KEY_SUMS | CLATTN_MAX_LOGIT;
    problem.strategy = "plain";
    return clattn_key_sums_plan_create(context, &problem, plan);
}

int small_cache_create(struct small_cache *cache, clattn_context *context)
{
    static const float zeros[BYTES / sizeof(float)];
    memset(cache, 0, sizeof(*cache));
    if (small_cache_plans(context, &cache->rotary, &cache->append) != CLATTN_OK ||
        block_mask_plan(context, &cache->block_mask) != CLATTN_OK ||
        key_sums_plan(context, &cache->key_sums) != CLATTN_OK) {
        return 0;
    }
    cache->zeros = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    for (int i = 0; i < 3; ++i) {
        cache->results[i] = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, BYTES, NULL, NULL);
    }
    return cache->zeros && cache->results[0] && cache->results[1] && cache->results[2] &&
           clEnqueueWriteBuffer(clattn_context_queue(context), cache->zeros, CL_TRUE, 0, BYTES, zeros, 0, NULL, NULL) ==
               CL_SUCCESS;
}

void small_cache_release(struct small_cache *cache)
{
    const cl_mem buffers[] = { cache->zeros, cache->results[0], cache->results[1], cache->results[2] };
    clattn_plan_destroy(cache->rotary);
    clattn_plan_destroy(cache->append);
    clattn_plan_destroy(cache->block_mask);
    clattn_plan_destroy(cache->key_sums);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
        if (buffers[i]) {
            clReleaseMemObject(buffers[i]);
        }
    }
}

clattn_status small_cache_rotary(const struct small_cache *cache, cl_command_queue queue, cl_event *done)
{
    clattn_rotary_tensors tensors = CLATTN_ROTARY_TENSORS_INIT;
    tensors.x = clattn_tensor_bhsd(cache->zeros, 1, ROWS, COLUMNS);
    tensors.out = clattn_tensor_bhsd(cache->results[0], 1, ROWS, COLUMNS);
    tensors.cosine = tensors.sine = clattn_tensor_bhsd(cache->zeros, 1, ROWS, COLUMNS / 2);
    tensors.starts.buffer = cache->zeros;
    return clattn_enqueue_rotary(cache->rotary, queue, NULL, &tensors, 0, NULL, done);
}

clattn_status small_cache_block_mask(const struct small_cache *cache, cl_command_queue queue, cl_event *done)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    tensors.block_mask = clattn_tensor_bhsd(cache->results[0], 1, ROWS, ROWS);
    return clattn_enqueue_block_mask(cache->block_mask, queue, NULL, &tensors, 0, NULL, done);
}

clattn_status small_cache_key_sums(const struct small_cache *cache, cl_command_queue queue, cl_event *done)
{
    clattn_tensors tensors = CLATTN_TENSORS_INIT;
    clattn_key_sums sums = CLATTN_KEY_SUMS_INIT;
    tensors.query = tensors.key = clattn_tensor_bhsd(cache->zeros, 1, ROWS, COLUMNS);
    tensors.lse = clattn_tensor_bhsd(cache->zeros, 1, ROWS, 1);
    sums.workspace = cache->results[0];
    sums.key_sums = clattn_tensor_bhsd(cache->results[1], 1, 1, ROWS);
    sums.max_logit = clattn_tensor_bhsd(cache->results[2], 1, 1, 1);
    return clattn_enqueue_key_sums(cache->key_sums, queue, NULL, &tensors, &sums, 0, NULL, done);
}

clattn_status small_cache_append(const struct small_cache *cache, cl_command_queue queue, cl_event *done)
{
    clattn_append_tensors tensors = CLATTN_APPEND_TENSORS_INIT;
    tensors.query = tensors.key = tensors.value = clattn_tensor_bhsd(cache->zeros, 1, ROWS, COLUMNS);
    tensors.query_out = clattn_tensor_bhsd(cache->results[0], 1, ROWS, COLUMNS);
    tensors.key_cache = clattn_tensor_bhsd(cache->results[1], 1, ROWS, COLUMNS);
    tensors.value_cache = clattn_tensor_bhsd(cache->results[2], 1, ROWS, COLUMNS);
    tensors.cosine = tensors.sine = clattn_tensor_bhsd(cache->zeros, 1, ROWS, COLUMNS / 2);
    tensors.starts.buffer = cache->zeros;
    return clattn_enqueue_append(cache->append, queue, NULL, &tensors, 0, NULL, done);
}
