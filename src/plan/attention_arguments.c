/* The params and the argument list that all attention kernels begin with. */
#include "plan/attention_arguments.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "operation/key_sums.h"
#include "operation/pools.h"
#include "plan/strategy.h"

uint32_t attention_groups(const struct any_problem *problem, const struct strategy *strategy)
{
    return is_attention(problem)
               ? strategy->takes | forward_groups(forward_asked(&attention_problem(problem)->p, problem->code))
               : 0;
}

/* A text's scalars, where its tensors begin, and a word that is never missing. */
static size_t code_bytes(const struct user_code *code)
{
    return code ? sizeof(uint32_t) * (size_t)(code->p.scalar_count + code->p.tensor_count + 1) : 0;
}

static void give_code(const struct user_code *code, const struct operands *operands, struct attention_given *given)
{
    uint32_t *words = given->code_words;
    given->code_tensors = code->p.tensor_count;
    given->code_bytes = code_bytes(code);
    memcpy(words, attention_call(operands)->code_scalars, sizeof(float) * (size_t)code->p.scalar_count);
    words += code->p.scalar_count;
    for (int i = 0; i < code->p.tensor_count; ++i) {
        *words++ = (uint32_t)operands->tensor[TENSOR_CODE_0 + i].offset;
    }
    *words = 0;
}

/* Whether further buffers of a pool are tensors of the operation. */
static int has_pool_rows(const struct operation *operation)
{
    return operation == &operation_forward || operation == &operation_key_sums;
}

void attention_give(const clattn_plan *plan, const struct operands *operands, struct attention_given *given)
{
    const struct problem *problem = attention_problem(plan->problem);
    given->operands = operands;
    given->tensors = forward_tensors(plan->groups);
    given->params_bytes = params_fill(problem, attention_call(operands), plan->groups, &given->params);
    given->has_pools = has_pool_rows(operands->operation) && pools_of(&problem->p) > 1;
    given->has_code = plan->problem->code != NULL;
    if (given->has_pools) {
        pools_fill(&problem->p, operands, &given->pools);
    }
    if (given->has_code) {
        give_code(plan->problem->code, operands, given);
    }
}

static size_t append_buffers(const struct operands *operands, int first, int end, size_t count,
                             struct launch_argument *arguments)
{
    for (int id = first; id < end; ++id) {
        arguments[count++] = (struct launch_argument){ sizeof(cl_mem), &operands->tensor[id].buffer };
    }
    return count;
}

size_t attention_arguments(const struct attention_given *given, struct launch_argument *arguments)
{
    size_t count = 1;
    arguments[0] = (struct launch_argument){ given->params_bytes, &given->params };
    for (int id = 0; bits_follow(given->tensors, id); ++id) {
        if (given->tensors >> id & 1) {
            arguments[count++] = (struct launch_argument)ARGUMENT(given->operands->tensor[id].buffer);
        }
    }
    if (given->has_code) {
        arguments[count++] = (struct launch_argument){ given->code_bytes, given->code_words };
        count = append_buffers(given->operands, TENSOR_CODE_0, TENSOR_CODE_0 + given->code_tensors, count, arguments);
    }
    if (given->has_pools) {
        arguments[count++] = (struct launch_argument)ARGUMENT(given->pools);
        count = append_buffers(given->operands, ALL_TENSOR_COUNT, FORWARD_TENSOR_COUNT, count, arguments);
    }
    return count;
}

/* Offset, strides and buffer of each tensor, and what texts and pools have. */
static size_t arguments_bytes(const struct ask *ask)
{
    const struct user_code *code = ask->problem->code;
    const uint64_t tensors = forward_tensors(ask->groups);
    size_t bytes = offsetof(clattn_params, place) + 2 * sizeof(cl_ulong); /* a workspace, or single numbers */
    for (int id = 0; bits_follow(tensors, id); ++id) {
        bytes += tensors >> id & 1 ? sizeof(cl_ulong) * (size_t)(2 + operation_forward.rows[id].strides) : 0;
    }
    bytes += code ? code_bytes(code) + sizeof(cl_ulong) * (size_t)code->p.tensor_count : 0;
    return bytes + (pools_of(&attention_problem(ask->problem)->p) > 1
                        ? sizeof(clattn_pools) + sizeof(cl_ulong) * (FORWARD_TENSOR_COUNT - ALL_TENSOR_COUNT)
                        : 0);
}

int attention_is_served(struct ask *ask, size_t own_bytes)
{
    const struct device *device = &ask->context->device;
    const size_t bytes = arguments_bytes(ask) + own_bytes;
    if (attention_problem(ask->problem)->p.type == CLATTN_FLOAT64 && !device->has_fp64) {
        return ask_declines(ask, "the device has no float64");
    }
    return device->parameter_bytes >= bytes ||
           ask_declines(ask,
                        "the device takes %zu bytes of kernel arguments, and the problem's tensors, with those and the "
                        "scalars of its text, need %zu",
                        device->parameter_bytes, bytes);
}

void append_block_mask_options(const struct problem *problem, struct text *options)
{
    if (problem->flags & CLATTN_FLAG_BLOCK_MASK) {
        text_append(options, " -D BLOCK_MASK_ROWS=%d -D BLOCK_MASK_KEYS=%d", (int)problem->p.block_mask_rows,
                    (int)problem->p.block_mask_keys);
    }
}

void append_head_type_options(const struct problem *problem, struct text *options)
{
    if (problem->p.slopes_type == CLATTN_FLOAT64) {
        text_append(options, " -D SLOPES_TYPE=%d", (int)CLATTN_FLOAT64);
    }
    if (problem->p.sinks_type == CLATTN_FLOAT64) {
        text_append(options, " -D SINKS_TYPE=%d", (int)CLATTN_FLOAT64);
    }
}

void append_type_options(const struct problem *problem, struct text *options)
{
    const clattn_problem *p = &problem->p;
    text_append(options, "-D TYPE=%d", (int)p->type);
    if (problem_mixes_types(problem)) {
        text_append(options, " -D KEY_TYPE=%d -D VALUE_TYPE=%d -D OUT_TYPE=%d", (int)p->key_type, (int)p->value_type,
                    (int)p->out_type);
    }
    append_head_type_options(problem, options);
    append_block_mask_options(problem, options);
    if (problem->flags & CLATTN_FLAG_KEY_LISTS) {
        text_append(options, " -D LISTED=1 -D KEY_LIST_ROWS=%d -D KEY_LIST_KEYS=%d", (int)problem_list_rows(p),
                    (int)p->key_list_keys);
    }
}

static void append_scale_options(const struct problem *problem, struct text *options)
{
    const clattn_problem *p = &problem->p;
    if (problem->flags & (CLATTN_FLAG_KEY_SCALES | CLATTN_FLAG_VALUE_SCALES)) {
        text_append(options,
                    " -D KEY_SCALE_ROWS=%d -D KEY_SCALE_COLUMNS=%d -D VALUE_SCALE_ROWS=%d -D VALUE_SCALE_COLUMNS=%d",
                    scale_share(p->key_scale_rows), scale_share(p->key_scale_columns), scale_share(p->value_scale_rows),
                    scale_share(p->value_scale_columns));
    }
}

int attention_reads_rows(struct ask *ask)
{
    const struct problem *problem = attention_problem(ask->problem);
    if (problem_has_codes(problem)) {
        return ask_declines(ask, "reads keys and values of floating-point types, not %s keys and %s values",
                            clattn_type_name(problem->p.key_type), clattn_type_name(problem->p.value_type));
    }
    return !(problem->flags & CLATTN_FLAG_RING) ||
           ask_declines(ask, "reads keys whose rows follow one another, which those of a ring do not");
}

void append_problem_options(const struct problem *problem, struct text *options)
{
    const clattn_problem *p = &problem->p;
    text_append(options, " -D FLAGS=0x%xu -D BIAS_TYPE=%d -D STRIDED_COLUMNS=%d -D HEAD_DIM=%d -D HEAD_DIM_V=%d",
                (unsigned)problem->flags, (int)p->bias_type, p->strided_columns != 0, (int)p->head_dim,
                (int)p->head_dim_v);
}

int attention_fits_vectors(struct ask *ask, int columns_most)
{
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    if (ask->context->device.quirks & QUIRK_NO_LARGE_VECTORS) {
        return ask_declines(ask, "is made of wide vectors, which the device's compiler is not up to");
    }
    if (p->type == CLATTN_FLOAT64) {
        return ask_declines(ask, "computes in float32");
    }
    if (p->head_dim + p->head_dim_v > columns_most) {
        return ask_declines(ask, "head_dim + head_dim_v %lld: at most %d fit private memory",
                            (long long)(p->head_dim + p->head_dim_v), columns_most);
    }
    return problem_head_rows(p) <= INT_MAX / 2 ||
           ask_declines(ask, "query_len %lld of %lld heads: a key/value head's rows must fit 32 bits",
                        (long long)p->query_len, (long long)problem_group(p));
}

void append_storage_options(const struct problem *problem, struct text *options)
{
    if (problem->flags & CLATTN_FLAG_POOLS) {
        text_append(options, " -D POOLS=%d", pools_of(&problem->p));
    }
    if (problem->flags & CLATTN_FLAG_RING) {
        text_append(options, " -D RING=1");
    }
    append_scale_options(problem, options);
}

static void append_page_options(const clattn_problem *problem, struct text *options)
{
    if (problem->page_size > 0) {
        text_append(options, " -D PAGED=1 -D PAGE_SIZE=%d", (int)problem->page_size);
    }
}

void append_kv_options(const struct problem *problem, struct text *options)
{
    append_page_options(&problem->p, options);
    append_storage_options(problem, options);
}
