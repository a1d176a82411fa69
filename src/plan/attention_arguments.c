/* The params and the argument list that all attention kernels begin with. */
#include "plan/attention_arguments.h"

#include <limits.h>
#include <string.h>

#include "operation/pools.h"
#include "plan/strategy.h"

/* All tensors, and one more, or single numbers. */
#define POINTERS_BYTES (TENSOR_COUNT * 8 + 16)
#define SHARED_BYTES (sizeof(clattn_params) + POINTERS_BYTES)

/* No kernel that has a struct of its own knows of several buffers. */
#define POOLS_BYTES (sizeof(clattn_pools) + (FORWARD_TENSOR_COUNT - ALL_TENSOR_COUNT) * 8)
#define OWN_BYTES (ATTENTION_OWN_BYTES > POOLS_BYTES ? ATTENTION_OWN_BYTES : POOLS_BYTES)

_Static_assert(SHARED_BYTES + OWN_BYTES <= 1024,
               "every device takes 1,024 bytes of arguments (CL_DEVICE_MAX_PARAMETER_SIZE)");

void attention_params(const clattn_plan *plan, const struct operands *operands, clattn_params *params)
{
    params_fill(attention_problem(plan->problem), attention_call(operands), params);
}

/* A text's scalars, where its tensors begin, and a word that is never missing. */
static size_t code_bytes(const struct user_code *code)
{
    return code ? sizeof(uint32_t) * (size_t)(code->p.scalar_count + code->p.tensor_count + 1) : 0;
}

void attention_extras(const clattn_plan *plan, const struct operands *operands, struct attention_extras *extras)
{
    const clattn_problem *p = &attention_problem(plan->problem)->p;
    const struct user_code *code = plan->problem->code;
    extras->has_pools = operands->operation == &operation_forward && pools_of(p) > 1;
    extras->has_code = code != NULL;
    if (extras->has_pools) {
        pools_fill(p, operands, &extras->pools);
    }
    if (code) {
        uint32_t *words = extras->code_words;
        extras->code_tensors = code->p.tensor_count;
        extras->code_bytes = code_bytes(code);
        memcpy(words, attention_call(operands)->code_scalars, sizeof(float) * (size_t)code->p.scalar_count);
        words += code->p.scalar_count;
        for (int i = 0; i < code->p.tensor_count; ++i) {
            *words++ = (uint32_t)operands->tensor[TENSOR_CODE_0 + i].offset;
        }
        *words = 0;
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

size_t attention_arguments(const clattn_params *params, const struct attention_extras *extras,
                           const struct operands *operands, struct launch_argument *arguments)
{
    arguments[0] = (struct launch_argument){ sizeof(*params), params };
    size_t count = append_buffers(operands, 0, TENSOR_COUNT, 1, arguments);
    if (extras->has_code) {
        arguments[count++] = (struct launch_argument){ extras->code_bytes, extras->code_words };
        count = append_buffers(operands, TENSOR_CODE_0, TENSOR_CODE_0 + extras->code_tensors, count, arguments);
    }
    if (extras->has_pools) {
        arguments[count++] = (struct launch_argument){ sizeof(extras->pools), &extras->pools };
        count = append_buffers(operands, ALL_TENSOR_COUNT, FORWARD_TENSOR_COUNT, count, arguments);
    }
    return count;
}

int attention_is_served(struct ask *ask, size_t own_bytes)
{
    const struct device *device = &ask->context->device;
    const struct user_code *code = ask->problem->code;
    const clattn_problem *p = &attention_problem(ask->problem)->p;
    if (p->type == CLATTN_FLOAT64 && !device->has_fp64) {
        return ask_declines(ask, "the device has no float64");
    }
    if (!code) {
        return device->parameter_bytes >= SHARED_BYTES + OWN_BYTES ||
               ask_declines(ask, "the device takes only %zu bytes of kernel arguments", device->parameter_bytes);
    }
    const size_t bytes = SHARED_BYTES + (pools_of(p) > 1 ? POOLS_BYTES : own_bytes) + code_bytes(code) +
                         8 * (size_t)code->p.tensor_count;
    return device->parameter_bytes >= bytes ||
           ask_declines(ask,
                        "the device takes %zu bytes of kernel arguments, and with the text's %d tensors and %d "
                        "scalars they are %zu",
                        device->parameter_bytes, (int)code->p.tensor_count, (int)code->p.scalar_count, bytes);
}

void append_block_mask_options(const struct problem *problem, struct text *options)
{
    if (problem->flags & CLATTN_FLAG_BLOCK_MASK) {
        text_append(options, " -D BLOCK_MASK_ROWS=%d -D BLOCK_MASK_KEYS=%d", (int)problem->p.block_mask_rows,
                    (int)problem->p.block_mask_keys);
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
    append_block_mask_options(problem, options);
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
    return p->query_len * problem_group(p) <= INT_MAX / 2 ||
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
